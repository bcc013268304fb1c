"""Opener of token files such as WikiText's: articles in the order of their ids, each after what comes before it.

In the papers' evaluation a split is one sequence of tokens, and each is predicted from up to 256 or 384 before it,
those of other articles included (Transformer-XL, lmtool-fwp). Here an example is an article, whose context is the end
of what comes before it: each token has the predecessors that it has there, and is scored in one article alone. The
first token of all, the ``<eos>`` of the empty first line, is predicted nowhere; models begin any text with one. So
245,568 of the 245,569 tokens of WikiText-103's test split are scored.

A file has a line for each paragraph or heading, and blanks between words. An article begins at a line ``= Title =``
between empty lines; headings of sections have more signs at each side. What precedes the first title belongs to the
first article, except an empty first line, which no article has: its end is the ``<eos>`` at which the file, and any
text of a model, begins.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from robench.core.errors import MissingDataError, UsageError
from robench.core.shard import DatasetIdentity
from robench.datasets.base import TEST_SPLIT
from robench.datasets.order import hash_order
from robench.datasets.published_texts import TokenFiles
from robench.datasets.text_files import TextFile, find_file
from robench.datasets.texts import UNKNOWN_BY_FREQUENCY, OrderedTexts, vocabulary_of
from robench.domains.code_points import CONTEXT_END, lines_of

# Twice the largest published file.
MOST_BYTES: Final = 1 << 30
# Titles are among these lines.
_MAY_BE_TITLE = re.compile(rb"^[^\S\n]*=[^\S\n][^\n]*$", re.MULTILINE)
_SIGN = "="
_TRAINING_SPLIT = "train"
_MOST_OF_A_TITLE = 40
_NOT_INERT = re.compile(r"[^A-Za-z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Article:
    """Bytes [start, stop) of an article in its file, and their SHA-256; the title is empty if the file has none.

    ``num_tokens`` counts words and ends of lines.
    """

    title: str
    start: int
    stop: int
    num_tokens: int
    digest: str


def read_split(declared: TokenFiles, data_root: Path | None, split: str) -> tuple[bytes, list[Article]]:
    """Return the bytes of a split's file, with an end of its last line, and its articles in their order."""
    wanted = declared.num_tokens_of(split)
    file = find_file(declared, data_root, declared.path_of(split), declared.archive, MOST_BYTES)
    file.check_lines()
    if not file.content.endswith(b"\n"):
        file = replace(file, content=file.content + b"\n")
    articles = _articles(file)
    num_tokens = counted(articles)
    if wanted is not None and num_tokens != wanted:
        count = f"{num_tokens:,} tokens, ends of lines included, wanted {wanted:,} as published"
        raise file.refusal(f"has {count} of the {split} split of {declared.name}")
    return file.content, articles


def counted(articles: Sequence[Article]) -> int:
    """Return the number of tokens of a file: words, and an end at each line, an empty first one included."""
    return sum(article.num_tokens for article in articles) + (articles[0].start > 0)


def context_before(content: bytes, first: int, stop: int, num_tokens: int) -> str:
    r"""Return the last tokens, at most ``num_tokens``, of the lines in bytes [first, stop).

    >>> context_before(b"one two\n three four \n\n", 0, 22, 3)
    'four\n\n'
    """
    lines: list[str] = []
    while num_tokens > 0 and stop > first:
        start = max(content.rfind(b"\n", first, stop - 1) + 1, first)
        line = content[start:stop].decode()
        words = line.split()
        if len(words) + 1 > num_tokens:
            line = " ".join(words[len(words) + 1 - num_tokens :]) + "\n"
        lines.append(line)
        num_tokens -= len(words) + 1
        stop = start
    return "".join(reversed(lines))


def title_of(line: str) -> str | None:
    """Return the title of a line with one sign at each side; None for any other line.

    >>> title_of(" = Du Fu = ")
    'Du Fu'
    >>> title_of(" = = Life = = ") is None
    True
    """
    words = line.split()
    if len(words) < 3 or (words[0], words[-1]) != (_SIGN, _SIGN) or _SIGN in (words[1], words[-2]):
        return None
    return " ".join(words[1:-1])


def _articles(file: TextFile) -> list[Article]:
    content = file.content
    end = content.find(b"\n") + 1
    first = end if not content[:end].strip() else 0
    titles = list(_titles(file))
    starts = [first, *(start for start, _ in titles[1:])]
    names = [title for _, title in titles] or [""]
    articles = []
    for title, start, stop in zip(names, starts, [*starts[1:], len(content)], strict=True):
        lines = lines_of(file.decoded(start, stop))
        article = Article(
            title=title,
            start=start,
            stop=stop,
            num_tokens=sum(map(len, lines)) + len(lines),
            digest=hashlib.sha256(content[start:stop]).hexdigest(),
        )
        articles.append(article)
    return articles


def _titles(file: TextFile) -> Iterator[tuple[int, str]]:
    """Yield the start of each line that is a title between empty lines, and the title."""
    content = file.content
    for match in _MAY_BE_TITLE.finditer(content):
        start, stop = match.span()
        title, end = title_of(file.decoded(start, stop)), content.find(b"\n", stop + 1)
        before = b"" if start == 0 else content[content.rfind(b"\n", 0, start - 1) + 1 : start]
        after = content[stop : len(content) if end < 0 else end]
        if title is not None and not before.strip() and not after.strip():
            yield start, title


def open_tokens(declared: TokenFiles, *, data_root: Path | None, split: str, **unused: object) -> WikiText:
    """Open a split of token files."""
    return WikiText(declared, data_root, split)


def vocabulary(declared: TokenFiles, data_root: Path | None) -> list[str]:
    r"""Return the words of the papers' models: ``\n`` for ``<eos>``, then by frequency, ties by first occurrence.

    The unknown word ``<unk>`` is a word of the training file, with the place that its frequency has.
    """
    if declared.vocabulary_size is None:
        raise UsageError(
            f"dataset {declared.name!r} is raw text without a closed vocabulary, which models of words need"
        )
    words = vocabulary_of(WikiText(declared, data_root, _TRAINING_SPLIT).articles(), first=UNKNOWN_BY_FREQUENCY)
    if len(words) != declared.vocabulary_size:
        raise MissingDataError(
            f"{declared.path_of(_TRAINING_SPLIT)} has {len(words):,} different tokens, the end of a line included, "
            f"wanted {declared.vocabulary_size:,} as published. Unpack {declared.archive} again"
        )
    return words


class WikiText(OrderedTexts):
    """Articles of one split, in the order of the SHA-256 of their ids; texts are made on access.

    An id is such as ``wikitext-103/test/00007-Du-Fu``: number from 0 in the file, and the inert part of the title. A
    text is context, ``CONTEXT_END`` and the scored part. The fingerprint is a SHA-256 over number of tokens of context,
    ids and digests of the articles. Held in memory are the file's bytes and a few numbers for each article.
    """

    def __init__(self, declared: TokenFiles, data_root: Path | None, split: str = TEST_SPLIT) -> None:
        self._content, self._articles = read_split(declared, data_root, split)
        self._context_tokens = declared.context_tokens
        self._places = {
            article_id(f"{declared.folder}/{split}", place, article.title): place
            for place, article in enumerate(self._articles)
        }
        self.ids = tuple(hash_order(self._places))
        digest = hashlib.sha256(f"context\0{declared.context_tokens}\n".encode())
        for example_id in self.ids:
            digest.update(f"{example_id}\0{self._articles[self._places[example_id]].digest}\n".encode())
        self.identity = DatasetIdentity(name=declared.name, fingerprint=digest.hexdigest(), num_examples=len(self.ids))
        self.num_tokens = counted(self._articles)

    def text(self, index: int) -> str:
        """Return the text of an example: context, ``CONTEXT_END`` and the scored part."""
        article = self._articles[self._places[self.ids[index]]]
        context = context_before(self._content, self._articles[0].start, article.start, self._context_tokens)
        return f"{context}{CONTEXT_END}{self._content[article.start : article.stop].decode()}"

    def articles(self) -> Iterator[str]:
        """Yield the text of each article in the order of the file, without context."""
        for article in self._articles:
            yield self._content[article.start : article.stop].decode()


def article_id(split: str, place: int, title: str) -> str:
    """Return the id of an article.

    >>> article_id("wikitext-2/valid", 7, "Homarus <unk> ( lobster )")
    'wikitext-2/valid/00007-Homarus-unk-lobster'
    """
    inert = _NOT_INERT.sub("-", title)[:_MOST_OF_A_TITLE].strip("-")
    return f"{split}/{place:05d}-{inert}".rstrip("-")
