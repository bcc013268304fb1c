"""Sequences of tokens held in memory, and readers of images, texts and tables as sequences.

Grey levels of colours are those of ITU-R BT.601-2 in integers, (19595 R + 38470 G + 7471 B + 32768) >> 16, as Pillow's
mode "L". Long-Range Arena's own are the integer parts of 0.2989 R + 0.587 G + 0.114 B in float32.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from robench.core.errors import MissingDataError
from robench.core.files import open_regular
from robench.core.inert import clipped
from robench.datasets.cifar_impl import ids_of, load_prepared
from robench.datasets.in_memory import OrderedExamples
from robench.datasets.lra import TRAIN_SPLIT, VALIDATION_SPLIT, DocumentPairs, GreyCifar, ReviewBytes, TokenSet
from robench.datasets.prepared import check_present, folder_of
from robench.datasets.sotu_impl import by_era
from robench.declarations.base import imported
from robench.domains.tokens import TOKENS

_LUMA: Final = np.array([19_595, 38_470, 7_471], dtype=np.uint32)
_HALF: Final = np.uint32(1 << 15)
# Classes as the tables of pairs write them.
_LABELS: Final = {b"0": 0, b"1": 1, b"0.0": 0, b"1.0": 1}
_COLUMNS: Final = ("label", "id1", "id2", "text1", "text2")
# The longest published line has about 500,000 bytes.
_MOST_LINE_BYTES: Final = 1 << 26


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenRows:
    """Sequences of a split, one after another; the two of a pair follow each other.

    Attributes:
        ids: one id per example; ``targets``: (N,) class of each, int64.
        flat: tokens less 1 of all sequences, uint8; ``ends``: end of each sequence there, int64.
        where: file or split, and ``advice``: what to do about a wrong one, for messages.
    """

    ids: Sequence[str]
    targets: NDArray[np.int64]
    flat: NDArray[np.uint8]
    ends: NDArray[np.int64]
    where: str
    advice: str


class TokenSequences(OrderedExamples):
    """Sequences of tokens, or pairs of them, in the order of the ids' SHA-256."""

    domain = TOKENS.name

    def __init__(self, declared: TokenSet, rows: TokenRows, fingerprint: str) -> None:
        super().__init__(declared.name, fingerprint, rows.ids, rows.targets)
        self._flat, self._ends, self._length = rows.flat, rows.ends, declared.length
        self._starts = np.concatenate([[0], rows.ends[:-1]])
        self._num_sides = 2 if declared.is_paired else 1

    def _inputs(self, start: int, stop: int) -> torch.Tensor:
        tokens = np.zeros((stop - start, self._num_sides, self._length), dtype=np.int64)
        for row, position in enumerate(self._order[start:stop]):
            for side in range(self._num_sides):
                number = position * self._num_sides + side
                found = self._flat[self._starts[number] : self._ends[number]]
                tokens[row, side, : len(found)] = found
                tokens[row, side, : len(found)] += 1
        return torch.from_numpy(tokens if self._num_sides > 1 else tokens[:, 0])


def open_tokens(declared: TokenSet, *, data_root: Path | None, split: str, **unused: object) -> TokenSequences:
    """Open a split of sequences that fit into memory."""
    declared.check_split(split)
    rows: TokenRows = imported(declared.reader)(declared, data_root, split)
    _check(declared, rows, split)
    fingerprint = fingerprint_of(declared, rows)
    if declared.sha256_of(split) not in (None, fingerprint):
        raise MissingDataError(
            f"dataset {declared.name!r}: {rows.where} has other sequences than the declared ones: their SHA-256 is"
            f" {fingerprint}, wanted {declared.sha256_of(split)}. {rows.advice}"
        )
    return TokenSequences(declared, rows, fingerprint)


def fingerprint_of(declared: TokenSet, rows: TokenRows) -> str:
    """Return the SHA-256 of all that the examples of a split are."""
    digest = hashlib.sha256(f"{declared.length} {declared.is_paired} {len(rows.ids)}\n".encode())
    digest.update("\n".join(rows.ids).encode())
    digest.update(rows.targets.astype("<i8").tobytes() + rows.ends.astype("<i8").tobytes())
    digest.update(np.ascontiguousarray(rows.flat).data)
    return digest.hexdigest()


def _check(declared: TokenSet, rows: TokenRows, split: str) -> None:
    """Refuse another number of examples, unknown tokens and classes, and sequences that are empty or too long."""
    title, wanted = f"dataset {declared.name!r}: {rows.where}", declared.num_examples_of(split)
    num_sequences = wanted * (2 if declared.is_paired else 1)
    if len(rows.ids) != wanted or len(rows.targets) != wanted or len(rows.ends) != num_sequences:
        found = f"has {len(rows.ids):,} examples with {len(rows.ends):,} sequences and {len(rows.targets):,} classes"
        raise MissingDataError(f"{title} {found}, wanted {wanted:,} with {num_sequences:,} sequences. {rows.advice}")
    lengths = np.diff(rows.ends, prepend=0)
    if rows.ends[-1] != len(rows.flat):
        found = f"has {len(rows.flat):,} tokens, and its last sequence ends after {rows.ends[-1]:,}"
        raise MissingDataError(f"{title} {found}. {rows.advice}")
    if (is_wrong := (lengths < 1) | (lengths > declared.length)).any():
        number = int(is_wrong.argmax())
        found = f"example {rows.ids[number * wanted // num_sequences]!r} with a sequence of {lengths[number]:,} tokens"
        raise MissingDataError(f"{title} has {found}, wanted 1 to {declared.length:,}. {rows.advice}")
    if (highest := int(rows.flat.max()) + 1) >= declared.vocabulary_size:
        number = int(np.searchsorted(rows.ends, int(rows.flat.argmax()), side="right")) * wanted // num_sequences
        found = f"has the token {highest} in example {rows.ids[number]!r}"
        raise MissingDataError(f"{title} {found}, wanted 1 to {declared.vocabulary_size - 1}. {rows.advice}")
    lowest, highest = int(rows.targets.min()), int(rows.targets.max())
    if lowest < 0 or highest >= declared.num_classes:
        found = f"has classes from {lowest} to {highest}"
        raise MissingDataError(f"{title} {found}, wanted 0 to {declared.num_classes - 1}. {rows.advice}")


def rows_of(examples: Iterable[tuple[str, int, Sequence[bytes]]], length: int, where: str, advice: str) -> TokenRows:
    """Return the rows of ids, classes and byte sequences, each cut to ``length``."""
    ids, targets, ends, flat = list[str](), list[int](), list[int](), bytearray()
    for example_id, target, sequences in examples:
        ids.append(example_id)
        targets.append(target)
        for each in sequences:
            flat += each[:length]
            ends.append(len(flat))
    return TokenRows(
        ids=ids,
        targets=np.array(targets, dtype=np.int64),
        flat=np.frombuffer(flat, dtype=np.uint8),
        ends=np.array(ends, dtype=np.int64),
        where=where,
        advice=advice,
    )


def digits_pixels(declared: TokenSet, data_root: Path | None, split: str) -> TokenRows:
    """Return the scans of a split of the digits as grey levels 0 to 16, row by row."""
    del data_root
    # Imported here: it imports scikit-learn.
    from robench.datasets.digits_impl import split_scans

    examples = ((scan.id, scan.target, [scan.pixels.astype(np.uint8).tobytes()]) for scan in split_scans(split))
    return rows_of(examples, declared.length, f"split {split!r}", "Install another release of scikit-learn")


def sotu_bytes(declared: TokenSet, data_root: Path | None, split: str) -> TokenRows:
    """Return the first bytes of the paragraphs of a split of the addresses, in UTF-8, with their eras."""
    del data_root
    texts = by_era("valid" if split == VALIDATION_SPLIT else split)
    examples = ((example_id, era, [text.encode()]) for example_id, text, era in texts)
    return rows_of(examples, declared.length, f"split {split!r}", "Install another release of sotu")


def grey_images(declared: GreyCifar, data_root: Path | None, split: str) -> TokenRows:
    """Return the grey levels of a split's images, row by row, with the ids of the images."""
    files = declared.images.content
    part = TRAIN_SPLIT if split in (TRAIN_SPLIT, VALIDATION_SPLIT) else split
    images, _ = load_prepared(declared.images, data_root, part)
    start = declared.num_examples_of(TRAIN_SPLIT) if split == VALIDATION_SPLIT else 0
    chosen = slice(start, start + declared.num_examples_of(split))
    pixels = images.pixels[chosen]
    return TokenRows(
        ids=ids_of(files, part)[chosen],
        targets=images.labels[chosen],
        flat=luma(pixels).reshape(-1),
        ends=np.arange(1, len(pixels) + 1) * declared.length,
        where=f"the {part} images of {files.name}",
        advice=f"Run 'robench data prepare {declared.images.name}' again",
    )


def luma(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the grey levels (...) of colours (..., 3).

    >>> luma(np.array([[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]], dtype=np.uint8)).tolist()
    [76, 150, 29, 255]
    """
    # Image by image, so that 45,000 of them need no memory of 32 bits a value.
    return np.stack([((each.astype(np.uint32) @ _LUMA + _HALF) >> np.uint32(16)).astype(np.uint8) for each in pixels])


def review_bytes(declared: ReviewBytes, data_root: Path | None, split: str) -> TokenRows:
    """Return the bytes of the files of a split's reviews, as published."""
    # Imported here, since sequences of other kinds need no files of texts.
    from robench.datasets.sentiment_impl import review_files

    reviews = declared.reviews
    examples = (
        (example_id, label, [file.content]) for example_id, file, label in review_files(reviews, data_root, split)
    )
    return rows_of(examples, declared.length, f"{reviews.folder}/{split}", f"Unpack {reviews.archive} again")


def document_pairs(declared: DocumentPairs, data_root: Path | None, split: str) -> TokenRows:
    """Return the bytes of a split's pairs of documents; ids count the lines of the table from 0."""
    path = Path(declared.path_of(split))
    place = folder_of(declared, data_root, f"; wanted: DIR/{path}") / path.name
    check_present(declared, [place], "Unpack the archive of Long-Range Arena in the data root")
    advice = "Unpack the archive of Long-Range Arena again"
    return rows_of(_pairs(declared, place, split, advice), declared.length, str(place), advice)


def _pairs(declared: DocumentPairs, path: Path, split: str, advice: str) -> Iterator[tuple[str, int, Sequence[bytes]]]:
    """Yield the pairs of a table, read line by line: published ones have gigabytes."""
    try:
        with open_regular(path) as file:
            for number in range(declared.num_examples_of(split) + 1):
                if not (line := file.readline(_MOST_LINE_BYTES)):
                    return
                label, texts = _fields(line, f"line {number + 1} of {path}", advice)
                yield f"{declared.name}/{split}/{number:06d}", label, texts
    except OSError as error:
        raise MissingDataError(f"cannot read {path} of dataset {declared.name!r}: {error.strerror}") from error


def _fields(line: bytes, where: str, advice: str) -> tuple[int, Sequence[bytes]]:
    """Return class and texts of a line; refuse a line that is cut, and a pair with a missing side."""
    fields = line.rstrip(b"\r\n").split(b"\t")
    if len(fields) != len(_COLUMNS) or fields[0] not in _LABELS or not all(map(bytes.strip, fields[3:])):
        found = f"has {len(fields)} columns and begins with '{clipped(line[:100].decode(errors='replace'))}'"
        wanted = f"{len(_COLUMNS)}: {', '.join(_COLUMNS)}, with the label 0 or 1 and no empty text"
        raise MissingDataError(f"{where} {found}, wanted {wanted}. {advice}")
    return _LABELS[fields[0]], fields[3:]
