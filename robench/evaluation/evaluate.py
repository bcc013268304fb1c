"""One shard in, one record out."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import torch

from robench.attacks.backends.installed import release_of
from robench.core.columns import Outcomes
from robench.core.protocols import Batch
from robench.core.providers import releases_of
from robench.core.records import Provenance, Record
from robench.core.seeds import Stream, example_seed, stream_seed
from robench.datasets.class_subsets import class_indices_of
from robench.evaluation.arithmetic import device_kind, fixed_arithmetic, library_versions
from robench.evaluation.contracts import check_clean, check_logits, check_perturbed
from robench.evaluation.judges import JUDGES, Measured
from robench.evaluation.keeping import Attacked
from robench.perturbations.draws import ExampleDraws
from robench.perturbations.prediction import predict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robench.core.protocols import AdversarialStore, Dataset, DatasetDeclaration, Victim
    from robench.core.shard import Measurement, Shard
    from robench.evaluation.keeping import Source


def measure(
    shard: Shard, model: Victim, dataset: Dataset, *, limit: int | None = None, kept: AdversarialStore | None = None
) -> Record:
    """Return the record of a shard to be predicted, and keep what attacks made, if it is to be kept."""
    if kept is None or not shard.measurement.condition.makes_inputs:
        return evaluate(shard, model, dataset, limit)
    attacked = Attacked(collects=True)
    record = evaluate(shard, model, dataset, limit, attacked)
    # Before the record is, so that no record stands without them when a run is killed.
    kept.put(attacked.examples(record.shard))
    return record


def evaluate(
    shard: Shard, victim: Victim, dataset: Dataset, limit: int | None = None, source: Source | None = None
) -> Record:
    """Measure every example of ``shard``; nothing is written and no global state is changed.

    ``limit`` is that of the run, for the record's provenance alone; ``source`` gives the inputs that are scored, by
    default the attacks.

    Raises:
        ExampleError: an example cannot be read.
        ContractError: the dataset, the perturbation or the victim broke its promise.
    """
    started = time.perf_counter()
    measurement = shard.measurement
    source = Attacked() if source is None else source
    outcomes: list[Outcomes] = []
    with fixed_arithmetic(victim.device):
        for start in range(shard.start, shard.stop, size := _rows_at_once(shard)):
            batch = dataset.batch(start, min(start + size, shard.stop))
            outcomes.append(_measure(measurement, batch, victim, source))
    measured = provenance(victim.device, started, limit, measurement.condition.perturbation.backend, _used(measurement))
    return Record(shard=shard.header, outcomes=Outcomes.joined(outcomes), provenance=measured)


def _used(measurement: Measurement) -> tuple[object, ...]:
    """Return all declarations that a measurement uses."""
    checkpoint = measurement.checkpoint
    condition = measurement.condition
    return condition.perturbation, checkpoint.architecture, checkpoint.preprocessing, condition.dataset


def provenance(
    device: torch.device, started: float, limit: int | None, backend: str = "robench", used: Sequence[object] = ()
) -> Provenance:
    """Return where and when something was measured that began at ``started`` (``time.perf_counter``), and with what.

    ``backend`` is the library whose attack was run, if any; ``used`` are declarations, whose distributions count.
    """
    return Provenance(
        device=device_kind(device),
        versions=library_versions() | release_of(backend) | releases_of(*used),
        seconds=time.perf_counter() - started,
        finished_at=datetime.now(UTC).isoformat(timespec="microseconds"),
        limit=limit,
    )


def _rows_at_once(shard: Shard) -> int:
    """Return how many examples a perturbation meets at once: where some leave early, others fill their batches."""
    batch_size = shard.measurement.batch_size
    return shard.stop - shard.start if shard.measurement.condition.perturbation.stops_at_success else batch_size


def _measure(measurement: Measurement, batch: Batch, victim: Victim, source: Source) -> Outcomes:
    """Measure examples in anchored batches with exactly ``batch_size`` rows; budgets of one example stand together."""
    num_examples, batch_size = len(batch.ids), measurement.batch_size
    batch = _padded(batch, num_examples + -num_examples % batch_size, victim.device)
    check_clean(batch, measurement.dataset.name)
    declaration = measurement.condition.perturbation
    seeds = _prediction_seeds(measurement, batch.ids)
    draws = ExampleDraws(_seeds(measurement, declaration.drawn_as, batch.ids), victim.device, seeds[0])
    judge, by_budget = JUDGES[measurement.checkpoint.task], []
    classes, has_right_class = _classes_of(measurement.condition.dataset)
    for attack, perturbed in source(measurement, batch, victim, draws):
        distances = check_perturbed(perturbed.inputs, batch.inputs, attack, victim)
        first, *others = (predict(victim, perturbed.inputs, each, batch_size) for each in seeds)
        for logits in (first, *others):
            check_logits(logits, len(batch.ids), measurement.checkpoint.name)
        measured = Measured(
            distances,
            perturbed,
            other_logits=tuple(others),
            epsilon=None if attack is declaration else attack.epsilon_name,
            classes=classes,
            has_right_class=has_right_class,
            scores_say_all=declaration.keeps_scores,
        )
        by_budget.append(judge(first, batch, measured, num_examples))
    # From budget by budget to example by example.
    places = np.arange(len(by_budget) * num_examples).reshape(len(by_budget), num_examples).T.ravel()
    return Outcomes.joined(by_budget).take(places)


def _classes_of(declared: DatasetDeclaration) -> tuple[tuple[int, ...] | None, bool]:
    """Return the classes that may be predicted on a dataset, None for all, and whether any of them is right."""
    subset = None if declared.class_subset is None else class_indices_of(declared.class_subset)
    return subset, not declared.is_out_of_distribution


def _prediction_seeds(measurement: Measurement, ids: tuple[str, ...]) -> list[list[int]]:
    """Return a seed an example for each prediction; the first ones are the same however many are made."""
    seeds = _seeds(measurement, "prediction", ids)
    streams = [Stream(purpose="prediction", draw=draw) for draw in range(measurement.condition.num_predictions)]
    return [[stream_seed(seed, stream) for seed in seeds] for stream in streams]


def _seeds(measurement: Measurement, kind: str, ids: tuple[str, ...]) -> list[int]:
    fingerprint = measurement.dataset.fingerprint
    return [example_seed(measurement.seed, fingerprint, kind, example_id) for example_id in ids]


def _padded(batch: Batch, num_rows: int, device: torch.device) -> Batch:
    """Return the batch on ``device``, its last row repeated up to ``num_rows``: small batches round differently."""
    missing = num_rows - len(batch.ids)
    rows = torch.arange(num_rows).clamp(max=len(batch.ids) - 1)
    return Batch(
        ids=batch.ids + batch.ids[-1:] * missing,
        inputs=batch.inputs[rows].to(device),
        targets=batch.targets[rows].to(device),
    )
