"""Supports of perturbations: the places of an input that may change, and their check on masks of changed values.

A pixel is a place of an image with all its channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, cast

from annotated_types import Ge, Le

from robench.declarations.base import LARGEST

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Changed: TypeAlias = NDArray[np.bool_]

# The check of several patches tries each column of changed pixels for each patch.
MOST_PATCHES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Patches:
    """At most ``count`` squares of ``size`` x ``size`` pixels anywhere in an image; all else stays as it is.

    Attributes:
        size: side of a square, in pixels.
        count: number of squares, 1 to 8; they may overlap.
    """

    size: Annotated[int, Ge(1), Le(LARGEST)]
    count: Annotated[int, Ge(1), Le(MOST_PATCHES)] = 1

    def __str__(self) -> str:
        return f"{self.count}-patch{'es' * (self.count > 1)}-{self.size}x{self.size}"

    @property
    def most_places(self) -> int:
        """Return the number of pixels of all squares."""
        return self.count * self.size**2

    def problem_with_shape(self, shape: tuple[int, ...]) -> str:
        """Return why images (C, H, W) cannot have such patches; empty if they can."""
        sides = shape[-2:]
        if self.size > min(sides):
            return f"must be at most the smaller side of images of {sides[0]} x {sides[1]}, got {self.size}"
        if self.most_places > sides[0] * sides[1]:
            found = f"{self.count} patches of {self.size} x {self.size}"
            return f"must fit into images of {sides[0]} x {sides[1]}, got {found}"
        return ""

    def places(self, changed: Changed) -> Changed:
        """Return the changed pixels (B, H, W) of changed values (B, C, H, W)."""
        return cast("Changed", changed.any(axis=1))

    def violation(self, changed: Changed) -> str:
        """Return the changes in one of the images (B, C, H, W) that such patches do not cover; empty for none."""
        for pixels in self.places(changed):
            rows, columns = pixels.nonzero()
            if not is_covered(rows, columns, self.count, self.size):
                top, left, height, width = box_of(pixels)
                return (
                    f"{len(rows)} pixels in a box of {height} x {width} at row {top} and column {left}, more than "
                    f"{self.count} patch{'es' * (self.count > 1)} of {self.size} x {self.size} cover"
                )
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class L0:
    """At most ``count`` pixels anywhere in an image, or values anywhere in an input; all else stays as it is.

    Attributes:
        count: number of pixels or values.
        unit: ``pixels`` with all their channels, of images; or ``values`` of any input.
    """

    count: Annotated[int, Ge(1), Le(LARGEST)]
    unit: Literal["pixels", "values"] = "pixels"

    def __str__(self) -> str:
        return f"{self.count}-{self.unit if self.count > 1 else self.unit[:-1]}"

    @property
    def most_places(self) -> int:
        """Return the number of pixels or values."""
        return self.count

    def problem_with_shape(self, shape: tuple[int, ...]) -> str:
        """Return why inputs of a shape cannot have so few changes; empty if they can."""
        room = prod(shape[-2:] if self.unit == "pixels" else shape)
        return f"must be at most the {room} {self.unit} of an input, got {self.count}" if self.count > room else ""

    def places(self, changed: Changed) -> Changed:
        """Return the changed pixels (B, H, W), or values (B, ...), of changed values (B, ...)."""
        return cast("Changed", changed.any(axis=1)) if self.unit == "pixels" else changed

    def violation(self, changed: Changed) -> str:
        """Return the number of changes in one of the inputs (B, ...) that is too large; empty for none."""
        most = int(self.places(changed).reshape(len(changed), -1).sum(1).max(initial=0))
        return f"{most} {self.unit}, more than {self.count}" if most > self.count else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparsePatches:
    """Few pixels or values, all within a few patches: both limits hold."""

    patches: Patches
    l0: L0

    def __str__(self) -> str:
        return f"{self.l0}-in-{self.patches}"

    @property
    def most_places(self) -> int:
        """Return the number of pixels or values."""
        return self.l0.most_places

    def problem_with_shape(self, shape: tuple[int, ...]) -> str:
        """Return why images cannot be changed so; empty if they can."""
        return self.patches.problem_with_shape(shape) or self.l0.problem_with_shape(shape)

    def places(self, changed: Changed) -> Changed:
        """Return the changed pixels or values of changed values (B, C, H, W)."""
        return self.l0.places(changed)

    def violation(self, changed: Changed) -> str:
        """Return the changes in one of the images beyond either limit; empty for none."""
        return self.patches.violation(changed) or self.l0.violation(changed)


def is_covered(rows: NDArray[np.intp], columns: NDArray[np.intp], count: int, size: int) -> bool:
    """Return whether ``count`` squares of ``size`` cover the pixels at these rows (K,) and columns (K,).

    A square that covers the first pixel of the topmost row may begin in that row, and at the column of a pixel, since
    moving it there uncovers none.
    """
    if not len(rows):
        return True
    if not count or len(rows) > count * size**2:
        return False
    top = rows.min()
    first = columns[rows == top].min()
    is_near = (rows < top + size) & (columns > first - size) & (columns <= first)
    for left in sorted(set(columns[is_near].tolist()), reverse=True):
        is_left = (rows >= top + size) | (columns < left) | (columns >= left + size)
        if is_covered(rows[is_left], columns[is_left], count - 1, size):
            return True
    return False


def box_of(pixels: Changed) -> tuple[int, int, int, int]:
    """Return top, left, height and width of the smallest box around the pixels of a mask (H, W); zeros for none."""
    rows, columns = pixels.nonzero()
    if not len(rows):
        return 0, 0, 0, 0
    top, left = int(rows.min()), int(columns.min())
    return top, left, int(rows.max()) - top + 1, int(columns.max()) - left + 1
