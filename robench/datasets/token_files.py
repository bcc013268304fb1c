r"""Token files: one line a paragraph or heading, and blanks between words, as WikiText's.

An article begins at a line ``= Title =`` between empty lines; headings of sections have more signs at each side. What
precedes the first title belongs to the first article, except an empty first line, which no article has: its end is the
``<eos>`` at which the file, and any text of a model, begins.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from robench.core.errors import MissingDataError
from robench.core.inert import clipped
from robench.datasets.text_files import again, check_lines, decoded_part, find_file, line_of, read_file
from robench.domains.code_points import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from robench.datasets.wikitext import TokenFiles

# Twice the largest published file.
MOST_BYTES: Final = 1 << 30
# Titles are among these lines.
_MAY_BE_TITLE = re.compile(rb"^[^\S\n]*=[^\S\n][^\n]*$", re.MULTILINE)
_SIGN = "="


@dataclass(frozen=True, slots=True, kw_only=True)
class Article:
    """Place of an article in its file.

    Attributes:
        title: words of its first line without the signs, empty if the file has no title.
        start, stop: its bytes, up to and with the end of its last line.
        num_tokens: number of its words and ends of lines.
        digest: SHA-256 of its bytes.
        has_text: whether a line has words and is no heading.
    """

    title: str
    start: int
    stop: int
    num_tokens: int
    digest: str
    has_text: bool


def read_split(declared: TokenFiles, data_root: Path | None, split: str) -> tuple[bytes, list[Article]]:
    """Return the bytes of a split's file, with an end of its last line, and its articles in their order.

    Raises:
        UsageError: there is no such split.
        MissingDataError: there is no such file, or it is not the published one.
    """
    wanted = declared.num_tokens_of(split)
    path = find_file(declared, data_root, declared.file_of(split), declared.archive, beside=".raw")
    content = read_file(declared, path, MOST_BYTES)
    advice = again(declared.archive)
    check_lines(content, path, advice)
    if not content.endswith(b"\n"):
        content += b"\n"
    articles = _articles(content, path, advice)
    if not any(article.has_text for article in articles):
        raise MissingDataError(f"{path} holds headings only, wanted articles with text. {advice}")
    num_tokens = sum(article.num_tokens for article in articles) + (articles[0].start > 0)
    if num_tokens != wanted:
        count = f"{num_tokens:,} tokens, ends of lines included, wanted {wanted:,} as published"
        if (empty := next((article for article in articles if not article.has_text), None)) is not None:
            raise MissingDataError(
                f"article {clipped(empty.title)!r} in line {line_of(content, empty.start)} of {path} has no text, and "
                f"the file has {count}. {advice}"
            )
        raise MissingDataError(f"{path} has {count} of the {split} split of {declared.name}. {advice}")
    return content, articles


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


def _articles(content: bytes, path: Path, advice: str) -> list[Article]:
    end = content.find(b"\n") + 1
    first = end if not content[:end].strip() else 0
    titles = list(_titles(content, path, advice))
    starts = [first, *(start for start, _ in titles[1:])]
    names = [title for _, title in titles] or [""]
    return [
        _article(content, start, stop, title, path, advice)
        for title, start, stop in zip(names, starts, [*starts[1:], len(content)], strict=True)
    ]


def _article(content: bytes, start: int, stop: int, title: str, path: Path, advice: str) -> Article:
    lines = lines_of(decoded_part(content, start, stop, path, advice))
    return Article(
        title=title,
        start=start,
        stop=stop,
        num_tokens=sum(map(len, lines)) + len(lines),
        digest=hashlib.sha256(content[start:stop]).hexdigest(),
        has_text=not all(map(_is_heading, lines)),
    )


def _titles(content: bytes, path: Path, advice: str) -> Iterator[tuple[int, str]]:
    """Yield the start of each line that is a title between empty lines, and the title."""
    for match in _MAY_BE_TITLE.finditer(content):
        start, stop = match.span()
        title = title_of(decoded_part(content, start, stop, path, advice))
        if title is not None and _is_empty_before(content, start) and _is_empty_after(content, stop):
            yield start, title


def _is_empty_before(content: bytes, start: int) -> bool:
    return start == 0 or not content[content.rfind(b"\n", 0, start - 1) + 1 : start].strip()


def _is_empty_after(content: bytes, stop: int) -> bool:
    end = content.find(b"\n", stop + 1)
    return not content[stop : len(content) if end < 0 else end].strip()


def _is_heading(words: Sequence[str]) -> bool:
    """Return whether a line is empty, or a heading of any level."""
    return not words or (words[0] == _SIGN and words[-1] == _SIGN)
