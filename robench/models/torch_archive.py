"""Reading of the zip archives of torch.save: the pickle, and numbers by their keys, without unpickling anything.

An archive has one folder, with the pickle ``data.pkl`` and a file for each storage, ``data/KEY``, uncompressed. Nothing
is unpacked to the disk, and nothing is believed: sizes and strides are checked against the bytes that are there.
"""

from __future__ import annotations

import math
import os
import re
import zipfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import torch

from robench.core.errors import WeightsError
from robench.core.files import open_regular
from robench.models.inert_pickle import MAX_BYTES, PickleProblem, SavedStorage, SavedTensor, unpickled
from robench.models.state_files import what_else_it_is

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from io import BufferedReader
    from pathlib import Path

    from torch import Tensor

DTYPES: Final[Mapping[str, torch.dtype]] = {
    "DoubleStorage": torch.float64,
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}
_KEY = re.compile(r"[0-9]{1,9}")
_MOST_AXES = 16


class TorchArchive:
    """Opened archive of torch.save.

    Attributes:
        content: value of the pickle; see ``inert_pickle.unpickled``.
    """

    def __init__(self, file: BufferedReader) -> None:
        self._zip = zipfile.ZipFile(file)
        self._folder = _folder_of(self._zip, os.fstat(file.fileno()).st_size)
        self._storages: dict[str, Tensor] = {}
        if self._read("byteorder", 16, b"little") != b"little":
            raise PickleProblem("its numbers have another order of bytes than little-endian")
        self.content = unpickled(self._read("data.pkl", MAX_BYTES))

    def tensor(self, saved: SavedTensor) -> Tensor:
        """Return a tensor, on the CPU; those of one storage share memory.

        Raises:
            PickleProblem: its numbers are missing, or too few for its size.
        """
        size, stride, offset = saved.size, saved.stride, saved.offset
        for numbers in (size, stride, (offset,)):
            if type(numbers) is not tuple or len(numbers) > _MOST_AXES or not all(map(_is_count, numbers)):
                raise PickleProblem("a tensor's offset, size and stride are not tuples of numbers of at least 0")
        if len(size) != len(stride):
            raise PickleProblem(f"a tensor has {len(size)} sizes and {len(stride)} strides")
        flat = self._storage(saved.storage)
        last = offset + sum((each - 1) * step for each, step in zip(size, stride, strict=True))
        # No tensor is larger than its storage: one number could be repeated without end.
        if math.prod(size) > len(flat) or (math.prod(size) and last >= len(flat)):
            raise PickleProblem(f"a tensor of shape {size} does not fit its storage of {len(flat):,} numbers")
        return flat.as_strided(size, stride, offset) if math.prod(size) else flat[:0].reshape(size)

    def _storage(self, saved: SavedStorage) -> Tensor:
        if saved.kind not in DTYPES:
            raise PickleProblem(f"its numbers are a {saved.kind!r:.60}, wanted one of {', '.join(DTYPES)}")
        if not _KEY.fullmatch(saved.key):
            raise PickleProblem(f"numbers have the key {saved.key!r:.60}, wanted digits")
        dtype = DTYPES[saved.kind]
        if saved.key not in self._storages:
            wanted = saved.count * dtype.itemsize
            content = self._read(f"data/{saved.key}", wanted)
            if len(content) != wanted:
                raise PickleProblem(f"storage {saved.key} has {len(content):,} bytes, wanted {wanted:,}")
            self._storages[saved.key] = (
                torch.frombuffer(bytearray(content), dtype=dtype) if content else torch.empty(0, dtype=dtype)
            )
        flat = self._storages[saved.key]
        if (flat.dtype, len(flat)) != (dtype, saved.count):
            raise PickleProblem(f"storage {saved.key} is referred to in two sizes or types")
        return flat

    def _read(self, name: str, max_bytes: int, default: bytes | None = None) -> bytes:
        path = f"{self._folder}/{name}"
        if path not in self._zip.NameToInfo:
            if default is None:
                raise PickleProblem(f"its part {name} is missing")
            return default
        if (num_bytes := self._zip.NameToInfo[path].file_size) > max_bytes:
            raise PickleProblem(f"its part {name} has {num_bytes:,} bytes, wanted at most {max_bytes:,}")
        return self._zip.read(path)


@contextmanager
def opened_archive(path: Path) -> Iterator[TorchArchive]:
    """Open a file of torch.save; what the block finds wrong with it becomes an error with the file's name.

    Raises:
        WeightsError: it cannot be read, is of another kind, truncated, damaged or hostile. Nothing of it was run.
    """
    if other := what_else_it_is(path):
        raise WeightsError(f"{path} is {other}, wanted a file of torch.save(model). Download the file itself")
    try:
        with open_regular(path) as file:
            head = file.read(4)
            if head != b"PK\x03\x04":
                raise WeightsError(f"{path} {_other_form(head)}. Nothing of it was run")
            yield TorchArchive(file)
    except PickleProblem as error:
        raise WeightsError(f"{path} cannot be read as torch.save(model): {error}. Nothing of it was run") from error
    except WeightsError:
        raise
    except OSError as error:
        raise WeightsError(f"{path} cannot be read ({error.strerror}): check the file and the disk") from error
    # zipfile raises BadZipFile, and errors of other classes for encryption, compression and bad numbers.
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, ValueError, EOFError) as error:
        raise WeightsError(
            f"{path} is a truncated or damaged file of torch.save ({error!s:.80}). Nothing of it was run. Download"
            " or save it again"
        ) from error


def _other_form(head: bytes) -> str:
    if head[:1] == b"\x80":
        return (
            "is in the form that torch.save had before release 1.6, wanted the zip form. Load and save it again with a"
            " newer torch, where you trust it"
        )
    return f"is no file of torch.save: it begins with {head!r}, wanted the zip form of torch 1.6 and later"


def _folder_of(archive: zipfile.ZipFile, num_bytes: int) -> str:
    """Return the name of the one folder of an archive, whose entries are as torch writes them."""
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    folders = {name.partition("/")[0] for name in names}
    if len(folders) != 1 or len(set(names)) != len(names):
        raise PickleProblem("it has entries of several folders, or several of one name, unlike files of torch.save")
    if any(part in ("", ".", "..") for name in names for part in name.split("/")):
        raise PickleProblem("it has entries with paths such as .., unlike files of torch.save")
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise PickleProblem("it has compressed entries, unlike files of torch.save")
    if sum(entry.file_size for entry in entries) > num_bytes:
        raise PickleProblem(f"its entries are larger than the {num_bytes:,} bytes of the file")
    return folders.pop()


def _is_count(number: object) -> bool:
    return type(number) is int and 0 <= number < 1 << 60
