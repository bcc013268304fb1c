"""Opener of labelled texts in published files, in the order of the SHA-256 of their ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.datasets.labelled_files import read_labelled
from robench.datasets.order import hash_positions
from robench.datasets.texts import LabelledTexts

if TYPE_CHECKING:
    from pathlib import Path

    from robench.datasets.sentiment import LabelledFiles
    from robench.declarations.preprocessing import PreprocessingBase


def open_labelled(
    declared: LabelledFiles,
    *,
    data_root: Path | None,
    preprocessing: PreprocessingBase | None,
    decode_workers: int,
    split: str,
) -> LabelledTexts:
    """Open a split of labelled texts.

    Raises:
        UsageError: there is no such split.
        MissingDataError: its files are missing, or are not the published ones.
    """
    del preprocessing, decode_workers  # Texts are as they are.
    examples = read_labelled(declared, data_root, split)
    order = hash_positions([example_id for example_id, _, _ in examples])
    return LabelledTexts(declared.name, [examples[place] for place in order])
