"""Fix for timm's policies on releases of Pillow that refuse to posterise an image to zero bits.

At their highest magnitude timm's posterising operations keep 0 bits of a channel, which DeiT's policy (magnitude 9,
standard deviation 0.5) reaches occasionally. Pillow returned a black image when DeiT was trained; Pillow 13 raises a
ValueError. Here such an image is black again.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from timm.data import auto_augment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PIL import Image

OPERATIONS = ("Posterize", "PosterizeIncreasing", "PosterizeOriginal")


@contextmanager
def posterizing_to_black() -> Iterator[None]:
    """Let policies that timm creates within the block turn an image black if they keep none of its bits."""
    before = {name: auto_augment.NAME_TO_OP[name] for name in OPERATIONS}
    auto_augment.NAME_TO_OP.update(dict.fromkeys(OPERATIONS, posterize))
    try:
        yield
    finally:
        auto_augment.NAME_TO_OP.update(before)


def posterize(image: Image.Image, bits_to_keep: int, **unused: object) -> Image.Image:
    """Return the image with the given number of highest bits of each channel kept, 0 to 8."""
    if bits_to_keep < 1:
        return image.point(lambda value: 0)
    kept: Image.Image = auto_augment.posterize(image, bits_to_keep)  # type: ignore[no-untyped-call]  # timm's
    return kept
