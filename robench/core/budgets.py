"""Budgets of attacks: fractions that preserve their spelling, and threat models.

``6/255`` equals 2/85 but is displayed as ``6/255``.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Spelled(Fraction):
    """Fraction with its original spelling, such as ``6/255`` or ``0.03``.

    It compares, hashes and prints like the reduced fraction, so that keys and comparisons do not depend on the
    spelling; arithmetic returns plain fractions.

    Attributes:
        spelling: the original text.

    Raises:
        ValueError: the text is not a number.

    >>> Spelled("6/255") == Fraction(2, 85), str(Spelled("6/255")), spelling_of(Spelled("6/255"))
    (True, '2/85', '6/255')
    """

    __slots__ = ("spelling",)

    spelling: str

    def __new__(cls, spelling: str) -> Spelled:
        """Return the number that the text represents."""
        number = super().__new__(cls, spelling)
        number.spelling = spelling
        return number

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.spelling,)

    def __copy__(self) -> Spelled:
        return self

    def __deepcopy__(self, memo: Any) -> Spelled:
        return self


def spelling_of(number: Fraction) -> str:
    """Return a number in its original spelling, or reduced if it has none."""
    return number.spelling if isinstance(number, Spelled) else str(number)


class Support(Protocol):
    """Places of an input that a threat model lets change; its text names it, such as ``1-patch-16x16``."""

    def __str__(self) -> str: ...

    @property
    def most_places(self) -> int:
        """Return the largest number of places that may change in one input."""

    def problem_with_shape(self, shape: tuple[int, ...]) -> str:
        """Return why inputs of a shape cannot be changed so; empty if they can."""

    def places(self, changed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the changed places, such as pixels (B, H, W), of changed values (B, ...)."""

    def violation(self, changed: NDArray[np.bool_]) -> str:
        """Return the excess of changes in one of the inputs (B, ...); empty if all are within the support."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreatModel:
    """Threat model: an input may be moved by at most ``epsilon`` in ``norm``.

    Attributes:
        space: space of the budget: that of the ``input``, or ``normalised`` by the model's mean and standard deviation.
        clip: range of the returned inputs: [0, 1] (``box``), [0, 1] after normalisation, to which the clean input is
            clipped first (``unit``), or unlimited (``none``).
        pixels: values of the returned images: any (``real``), or those of files with 8 bits a value (``8bit``).
        labels: whether the attack moves away from the ``true`` classes or from the model's ``predicted`` ones.
        support: places of the input that may change; None for all.
    """

    norm: str
    epsilon: Fraction
    space: str = "input"
    clip: str = "box"
    labels: str = "true"
    pixels: str = "real"
    support: Support | None = None

    def __str__(self) -> str:
        marks = {
            "normalised": "normalised",
            "none": "unclipped",
            "unit": "unit",
            "predicted": "predicted-labels",
            "8bit": "8bit",
        }
        marked = [marks[value] for value in (self.space, self.clip, self.labels, self.pixels) if value in marks]
        where = [] if self.support is None else [str(self.support)]
        return "-".join([self.norm, self.epsilon_text, *where, *marked])

    @property
    def epsilon_text(self) -> str:
        """Return the budget as written; a computed one of single pixels over 255 if it is whole grey levels."""
        if isinstance(self.epsilon, Spelled):
            return self.epsilon.spelling
        levels = self.epsilon * 255
        is_grey = self.norm == "linf" and levels.denominator == 1 and 0 < self.epsilon < 1
        return f"{levels}/255" if is_grey else str(self.epsilon)
