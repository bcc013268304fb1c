"""Which conditions are corruptions of one set of images: the published files, or what is made on the fly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from robench.core.suite import Condition

PUBLISHED = "imagenet-c"
# What is made of ImageNet's images on the fly is never called ImageNet-C.
LIVE = {"imagenet-1k": "imagenet-c-live", "digits": "digits-c"}


@dataclass(frozen=True, slots=True)
class Corrupted:
    """One type of corruption at one severity, of a family whose errors belong together."""

    family: str
    type: str
    severity: int


def corrupted_of(condition: Condition) -> Corrupted | None:
    """Return what a condition is of a family of corruptions, or None of all else."""
    published, name = condition.dataset, condition.dataset.name
    if condition.perturbation.corruption is not None:
        return Corrupted(LIVE.get(name, f"{name}-c"), *condition.perturbation.corruption)
    if published.corruption is None or published.severity is None:
        return None
    return Corrupted(PUBLISHED, published.corruption, published.severity)


def uncorrupted_of(condition: Condition) -> str:
    """Return the dataset of the same images without corruption."""
    return condition.dataset.clean or condition.dataset.name
