"""What is to be measured: conditions, and the columns to read off them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

    from robench.core.protocols import Declaration


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreatModel:
    """What an attacker may do: move an input by at most ``epsilon`` in ``norm``.

    Attributes:
        space: what the budget is a length in: ``pixel``, or ``normalised`` by the victim's mean and deviation.
        clip: whether what comes back must lie in [0, 1] (``box``) or not (``none``).
        labels: whether the attack moves away from the ``true`` classes or from the victim's ``predicted`` ones.
    """

    norm: str
    epsilon: Fraction
    space: str = "pixel"
    clip: str = "box"
    labels: str = "true"

    def __str__(self) -> str:
        others = [("normalised", self.space), ("none", self.clip), ("predicted", self.labels)]
        marks = {"normalised": "normalised", "none": "unclipped", "predicted": "predicted-labels"}
        said = [marks[unusual] for unusual, met in others if met == unusual]
        return "-".join([self.norm, self.epsilon_text, *said])

    @property
    def epsilon_text(self) -> str:
        """The budget over 255 where it is a whole number of grey levels, else as it is."""
        levels = self.epsilon * 255
        return f"{levels}/255" if levels.denominator == 1 else str(self.epsilon)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One way of testing: a dataset seen through a perturbation; ``num_examples`` None means all."""

    name: str
    dataset: str
    perturbation: Declaration
    num_examples: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One number of a row: a metric over the outcomes of the conditions that it names, in their order."""

    key: str
    label: str
    metric: str
    conditions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A named list of conditions and the numbers to read off them.

    Attributes:
        seed: root of all randomness of the suite.
        batch_size: rows of every pass through a model; part of every key.
        batches_per_shard: batches of one unit of work.
    """

    name: str
    version: int
    seed: int
    task: str
    batch_size: int
    conditions: tuple[Condition, ...]
    metrics: tuple[str, ...]
    columns: tuple[Column, ...]
    batches_per_shard: int = 1
    description: str = ""
