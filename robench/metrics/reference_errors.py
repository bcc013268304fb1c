"""The errors of the model that corruption errors are measured in units of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from robench.core.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceErrors:
    """Top-1 errors of a reference model: units of measurement, and so without an uncertainty of their own.

    Attributes:
        model: how messages name the reference.
        clean: error on the images without corruption, a share in [0, 1].
        corrupted: mean error over the five severities, by type of corruption, shares in (0, 1].

    Raises:
        DeclarationError: one is no such share; nothing can be measured in units of an error of 0.
    """

    model: str
    clean: float
    corrupted: Mapping[str, float]

    def __post_init__(self) -> None:
        if not 0 <= self.clean <= 1:
            raise DeclarationError(f"{self.model}'s clean error must be a share in [0, 1], got {self.clean}")
        for corruption, error in self.corrupted.items():
            if not 0 < error <= 1:
                raise DeclarationError(
                    f"{self.model}'s error under {corruption} must be a share in (0, 1] to be a unit, got {error}; "
                    "choose another reference or leave the corruption out"
                )

    def over(self, corruptions: Iterable[str]) -> ReferenceErrors:
        """Return the errors under some of the types alone, those that a mean is taken over."""
        return replace(self, corrupted={each: self.corrupted[each] for each in corruptions})

    @property
    def degradations(self) -> dict[str, float]:
        """By how much each type of corruption raises the reference's error over its clean one.

        Raises:
            DeclarationError: one does not raise it, so that nothing can be measured in units of it.
        """
        for corruption, error in self.corrupted.items():
            if error <= self.clean:
                raise DeclarationError(
                    f"{self.model} errs no more under {corruption} ({error}) than without ({self.clean}), so that "
                    "relative corruption errors are undefined; choose another reference or leave the corruption out"
                )
        return {corruption: error - self.clean for corruption, error in self.corrupted.items()}
