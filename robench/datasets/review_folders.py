"""Reviews and their classes from folders of text files, ``aclImdb/test/pos/123_7.txt``: number and rating.

Words and signs stand apart with a blank between them, since models read what is between blanks; a ``<br />`` is the end
of a line, several on end are one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from robench.core.errors import MissingDataError
from robench.datasets.labelled_files import Example
from robench.datasets.text_files import again, check_text, decoded_part, find_folder, read_file
from robench.datasets.words_apart import with_words_apart

if TYPE_CHECKING:
    from pathlib import Path

    from robench.datasets.sentiment import ReviewFolders

# Fifty times the longest published review.
MOST_BYTES: Final = 1 << 20
_NAME = re.compile(r"([0-9]{1,9})_([0-9]{1,3})\.txt")
_BREAK: Final = "<br />"


def read_reviews(declared: ReviewFolders, data_root: Path | None, split: str) -> list[Example]:
    """Return ids, reviews and classes by class and number; each file is opened once.

    Raises:
        MissingDataError: there is no such folder, or its files are not the published ones.
    """
    per_class = declared.num_examples_of(split) // declared.num_classes
    listed = []
    for label, name in enumerate(declared.class_folders):
        place = f"{declared.path_of(split)}/{name}"
        folder = find_folder(declared, data_root, f"{place}/NUMBER_RATING.txt", place, declared.archive)
        listed.append((label, place, folder, _names(declared, split, label, folder, per_class)))
    return [
        (f"{place}/{name.removesuffix('.txt')}", _text(declared, folder / name), label)
        for label, place, folder, names in listed
        for name in names
    ]


def review_text(content: str) -> str:
    r"""Return a review with words and signs apart, and lines in place of breaks.

    >>> review_text("Well-made.<br /><br />But it's <i>long</i>")
    "Well-made .\nBut it's < i > long < / i >"
    """
    return with_words_apart(content.replace(_BREAK, "\n\n")).removesuffix("\n")


def _names(declared: ReviewFolders, split: str, label: int, folder: Path, wanted: int) -> list[str]:
    """Return the names of a class's files by number and rating.

    Raises:
        MissingDataError: the folder cannot be read, has another number of reviews, or one with another class's rating.
    """
    advice = again(declared.archive)
    try:
        found = [path.name for path in folder.iterdir()]
    except OSError as error:
        raise MissingDataError(f"cannot read {folder} of dataset {declared.name!r}: {error.strerror}") from error
    reviews = {name: (int(match[1]), int(match[2])) for name in found if (match := _NAME.fullmatch(name))}
    if len(reviews) != wanted:
        others = f" and {len(found) - len(reviews):,} other entries" if len(found) > len(reviews) else ""
        raise MissingDataError(
            f"{folder} has {len(reviews):,} reviews NUMBER_RATING.txt{others}, wanted {wanted:,} as published of the "
            f"{split} split of {declared.name}. {advice}"
        )
    names = sorted(reviews, key=lambda name: (reviews[name], name))
    lowest, highest = declared.ratings[label]
    if (wrong := next((name for name in names if not lowest <= reviews[name][1] <= highest), None)) is not None:
        raise MissingDataError(
            f"{folder / wrong} has the rating {reviews[wrong][1]} by its name, wanted {lowest} to {highest} in "
            f"{folder.name}. {advice}"
        )
    return names


def _text(declared: ReviewFolders, path: Path) -> str:
    content, advice = read_file(declared, path, MOST_BYTES), again(declared.archive)
    check_text(content, path, advice)
    text = review_text(decoded_part(content, 0, len(content), path, advice))
    if not text:
        raise MissingDataError(f"{path} is empty: it has {len(content):,} bytes and no word. {advice}")
    return text
