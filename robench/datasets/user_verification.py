"""Verification of users' datasets by opening them: their classes in order, with counts, and unusual files."""

import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from robench.core.errors import DeclarationError, ExampleError, MissingDataError
from robench.core.inert import clipped
from robench.core.protocols import ClassifiedDataset, Dataset
from robench.datasets import open_dataset
from robench.datasets.decoding import size_of
from robench.datasets.findings import Finding, Verification, refused
from robench.datasets.image_verification import decoding_findings
from robench.datasets.imagenet_folder import SUFFIXES
from robench.datasets.in_memory import OrderedExamples
from robench.datasets.packed_images import Stored
from robench.datasets.segmentation import ImageMasks
from robench.datasets.segmentation_impl import MaskedImages
from robench.datasets.series_in_memory import SeriesInMemory
from robench.datasets.text_formats import TextFiles
from robench.datasets.user import UserDataset
from robench.datasets.user_formats import ImageFolder
from robench.datasets.user_impl import FileImages, SeveralSizesError
from robench.datasets.user_texts_impl import SUFFIX as TEXT_SUFFIX
from robench.datasets.user_texts_impl import ClassifiedTexts
from robench.declarations.preprocessing import ImagePreprocessing
from robench.domains.series import SERIES
from robench.domains.series_impl import lengths
from robench.domains.texts import TEXTS
from robench.domains.tokens import TOKENS

_SHOWN: Final = 5
_RESIZED: Final = ImagePreprocessing(mean=(0.5,) * 3, std=(0.5,) * 3, resize=8, crop=8)
_SPLIT: Final = "a split: state the folder of one split as path if it is one"
_THUMBNAILS: Final = "a folder that programs add: remove it"
# Names of folders that are hardly classes, in lower case.
_ODD_CLASSES: Final = {
    **dict.fromkeys(("train", "training", "test", "testing", "val", "valid", "validation"), _SPLIT),
    **dict.fromkeys(("@eadir", "__macosx", "lost+found", "$recycle.bin", "#recycle"), _THUMBNAILS),
}
_PARTS: Final = re.compile(r"([0-9]+)")


def verify_user(declared: UserDataset, split: str, *, decode: bool) -> Verification:
    """Verify a user's dataset by opening it, which compares it with its entry and reads all arrays or texts."""
    has_one_size = True
    try:
        try:
            dataset = open_dataset(declared, data_root=None, preprocessing=None, split=split)
        except SeveralSizesError:
            # Models that resize take them.
            dataset, has_one_size = open_dataset(declared, data_root=None, preprocessing=_RESIZED, split=split), False
    except (MissingDataError, DeclarationError) as error:
        noun = {TEXTS.name: "num_texts", SERIES.name: "num_series", TOKENS.name: "num_sequences"}.get(declared.domain)
        known: dict[str, Any] = {"split": split} if declared.domain == TEXTS.name else {}
        return refused(declared.name, "unreadable", error, **known, **({} if noun is None else {noun: 0}))
    if isinstance(dataset, MaskedImages):
        findings, counts = mask_findings(dataset) if decode else ([], None)
        found = Verification(dataset=declared.name, num_images=len(dataset), num_classes=dataset.num_classes)
        return _with_classes(declared, dataset, counts, replace(found, is_decoded=decode, findings=tuple(findings)))
    counts = _counts(dataset)
    if declared.domain == TEXTS.name:
        found = Verification(dataset=declared.name, is_decoded=True, split=split, num_texts=len(dataset))
        return _with_classes(declared, dataset, counts, found)
    assert isinstance(dataset, ClassifiedDataset)  # what all formats open
    if isinstance(dataset, SeriesInMemory):
        return _with_classes(declared, dataset, counts, of_series(declared.name, dataset))
    paths = [*map(dataset.stored, range(len(dataset)))] if isinstance(dataset, FileImages) else []
    found = Verification(dataset=declared.name, num_images=len(dataset), num_classes=dataset.num_classes)
    findings = [*(decoding_findings(paths) if decode else ()), *(() if has_one_size else _size_findings(paths))]
    found = replace(found, is_decoded=decode or not paths, findings=tuple(findings))
    return _with_classes(declared, dataset, counts, found)


def _size_findings(paths: Sequence[Stored]) -> Iterator[Finding]:
    """Yield a note on images of several sizes, which are read from the files' headers."""
    sizes = sorted({size for each in paths if (size := size_of(each))}, key=lambda size: (size[0] * size[1], size))
    if sizes:
        (width, height), (most_wide, most_high) = sizes[0], sizes[-1]
        message = (
            f"images have {len(sizes):,} sizes, from {width}x{height} to {most_wide}x{most_high} pixels: measure models"
            " that resize and crop in their preprocessing, or state image_size in the entry"
        )
        yield Finding(kind="several-sizes", message=message)


def of_series(name: str, dataset: SeriesInMemory) -> Verification:
    """Return the numbers of series in memory."""
    inputs = dataset.batch(0, len(dataset)).inputs
    num_classes = getattr(dataset, "num_classes", len(set(dataset.targets.tolist())))
    known: dict[str, Any] = {
        "num_series": len(dataset),
        "num_channels": inputs.shape[2],
        "num_steps": int(lengths(inputs).max()),
    }
    return Verification(dataset=name, num_classes=num_classes, is_decoded=True, **known)


def mask_findings(dataset: MaskedImages) -> tuple[list[Finding], list[int] | None]:
    """Decode all images and read all masks; return the unusual and the wrong ones, and the number of masks by class.

    There is no number if one of the masks cannot be read.
    """
    findings = decoding_findings([*map(dataset.stored, range(len(dataset)))])
    counts = np.zeros(dataset.num_classes, np.int64)
    for position in range(len(dataset)):
        try:
            counts[_classes_in(dataset.mask(position))] += 1
        except ExampleError as error:
            findings.append(Finding(kind="wrong-mask", message=str(error)))
    return findings, None if any(each.kind == "wrong-mask" for each in findings) else [*map(int, counts)]


def _folder_findings(declared: UserDataset) -> Iterator[Finding]:
    """Yield notes on files that are left out, by their ending, and on folders that are hardly classes."""
    content = declared.content
    if not isinstance(content, ImageFolder | ImageMasks | TextFiles) or not content.place.is_dir():
        return
    suffixes: Collection[str] = (TEXT_SUFFIX,) if isinstance(content, TextFiles) else SUFFIXES
    endings = Counter[str]()
    # Links that lead back were refused when the dataset was opened.
    for _, folders, files in os.walk(content.place, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(".")]
        endings.update(Path(name).suffix.lower() for name in files if not name.startswith("."))
    if left_out := {ending: count for ending, count in sorted(endings.items()) if ending not in suffixes}:
        shown = ", ".join(f"{count:,} {ending or 'without an ending'}" for ending, count in left_out.items())
        message = f"files in {content.path} left out by their ending: {shown}; read are {', '.join(sorted(suffixes))}"
        yield Finding(kind="other-file", message=message)
    has_classes = isinstance(content, ImageFolder) or (isinstance(content, TextFiles) and content.has_labels)
    for name in sorted(each.name for each in content.place.iterdir() if has_classes and each.is_dir()):
        if reason := _ODD_CLASSES.get(name.lower()):
            yield Finding(
                kind="odd-class", message=f"{content.place / name} is read as a class, and has the name of {reason}"
            )


def _counts(dataset: Dataset) -> list[int] | None:
    """Return the number of examples of each class, or of masks that have it; None for texts without labels."""
    if isinstance(dataset, ClassifiedTexts):
        return [*map(int, np.bincount(dataset.labels, minlength=dataset.num_classes))]
    if not isinstance(dataset, OrderedExamples) or not isinstance(dataset, ClassifiedDataset):
        return None
    if dataset.targets.ndim == 1:
        return [*map(int, np.bincount(dataset.targets, minlength=dataset.num_classes))]
    counts = np.zeros(dataset.num_classes, np.int64)
    for mask in dataset.targets:
        counts[_classes_in(mask)] += 1
    return [*map(int, counts)]


# Any: masks of any shape.
def _classes_in(mask: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    # Pixels that count nowhere are below 0.
    classes = np.unique(mask)
    return classes[classes >= 0]


def _with_classes(
    declared: UserDataset, dataset: Dataset, counts: Sequence[int] | None, found: Verification
) -> Verification:
    """Add the classes in order, with their counts, and notes on them and on the folder."""
    found = replace(found, findings=(*found.findings, *_folder_findings(declared)))
    if counts is None:
        return found
    names: Sequence[str] | None = getattr(dataset, "class_names", None) or declared.class_names
    classes = tuple(zip(names or map(str, range(len(counts))), counts, strict=True))
    notes = _class_findings(classes, is_named=names is not None, is_stated=declared.class_names is not None)
    return replace(found, classes=classes, findings=(*found.findings, *notes))


def _class_findings(classes: Sequence[tuple[str, int]], *, is_named: bool, is_stated: bool) -> Iterator[Finding]:
    """Yield notes on classes without an example, and on numbers in names, which are in the order of their text."""
    names = [name for name, _ in classes]
    if is_named and not is_stated and (natural := sorted(names, key=_natural)) != names:
        first = next(place for place, name in enumerate(names) if name != natural[place])
        yield Finding(
            kind="class-order",
            message=f"names of classes are sorted as text, and so are numbers in them: class {first} is"
            f" '{clipped(names[first])}', and by number it would be '{clipped(natural[first])}'. State class_names in"
            " the entry if the model has another order",
        )
    if empty := [number for number, (_, count) in enumerate(classes) if not count]:
        titles = [str(number) + (f" ('{clipped(names[number])}')" if is_named else "") for number in empty[:_SHOWN]]
        shown = ", ".join(titles) + (", ..." if len(empty) > _SHOWN else "")
        hint = ". Labels seem to begin at 1, and class numbers begin at 0" if empty == [0] and not is_named else ""
        of_these = f"{len(empty):,} of {len(classes):,} classes have" if len(empty) > 1 else "1 class has"
        yield Finding(kind="empty-class", message=f"{of_these} no example: {shown}{hint}")


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key by which ``b2`` precedes ``b10``."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _PARTS.split(name)]
