"""Datasets of labelled examples in a fixed order: ``x.py`` declares datasets, ``x_impl.py`` opens them.

Datasets are opened by name, and the libraries needed (scikit-learn, torchvision, timm) are imported only then: the
decoding processes import this package too, and start seconds sooner without them.

Errors are the same throughout: MissingDataError for data that are absent, damaged or not as published, DeclarationError
for entries and preprocessings that contradict the data, UsageError for splits and paths that do not exist, and
ExampleError for single examples that cannot be read.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from robench.core.declared import DatasetDeclaration, Preprocessing
from robench.core.errors import DeclarationError, UnknownNameError, UsageError
from robench.core.plugins import Plugins
from robench.core.protocols import Dataset
from robench.datasets.base import DatasetBase, opened_by_others
from robench.datasets.cifar import CIFAR_SETS
from robench.datasets.digits import DIGIT_SETS
from robench.datasets.episodes import EPISODE_SETS, Environment
from robench.datasets.imagenet import IMAGENET_SETS
from robench.datasets.lra import TOKEN_SETS
from robench.datasets.published_texts import SENTIMENT_SETS, WIKITEXT_SETS
from robench.datasets.segmentation import SEGMENTATION_SETS, ImageMasks
from robench.datasets.sotu import SOTU_SETS
from robench.datasets.text_formats import JsonLines, ParquetTable, TextFiles
from robench.datasets.uea import UEA_SETS
from robench.datasets.user import FormatBase, UserDataset
from robench.datasets.user_formats import (
    Arrays,
    CsvTable,
    ImageFolder,
    MapStyle,
    PythonTarget,
    SeriesTable,
    TsSeries,
)
from robench.declarations.preprocessing import PreprocessingBase

__all__ = ["DATASETS", "DATASET_KINDS", "open_dataset"]

_BUILTIN: dict[str, DatasetBase] = {
    declared.name: declared
    for declared in (
        *DIGIT_SETS,
        *CIFAR_SETS,
        *IMAGENET_SETS,
        *SOTU_SETS,
        *WIKITEXT_SETS,
        *SENTIMENT_SETS,
        *UEA_SETS,
        *TOKEN_SETS,
        *SEGMENTATION_SETS,
        *EPISODE_SETS,
    )
}
DATASETS = Plugins("dataset", _BUILTIN, base=DatasetBase, instances=True)
# Formats of the datasets that registry files declare.
DATASET_KINDS: Mapping[str, type[FormatBase]] = {
    "environment": Environment,
    "image-folder": ImageFolder,
    "image-masks": ImageMasks,
    "csv": CsvTable,
    "jsonl": JsonLines,
    "parquet": ParquetTable,
    "texts": TextFiles,
    "npz": Arrays,
    "ts": TsSeries,
    "series-csv": SeriesTable,
    "torchvision": MapStyle,
    "python": PythonTarget,
}


def open_dataset(
    dataset: str | DatasetDeclaration,
    *,
    data_root: Path | None,
    preprocessing: Preprocessing | None,
    decode_workers: int = 0,
    split: str | None = None,
) -> Dataset:
    """Open a dataset.

    Args:
        dataset: its declaration, or a key of ``DATASETS``.
        data_root: folder that contains datasets on disk; not needed for those inside a library.
        preprocessing: resize and crop are applied here, mean and std by the model; None for the dataset's usual one.
        decode_workers: number of processes that decode image files, 0 for the current one; it affects no pixel.
        split: such as ``train`` for the training data of published checkpoints; None for the split that is measured.

    Raises:
        UnknownNameError: no such dataset.
        UsageError: the dataset has no such split, or the number of processes is negative.
        MissingDataError: the dataset was not found.
        DeclarationError: the preprocessing does not go with the dataset.
        ContractError: a third-party dataset cannot be opened, or differs from its declaration.
    """
    if isinstance(dataset, str) and dataset not in DATASETS:
        raise UnknownNameError("dataset", dataset, DATASETS)
    declared = DATASETS[dataset] if isinstance(dataset, str) else dataset
    if decode_workers < 0:
        raise UsageError(f"the number of decoding processes must be at least 0, got {decode_workers}")
    if not isinstance(preprocessing, PreprocessingBase | None):
        raise DeclarationError(
            f"preprocessing of dataset {declared.name!r} must be a PreprocessingBase, got {preprocessing}"
        )
    if preprocessing is not None and preprocessing.domain != declared.domain:
        raise DeclarationError(
            f"dataset {declared.name!r} is of the domain {declared.domain}: preprocessing must be of it, got "
            f"{preprocessing.kind!r} of {preprocessing.domain}"
        )

    def opened() -> Dataset:
        implementation: Callable[..., Dataset] = declared.implemented()
        return implementation(
            declared,
            data_root=data_root,
            preprocessing=preprocessing,
            decode_workers=decode_workers,
            split=declared.evaluation_split if split is None else split,
        )

    is_own = isinstance(declared, UserDataset) or _BUILTIN.get(declared.name) == declared
    return opened() if is_own else opened_by_others(declared, opened)
