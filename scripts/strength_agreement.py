"""AutoAttack standard beside pyautoattack's: of how many images do they say the same, of as many as two of its seeds?

Square draws random numbers, so that two runs of pyautoattack itself differ on some images. robench's verdicts shall
agree with pyautoattack's on no fewer images than pyautoattack's with its own at another seed, less one point. On
checkpoints whose gradients are good APGD has decided before Square begins; so one victim here quantises its inputs
first: its gradients are zero everywhere, and Square decides alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import torch

from robench.attacks.autoattack import AutoAttack

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

    from robench.core.protocols import Model

NUM_EXAMPLES = 200
NUM_LEVELS = 8
# So much lower may the agreement be than that of pyautoattack with itself, as a proportion of the images.
LESS_BY = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A model under AutoAttack standard at a budget in l-infinity at which about half of the images survive."""

    name: str
    checkpoint: str
    epsilon: Fraction
    is_quantised: bool = False

    @property
    def declared(self) -> AutoAttack:
        """The attack."""
        return AutoAttack(epsilon=self.epsilon, variant="standard")

    def victim(self, victim: Model) -> Model:
        """Return what is attacked, of the checkpoint's victim."""
        return Quantised(victim) if self.is_quantised else victim


SUBJECTS = (
    Subject(name="digits-vit", checkpoint="digits-vit", epsilon=Fraction(6, 255)),
    Subject(name="digits-symvit", checkpoint="digits-symvit", epsilon=Fraction(6, 255)),
    Subject(name="digits-vit, inputs quantised", checkpoint="digits-vit", epsilon=Fraction(10, 255), is_quantised=True),
)


class Quantised:
    """A victim that rounds its inputs to multiples of 1/8 first: no gradient passes through."""

    takes_seeds = False

    def __init__(self, victim: Model) -> None:
        self._victim = victim
        self.device, self.normalisation = victim.device, victim.normalisation

    def outputs(self, inputs: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        """Return the logits (B, classes) of the rounded inputs (B, C, H, W)."""
        return self._victim.outputs(torch.round(inputs * NUM_LEVELS) / NUM_LEVELS, seeds)

    def with_gradients(self, mode: str) -> Quantised:
        """Return the same with gradients through what its mechanisms solve apart from the graph."""
        return Quantised(self._victim.with_gradients(mode))


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Robust accuracies of three runs on the same images, and of how many of them two runs say the same.

    Attributes:
        accuracy: of robench; ``accuracy_of_theirs``: of pyautoattack at two seeds.
        agreement: of robench with each of the two; ``agreement_of_theirs``: of the two with each other.
        seconds: of the three runs, robench's first.
        problem: what breaks the rule; empty where nothing does.
    """

    model: str
    num_examples: int
    accuracy: float
    accuracy_of_theirs: tuple[float, float]
    agreement: tuple[float, float]
    agreement_of_theirs: float
    seconds: tuple[float, ...]
    problem: str


def agreement_of(model: str, own: Tensor, first: Tensor, second: Tensor, seconds: Sequence[float]) -> Agreement:
    """Return how three runs compare, each given as (N,) images that survive."""
    with_first, with_second, of_theirs = _same(own, first), _same(own, second), _same(first, second)
    own_mean = (with_first + with_second) / 2
    # Half an image is no breach of a limit that is a whole number of images.
    is_low = own_mean < of_theirs - LESS_BY - 1e-9
    problem = f"agrees on {own_mean:.1%}, pyautoattack with itself on {of_theirs:.1%}" if is_low else ""
    return Agreement(
        model=model,
        num_examples=len(own),
        accuracy=_proportion(own),
        accuracy_of_theirs=(_proportion(first), _proportion(second)),
        agreement=(with_first, with_second),
        agreement_of_theirs=of_theirs,
        seconds=tuple(round(each, 1) for each in seconds),
        problem=problem,
    )


def as_lines(rows: Sequence[Any]) -> Iterator[str]:
    """Yield the table of agreements in Markdown; ``rows`` are values of JSON."""
    yield "| model | images | robench | pyautoattack | its other seed | same | same of its seeds | seconds | |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        first, second = row["accuracy_of_theirs"]
        cells = [
            row["model"],
            str(row["num_examples"]),
            *(f"{100 * value:.1f}" for value in (row["accuracy"], first, second)),
            " and ".join(f"{100 * value:.1f}" for value in row["agreement"]),
            f"{100 * row['agreement_of_theirs']:.1f}",
            ", ".join(f"{value:.0f}" for value in row["seconds"]),
            row["problem"],
        ]
        yield f"| {' | '.join(cells)} |"


def _same(one: Tensor, other: Tensor) -> float:
    return _proportion(one == other)


def _proportion(values: Tensor) -> float:
    return float(values.double().mean())
