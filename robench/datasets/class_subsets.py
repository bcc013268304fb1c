"""Subsets of the classes of ImageNet-1k; all other logits are masked before the softmax.

The lists are text files in ``class_lists``, each with its source. Indices are those of ILSVRC 2012 (by WordNet id).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from robench.core.errors import UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Mapping

CLASS_SUBSETS: Final = ("imagenet-a", "imagenet-o", "imagenet-r")
_FOLDER: Final = Path(__file__).parent / "class_lists"


def class_indices_of(subset: str) -> tuple[int, ...]:
    """Return the class indices of a subset, ascending."""
    return tuple(class_subset(subset).values())


@cache
def class_subset(subset: str) -> Mapping[str, int]:
    """Return the class index of each WordNet id of a subset, ascending in both."""
    if subset not in CLASS_SUBSETS:
        raise UnknownNameError("class subset", subset, CLASS_SUBSETS)
    lines = (_FOLDER / f"{subset}.txt").read_text().splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {wordnet_id: int(index) for index, wordnet_id in rows}
