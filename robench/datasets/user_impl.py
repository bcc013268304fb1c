"""Datasets of image files, decoded on access, and common steps of opening users' datasets."""

import csv
import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from robench.core.errors import DeclarationError, ExampleError, MissingDataError, did_you_mean
from robench.core.files import read_regular
from robench.core.inert import clipped
from robench.core.protocols import Dataset
from robench.datasets.decoding import Altered, Begun, decode, shared_pool, size_after, size_of
from robench.datasets.in_memory import OrderedExamples
from robench.datasets.order import checked_index
from robench.datasets.packed_images import Stored
from robench.datasets.packed_pixels import PackedPixels
from robench.datasets.user import UserDataset
from robench.declarations.preprocessing import ImagePreprocessing, PreprocessingBase

AS_THEY_ARE: Final = ImagePreprocessing(mean=(), std=())
# Number of files whose image sizes are compared on opening; the others are compared when decoded.
NUM_COMPARED: Final = 100
LARGEST_FILE: Final = 1 << 30

T = TypeVar("T")


class DecodedImages(OrderedExamples):
    """Base class of datasets of encoded images; subclasses provide the place of each example.

    Mean and std of the preprocessing are left to the model; 0 ``decode_workers`` decode in the current process.
    """

    # Bytes that are there already, by ``datasets.packed_pixels``.
    packed: PackedPixels | None = None
    # Width and height required of every image after that, in pixels; None to compare images within a batch only.
    _size: tuple[int, int] | None = None

    def __init__(
        self,
        name: str,
        fingerprint: str,
        ids: Sequence[str],
        targets: NDArray[np.int64],
        preprocessing: ImagePreprocessing,
        decode_workers: int = 0,
    ) -> None:
        super().__init__(name, fingerprint, ids, targets)
        self.preprocessing = preprocessing
        self._pool = shared_pool(decode_workers)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, Any]:
        position = checked_index(index, self.identity.name, len(self))
        image, target = self.image(position), self._targets(position, position + 1)[0]
        of_one = self._stack([image], [decode(image, self.preprocessing)])
        return _to_unit_range(_channels_first(of_one))[0], target if target.ndim else int(target)

    def _inputs(self, start: int, stop: int) -> torch.Tensor:
        bounds = self, start, stop
        pixels = _LAST.get(bounds)
        if pixels is None:
            pixels = _channels_first(self.bytes_of(start, stop))
            _LAST.kept = bounds, pixels
        return _to_unit_range(pixels)

    def bytes_of(self, start: int, stop: int) -> NDArray[np.uint8]:
        """Return the bytes (B, H, W, C) of examples [start, stop), packed ones where there are any."""
        if self.packed is not None:
            return self.packed.read(start, stop)
        images = [self.image(position) for position in range(start, stop)]
        begun = _NEXT.get((self, start, stop))
        _NEXT.kept = None
        return self._stack(images, self._pool.decode(images, self.preprocessing, begun))

    def read_ahead(self, start: int, stop: int) -> None:
        """Begin to decode examples [start, stop), as far as they exist, on the decoding processes."""
        bounds = self, start, stop
        if self.packed is None and _LAST.get(bounds) is None and _NEXT.get(bounds) is None:
            images = [self.image(position) for position in range(start, min(stop, len(self)))]
            if (begun := self._pool.begin(images, self.preprocessing)) is not None:
                _NEXT.kept = bounds, begun

    def close(self) -> None:
        """End the decoding processes, which all datasets share; they restart on the next access."""
        self._pool.close()

    def stored(self, position: int) -> Stored:
        """Return the place of an example's encoded image."""
        raise NotImplementedError

    def image(self, position: int) -> Stored | Altered:
        """Return an example's encoded image, or one that is changed after decoding, before the resize."""
        return self.stored(position)

    def _stack(self, images: Sequence[Stored | Altered], decoded: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
        """Return (B, H, W, C) bytes."""
        for stored, pixels in zip(images, decoded, strict=True):
            if self._size is not None and pixels.shape[1::-1] != self._size:
                raise ExampleError(
                    f"image {stored} is {_shown(pixels)} pixels after resize and crop, where the first examples of"
                    f" {self.identity.name!r} are {self._size[0]}x{self._size[1]}; give all images one size by"
                    " image_size in the dataset's entry"
                )
            if pixels.shape != decoded[0].shape:
                raise ExampleError(
                    f"images of one batch must have one size: {images[0]} is {_shown(decoded[0])} pixels, {stored} is"
                    f" {_shown(pixels)}. Set resize and crop in the checkpoint's preprocessing"
                )
        return np.stack(decoded)


class _OneBatch(Generic[T]):
    """Cache of one batch for all datasets, since a batch of each type of ImageNet-C would be a gigabyte."""

    kept: tuple[tuple[DecodedImages, int, int], T] | None = None

    def get(self, bounds: tuple[DecodedImages, int, int]) -> T | None:
        """Return the cached value of the batch with these bounds, or None."""
        return self.kept[1] if self.kept is not None and self.kept[0] == bounds else None


# Bytes (B, C, H, W), read-only: all conditions on a dataset may read a batch one after the other.
_LAST: Final[_OneBatch[torch.Tensor]] = _OneBatch()
# Decoding that was begun for the next batch.
_NEXT: Final[_OneBatch[Begun]] = _OneBatch()


def _shown(pixels: NDArray[np.uint8]) -> str:
    return f"{pixels.shape[1]}x{pixels.shape[0]}"


def _channels_first(pixels: NDArray[np.uint8]) -> torch.Tensor:
    return torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous()


def _to_unit_range(pixels: torch.Tensor) -> torch.Tensor:
    return pixels.to(torch.float32).div_(255)


def open_user(
    declared: UserDataset, *, preprocessing: PreprocessingBase | None, decode_workers: int, split: str, **unused: object
) -> Dataset:
    """Open a dataset of a registry, which has its paths; images keep their size unless a resize is declared."""
    declared.check_split(split)
    opener: Callable[..., Dataset] = declared.content.implemented()
    return opener(declared, preprocessing=preprocessing or AS_THEY_ARE, decode_workers=decode_workers, split=split)


class FileImages(DecodedImages):
    """Image files below ``root``, identified by ``names``, relative paths with slashes; ``sizes`` are in bytes."""

    def __init__(
        self,
        declared: UserDataset,
        *,
        root: Path,
        names: Sequence[str],
        sizes: Sequence[int],
        targets: Sequence[int],
        num_classes: int,
        preprocessing: ImagePreprocessing,
        decode_workers: int,
    ) -> None:
        self.num_classes, self._root = num_classes, root
        applied = sized(declared, preprocessing)
        fingerprint = tree_fingerprint(declared, names, sizes, targets)
        super().__init__(
            declared.name, fingerprint, names, np.asarray(targets, dtype=np.int64), applied, decode_workers
        )
        self._size = _common_size(declared.name, [root / each for each in self.ids[:NUM_COMPARED]], applied)

    def stored(self, position: int) -> Path:
        """Return the path of an example's file."""
        return self._root / self.ids[position]


def sized(declared: UserDataset, preprocessing: ImagePreprocessing) -> ImagePreprocessing:
    """Return the preprocessing with the image size stated in the entry, if any."""
    side = declared.image_size
    if side is None:
        return preprocessing
    for field, wanted in (("resize", preprocessing.resize), ("crop", preprocessing.crop)):
        if wanted not in (None, side):
            raise DeclarationError(
                f"dataset {declared.name!r} has image_size {side} in its entry, and the checkpoint's preprocessing"
                f" has {field} {wanted}; leave one of them out"
            )
    return replace(preprocessing, resize=side, crop=side)


def check_classes(declared: UserDataset, targets: NDArray[np.int64], num_classes: int, where: str) -> None:
    """Refuse invalid labels (N,), and fewer than two classes; messages name the file or folder ``where``."""
    title = f"dataset {declared.name!r}"
    if not len(targets):
        raise MissingDataError(f"{title} has no example: {where} is empty. Check the path in its entry")
    low, high = int(targets.min()), int(targets.max())
    if low < 0:
        raise MissingDataError(f"{title} has the label {low} in {where}; labels are whole numbers from 0")
    if high >= num_classes:
        raise DeclarationError(
            f"{title} has the label {high} in {where}, and num_classes is {num_classes}: labels must be 0 to"
            f" {num_classes - 1}. Correct the labels or num_classes"
        )
    if num_classes < 2:
        raise MissingDataError(
            f"{title} has only one class in {where}, and a classifier needs two. Check the labels, or state the"
            " num_classes of the model in its entry"
        )


def numbered_ids(name: str, count: int) -> list[str]:
    """Return the ids ``name/000000`` and so on."""
    return [f"{name}/{number:06d}" for number in range(count)]


def decoded_file(name: str, path: str, encoding: str | None = None) -> str:
    """Return the text of a dataset's file; by default it is UTF-8, with or without a byte order mark."""
    try:
        with reading(name, path):
            return read_regular(Path(path), LARGEST_FILE).decode(encoding or "utf-8-sig")
    except UnicodeError as error:
        place = f" (byte {error.start})" if isinstance(error, UnicodeDecodeError) else ""
        found = f"dataset {name!r}: {path} is not {encoding or 'UTF-8'}{place}"
        raise MissingDataError(f"{found}; save it as UTF-8, or state its encoding") from error


@contextmanager
def reading(name: str, path: str) -> Iterator[None]:
    """Turn errors of a dataset's file that cannot be opened or read into MissingDataErrors."""
    try:
        yield
    except FileNotFoundError:
        title = f"dataset {name!r}: {path}"
        raise MissingDataError(f"{title} does not exist. Correct path in its entry, or put the file there") from None
    except OSError as error:
        raise MissingDataError(f"cannot read {path} of dataset {name!r}: {error.strerror}") from error


def csv_rows(
    name: str, path: str, encoding: str | None = None, delimiter: str | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Yield line and cells of the header of a dataset's CSV file, [] if it is empty, and then of each row."""
    title, text = f"dataset {name!r}: {path}", decoded_file(name, path, encoding)
    # Python's limit of a cell is 131,072 characters.
    csv.field_size_limit(LARGEST_FILE)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter or ",")
    try:
        header = next(reader, [])
        yield reader.line_num, header
        for row in reader:
            if row and len(row) != len(header):
                raise MissingDataError(
                    f"{title}, line {reader.line_num}: {len(row)} columns, and the header has {len(header)}"
                )
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        # A quoted cell before another delimiter.
        header_line = text.partition("\n")[0] if reader.line_num == 1 else ""
        hint = other_delimiter(header_line.replace(delimiter or ",", ""))
        raise MissingDataError(f"{title}, line {reader.line_num}: {error}; expected a CSV file.{hint}") from error


def other_delimiter(line: str) -> str:
    """Return advice to state the delimiter of a header that is not separated; "" if there seems to be none."""
    if not (counts := {sign: line.count(sign) for sign in ",;\t|" if sign in line}):
        return ""
    likely = max(counts, key=counts.__getitem__)
    return f" Its columns seem to have another delimiter: state delimiter: {json.dumps(likely)} in the dataset's entry."


def column_of(title: str, header: Sequence[str], column: str, fields: str) -> int:
    """Return the position of a column in a header; ``fields`` are those of the entry that name it."""
    if header.count(column) == 1:
        return header.index(column)
    if column in header:
        raise DeclarationError(f"{title} has {header.count(column)} columns {column!r}; give them different names")
    if len(header) == 1 and (hint := other_delimiter(header[0])):
        raise DeclarationError(f"{title} has no column {column!r}, and the header is {clipped(header[0])!r}.{hint}")
    hint = did_you_mean(column, header) if header else " It is empty."
    raise DeclarationError(f"{title} has no column {column!r}.{hint} Name it by {fields}")


def fingerprint_of(declared: UserDataset, **parts: object) -> str:
    """Return a SHA-256 over the dataset's name, format and ``parts``, which are JSON values.

    The name is included, because ids and the order of examples may depend on it.
    """
    text = json.dumps({"name": declared.name, "format": declared.content.kind, **parts}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def tree_fingerprint(declared: UserDataset, names: Sequence[str], sizes: Sequence[int], targets: Sequence[int]) -> str:
    """Return a SHA-256 over relative path, size in bytes and label of every file, and the entry's ``image_size``.

    Files are not read, which would take minutes: a changed pixel in a file of the same size is not detected.
    """
    digest = hashlib.sha256()
    for position in sorted(range(len(names)), key=names.__getitem__):
        digest.update(f"{json.dumps(names[position])} {sizes[position]} {targets[position]}\n".encode())
    return fingerprint_of(declared, image_size=declared.image_size, files=digest.hexdigest())


class SeveralSizesError(DeclarationError):
    """Images of different sizes that nothing makes equal."""


def one_size(
    title: str, sizes: Iterable[tuple[str, tuple[int, int]]], preprocessing: ImagePreprocessing
) -> tuple[int, int] | None:
    """Return the common width and height of images after resize and crop; None if there are none.

    ``sizes`` are the name of each image, with its width and height; ``title`` names the dataset in messages.
    """
    first: tuple[str, tuple[int, int]] | None = None
    for name, (width, height) in sizes:
        after = size_after(width, height, preprocessing)
        if preprocessing.crop is not None and min(after) < preprocessing.crop:
            raise DeclarationError(
                f"{title}: {name} is {after[0]}x{after[1]} pixels after resize {preprocessing.resize}, smaller than"
                f" crop {preprocessing.crop}; the checkpoint's preprocessing must set resize to at least crop"
            )
        if first is None:
            first = name, after
        elif first[1] != after:
            raise SeveralSizesError(
                f"{title} has images of different sizes: {first[0]} is {first[1][0]}x{first[1][1]} pixels, {name} is"
                f" {after[0]}x{after[1]}. State image_size in its entry, or resize and crop in the checkpoint's"
                " preprocessing"
            )
    return None if first is None else first[1]


def num_channels_of(title: str, found: int, preprocessing: ImagePreprocessing) -> int:
    """Return the number of channels that a model is given: grey images may serve a model of colour."""
    wanted = preprocessing.num_channels
    if wanted is None or wanted == found:
        return found
    if found == 1:
        return wanted
    raise DeclarationError(
        f"{title} has images of {found} channels, and the preprocessing has mean and std of {wanted}: give a model of"
        f" {found} channels, or convert the images"
    )


def check_floats(title: str, size: tuple[int, int], preprocessing: ImagePreprocessing) -> None:
    """Refuse to resize or crop images that are floats."""
    if size_after(*size, preprocessing) != size:
        raise DeclarationError(
            f"{title} has images of {size[0]}x{size[1]} pixels as floats, which are not resized: leave out resize and"
            " crop of the checkpoint's preprocessing, or give uint8 images"
        )


def refuse_crop(name: str, preprocessing: ImagePreprocessing) -> None:
    """Refuse to crop images with masks."""
    if preprocessing.crop is not None:
        raise DeclarationError(
            f"dataset {name!r} has masks, which are never cropped: leave out crop of the checkpoint's preprocessing,"
            f" got {preprocessing.crop}"
        )


def _common_size(name: str, paths: Sequence[Path], preprocessing: ImagePreprocessing) -> tuple[int, int] | None:
    resize, crop = preprocessing.resize, preprocessing.crop
    if resize is not None and crop is not None and resize >= crop:
        return crop, crop
    # Unreadable images are reported when their shard fails.
    found = ((path, size_of(path)) for path in paths)
    return one_size(f"dataset {name!r}", [(str(path), size) for path, size in found if size], preprocessing)
