"""Masks of images: class numbers or colours of pixels, as targets (H, W) in which ``IGNORED`` counts nowhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from robench.core.errors import ExampleError
from robench.datasets.decoding import unreadable
from robench.datasets.packed_images import Stored, open_stored
from robench.tasks.segmentation import IGNORED

Colour = tuple[int, int, int]
# Modes of Pillow of one number a pixel; a palette is not followed.
_INDEX_MODES = frozenset(("1", "L", "P", "I", "I;16"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskRule:
    """Meaning of the values of masks.

    Attributes:
        num_classes: number of classes.
        ignore_index: value of pixels that count nowhere; None for none.
        reduce_zero_label: whether 0 is ignored, and all others are one class less.
        colours: class of each colour, or ``IGNORED``; empty for masks of class numbers.
        may_be_empty: whether a mask may have ignored pixels alone.
    """

    num_classes: int
    ignore_index: int | None = None
    reduce_zero_label: bool = False
    colours: Mapping[Colour, int] = field(default_factory=dict)
    may_be_empty: bool = False

    def targets_of(self, values: NDArray[Any], title: str) -> NDArray[np.int64]:
        """Return the targets (H, W) of values (H, W), or of colours (H, W, 3)."""
        targets = self._of_colours(values, title) if self.colours else self._of_numbers(values, title)
        if not self.may_be_empty and not (targets != IGNORED).any():
            raise ExampleError(
                f"{title} has ignored pixels alone, so that nothing of its image counts; leave the image out, or"
                " correct what its dataset's entry ignores"
            )
        return targets

    def _of_numbers(self, values: NDArray[Any], title: str) -> NDArray[np.int64]:
        numbers, first = values.astype(np.int64), int(self.reduce_zero_label)
        is_ignored = np.zeros(numbers.shape, dtype=np.bool_)
        if self.ignore_index is not None:
            is_ignored |= numbers == self.ignore_index
        if self.reduce_zero_label:
            is_ignored |= numbers == 0
        outside = ((numbers < first) | (numbers >= first + self.num_classes)) & ~is_ignored
        if outside.any():
            row, column = _first(outside)
            ignored = sorted({self.ignore_index, 0 if first else None} - {None}, key=str)
            or_ignored = f", or {' and '.join(map(str, ignored))} for ignored pixels" if ignored else ""
            raise ExampleError(
                f"{title} has the value {numbers[row, column]} in {outside.sum():,} pixels, the first in row {row},"
                f" column {column}; wanted {first} to {first + self.num_classes - 1}{or_ignored}. Correct the mask, or"
                " num_classes or ignore_index of the dataset"
            )
        return np.where(is_ignored, IGNORED, numbers - first)

    def _of_colours(self, values: NDArray[Any], title: str) -> NDArray[np.int64]:
        codes = _codes(values)
        known = _codes(np.array(list(self.colours)))
        order = np.argsort(known)
        places = order[np.searchsorted(known, codes, sorter=order).clip(max=len(known) - 1)]
        outside = known[places] != codes
        if outside.any():
            row, column = _first(outside)
            raise ExampleError(
                f"{title} has the colour {values[row, column].tolist()} in {outside.sum():,} pixels, the first in row"
                f" {row}, column {column}, and the colour table lacks it; add it to the table, state it as"
                " ignore_colour, or correct the mask"
            )
        targets: NDArray[np.int64] = np.array(list(self.colours.values()), dtype=np.int64)[places]
        return targets


def read_mask(stored: Stored, rule: MaskRule) -> NDArray[np.int64]:
    """Return the targets (H, W) of a PNG."""
    title = f"mask {stored}"
    try:
        with open_stored(stored) as opened, Image.open(opened) as file:
            kind, mode = file.format, file.mode
            values = np.array(file.convert("RGB") if rule.colours else file)
    except Exception as error:  # Pillow's decoders may raise almost any type on broken files.
        raise ExampleError(unreadable(stored, error, "mask", "a whole PNG file")) from None
    if kind != "PNG":
        raise ExampleError(f"{title} is a {kind}; save masks as PNG, which keeps every value")
    if not rule.colours and mode not in _INDEX_MODES:
        raise ExampleError(
            f"{title} has colours (Pillow's mode {mode}), and its dataset no colour table; state colours in the"
            " dataset's entry, or save masks of class numbers (mode L or P)"
        )
    return rule.targets_of(values, title)


def _codes(colours: NDArray[Any]) -> NDArray[np.int64]:
    """Return one number (...) for each colour (..., 3)."""
    codes: NDArray[np.int64] = colours.astype(np.int64) @ np.array([1 << 16, 1 << 8, 1])
    return codes


def _first(mask: NDArray[np.bool_]) -> tuple[int, int]:
    """Return row and column of the first true pixel."""
    row, column = divmod(int(mask.argmax()), mask.shape[1])
    return row, column
