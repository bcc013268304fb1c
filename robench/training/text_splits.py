"""Splits of datasets of texts that training opens: its own, and that of validation."""

from pathlib import Path

from robench.core.errors import MissingDataError
from robench.core.protocols import Dataset
from robench.datasets import DATASETS, open_dataset

TRAINING_SPLIT = "train"
# Publishers name it differently; the first that a dataset has is taken.
VALIDATION_SPLITS = ("valid", "dev")


def training_texts(dataset: str, data_root: Path | None) -> Dataset:
    """Return the training split of a dataset.

    Raises:
        UsageError: it has none.
        MissingDataError: it is not below the data root.
    """
    return open_dataset(dataset, data_root=data_root, preprocessing=None, split=TRAINING_SPLIT)


def validation_texts(dataset: str, data_root: Path | None) -> Dataset | None:
    """Return the validation split of a dataset; None where it has none, or none on disk."""
    split = next((each for each in VALIDATION_SPLITS if each in DATASETS[dataset].splits), None)
    if split is None:
        return None
    try:
        return open_dataset(dataset, data_root=data_root, preprocessing=None, split=split)
    except MissingDataError:
        return None
