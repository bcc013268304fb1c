"""Files below the data root: the folder of a dataset, absent files, and arrays written and mapped into memory."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robench.core.errors import MissingDataError, described
from robench.core.files import replacing
from robench.datasets.base import DatasetBase
from robench.datasets.trajectories import OfflineSet


def folder_of(declared: DatasetBase | OfflineSet, data_root: Path | None, how: str) -> Path:
    """Return the folder of a dataset below the data root, which may be absent.

    ``how`` ends the sentence on how to give a data root, such as ", and fill it with 'robench data prepare listops'".
    """
    if data_root is None:
        raise MissingDataError(
            f"dataset {declared.name!r} needs a folder. Give it with --data-root DIR or the variable ROBENCH_DATA{how}"
        )
    return data_root.expanduser() / str(declared.folder)


def check_present(
    declared: DatasetBase | OfflineSet, paths: Iterable[Path], advice: str, *, are_folders: bool = False
) -> None:
    """Refuse a dataset that lacks a file, or a folder; the message lists all that are not there."""
    tried, other = [], "not a folder" if are_folders else "not a file"
    for path in paths:
        try:
            if not (path.is_dir() if are_folders else path.is_file()):
                tried.append(f"  {path}: {other if path.exists() else 'absent'}")
        except OSError as error:
            # Such as a name that is too long.
            tried.append(f"  {path}: {error.strerror}")
    if tried:
        raise MissingDataError(f"dataset {declared.name!r} not found. Tried:", *tried, advice)


def load_array(path: Path, dtype: type, shape: tuple[int | None, ...], name: str, advice: str) -> NDArray[Any]:
    """Return an array of a file in numpy's format, mapped into memory and read without pickle, of the wanted form.

    An axis may have any size where ``shape`` has None.
    """
    title = f"dataset {name!r}: {path}"
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy raises many types on broken files
        raise MissingDataError(f"{title} is damaged or no array ({described(error)}). {advice}") from error
    if not isinstance(array, np.ndarray):
        raise MissingDataError(f"{title} is an archive of arrays, wanted one array. {advice}")
    fits = array.ndim == len(shape) and all(size in (None, own) for size, own in zip(shape, array.shape, strict=True))
    if not np.issubdtype(array.dtype, dtype) or not fits or not array.flags.c_contiguous:
        sizes = str(shape).replace("None", "any")
        raise MissingDataError(
            f"{title} has an array of {array.dtype} of the shape {array.shape}, wanted {dtype.__name__} of the shape"
            f" {sizes}. {advice}"
        )
    return array


def write_arrays(folder: Path, arrays: Mapping[str, NDArray[Any]]) -> int:
    """Write arrays to files of these names, each whole and in their order, and return the number of files."""
    for name, array in arrays.items():
        with replacing(folder / name) as beside, beside.open("wb") as file:
            np.save(file, np.ascontiguousarray(array), allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
    return len(arrays)
