"""Numbers of class folders while a script of timm runs: those of robench, which differ where names have numbers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from timm.data.readers import reader_image_folder

from robench.core.errors import DeclarationError


@contextmanager
def in_robench_order(orders: Sequence[Sequence[str]]) -> Iterator[None]:
    """Number class folders in the order of their text within the block, and not by the numbers in their names.

    A class map that the script gives to timm decides before it, and so does the one of ``orders``, the class names of
    entries, that has all of the folders.
    """
    before = reader_image_folder.find_images_and_targets

    def find(
        folder: str, types: Any = None, class_to_idx: dict[str, int] | None = None, *others: Any, **named: Any
    ) -> tuple[list[tuple[str, int]], dict[str, int]]:
        samples, found = before(folder, types, class_to_idx, *others, **named)
        if class_to_idx is not None:
            return samples, found
        names = {number: name for name, number in found.items()}
        numbers = {name: number for number, name in enumerate(_order_of(folder, sorted(found), orders))}
        return [(file, numbers[names[target]]) for file, target in samples], numbers

    reader_image_folder.find_images_and_targets = find
    try:
        yield
    finally:
        reader_image_folder.find_images_and_targets = before


def _order_of(folder: str, names: Sequence[str], orders: Sequence[Sequence[str]]) -> Sequence[str]:
    """Return the class names of an entry that has all names of folders, sorted as text, or else these."""
    fitting = {tuple(each) for each in orders if {*names} <= {*each}}
    if len(fitting) > 1:
        raise DeclarationError(
            f"the class folders in {folder} are in class_names of several entries, in different orders; give the"
            " registry of one of them, or --class-map of timm"
        )
    return next(iter(fitting), names)
