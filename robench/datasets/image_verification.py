"""Verification of images of ImageNet's classes in any form: classes, counts and files."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from pathlib import Path
from typing import Any

import numpy as np

from robench.core.errors import MissingDataError
from robench.datasets.decoding import examine
from robench.datasets.findings import Finding, Verification, refused
from robench.datasets.imagenet_folder import (
    CLASS_FOLDERS,
    ImageSource,
    Layout,
    class_folders,
    has_class,
    images_in,
    is_text,
    misnamed,
)
from robench.datasets.imagenet_forms import find_form, unreadable
from robench.datasets.packed_images import Stored


def verify_images(layout: Layout, data_root: Path | None, *, decode: bool = False) -> Verification:
    """Return the differences of a set of images from its published form; see ``verify``."""
    known: dict[str, Any] = {}
    try:
        found = find_form(data_root, layout)
        known = {"folder": found.place, "form": found.form}
        if found.form == CLASS_FOLDERS:
            images, findings = _of_class_folders(found.place, layout)
        else:
            source = found.read()
            images, findings = _of_source(source, layout)
            known["has_own_ids"] = not source.is_named
        stored = [each for of_class in images.values() for each in of_class]
        if decode:
            findings += decoding_findings([each for each in stored if _num_bytes(each)])
    except MissingDataError as error:
        # Only the message about an absent dataset has several lines: the places that were searched.
        is_absent = data_root is None or len(error.lines) > 1
        return refused(layout.dataset, "absent" if is_absent else "wrong-file", error, **known)
    except OSError as error:
        return refused(layout.dataset, "unreadable", unreadable(error, layout), **known)
    return Verification(
        dataset=layout.dataset,
        num_images=len(stored),
        num_classes=sum(1 for of_class in images.values() if of_class),
        is_decoded=decode,
        findings=tuple(findings),
        **known,
    )


def _num_bytes(stored: Stored) -> int:
    return stored.stat().st_size if isinstance(stored, Path) else stored.num_bytes


def _of_class_folders(folder: Path, layout: Layout) -> tuple[Mapping[str, Sequence[Stored]], list[Finding]]:
    classes = {path.name: path for path in class_folders(folder, layout)}
    images = {
        name: sorted(path / f"{image.stem}{image.suffix}" for image in images_in(path))
        for name, path in classes.items()
        if name in layout.classes
    }
    findings = []
    for name, index in layout.classes.items():
        if name not in classes:
            message = f"class folder {folder / name} is missing (class {index}); restore it"
            findings.append(Finding(kind="missing-class", message=message))
    for name in sorted(classes.keys() - layout.classes.keys()):
        try:
            has_class(name, layout, folder)
        except MissingDataError as error:
            findings.append(Finding(kind="extra-class", message=str(error)))
    counts = {f"class folder {classes[name]}": len(found) for name, found in images.items()}
    findings += _count_findings(counts, layout, folder)
    for name, found in images.items():
        findings += _file_findings(classes[name], found)
    return images, findings


def _of_source(source: ImageSource, layout: Layout) -> tuple[Mapping[str, Sequence[Stored]], list[Finding]]:
    names = {index: name for name, index in layout.classes.items()}
    images: dict[str, list[Stored]] = {name: [] for name in layout.classes}
    for number, target in enumerate(source.targets.tolist()):
        images[names[target]].append(source.stored(number))
    counts = {f"class {name} in {source.place}": len(found) for name, found in images.items()}
    findings = [*_count_findings(counts, layout, source.place)]
    for number in np.flatnonzero(source.sizes == 0).tolist():
        message = f"image {source.stored(number)} has zero bytes; restore it"
        findings.append(Finding(kind="empty-file", message=message))
    return images, findings


def _count_findings(counts: Mapping[str, int], layout: Layout, place: Path) -> Iterator[Finding]:
    wanted = layout.images_per_class
    for title, count in counts.items():
        if not count or (wanted is not None and count != wanted):
            message = f"{title} holds {count} images, wanted {wanted or 'at least 1'}"
            yield Finding(kind="wrong-count", message=message)
    total = sum(counts.values())
    if total != layout.num_images:
        yield Finding(
            kind="wrong-count",
            message=f"{layout.title} in {place} holds {total:,} images of its classes, wanted {layout.num_images:,}",
        )


def _file_findings(folder: Path, images: Sequence[Path]) -> Iterator[Finding]:
    stems: dict[str, Path] = {}
    for path in images:
        first = stems.setdefault(path.stem, path)
        if first != path:
            message = f"{first} and {path} are the same example; remove one of them"
            yield Finding(kind="same-example", message=message)
        if not is_text(path.name):
            yield Finding(kind="misnamed-file", message=misnamed(path))
        elif not path.is_file():
            message = f"image {path} is not a regular file (a pipe, a device, ...); restore it"
            yield Finding(kind="no-image", message=message)
        elif path.stat().st_size == 0:
            yield Finding(kind="empty-file", message=f"image {path} has zero bytes; restore it")
    for path in sorted(set(folder.iterdir()) - set(images)):
        yield Finding(kind="other-file", message=f"{path} is not an image by its name: it is skipped")


def decoding_findings(images: Sequence[Stored]) -> list[Finding]:
    """Decode images, and return the unusual ones."""
    # Pillow's decoders let other threads run.
    with ThreadPoolExecutor(cpu_count()) as threads:
        oddities = threads.map(examine, images)
        unusual = [oddity for oddity in oddities if oddity is not None]
    findings = [Finding(kind=oddity.kind, message=oddity.message) for oddity in unusual]
    of_16_bits = [oddity.is_dark for oddity in unusual if oddity.kind == "16-bit-image"]
    if of_16_bits and all(of_16_bits):
        message = (
            f"none of the {len(of_16_bits):,} images of 16 bits a channel has a value in the upper half of the range:"
            " they are read dark. If they have 12 bits, as scanners write them, multiply their values by 16"
        )
        findings.append(Finding(kind="dark-images", message=message))
    return findings
