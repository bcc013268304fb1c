"""Papers' tables by their names, from a results folder: the reports behind them, one per suite, and the tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING

from robench.comparison.baseline import measured as results_of
from robench.comparison.compare import compare_column
from robench.core.checkpoint import PLAIN_LAYOUT, entry_name
from robench.core.errors import IncomparableError, UsageError
from robench.declare import find_datasets, find_suite, load_published, published_tables, read_registries
from robench.papers.basis import Basis
from robench.papers.table import PaperTable, table_of
from robench.reports import needs, over_seeds
from robench.reports.build import report_of_store
from robench.reports.results import Stored

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from robench.comparison.evidence import Difference
    from robench.core.checkpoint import Checkpoint
    from robench.core.protocols import Store
    from robench.core.records import Manifest
    from robench.core.report import Report
    from robench.core.suite import Suite
    from robench.declare.printed import PublishedTable

# Ending of the files that robench's own training writes at ImageNet scale; authors' are of torch.save.
_OWN_SUFFIX = ".safetensors"


def models_by_suite(tables: Iterable[PublishedTable]) -> dict[str, set[str]]:
    """Return the models of the tables' cells and twins, by the suite that measures them."""
    models: dict[str, set[str]] = {}
    for table in tables:
        for cell in table.cells:
            if cell.missing is None and cell.suite is not None and cell.model is not None:
                models.setdefault(cell.suite, set()).add(cell.model)
            if cell.twin is not None:
                models.setdefault(cell.twin.suite, set()).add(cell.twin.model)
    return models


def authors_models(checkpoints: Iterable[Checkpoint], manifests: Iterable[Manifest]) -> frozenset[str]:
    """Return the models whose weights are the authors' own.

    Those are entries with a checksum, whose bytes robench did not train, and without measurements of other weights.
    """
    checkpoints = tuple(checkpoints)
    trained_here = {each.weights.sha256 for each in checkpoints if _is_trained_here(each)}
    digests: dict[str, set[str]] = {}
    for manifest in manifests:
        digests.setdefault(manifest.shard.checkpoint, set()).add(manifest.shard.weights_digest)
    return frozenset(
        each.name
        for each in checkpoints
        if (pinned := each.weights.sha256) is not None
        and pinned not in trained_here
        and all(digest.startswith(pinned) for digest in digests.get(each.name, ()))
    )


def measured_models(
    models: Mapping[str, Collection[str]],
    suites: Mapping[str, Suite],
    manifests: Sequence[Manifest],
    of_authors: Collection[str],
) -> dict[str, list[str]]:
    """Return the measured checkpoints that count, by suite; seeds of retrained models are included.

    Args:
        models: entries by suite, see ``models_by_suite``.
        suites: by name.
        manifests: descriptions of all stored measurements.
        of_authors: models with the authors' own weights, whose further seeds do not count.
    """
    measured = {}
    for name, wanted in sorted(models.items()):
        is_needed = needs(suites[name], seed=suites[name].seed)
        found = {each.shard.checkpoint for each in manifests if is_needed(each.shard)}
        if rows := [model for model in sorted(found) if _is_wanted(model, wanted, of_authors)]:
            measured[name] = rows
    return measured


def reports_for(measured: Mapping[str, Sequence[str]], suites: Mapping[str, Suite], store: Store) -> dict[str, Report]:
    """Return a report for each suite with measured models, with means over seeds; see ``measured_models``."""
    return {name: over_seeds(report_of_store(suites[name], store, models=rows)) for name, rows in measured.items()}


def _is_wanted(model: str, wanted: Collection[str], of_authors: Collection[str]) -> bool:
    entry = entry_name(model)
    return entry in wanted and (model == entry or entry not in of_authors)


def _is_trained_here(checkpoint: Checkpoint) -> bool:
    if checkpoint.seed_of is not None:
        return True
    weights, training = checkpoint.weights, checkpoint.training
    is_written_here = PurePath(weights.uri).suffix == _OWN_SUFFIX and weights.layout == PLAIN_LAYOUT
    return training is not None and (training.is_embedded or is_written_here)


_NAME = re.compile(r"([a-z0-9-]+):([1-9][0-9]*)")


def find_published(names: Sequence[str]) -> list[PublishedTable]:
    """Return the printed tables named ``PAPER:NUMBER``, each once; all of every paper if no name is given.

    Raises:
        UsageError: a name is malformed.
        UnknownNameError: there is no such table.
    """
    keys = [_key(name) for name in dict.fromkeys(names)] if names else list(published_tables())
    return [load_published(paper, number) for paper, number in keys]


def existing_tables() -> str:
    """Return the names of the papers' tables, for messages."""
    numbers: dict[str, list[int]] = {}
    for paper, number in published_tables():
        numbers.setdefault(paper, []).append(number)
    return ", ".join(f"{paper}:{min(each)} to {paper}:{max(each)}" for paper, each in numbers.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Measurements that a results folder holds of some printed tables.

    Attributes:
        suites: suites of the tables, by name; ``checkpoints``: entries of the registries, by name.
        manifests: descriptions of all measurements of the folder.
        of_authors: models with the authors' own weights.
        models: measured checkpoints that count, by suite.
    """

    suites: Mapping[str, Suite]
    checkpoints: Mapping[str, Checkpoint]
    manifests: Sequence[Manifest]
    of_authors: Collection[str]
    models: Mapping[str, Sequence[str]]


def measured_of_tables(published: Sequence[PublishedTable], store: Store, registries: Sequence[Path]) -> Measured:
    """Find the measurements of printed tables in a store, by headers alone.

    Raises:
        RobenchError: a registry file or suite is invalid, or a file of the store cannot be read.
    """
    models = models_by_suite(published)
    datasets = find_datasets(registries)
    suites = {name: find_suite(name, datasets) for name in sorted(models)}
    checkpoints = read_registries(registries)
    manifests = list(store.manifests())
    of_authors = authors_models(checkpoints.values(), manifests)
    return Measured(
        suites=suites,
        checkpoints=checkpoints,
        manifests=manifests,
        of_authors=of_authors,
        models=measured_models(models, suites, manifests, of_authors),
    )


def tables_of(
    published: Sequence[PublishedTable], measured: Measured, store: Store, registries: Sequence[Path]
) -> list[PaperTable]:
    """Return the printed tables with the numbers of a store, in their order; ``registries`` are named in commands."""
    basis = Basis(
        reports=reports_for(measured.models, measured.suites, store),
        suites=measured.suites,
        checkpoints=measured.checkpoints,
        of_authors=measured.of_authors,
        registries=registries,
        differences=partial(_difference, measured.suites, store),
    )
    return [table_of(each, basis) for each in published]


def _difference(
    suites: Mapping[str, Suite], store: Store, suite: str, first: str, second: str, key: str
) -> Difference | None:
    """Return the first model's number less the second's, paired by example; None if the examples are others."""
    column = next(each for each in suites[suite].columns if each.key == key)
    results = Stored(suites[suite], store, None, suites[suite].seed)
    one, other = (results_of(suites[suite], results, name, None) for name in (first, second))
    try:
        return compare_column([one], [other], column).difference
    except IncomparableError:
        return None


def _key(name: str) -> tuple[str, int]:
    parts = _NAME.fullmatch(name)
    if parts is None:
        raise UsageError(f"a table is PAPER:NUMBER, such as rpc:1, got {name!r}; there are {existing_tables()}")
    return parts[1], int(parts[2])
