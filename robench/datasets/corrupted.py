"""Families of corrupted images: conditions on published files, and conditions that generate corruptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from robench.core.suite import Condition

# Images corrupted on the fly have another family than published ones: they are never called ImageNet-C.
LIVE = {
    "imagenet-1k": "imagenet-c-live",
    "digits": "digits-c",
    "cifar-10": "cifar-10-c-live",
    "cifar-100": "cifar-100-c-live",
}


@dataclass(frozen=True, slots=True)
class Corrupted:
    """Corruption type at one severity, within a family whose errors are aggregated."""

    family: str
    type: str
    severity: int


def corrupted_of(condition: Condition) -> Corrupted | None:
    """Return the corruption of a condition within its family, None if it has none."""
    published, name = condition.dataset, condition.dataset.name
    if condition.perturbation.corruption is not None:
        return Corrupted(LIVE.get(name, f"{name}-c"), *condition.perturbation.corruption)
    if published.corruption is None or published.severity is None:
        return None
    # The family of ``imagenet-c/fog/3`` is its first part.
    return Corrupted(name.partition("/")[0], published.corruption, published.severity)


def uncorrupted_of(condition: Condition) -> str:
    """Return the dataset of the same images without corruption."""
    return condition.dataset.clean or condition.dataset.name
