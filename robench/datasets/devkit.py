"""Published names of ImageNet's validation images, and their labels from the development kit, unpacked or as archive.

Images are published without class folders: line n of the ground truth is the ILSVRC id, 1..1000, of the image with the
number n, and ``meta.mat`` has the WordNet id of each. ILSVRC ids are not in the order of WordNet ids.
"""

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from robench.core.errors import MissingDataError, described
from robench.core.files import read_regular
from robench.datasets.archives import read_members
from robench.datasets.imagenet_folder import name_of_image

DEVKIT: Final = "ILSVRC2012_devkit_t12"
_TRUTH: Final = "ILSVRC2012_validation_ground_truth.txt"
_META: Final = "meta.mat"
_LARGEST: Final = 1 << 24
# Repacked images may have the WordNet id at the end of their name.
_NAME: Final = re.compile(r"(ILSVRC2012_val_(\d{8}))(?:_(n\d{8}))?")


class PublishedName(NamedTuple):
    """Name of a validation image as published, with its number, 1..50,000; and the WordNet id at its end, or None."""

    stem: str
    suffix: str
    number: int
    wordnet_id: str | None


def published_name(name: str) -> PublishedName | None:
    """Return the parts of a published file name of a validation image; None if it is another name."""
    parts = name_of_image(name)
    found = _NAME.fullmatch(parts[0]) if parts is not None else None
    if parts is None or found is None:
        return None
    return PublishedName(found[1], parts[1], int(found[2]), found[3])


def find_devkit(root: Path, places: Sequence[str]) -> Path | None:
    """Return the first development kit in some folders below the data root, otherwise None."""
    names = (DEVKIT, f"{DEVKIT}.tar.gz", f"{DEVKIT}.tar")
    kits = (root / place / name for place in places for name in names)
    return next((kit for kit in kits if kit.exists()), None)


def read_labels(devkit: Path) -> list[str]:
    """Return the WordNet id of each validation image, in the order of their numbers, from 1 on."""
    # Imported here, since most forms need no scipy.
    from scipy.io import loadmat  # type: ignore[import-untyped]  # scipy ships no types

    contents = _contents(devkit)
    try:
        synsets = loadmat(io.BytesIO(contents[_META]), squeeze_me=True)["synsets"]
        numbers, wordnet_ids = (np.atleast_1d(synsets[field]) for field in ("ILSVRC2012_ID", "WNID"))
        known = {str(number): str(wordnet_id) for number, wordnet_id in zip(numbers, wordnet_ids, strict=True)}
        return [known[text] for text in contents[_TRUTH].decode("ascii").split()]
    except Exception as error:  # scipy raises many types on broken files
        raise MissingDataError(
            f"{devkit} must have data/{_META}, the table of synsets, and data/{_TRUTH}, an id of it in each line"
            f" ({described(error)}); get it anew from image-net.org"
        ) from error


def _contents(devkit: Path) -> dict[str, bytes]:
    """Return the two files that are there, by name."""
    if devkit.is_dir():
        files = {name: devkit / "data" / name for name in (_TRUTH, _META)}
        return {name: read_regular(path, _LARGEST) for name, path in files.items() if path.exists()}
    contents = {}
    for member in read_members(devkit):
        if member.parts[-2:-1] == ("data",) and member.parts[-1] in (_TRUTH, _META):
            with member.open() as file:
                contents[member.parts[-1]] = file.read(_LARGEST)
    return contents
