"""Examples of what shards and stores are made of, which tests vary with ``dataclasses.replace``.

``SHARD`` is one as a plan makes it, with all that decides its key; ``HEADER`` is one as it is kept on disk, with keys
that a reader can tell apart. Spawned workers import this module, so it stays free of torch.
"""

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from math import log
from pathlib import Path
from typing import Any

from robench.attacks.pgd import Pgd
from robench.attention.rpc import Rpc
from robench.core.checkpoint import Checkpoint, Weights
from robench.core.columns import Outcomes
from robench.core.outcomes import Outcome
from robench.core.protocols import Store
from robench.core.records import Failure, Provenance, Record
from robench.core.shard import DatasetIdentity, Measurement, Shard, ShardHeader, shard_key
from robench.core.suite import Condition
from robench.datasets.digits import DIGITS
from robench.declarations.preprocessing import ImagePreprocessing
from robench.metrics import Readings
from robench.models.vit import Vit
from robench.tasks.classification import ClassificationOutcome

PGD = Pgd(epsilon=Fraction(8, 255), step_size=Fraction(2, 255), num_steps=20)
ARCHITECTURE = Vit(image_size=32, patch_size=8, num_classes=10, depth=4, dim=64, num_heads=4, attention=Rpc())
CHECKPOINT = Checkpoint(
    name="m",
    architecture=ARCHITECTURE,
    weights=Weights(uri="m.safetensors", sha256=None),
    preprocessing=ImagePreprocessing(mean=(0.3, 0.3, 0.3), std=(0.4, 0.4, 0.4)),
    task="classification",
    training_data="digits",
    trained_on="digits",
    source="here",
    licence="MIT",
    folder=Path(),
)
MEASUREMENT = Measurement(
    checkpoint=CHECKPOINT,
    condition=Condition(name="pgd", dataset=DIGITS, perturbation=PGD),
    weights_digest="0" * 64,
    dataset=DatasetIdentity(name="digits", fingerprint="f", num_examples=600),
    seed=0,
    batch_size=100,
)
SHARD = Shard(measurement=MEASUREMENT, start=0, stop=100)

HEADER = ShardHeader(
    key=shard_key("b" * 32, 0, 20),
    measurement_key="b" * 32,
    perturbation_key="c" * 32,
    checkpoint="digits-vit",
    condition="pgd",
    dataset=DatasetIdentity(name="digits", fingerprint="e" * 64, num_examples=600),
    weights_digest="d" * 64,
    task="classification",
    seed=0,
    batch_size=20,
    start=0,
    stop=20,
)
NEXT_HEADER = replace(HEADER, key=shard_key("b" * 32, 20, 40), start=20, stop=40)
PROVENANCE = Provenance(
    device="cpu", versions={"torch": "2.15", "numpy": "2.3"}, seconds=0.5, finished_at="2026-11-21T11:00:00+00:00"
)


def header_of(measurement_key: str, start: int, stop: int, **changes: Any) -> ShardHeader:
    """Return ``HEADER`` with other examples of a dataset without end, or of another measurement."""
    dataset = replace(HEADER.dataset, num_examples=10**9)
    key = shard_key(measurement_key, start, stop)
    shard = replace(HEADER, key=key, measurement_key=measurement_key, start=start, stop=stop, dataset=dataset)
    return replace(shard, **changes)


def outcome_of(example_id: str, correct: bool = True, **changes: Any) -> ClassificationOutcome:
    """Return an outcome of which no more than its id and whether it is right is of interest, unless changed."""
    outcome = ClassificationOutcome(
        example_id=example_id,
        target=1,
        prediction=1 if correct else 2,
        correct_top1=correct,
        correct_top5=True,
        confidence=0.5,
        loss_nats=log(2),
    )
    return replace(outcome, **changes)


def outcomes_of(header: ShardHeader, **changes: Any) -> Outcomes:
    """Return outcomes for the examples of a shard; all differ from each other but in the fields changed."""
    varied = (
        outcome_of(
            f"digits-{index:05d}",
            index % 10 < 5,
            linf=index % 9 / 255,
            target=index % 10,
            prediction=index % 5,
            confidence=1 / (index + 2),
            loss_nats=log(index + 2),
        )
        for index in range(header.start, header.stop)
    )
    return Outcomes.of((replace(outcome, **changes) for outcome in varied), ClassificationOutcome)


def record_of(
    header: ShardHeader = HEADER, outcomes: Iterable[Outcome] | None = None, provenance: Provenance = PROVENANCE
) -> Record:
    """Return a record of a shard, by default with some outcome for each of its examples."""
    columns = outcomes_of(header) if outcomes is None else outcome_columns(outcomes)
    return Record(shard=header, outcomes=columns, provenance=provenance)


def outcome_columns(rows: Iterable[Outcome]) -> Outcomes:
    """Return rows as columns, of a classifier where there are none."""
    listed = list(rows)
    return Outcomes.of(listed, type(listed[0]) if listed else ClassificationOutcome)


def readings(*conditions: Iterable[Outcome], **further: Any) -> Readings:
    """Return what a metric reads of conditions that are all measured, from rows."""
    return Readings(measured=tuple(map(outcome_columns, conditions)), **further)


def failure_of(
    header: ShardHeader = HEADER, error: str = "killed its workers", provenance: Provenance = PROVENANCE
) -> Failure:
    """Return a failure of a shard."""
    return Failure(shard=header, error=error, traceback="Traceback ...", provenance=provenance)


def everything(store: Store) -> list[Record]:
    """Return all records of a store."""
    return list(store.records(lambda shard: True))
