"""Verification of images of ImageNet's classes in any form: classes, counts and files."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from os import cpu_count
from pathlib import Path
from typing import Any

import numpy as np
from PIL import ExifTags, Image, UnidentifiedImageError

from robench.core.errors import MissingDataError
from robench.datasets.decoding import MODES, converted
from robench.datasets.decoding import unreadable as unreadable_image
from robench.datasets.findings import Finding, Kind, Verification, refused
from robench.datasets.imagenet_folder import ImageSource, Layout
from robench.datasets.imagenet_forms import find_form, unreadable
from robench.datasets.packed_images import Stored, open_stored


def verify_images(layout: Layout, data_root: Path | None, *, decode: bool = False) -> Verification:
    """Return the differences of a set of images from its published form; see ``verify``."""
    known: dict[str, Any] = {}
    try:
        found = find_form(data_root, layout)
        known = {"folder": found.place, "form": found.form}
        source = found.read()
        known["has_own_ids"] = not source.is_named
        findings = [*_findings(source, layout)]
        if decode:
            order = sorted(np.flatnonzero(source.sizes).tolist(), key=source.ids.__getitem__)
            findings += decoding_findings([*map(source.stored, order)])
    except MissingDataError as error:
        return refused(layout.dataset, "absent" if is_absent(error, data_root) else "wrong-file", error, **known)
    except OSError as error:
        return refused(layout.dataset, "unreadable", unreadable(error, layout), **known)
    return Verification(
        dataset=layout.dataset,
        num_images=len(source),
        num_classes=len(np.unique(source.targets)),
        is_decoded=decode,
        findings=tuple(findings),
        **known,
    )


def is_absent(error: MissingDataError, data_root: Path | None) -> bool:
    """Return whether nothing of a dataset was found: only that message has several lines, the places searched."""
    return data_root is None or len(error.lines) > 1


def _findings(source: ImageSource, layout: Layout) -> Iterator[Finding]:
    counts, wanted = np.bincount(source.targets, minlength=max(layout.classes.values()) + 1), layout.images_per_class
    for name, index in layout.classes.items():
        if not counts[index]:
            message = f"class {name} (index {index}) has no image in {source.place}; restore it"
            yield Finding(kind="missing-class", message=message)
        elif wanted not in (None, counts[index]):
            message = f"class {name} in {source.place} holds {counts[index]} images, wanted {wanted}"
            yield Finding(kind="wrong-count", message=message)
    if len(source) != layout.num_images:
        message = (
            f"{layout.title} in {source.place} holds {len(source):,} images of its classes, wanted"
            f" {layout.num_images:,}"
        )
        yield Finding(kind="wrong-count", message=message)
    for number in np.flatnonzero(source.sizes == 0).tolist():
        yield Finding(kind="empty-file", message=f"image {source.stored(number)} has zero bytes; restore it")


def decoding_findings(images: Sequence[Stored]) -> list[Finding]:
    """Decode images, and return the unusual ones."""
    # Pillow's decoders let other threads run.
    with ThreadPoolExecutor(cpu_count()) as threads:
        return [found for found in threads.map(examined, images) if found is not None]


def examined(stored: Stored) -> Finding | None:
    """Read a whole image file like ``decode``; return its unusual property, or None."""
    kind: Kind | None = None
    try:
        with open_stored(stored) as opened, Image.open(opened) as file:
            if file.mode == "CMYK":
                done = "converted to RGB by Pillow's formula, its colour profile ignored, as timm and torchvision do"
                kind, unusual = "cmyk-image", f"is CMYK: {done}"
            # Pillow shows 16-bit colour as RGB; only the decoder that it chose knows.
            elif file.mode.startswith("I;16") or any(";16" in str(tile) for tile in getattr(file, "tile", ())):
                kind, unusual = "16-bit-image", "has 16 bits a channel: its upper 8 bits are kept"
            pixels = converted(file, MODES[3])
            if kind == "16-bit-image" and int(np.asarray(pixels).max()) < 128:
                unusual += ", and no value is in the upper half. If it has 12 bits, multiply its values by 16"
            # Broken metadata change no pixel.
            with suppress(Exception):
                if kind is None and file.getexif().get(ExifTags.Base.Orientation, 1) != 1:
                    ignored = "which is ignored, as by torchvision and timm: it is read unturned"
                    kind, unusual = "turned-image", f"has an EXIF orientation, {ignored}"
    except Exception as error:  # Pillow's decoders may raise almost any type on broken files.
        is_other = isinstance(error, UnidentifiedImageError)
        return Finding(kind="no-image" if is_other else "corrupt-image", message=unreadable_image(stored, error))
    return None if kind is None else Finding(kind=kind, message=f"image {stored} {unusual}")
