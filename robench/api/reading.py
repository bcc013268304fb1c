"""Functions of ``import robench`` that read kept results: leaderboards, tables, comparisons and checks."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from os import PathLike
from pathlib import Path

import pyarrow  # type: ignore[import-untyped]  # pyarrow ships no types

from robench.api.arguments import (
    data_root_of,
    kept_in,
    listed_suites,
    models_of,
    or_default,
    registries_of,
    suite_of,
    suites_of,
)
from robench.comparison import (
    Check,
    Comparison,
    ManyToOne,
    baseline_of,
    check_results,
    compare_models,
)
from robench.comparison import compare_with_control as compare_many
from robench.core.errors import UsageError
from robench.core.files import absolute
from robench.core.report import Report
from robench.core.shard import EXACT_DTYPE, Precision
from robench.core.suite import Suite
from robench.costs.stored import stored_costs
from robench.declare import read_registries, seeds_of_models
from robench.declare.document import document_from_python
from robench.declare.printed import PublishedTable
from robench.declare.yaml_source import read_yaml
from robench.exports import outcomes_table
from robench.leaderboard import PLAIN, Leaderboard, board_columns, leaderboard_of, ranked, settings_of
from robench.papers import (
    Measured,
    PaperTable,
    TwinTable,
    find_published,
    measured_of_tables,
    tables_of,
    twin_tables_of,
)
from robench.papers.archive import is_archive, unpacked
from robench.reports import arranged, report_of_store
from robench.runs import check_request, measure, suites_to_check
from robench.store import FolderStore
from robench.store.baseline import read_baseline
from robench.store.baseline import write_baseline as write_file


def build_leaderboard(
    suite: str | Path | Suite | Sequence[str | Path | Suite],
    models: str | Sequence[str] = (),
    *,
    dataset: str | None = None,
    registry: str | Path | Sequence[str | Path] = (),
    results: str | Path | None = None,
    limit: int | None = None,
    all_examples: bool = False,
    seed: int | None = None,
    all_seeds: bool = False,
    settings: str | PathLike[str] | Mapping[str, object] | None = None,
) -> Leaderboard:
    """Return one table over a suite, or several, from what ``results`` holds, by default ``results``.

    Rows are ``models``, or all models with results. With ``all_seeds`` a row is the mean over a model's training seeds.
    With ``all_examples`` all examples of each dataset count, here as in ``run``. ``settings`` is a leaderboard file, or
    a mapping like one: title, headline, order of the rows, note.
    ``save`` of the leaderboard writes the page, or another format, to a file (docs/leaderboard.md).

    Raises:
        RobenchError: see ``core.errors``.
    """
    registries = registries_of(registry)
    suites = suites_of(suite, registries, dataset, all_examples=all_examples)
    chosen = PLAIN
    if isinstance(settings, str | PathLike):
        chosen = settings_of(read_yaml(absolute(settings, "settings")), board_columns(suites))
    elif settings is not None:
        chosen = settings_of(document_from_python(settings, "settings"), board_columns(suites))
    return leaderboard_of(
        suites,
        kept_in(results),
        models=models_of(models, registries, all_seeds=all_seeds) or None,
        limit=limit,
        seed=seed,
        checkpoints=read_registries(registries),
        average_seeds=all_seeds,
        settings=chosen,
    )


def build_report(
    suite: str | Path | Suite,
    models: str | Sequence[str] = (),
    *,
    dataset: str | None = None,
    registry: str | Path | Sequence[str | Path] = (),
    results: str | Path | None = None,
    limit: int | None = None,
    all_examples: bool = False,
    seed: int | None = None,
    all_seeds: bool = False,
    precision: Precision = EXACT_DTYPE,
    sort: str | None = None,
    columns: str | Sequence[str] = (),
) -> Report:
    """Return the table of a suite from what ``results`` holds, by default ``results``, as ``robench report`` prints it.

    Rows are ``models``, or all models with results; with ``all_seeds`` a row is the mean over a model's training seeds.
    Where there are several, the best of each column is known, with models not distinguishable from it. ``sort``
    names the column by which rows are ordered, best first, and ``columns`` names the shown ones, as keys such as
    ``pgd/top1_accuracy``, metrics, conditions or patterns. Results in another ``precision`` than float32 are in a table
    of their own.

    Raises:
        RobenchError: see ``core.errors``.
    """
    registries = registries_of(registry)
    names = models_of(models, registries, all_seeds=all_seeds)
    found, store = suite_of(suite, registries, dataset, all_examples=all_examples), kept_in(results)
    report = report_of_store(
        found, store, models=names or None, limit=limit, seed=seed, average_seeds=all_seeds, precision=precision
    )
    report = ranked(report, found, store, limit=limit)
    return arranged(report, sort=sort, columns=[columns] if isinstance(columns, str) else columns)


def outcomes(
    suite: str | Path | Suite | Sequence[str | Path | Suite],
    models: str | Sequence[str] = (),
    *,
    dataset: str | None = None,
    registry: str | Path | Sequence[str | Path] = (),
    results: str | Path | None = None,
    limit: int | None = None,
    all_examples: bool = False,
    seed: int | None = None,
) -> pyarrow.Table:
    """Return the outcome of each example under a suite, or several, from the folder ``results``.

    A row is one example under one condition, and one budget of a sweep, of ``models`` or of all models with results;
    columns are those of ``outcomes.parquet`` (docs/export.md): ``suite``, ``model``, ``dataset``, ``condition``,
    ``budget``, ``example_id``, and the recorded fields. ``.to_pandas()`` makes a data frame of the table.

    Raises:
        RobenchError: see ``core.errors``.
    """
    registries = registries_of(registry)
    checkpoints = read_registries(registries).values()
    return outcomes_table(
        suites_of(suite, registries, dataset, all_examples=all_examples),
        kept_in(results),
        models=models_of(models) or None,
        limit=limit,
        seed=seed,
        training_seeds={each.name: each.training.seed for each in checkpoints if each.training is not None},
    )


def paper_table(
    name: str, *, registry: str | Path | Sequence[str | Path] = (), results: str | Path | None = None
) -> PaperTable:
    """Return a paper's printed table, such as ``rpc:1``, beside the measured numbers and verdicts (docs/tables.md).

    ``results`` is a results folder, by default ``results``, or an archive of results (``.tar.xz``).

    Raises:
        RobenchError: see ``core.errors``; ``UnknownNameError`` if there is no such table.
    """
    with _measured_of(name, registry, results) as (published, measured, folder, registries):
        (table,) = tables_of(published, measured, FolderStore(folder), registries, stored_costs(folder))
    return table


def twin_table(
    name: str, *, registry: str | Path | Sequence[str | Path] = (), results: str | Path | None = None
) -> TwinTable:
    """Return the twins on small data of the models of a paper's table, such as ``rpc:1``, with their own numbers.

    The arguments are those of ``paper_table``.

    Raises:
        RobenchError: see ``core.errors``; ``UsageError`` if no model of the table has a twin.
    """
    with _measured_of(name, registry, results) as (published, measured, folder, registries):
        tables = twin_tables_of(published, measured, FolderStore(folder), registries)
    if not tables:
        raise UsageError(f"no model of {name} has a twin on small data")
    return tables[0]


@contextmanager
def _measured_of(
    name: str, registry: str | Path | Sequence[str | Path], results: str | Path | None
) -> Iterator[tuple[list[PublishedTable], Measured, Path, list[Path]]]:
    """Yield a printed table and its measurements, the folder of results, and the registries; archives are unpacked."""
    registries, folder = registries_of(registry), absolute(or_default(results), "results")
    published = find_published([name])
    with unpacked(folder) if is_archive(folder) else nullcontext(folder) as found:
        yield published, measured_of_tables(published, FolderStore(found), registries), found, registries


def compare(
    first: str,
    second: str,
    suite: str | Path | Suite | Sequence[str | Path | Suite],
    *,
    dataset: str | None = None,
    registry: str | Path | Sequence[str | Path] = (),
    results: str | Path | None = None,
    limit: int | None = None,
    all_examples: bool = False,
    seed: int | None = None,
    all_seeds: bool = False,
) -> Comparison:
    """Compare two models on the same examples, from what ``results`` holds, by default ``results``.

    Each column of the suite, or of several, has the number of both, the first less the second with its 95 % interval,
    and the p-value of a paired test, also times the suite's number of columns (docs/comparing.md). With ``all_seeds``
    the numbers are means over training seeds.

    Raises:
        RobenchError: see ``core.errors``; ``IncomparableError`` where the two were measured on different data.
    """
    registries = registries_of(registry)
    suites = suites_of(suite, registries, dataset, all_examples=all_examples)
    seeds = [[*of] for of in seeds_of_models((first, second), registries)] if all_seeds else None
    return compare_models(suites, kept_in(results), first, second, limit=limit, seed=seed, seeds=seeds)


def compare_with_control(
    models: Sequence[str],
    control: str,
    suite: str | Path | Suite | Sequence[str | Path | Suite],
    *,
    dataset: str | None = None,
    registry: str | Path | Sequence[str | Path] = (),
    results: str | Path | None = None,
    limit: int | None = None,
    all_examples: bool = False,
    seed: int | None = None,
    seeds: Collection[int] | None = None,
    pair_seeds: bool = False,
) -> ManyToOne:
    """Compare several models with a control over training seeds, from what ``results`` holds, by default ``results``.

    Each column of the suite, or of several, has the differences of the models' means from the control's, with
    intervals over training seeds and examples, and Dunnett's test (docs/comparing.md). ``seeds`` are the training seeds
    that are compared, by default all; ``pair_seeds`` pairs equal ones.

    Raises:
        RobenchError: see ``core.errors``; ``IncomparableError`` where models were measured on different data.
    """
    registries = registries_of(registry)
    names = (control, *(name for name in models if name != control))
    return compare_many(
        suites_of(suite, registries, dataset, all_examples=all_examples),
        kept_in(results),
        control,
        dict(zip(names, seeds_of_models(names, registries, seeds), strict=True)),
        limit=limit,
        seed=seed,
        are_paired=pair_seeds,
    )


def write_baseline(
    path: str | Path,
    suite: str | Path | Suite | Sequence[str | Path | Suite],
    models: str | Sequence[str],
    *,
    dataset: str | None = None,
    registry: str | Path | Sequence[str | Path] = (),
    results: str | Path | None = None,
    limit: int | None = None,
    all_examples: bool = False,
    seed: int | None = None,
) -> None:
    """Write the outcomes of models under a suite, or several, to a file that ``check`` reads.

    Raises:
        RobenchError: see ``core.errors``; ``IncompleteError`` where examples are missing.
    """
    suites = suites_of(suite, registries_of(registry), dataset, all_examples=all_examples)
    store = kept_in(results)
    baseline = baseline_of(suites, store, models_of(models), limit=limit, seed=seed)
    write_file(absolute(path, "path"), baseline)


def check(
    baseline: str | Path,
    suite: str | Path | Suite | Sequence[str | Path | Suite] = (),
    models: str | Sequence[str] = (),
    *,
    run: bool = False,
    dataset: str | None = None,
    registry: str | Path | Sequence[str | Path] = (),
    results: str | Path | None = None,
    all_examples: bool = False,
    seed: int | None = None,
    device: str = "auto",
    workers: int | None = 1,
    data_root: str | Path | None = None,
    tolerance: float | None = None,
) -> Check:
    """Check results against a baseline: which numbers are significantly worse, and which are gone.

    Without ``suite`` and ``models`` all that the baseline holds is checked. ``run`` first measures what ``results``
    lacks, with the weights of the registry. ``tolerance``, in points, is a second rule, by which any larger loss fails.
    Check a baseline that was written with ``all_examples`` with it.

    Raises:
        RobenchError: see ``core.errors``; ``IncomparableError`` where data, protocol, seed or plug-ins are not those of
            the baseline.
    """
    registries = registries_of(registry)
    kept = read_baseline(absolute(baseline, "baseline"))
    names, given = models_of(models), listed_suites(suite)
    whole = partial(suite_of, registries=registries, dataset=None, all_examples=all_examples)
    loaded = [whole(each) for each in given if not isinstance(each, (str, PathLike))]
    texts = [str(each) for each in given if isinstance(each, (str, PathLike))]
    named = suites_to_check(kept, texts, registries, dataset, all_examples=all_examples) if texts or not loaded else ()
    found = (*loaded, *named)
    store = kept_in(results)
    check_by = partial(check_results, kept, found, store, models=names, seed=seed, tolerance=tolerance)
    if not run:
        return check_by(measurements=None)
    store.check_writable()
    folder = data_root_of(data_root)
    request = check_request(kept, found, names, registries, seed=seed, device=device, workers=workers, data_root=folder)
    return measure(request, store, lambda run, _: check_by(measurements={each.name: run.keys(each) for each in found}))
