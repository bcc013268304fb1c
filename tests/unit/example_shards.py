"""A shard that many tests vary, and outcomes for it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from robench.core.checkpoint import Checkpoint, Weights
from robench.core.outcomes import ClassificationOutcome
from robench.core.shard import DatasetIdentity, Measurement, Shard
from robench.core.suite import Condition
from robench.declarations.architectures import Vit
from robench.declarations.attacks import Pgd
from robench.declarations.attentions import Rpc
from robench.declarations.preprocessing import ImagePreprocessing

PGD = Pgd(epsilon=Fraction(8, 255), step_size=Fraction(2, 255), num_steps=20)
ARCHITECTURE = Vit(image_size=32, patch_size=8, num_classes=10, depth=4, dim=64, num_heads=4, attention=Rpc())
CHECKPOINT = Checkpoint(
    name="m",
    architecture=ARCHITECTURE,
    weights=Weights(uri="m.safetensors", sha256=None),
    preprocessing=ImagePreprocessing(mean=(0.3, 0.3, 0.3), std=(0.4, 0.4, 0.4)),
    task="classification",
    training_data="digits",
    source="here",
    licence="MIT",
    folder=Path(),
)
MEASUREMENT = Measurement(
    checkpoint=CHECKPOINT,
    condition=Condition(name="pgd", dataset="digits", perturbation=PGD),
    weights_digest="0" * 64,
    dataset=DatasetIdentity(name="digits", fingerprint="f", num_examples=600),
    seed=0,
    batch_size=100,
)
SHARD = Shard(measurement=MEASUREMENT, start=0, stop=100)


def outcome_of(example_id: str) -> ClassificationOutcome:
    """Return an outcome in which nothing but its id is of interest."""
    return ClassificationOutcome(
        example_id=example_id,
        linf=0.0,
        l2=0.0,
        l1=0.0,
        target=1,
        prediction=1,
        correct_top1=True,
        correct_top5=True,
        confidence=0.5,
        loss_nats=0.1,
    )
