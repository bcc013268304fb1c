"""Words and punctuation marks of running text with one blank between them, as models of words read texts.

A word keeps its hyphens and apostrophes (``well-digested``, ``nation's``). Case is kept.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"\w+(?:['\u2019-]\w+)*|[^\w\s]")
_BLANK_LINES = re.compile(r"\n\s*\n")


def with_words_apart(text: str) -> str:
    r"""Return the text with a line for each paragraph, and a blank between words and signs.

    >>> with_words_apart("A free people ought\nto be armed, but disciplined;\n\nand well-digested.")
    'A free people ought to be armed , but disciplined ;\nand well-digested .\n'
    """
    paragraphs = (_WORD.findall(each) for each in _BLANK_LINES.split(text))
    return "".join(" ".join(words) + "\n" for words in paragraphs if words)
