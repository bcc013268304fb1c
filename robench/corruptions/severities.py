"""Strengths chosen by the authors: one constant for each size of image and each severity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from robench.corruptions.corruption import Corruption

Constant = TypeVar("Constant")
# By the field ``constants``, then from the weakest severity to the strongest.
Strengths = Mapping[str, tuple[Constant, Constant, Constant, Constant, Constant]]


def strength(strengths: Strengths[Constant], declaration: Corruption) -> Constant:
    """Return the constant of the declaration's size and severity."""
    return strengths[declaration.constants][declaration.severity - 1]
