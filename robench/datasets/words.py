"""Words of running text: words and punctuation marks with one blank between them, and vocabularies.

A word keeps its hyphens and apostrophes (``well-digested``, ``nation's``). Case is kept.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from robench.tasks.language_modeling_impl import END_OF_LINE, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_WORD = re.compile(r"\w+(?:['\u2019-]\w+)*|[^\w\s]")
_BLANK_LINES = re.compile(r"\n\s*\n")
# Models of robench's recipe have the unknown word second; in the papers' code it has the rank of its frequency.
UNKNOWN_SECOND = (END_OF_LINE, UNKNOWN)
UNKNOWN_BY_FREQUENCY = (END_OF_LINE,)


def with_spaced_words(text: str) -> str:
    r"""Return the text with a line for each paragraph, and a blank between words and signs.

    >>> with_spaced_words("A free people ought\nto be armed, but disciplined;\n\nand well-digested.")
    'A free people ought to be armed , but disciplined ;\nand well-digested .\n'
    """
    paragraphs = (_WORD.findall(each) for each in _BLANK_LINES.split(text))
    return "".join(" ".join(words) + "\n" for words in paragraphs if words)


def vocabulary_of(
    texts: Iterable[str], size: int | None = None, min_count: int = 1, first: Sequence[str] = UNKNOWN_SECOND
) -> list[str]:
    r"""Return the words of texts: those of ``first``, and then the most frequent ones, ties by first occurrence.

    Args:
        texts: read once, one after the other.
        size: number of words at most, those of ``first`` included; None for all.
        min_count: number of times that a word occurs at least.
        first: words that come first, whether they occur or not.

    >>> vocabulary_of(["a b b\n", "c c a\nd"], 5, 2)
    ['\n', '<unk>', 'a', 'b', 'c']
    >>> vocabulary_of(["a <unk> b <unk> b\n"], first=UNKNOWN_BY_FREQUENCY)
    ['\n', '<unk>', 'b', 'a']
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text.split())
    # Of equal counts the first that occurs comes first, as Counter and a stable sort have it.
    frequent = sorted((word for word, count in counts.items() if count >= min_count), key=lambda word: -counts[word])
    leading = set(first)
    return [*first, *(word for word in frequent if word not in leading)][:size]
