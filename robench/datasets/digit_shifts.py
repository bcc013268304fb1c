"""The embedded battery: natural shifts of the digits, so that what is done with ImageNet's shifts runs anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.datasets.digit_edges_impl import sketched_digits
from robench.datasets.hard_digits_impl import hard_digits
from robench.datasets.rendered_digits_impl import rendered_digits, rendered_letters
from robench.declarations.datasets import DIGITS_A, DIGITS_O, DIGITS_R, DIGITS_SKETCH

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from robench.datasets.in_memory import InMemoryImages

DIGIT_SHIFTS: Mapping[str, Callable[[], InMemoryImages]] = {
    DIGITS_A.name: hard_digits,
    DIGITS_R.name: rendered_digits,
    DIGITS_SKETCH.name: sketched_digits,
    DIGITS_O.name: rendered_letters,
}
