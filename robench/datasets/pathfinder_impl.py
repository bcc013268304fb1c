"""Opener of Pathfinder's images as sequences of grey levels; images are read when they are asked for.

A file of metadata, ``metadata/0.npy``, is a text in spite of its name, with a line for each image: its folder and file,
a number, its class, and parameters of the drawing (Linsley et al. 2018, arXiv:1805.08315). Published code does not fix
the order of examples before it cuts splits; here it is that of the files by their numbers, line by line.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import torch
from PIL import Image

from robench.core.errors import ExampleError, MissingDataError, described
from robench.core.files import open_regular, read_regular
from robench.core.inert import clipped
from robench.datasets.in_memory import OrderedExamples
from robench.datasets.lra import Pathfinder
from robench.datasets.prepared import folder_of
from robench.domains.tokens import TOKENS

_METADATA: Final = "metadata"
_NUMBERED = re.compile(r"[0-9]{1,9}")
# Folder, file, a number, and the class; parameters follow.
_LINE = re.compile(r"(imgs/[0-9]{1,9}) (\w{1,100}\.png) \S+ ([01])(?: .*)?")
# A hundred times the published files, of 1,000 lines each.
_MOST_BYTES: Final = 1 << 26
_ADVICE: Final = "Unpack the archive of Long-Range Arena again"


class PathfinderImages(OrderedExamples):
    """Images of a split in the order of the ids' SHA-256.

    The fingerprint is a SHA-256 over path, size in bytes and class of every file, as of folders of images.
    """

    domain = TOKENS.name

    def __init__(self, declared: Pathfinder, folder: Path, names: Sequence[str], labels: Sequence[int]) -> None:
        digest = hashlib.sha256()
        for name, label in zip(names, labels, strict=True):
            digest.update(f"{name}\0{_size(declared, folder / name)}\0{label}\n".encode())
        ids = [f"{declared.name}/{name.removeprefix('imgs/').removesuffix('.png')}" for name in names]
        super().__init__(declared.name, digest.hexdigest(), ids, np.array(labels, dtype=np.int64))
        self._paths, self._side = [folder / name for name in names], declared.side

    def _inputs(self, start: int, stop: int) -> torch.Tensor:
        levels = [self._levels(self._paths[position]) for position in self._order[start:stop]]
        return torch.from_numpy(np.stack(levels).astype(np.int64) + 1)

    def _levels(self, path: Path) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """Return the grey levels of an image, row by row."""
        try:
            with open_regular(path) as opened, Image.open(opened, formats=["PNG"]) as image:
                found = f"{image.width}x{image.height} pixels of mode {image.mode}"
                fits = (image.size, image.mode) == ((self._side, self._side), "L")
                # The size is checked before anything is decoded.
                pixels = np.array(image, dtype=np.uint8).reshape(-1) if fits else None
        except Exception as error:  # Pillow's decoders may raise almost any type on broken files.
            raise ExampleError(f"image {path} cannot be read ({described(error)}). {_ADVICE}") from None
        if pixels is None:
            raise ExampleError(f"image {path} has {found}, wanted {self._side}x{self._side} of mode L. {_ADVICE}")
        return pixels


def open_pathfinder(declared: Pathfinder, *, data_root: Path | None, split: str, **unused: object) -> PathfinderImages:
    """Open a split: a slice of all images that the files of metadata list."""
    declared.check_split(split)
    folder = folder_of(declared, data_root, f"; wanted: DIR/{declared.folder}/{_METADATA}/0.npy")
    listed = list(_listed(declared, folder))
    if len(listed) != (wanted := sum(declared.sizes)):
        raise MissingDataError(
            f"dataset {declared.name!r}: {folder / _METADATA} lists {len(listed):,} images, wanted {wanted:,}."
            f" {_ADVICE}"
        )
    start = sum(declared.sizes[: declared.splits.index(split)])
    names, labels = zip(*listed[start : start + declared.num_examples_of(split)], strict=True)
    return PathfinderImages(declared, folder, names, labels)


def _listed(declared: Pathfinder, folder: Path) -> Iterator[tuple[str, int]]:
    """Yield path and class of each image by the numbers of the files of metadata."""
    try:
        files = [
            path for path in (folder / _METADATA).iterdir() if _NUMBERED.fullmatch(path.stem) and path.suffix == ".npy"
        ]
        for path in sorted(files, key=lambda path: int(path.stem)):
            for number, line in enumerate(
                read_regular(path, _MOST_BYTES).decode("utf-8", "replace").splitlines(), start=1
            ):
                if (match := _LINE.fullmatch(line.rstrip())) is None:
                    wanted = "a folder, a file, a number and the class 0 or 1, with blanks between them"
                    raise MissingDataError(f"line {number} of {path} is '{clipped(line)}', wanted {wanted}. {_ADVICE}")
                yield f"{match[1]}/{match[2]}", int(match[3])
    except (FileNotFoundError, NotADirectoryError):
        tried = f"  {folder / _METADATA}: absent"
        advice = "Unpack the archive of Long-Range Arena in the data root"
        raise MissingDataError(f"dataset {declared.name!r} not found. Tried:", tried, advice) from None
    except OSError as error:
        raise MissingDataError(
            f"cannot read {error.filename} of dataset {declared.name!r}: {error.strerror}"
        ) from error


def _size(declared: Pathfinder, path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise MissingDataError(
            f"dataset {declared.name!r}: image {path} is listed and cannot be read ({error.strerror}). {_ADVICE}"
        ) from error
