r"""Openers and readers of published sentences and reviews, in the order of the SHA-256 of their ids.

Tables with tabs, as GLUE's, have a header, and rows without quoting.

Sentiment trees, ``(3 (2 A) (3 (3 good) (2 film)))``, have a line each. The class of a sentence is that of its
tree's root. Its words are those of the leaves with a blank between them, without the escapes of the Penn Treebank:
``-LRB-`` and ``-RRB-`` are parentheses, ``\/`` and ``\*`` a slash and an asterisk.

Reviews are text files, ``aclImdb/test/pos/123_7.txt``: number and rating. Words and signs have a blank between them,
since models split at blanks; a ``<br />`` is the end of a line, several in a row are one.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from robench.core.errors import MissingDataError
from robench.core.inert import clipped
from robench.datasets.order import hash_positions
from robench.datasets.published_texts import LabelledFiles, ReviewFolders, SentimentTrees, TabbedSentences
from robench.datasets.text_files import TextFile, find_file, find_folder, read_file
from robench.datasets.texts import LabelledTexts, with_spaced_words
from robench.declarations.base import imported

# Id, text and class.
Example = tuple[str, str, int]
# Ten times the largest published table or file of trees.
MOST_BYTES: Final = 1 << 26
_HEADER: Final = "sentence\tlabel"
# Published sentences have at most 56 words, and trees at most 30 levels.
MOST_LEVELS: Final = 100
_NEUTRAL: Final = 2
_LEAF = re.compile(r"\([0-4] ([^ ()]+)\)")
_NODE = re.compile(r"\([0-4] \0(?: \0)*\)")
_BRACKETS: Final = {"-LRB-": "(", "-RRB-": ")"}
# Fifty times the longest published review.
MOST_REVIEW_BYTES: Final = 1 << 20
_NAME = re.compile(r"([0-9]{1,9})_([0-9]{1,3})\.txt")
_BREAK: Final = "<br />"


def open_labelled(declared: LabelledFiles, *, data_root: Path | None, split: str, **unused: object) -> LabelledTexts:
    """Open a split of labelled texts."""
    examples = read_labelled(declared, data_root, split)
    order = hash_positions([example_id for example_id, _, _ in examples])
    return LabelledTexts(declared.name, [examples[place] for place in order])


def read_labelled(declared: LabelledFiles, data_root: Path | None, split: str) -> list[Example]:
    """Return ids, texts and classes of a split in the order of its files."""
    declared.check_split(split)
    examples: list[Example] = imported(declared.reader)(declared, data_root, split)
    return examples


def check_number(declared: LabelledFiles, split: str, found: int, file: TextFile, counted: str = "sentences") -> None:
    """Refuse another number of examples than the published one; the message has both."""
    if found != (wanted := declared.num_examples_of(split)):
        published = f"wanted {wanted:,} as published of the {split} split of {declared.name}"
        raise file.refusal(f"has {found:,} {counted}, {published}")


def read_sentences(declared: TabbedSentences, data_root: Path | None, split: str) -> list[Example]:
    """Return ids, sentences and classes in the order of the file; ids count rows from 0."""
    file = find_file(declared, data_root, declared.path_of(split), declared.archive, MOST_BYTES)
    header, *rows = file.lines()
    advice = f"Unpack {declared.archive} again"
    if header != _HEADER:
        raise MissingDataError(f"line 1 of {file.path} is '{clipped(header)}', wanted the header {_HEADER!r}. {advice}")
    classes = {str(label): label for label in range(declared.num_classes)}
    examples = []
    for place, row in enumerate(rows):
        sentence, _, label = row.rpartition("\t")
        if "\t" in sentence or not sentence.strip() or label not in classes:
            wanted = f"a sentence, one tab and its class, {' or '.join(classes)}"
            raise MissingDataError(f"line {place + 2} of {file.path} is '{clipped(row)}', wanted {wanted}. {advice}")
        examples.append((f"{declared.folder}/{split}/{place:05d}", sentence.strip(), classes[label]))
    check_number(declared, split, len(examples), file)
    return examples


def read_trees(declared: SentimentTrees, data_root: Path | None, split: str) -> list[Example]:
    """Return ids, sentences and classes in the order of the file; ids count all lines from 0, neutral ones too."""
    file = find_file(declared, data_root, declared.path_of(split), declared.archive, MOST_BYTES)
    examples = []
    for place, line in enumerate(file.lines()):
        if (tree := parsed(line)) is None:
            wanted = "wanted such as (3 (2 A) (3 (3 good) (2 film))), with classes from 0 to 4 and a word at least"
            raise MissingDataError(
                f"line {place + 1} of {file.path} is '{clipped(line)}', {wanted}. Unpack {declared.archive} again"
            )
        root, words = tree
        sentence = " ".join(map(unescaped, words))
        if declared.is_lower_case:
            sentence = sentence.lower()
        if not (declared.is_binary and root == _NEUTRAL):
            label = int(root > _NEUTRAL) if declared.is_binary else root
            examples.append((f"{declared.folder}/{split}/{place:05d}", sentence, label))
    counted = "sentences that are not neutral" if declared.is_binary else "sentences"
    check_number(declared, split, len(examples), file, counted)
    return examples


def parsed(line: str) -> tuple[int, list[str]] | None:
    """Return the class of the root of a tree and the words of its leaves; None if it is not a tree with words.

    A word is anything without blanks and parentheses, so that it may have white space of other kinds.

    >>> parsed("(3 (2 A) (3 (3 good) (2 film)))")
    (3, ['A', 'good', 'film'])
    """
    words = _LEAF.findall(line)
    # Leaves and then the innermost nodes become one sign each, which no text has, until the root is left.
    rest = _LEAF.sub("\0", line)
    for _ in range(MOST_LEVELS):
        rest, num_nodes = _NODE.subn("\0", rest)
        if not num_nodes:
            break
    return (int(line[1]), words) if rest == "\0" and any(word.strip() for word in words) else None


def unescaped(word: str) -> str:
    r"""Return the word of a leaf without the Penn Treebank's escapes.

    >>> unescaped("-LRB-"), unescaped("accordion\\/harmonica")
    ('(', 'accordion/harmonica')
    """
    return _BRACKETS.get(word) or word.replace("\\/", "/").replace("\\*", "*")


def read_reviews(declared: ReviewFolders, data_root: Path | None, split: str) -> list[Example]:
    """Return ids, reviews and classes by class and number; each file is opened once."""
    return [(example_id, _text(file), label) for example_id, file, label in review_files(declared, data_root, split)]


def review_files(declared: ReviewFolders, data_root: Path | None, split: str) -> Iterator[tuple[str, TextFile, int]]:
    """Yield ids, files and classes of reviews by class and number; all names are checked before the first is opened."""
    per_class = declared.num_examples_of(split) // declared.num_classes
    listed = []
    for label, name in enumerate(declared.class_folders):
        place = f"{declared.path_of(split)}/{name}"
        folder = find_folder(declared, data_root, f"{place}/NUMBER_RATING.txt", declared.archive)
        listed.append((label, place, folder, _names(declared, split, label, folder, per_class)))
    for label, place, folder, names in listed:
        for name in names:
            file = read_file(declared, folder / name, declared.archive, MOST_REVIEW_BYTES)
            file.check_text()
            yield f"{place}/{name.removesuffix('.txt')}", file, label


def review_text(content: str) -> str:
    r"""Return a review with blanks between words and signs, and lines in place of breaks.

    >>> review_text("Well-made.<br /><br />But it's <i>long</i>")
    "Well-made .\nBut it's < i > long < / i >"
    """
    return with_spaced_words(content.replace(_BREAK, "\n\n")).removesuffix("\n")


def _names(declared: ReviewFolders, split: str, label: int, folder: Path, wanted: int) -> list[str]:
    """Return the names of a class's files by number and rating; refuse another number, and other ratings."""
    advice = f"Unpack {declared.archive} again"
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


def _text(file: TextFile) -> str:
    text = review_text(file.decoded())
    if not text:
        raise file.refusal(f"is empty: it has {len(file.content):,} bytes and no word")
    return text
