"""Labelled texts of a split of published files, and their number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.core.errors import MissingDataError
from robench.datasets.text_files import again
from robench.declarations.base import imported

if TYPE_CHECKING:
    from pathlib import Path

    from robench.datasets.sentiment import LabelledFiles

# Id, text and class.
Example = tuple[str, str, int]


def read_labelled(declared: LabelledFiles, data_root: Path | None, split: str) -> list[Example]:
    """Return ids, texts and classes of a split in the order of its files.

    Raises:
        UsageError: there is no such split.
        MissingDataError: its files are missing, or are not the published ones.
    """
    declared.check_split(split)
    examples: list[Example] = imported(declared.reader)(declared, data_root, split)
    return examples


def check_number(declared: LabelledFiles, split: str, found: int, path: Path, counted: str = "sentences") -> None:
    """Refuse another number of examples than the published one.

    Raises:
        MissingDataError: the message has both numbers.
    """
    if found != (wanted := declared.num_examples_of(split)):
        raise MissingDataError(
            f"{path} has {found:,} {counted}, wanted {wanted:,} as published of the {split} split of {declared.name}. "
            f"{again(declared.archive)}"
        )
