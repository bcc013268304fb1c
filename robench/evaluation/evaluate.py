"""One shard in, one record out."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import torch

from robench.core.protocols import Batch
from robench.core.records import Provenance, Record
from robench.core.seeds import Stream, example_seed, stream_seed
from robench.declarations.perturbations import leaves_at_success
from robench.evaluation.arithmetic import device_kind, fixed_arithmetic, library_versions
from robench.evaluation.contracts import check_clean, check_logits, check_perturbed
from robench.evaluation.judges import JUDGES, Measured
from robench.perturbations import perturb
from robench.perturbations.backends.installed import release_of
from robench.perturbations.draws import ExampleDraws

if TYPE_CHECKING:
    from robench.core.outcomes import Outcome
    from robench.core.protocols import Dataset, Victim
    from robench.core.shard import Measurement, Shard


def evaluate(shard: Shard, victim: Victim, dataset: Dataset, limit: int | None = None) -> Record:
    """Measure every example of ``shard``; nothing is written and no global state is changed.

    ``limit`` is that of the run, for the record's provenance alone.

    Raises:
        ExampleError: an example cannot be read.
        ContractError: the dataset, the perturbation or the victim broke its promise.
    """
    started = time.perf_counter()
    measurement = shard.measurement
    outcomes: list[Outcome] = []
    with fixed_arithmetic(victim.device):
        for start in range(shard.start, shard.stop, size := _rows_at_once(shard)):
            batch = dataset.batch(start, min(start + size, shard.stop))
            outcomes.extend(_measure(measurement, batch, victim))
    backend = getattr(measurement.condition.perturbation, "backend", "")
    measured = provenance(victim.device, started, limit, backend)
    return Record(shard=shard.header, outcomes=tuple(outcomes), provenance=measured)


def provenance(device: torch.device, started: float, limit: int | None, backend: str = "") -> Provenance:
    """Return where and when something was measured that began at ``started`` (``time.perf_counter``), and with what.

    ``backend`` is the library whose attack was run, if any.
    """
    return Provenance(
        device=device_kind(device),
        versions=library_versions() | release_of(backend),
        seconds=time.perf_counter() - started,
        finished_at=datetime.now(UTC).isoformat(timespec="microseconds"),
        limit=limit,
    )


def _rows_at_once(shard: Shard) -> int:
    """Return how many examples a perturbation meets at once: where some leave early, others fill their batches."""
    batch_size = shard.measurement.batch_size
    return shard.stop - shard.start if leaves_at_success(shard.measurement.condition.perturbation) else batch_size


def _measure(measurement: Measurement, batch: Batch, victim: Victim) -> tuple[Outcome, ...]:
    """Measure examples in anchored batches with exactly ``batch_size`` rows."""
    num_examples, batch_size = len(batch.ids), measurement.batch_size
    batch = _padded(batch, num_examples + -num_examples % batch_size, victim.device)
    check_clean(batch, measurement.dataset.name)
    declaration = measurement.condition.perturbation
    prediction = Stream(purpose="prediction")
    seeds = [stream_seed(seed, prediction) for seed in _seeds(measurement, "prediction", batch.ids)]
    draws = ExampleDraws(_seeds(measurement, declaration.kind, batch.ids), victim.device, seeds)
    perturbed = perturb(declaration, batch, victim, draws, batch_size)
    distances = check_perturbed(perturbed.inputs, batch.inputs, declaration, victim)
    with torch.no_grad():
        pieces = [
            victim.logits(perturbed.inputs[start : start + batch_size], seeds[start : start + batch_size])
            for start in range(0, len(seeds), batch_size)
        ]
    logits = torch.cat(pieces)
    check_logits(logits, len(seeds), measurement.checkpoint.name)
    measured = Measured(distances, perturbed, scores_say_all=not leaves_at_success(declaration))
    return JUDGES[measurement.checkpoint.task](logits, batch, measured, num_examples)


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
