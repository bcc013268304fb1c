"""Results of a model as comparisons read them, baselines made of them, and refusal of results of other protocols."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from robench.core.columns import Outcomes
from robench.core.errors import IncomparableError, IncompleteError, UnknownNameError
from robench.core.identity import key_of
from robench.core.providers import nested_in, provider_of
from robench.core.records import Record
from robench.core.shard import shard_key
from robench.metrics import METRICS
from robench.reports.build import measured
from robench.reports.results import Stored
from robench.reports.selection import source_of_condition, source_of_shard
from robench.tasks import TASKS
from robench.tasks.consistency import contradiction_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from robench.core.protocols import Store
    from robench.core.suite import Suite
    from robench.reports.build import ModelResults
    from robench.reports.results import Results
    from robench.reports.selection import Coverage
    from robench.store.baseline import Baseline, Protocol


def baseline_of(
    suites: Sequence[Suite],
    store: Store,
    models: Sequence[str],
    *,
    limit: int | None = None,
    seed: int | None = None,
) -> Baseline:
    """Return the results of some models under suites as a baseline; ``limit`` and ``seed`` are as of reports.

    Raises:
        UsageError: the limit is below 1.
        UnknownNameError, IncompleteError: a model has no results, or lacks examples.
        StoreError: a file cannot be read, or is of a later robench.
    """
    protocols = []
    records: dict[tuple[str, str], Record] = {}
    for suite in suites:
        wanted_seed = suite.seed if seed is None else seed
        results = Stored(suite, store, None, wanted_seed)
        for model in dict.fromkeys(models):
            check_known(suite, results, model)
            for coverage in measured(suite, results, model, limit).coverages.values():
                record = _whole(coverage, model, suite)
                place = model, record.shard.measurement_key
                # Two suites may ask for different numbers of examples of one condition.
                records[place] = max(records.get(place, record), record, key=lambda each: each.shard.stop)
        protocols.append(protocol_of(suite, tuple(dict.fromkeys(models)), limit, wanted_seed))
    # Imported here, since stores need pyarrow.
    from robench.store.baseline import Baseline

    return Baseline(protocols=tuple(protocols), records=tuple(records.values()))


def protocol_of(suite: Suite, models: tuple[str, ...], limit: int | None, seed: int) -> Protocol:
    """Describe all that must be the same of a suite for its numbers to be comparable."""
    from robench.store.baseline import Protocol

    return Protocol(
        suite=suite.name,
        version=suite.version,
        seed=seed,
        task=suite.task,
        batch_size=suite.largest_batch_of(suite.conditions),
        limit=limit,
        dataset=suite.given_dataset,
        models=models,
        conditions={
            condition.name: key_of([condition.dataset.name, condition.perturbation_key, condition.num_examples])
            for condition in suite.conditions
        },
        columns=tuple(column.key for column in suite.columns),
        plugins=_plugins(suite),
        all_examples=suite.all_examples,
    )


def check_protocol(kept: Protocol, suite: Suite, seed: int) -> None:
    """Refuse a suite whose numbers, as it is declared now, differ in protocol from a baseline, by IncomparableError."""
    now = protocol_of(suite, kept.models, kept.limit, seed)
    where = f"suite {suite.name!r}"
    for name in ("version", "seed", "task", "batch_size", "dataset"):
        before, after = getattr(kept, name), getattr(now, name)
        if before != after:
            _refuse(f"{where} has {name.replace('_', ' ')} {after!r}, and the baseline {before!r}")
    if kept.all_examples != now.all_examples:
        _refuse_examples(kept, where)
    for name, key in kept.conditions.items():
        if name not in now.conditions:
            _refuse(f"{where} has no condition {name!r} any more, and the baseline has")
        if now.conditions[name] != key:
            _refuse(f"condition {name!r} of {where} is another one than the baseline's (other data, settings or code)")
    if gone := [key for key in kept.columns if key not in now.columns]:
        _refuse(f"{where} has no column {gone[0]!r} any more, and the baseline has")
    for name in sorted(kept.plugins.keys() | now.plugins.keys()):
        before, after = kept.plugins.get(name, "none"), now.plugins.get(name, "none")
        if before != after:
            _refuse(f"{where} uses {name} {after}, and the baseline {before}")


def check_records(before: Coverage, after: Coverage, plugins: Sequence[str], where: str) -> None:
    """Refuse results of other data, or of other releases of ``plugins``, than a baseline's, by IncomparableError."""
    if after.records and not before.records:
        _refuse(f"the baseline has no results of {where}")
    fingerprints = [{record.shard.dataset.fingerprint for record in each.records} for each in (before, after)]
    if fingerprints[1] - fingerprints[0]:
        one, other = (sorted(each)[0][:12] for each in fingerprints)
        _refuse(f"{where} was measured on data with the fingerprint {other}, and the baseline's on {one}")
    for name in plugins:
        kept, found = (
            {record.provenance.versions.get(name, "none") for record in each.records} for each in (before, after)
        )
        if found - kept:
            _refuse(f"{where} was measured with {name} {', '.join(sorted(found))}, and the baseline's with {min(kept)}")


def check_consistent(records: Iterable[Record], suite: Suite) -> None:
    """Refuse records of a baseline that break what the suite's conditions promise, by an IncomparableError."""
    conditions = {source_of_condition(condition): condition for condition in suite.conditions}
    for record in records:
        condition = conditions.get(source_of_shard(record.shard))
        task = TASKS[record.shard.task]
        if condition and (problem := contradiction_of(task, record.shard, record.outcomes, condition)):
            _refuse(f"results of {record.shard.title} of the baseline contradict themselves: {problem}")


def _refuse(what: str) -> None:
    raise IncomparableError(f"{what}; restore the old one, or write a new baseline with 'robench baseline write'")


def _refuse_examples(kept: Protocol, where: str) -> None:
    whole, stated = "all examples (--all-examples)", "the number of examples that the suite states"
    before, after, advice = (whole, stated, "add") if kept.all_examples else (stated, whole, "leave out")
    raise IncomparableError(
        f"the baseline covers {before} of {where}, and this check {after}; {advice} --all-examples, or write a new "
        "baseline with 'robench baseline write'"
    )


def _plugins(suite: Suite) -> dict[str, str]:
    """Return release, or digest of the code, of all that others provide."""
    things: list[object] = [METRICS[name] for name in suite.metrics]
    for condition in suite.conditions:
        things += [*nested_in(condition.perturbation), *nested_in(condition.dataset)]
    providers = [each for thing in things if (each := provider_of(thing)) is not None]
    return {each.distribution or each.module: each.release or each.code for each in providers}


def _whole(coverage: Coverage, model: str, suite: Suite) -> Record:
    """Join the results of a condition into one record under the model's name."""
    if coverage.missing != 0:
        number = "" if coverage.limit is None else f" {coverage.limit}"
        lacking = "examples" if coverage.missing is None else f"{coverage.missing} examples"
        raise IncompleteError(
            f"{model} lacks {lacking} of condition {coverage.condition!r} of suite {suite.name!r}, which a baseline "
            f"needs; measure them with '{run_command(suite, model)}', or use --limit{number}"
        )
    wanted = coverage.num_wanted or 0
    shards = [record.shard for record in coverage.records]
    last = max((record.provenance for record in coverage.records), key=lambda each: each.finished_at)
    shard = replace(
        shards[0],
        checkpoint=model,
        condition=coverage.condition,
        start=0,
        stop=wanted,
        key=shard_key(shards[0].measurement_key, 0, wanted),
    )
    seconds = sum(record.provenance.seconds for record in coverage.records)
    provenance = replace(last, device=", ".join(sorted(coverage.devices)), seconds=seconds)
    return Record(shard=shard, outcomes=_first(coverage, wanted), provenance=provenance)


def _first(coverage: Coverage, wanted: int) -> Outcomes:
    """Return the outcomes of the first examples, of a sweep those of all its budgets."""
    outcomes = Outcomes.joined([record.outcomes for record in coverage.records])
    num_examples = coverage.records[-1].shard.stop
    return outcomes[: wanted * (len(outcomes) // num_examples)]


def check_known(suite: Suite, results: Results, model: str) -> None:
    """Refuse a model that has no results under a suite; raises UnknownNameError if it has none."""
    known = results.models()
    if model not in known:
        advice = f"Measure it with '{run_command(suite, model)}'."
        raise UnknownNameError("model with results", model, known, advice)


def run_command(suite: Suite, model: str) -> str:
    """Return the command that measures a model under a suite."""
    return f"robench run --suite {suite.name} --model {model}{' --all-examples' * suite.all_examples}"


def check_same_data(first: ModelResults, second: ModelResults) -> None:
    """Refuse two models that were measured on different data, by an IncomparableError."""
    others = second.fingerprints
    for name, fingerprint in first.fingerprints.items():
        if others.get(name, fingerprint) != fingerprint:
            raise IncomparableError(
                f"condition {name!r}: {first.model} was measured on data with the fingerprint {fingerprint[:12]}, "
                f"{second.model} on {others[name][:12]}; measure both on the same data"
            )
