"""One shard in, one record out."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import torch

from robench.core.protocols import Batch
from robench.core.records import Provenance, Record
from robench.core.seeds import Stream, example_seed, stream_seed
from robench.declarations.perturbations import threat_model_of
from robench.evaluation.arithmetic import device_kind, fixed_arithmetic, library_versions
from robench.evaluation.contracts import check_clean, check_logits, check_perturbed
from robench.evaluation.fresh_draws import FreshDraws
from robench.evaluation.judges import JUDGES
from robench.perturbations import perturb
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
        for start in range(shard.start, shard.stop, measurement.batch_size):
            batch = dataset.batch(start, min(start + measurement.batch_size, shard.stop))
            outcomes.extend(_measure(measurement, batch, victim))
    return Record(shard=shard.header, outcomes=tuple(outcomes), provenance=provenance(victim.device, started, limit))


def provenance(device: torch.device, started: float, limit: int | None) -> Provenance:
    """Return where and when something was measured that began at ``started`` (``time.perf_counter``)."""
    return Provenance(
        device=device_kind(device),
        versions=library_versions(),
        seconds=time.perf_counter() - started,
        finished_at=datetime.now(UTC).isoformat(timespec="microseconds"),
        limit=limit,
    )


def _measure(measurement: Measurement, batch: Batch, victim: Victim) -> tuple[Outcome, ...]:
    """Measure one anchored batch with exactly ``batch_size`` rows."""
    num_examples = len(batch.ids)
    batch = _padded(batch, measurement.batch_size, victim.device)
    check_clean(batch, measurement.dataset.name)
    declaration = measurement.condition.perturbation
    own_seeds = _seeds(measurement, declaration.kind, batch.ids)
    draws = ExampleDraws(own_seeds, victim.device)
    perturbed = perturb(declaration, batch, FreshDraws(victim, own_seeds), draws).detach()
    distances = check_perturbed(perturbed, batch.inputs, declaration.kind, threat_model_of(declaration))
    prediction = Stream(purpose="prediction")
    seeds = [stream_seed(seed, prediction) for seed in _seeds(measurement, "prediction", batch.ids)]
    with torch.no_grad():
        logits = victim.logits(perturbed, seeds)
    check_logits(logits, measurement.batch_size, measurement.checkpoint.name)
    return JUDGES[measurement.checkpoint.task](logits, batch, distances, num_examples)


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
