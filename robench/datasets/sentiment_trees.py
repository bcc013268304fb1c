r"""Sentences and their classes from files of sentiment trees, ``(3 (2 A) (3 (3 good) (2 film)))``, a line each.

The class of a sentence is that of its tree's root. Its words are those of the leaves with a blank between them, without
the escapes of the Penn Treebank: ``-LRB-`` and ``-RRB-`` are parentheses, ``\/`` and ``\*`` a slash and an asterisk.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from robench.core.errors import MissingDataError
from robench.core.inert import clipped
from robench.datasets.labelled_files import Example, check_number
from robench.datasets.text_files import again, check_lines, decoded_part, find_file, read_file

if TYPE_CHECKING:
    from pathlib import Path

    from robench.datasets.sentiment import SentimentTrees

# Twenty times the largest published file.
MOST_BYTES: Final = 1 << 26
# Published sentences have at most 56 words, and trees at most 30 levels.
MOST_LEVELS: Final = 1_000
_CLASSES: Final = ("0", "1", "2", "3", "4")
_NEUTRAL: Final = 2
_LEAF = re.compile(r"\(([^ ()]+) ([^ ()]+)\)")
_OPENING = re.compile(r"\(([^ ()]+) (?=\()")
_BRACKETS: Final = {"-LRB-": "(", "-RRB-": ")"}


class TreeError(ValueError):
    """Line that is no tree; the message says what was found at which character, from 1, and what was wanted."""


def read_trees(declared: SentimentTrees, data_root: Path | None, split: str) -> list[Example]:
    """Return ids, sentences and classes in the order of the file; ids count all lines from 0, neutral ones too.

    Raises:
        MissingDataError: there is no such file, or it is not the published one.
    """
    path = find_file(declared, data_root, declared.path_of(split), declared.archive)
    content, advice = read_file(declared, path, MOST_BYTES), again(declared.archive)
    check_lines(content, path, advice)
    lines = decoded_part(content, 0, len(content), path, advice).removesuffix("\n").split("\n")
    examples = []
    for place, line in enumerate(lines):
        try:
            root, words = parsed(line)
        except TreeError as error:
            raise MissingDataError(f"line {place + 1} of {path} is no sentiment tree: {error}. {advice}") from error
        sentence = " ".join(map(unescaped, words))
        if declared.is_lower_case:
            sentence = sentence.lower()
        if not (declared.is_binary and root == _NEUTRAL):
            label = int(root > _NEUTRAL) if declared.is_binary else root
            examples.append((f"{declared.folder}/{split}/{place:05d}", sentence, label))
    counted = "sentences that are not neutral" if declared.is_binary else "sentences"
    check_number(declared, split, len(examples), path, counted)
    return examples


def parsed(line: str) -> tuple[int, list[str]]:
    """Return the class of the root of a tree and the words of its leaves; time and memory grow with its length alone.

    A word is anything without blanks and parentheses, so that it may have white space of other kinds.

    >>> parsed("(3 (2 A) (3 (3 good) (2 film)))")
    (3, ['A', 'good', 'film'])

    Raises:
        TreeError: it is no tree, has another class than 0 to 4, or more than ``MOST_LEVELS`` levels.
    """
    classes: list[int] = []
    words: list[str] = []
    place, depth, wants_node = 0, 0, True
    while wants_node or depth:
        sign = line[place : place + 1]
        if wants_node:
            node, word = _node(line, place)
            classes.append(_class(node))
            wants_node = word is None
            depth += wants_node
            words += [] if word is None else [word]
            place = node.end()
        elif sign in (")", " "):
            depth, wants_node, place = depth - (sign == ")"), sign == " ", place + 1
        else:
            raise _found(line, place, "')' or a blank")
        if depth > MOST_LEVELS:
            raise TreeError(f"it has more than {MOST_LEVELS:,} levels")
    if place < len(line):
        raise _found(line, place, "the end of the line after the tree")
    if not any(word.strip() for word in words):
        raise TreeError("its sentence is empty: no leaf has a word")
    return classes[0], words


def unescaped(word: str) -> str:
    r"""Return the word of a leaf without the Penn Treebank's escapes.

    >>> unescaped("-LRB-"), unescaped("accordion\\/harmonica")
    ('(', 'accordion/harmonica')
    """
    return _BRACKETS.get(word) or word.replace("\\/", "/").replace("\\*", "*")


def _node(line: str, place: int) -> tuple[re.Match[str], str | None]:
    """Return the beginning of a node, and its word if it is a leaf, which is matched whole."""
    if leaf := _LEAF.match(line, place):
        return leaf, leaf[2]
    if opening := _OPENING.match(line, place):
        return opening, None
    raise _found(line, place, "a node such as '(2 film)'")


def _class(node: re.Match[str]) -> int:
    if (label := node[1]) not in _CLASSES:
        raise TreeError(f"at character {node.start(1) + 1} there is the class '{clipped(label)}', wanted 0 to 4")
    return int(label)


def _found(line: str, place: int, wanted: str) -> TreeError:
    found = f"there is '{clipped(line[place:])}'" if place < len(line) else "the line ends"
    return TreeError(f"at character {place + 1} {found}, wanted {wanted}")
