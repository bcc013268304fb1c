"""Errors of a reference model, the units of corruption errors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from robench.core.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceErrors:
    """Top-1 errors of a reference model: units of measurement, and therefore without uncertainty.

    Attributes:
        model: name of the reference in messages.
        clean: error on the images without corruption, a proportion in [0, 1].
        corrupted: mean error over the five severities, by type of corruption, proportions in (0, 1].

    Raises:
        DeclarationError: one is not such a proportion; an error of 0 cannot be a unit.
    """

    model: str
    clean: float
    corrupted: Mapping[str, float]

    def __post_init__(self) -> None:
        if not 0 <= self.clean <= 1:
            raise DeclarationError(f"{self.model}'s clean error must be a proportion in [0, 1], got {self.clean}")
        for corruption, error in self.corrupted.items():
            if not 0 < error <= 1:
                raise DeclarationError(
                    f"{self.model}'s error under {corruption} must be in (0, 1] to be a unit, got {error}; "
                    "choose another reference or leave the corruption out"
                )

    def over(self, corruptions: Iterable[str]) -> ReferenceErrors:
        """Return the errors under the given types alone, over which a mean is taken."""
        return replace(self, corrupted={each: self.corrupted[each] for each in corruptions})

    @property
    def degradations(self) -> dict[str, float]:
        """Return the increase of the reference's error over its clean one, by type of corruption.

        Raises:
            DeclarationError: a type does not increase it, so that it cannot be a unit.
        """
        for corruption, error in self.corrupted.items():
            if error <= self.clean:
                raise DeclarationError(
                    f"{self.model} errs no more under {corruption} ({error}) than without ({self.clean}), so that "
                    "relative corruption errors are undefined; choose another reference or leave the corruption out"
                )
        return {corruption: error - self.clean for corruption, error in self.corrupted.items()}
