"""Tables of printable texts, and renderers of them: plain text, Markdown, HTML and CSV; LaTeX is in ``latex.py``.

Names come from files that strangers write. In Markdown, everything that would be interpreted as emphasis, a link, an
image, mathematics or HTML is escaped. A text that begins with ``=``, ``+``, ``-`` or ``@`` is a formula to a
spreadsheet; an apostrophe before it keeps it text in CSV.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import chain
from textwrap import wrap

from tabulate import tabulate

from robench.core.errors import UsageError, did_you_mean
from robench.core.inert import printable
from robench.core.rendered import PLAIN_STYLE, Style
from robench.reports.page import html_page

# Name and format of each mark in a format of tables.
Marks = Mapping[str, tuple[str, str]]
_IN_TEXT: Marks = {"bold": ("*", "{} *"), "underlined": ("~", "{} ~")}
_IN_MARKDOWN: Marks = {"bold": ("bold", "**{}**"), "underlined": ("italic", "*{}*")}
_IN_HTML: Marks = {"bold": ("bold", "<b>{}</b>"), "underlined": ("underlined", "<u>{}</u>")}
IN_LATEX: Marks = {"bold": ("bold", r"\textbf{{{}}}"), "underlined": ("underlined", r"\underline{{{}}}")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Table of printable texts, not yet escaped for any format.

    Attributes:
        rows: one text per column.
        paragraphs: sentences below the table; ``notes``: items of a list below these; ``closing``: sentences below all.
        marks: ``bold`` or ``underlined`` by place in ``rows``, row and column. A number is bold if a test distinguishes
            it from all others; else the best and those close to it are underlined, unless all are.
        tests: names of the tests behind marks; None for numbers that are not compared.
        headings: headings of LaTeX; empty for those of ``header``; ``usual``: title of the metric that they leave out.
        num_names: number of first texts of a row that are names of others; the following ones are robench's own, with
            brackets that need no escaping in Markdown.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    paragraphs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    closing: tuple[str, ...] = ()
    marks: Mapping[tuple[int, int], str] = field(default_factory=dict)
    tests: str | None = None
    headings: tuple[tuple[str, str, str], ...] = ()
    usual: str = ""
    num_names: int = 1
    style: Style = PLAIN_STYLE

    def lines(self, marks: Marks, shown: Callable[[str], str] = str) -> list[list[str]]:
        """Return the rows with each text escaped by ``shown``, and marked."""
        return [
            [
                marks[self.marks[place, column]][1].format(shown(text))
                if (place, column) in self.marks
                else shown(text)
                for column, text in enumerate(row)
            ]
            for place, row in enumerate(self.rows)
        ]

    def legend(self, marks: Marks) -> tuple[str, ...]:
        """Return the sentence on the marks; none where numbers are not compared."""
        if self.tests is None:
            return ()
        means = {"bold": "better than all other models", "underlined": "the best, or not distinguishable from it"}
        words = [f"{marks[mark][0]}: {text}" for mark, text in means.items() if mark in self.marks.values()]
        text = "; ".join([*words, "where no model is marked, none is distinguishable from the best"])
        return (f"{text[0].upper()}{text[1:]} (at 5 %{'; ' if self.tests else ''}{self.tests}).",)

    @property
    def texts(self) -> set[str]:
        """Return the names of models and columns, and the words of headings, that a style may rename."""
        return {*self.header, *chain(*self.headings), *chain(*(row[: self.num_names] for row in self.rows))} - {""}

    @property
    def styled(self) -> Table:
        """Return the table with the names, intervals and orientation of its style."""
        style, rename = self.style, renaming(self.style.renames)
        before = {"cell": " [", "row": "\n["}.get(style.intervals)

        def placed(text: str) -> str:
            number, bracket, interval = text.partition(" [")
            return f"{number}{before}{interval}" if bracket and before else number

        rows = [(*map(rename, row[: self.num_names]), *map(placed, row[self.num_names :])) for row in self.rows]
        table = replace(
            self,
            header=tuple(map(rename, self.header)),
            rows=tuple(rows),
            paragraphs=tuple(map(rename, self.paragraphs)),
            notes=tuple(map(rename, self.notes)),
            # The last one has provenance under its own names.
            closing=(*map(rename, self.closing[:-1]), *self.closing[-1:]),
            headings=tuple((rename(suite), rename(group), rename(text)) for suite, group, text in self.headings),
            style=PLAIN_STYLE,
        )
        return table.transposed if style.is_transposed else table

    @property
    def transposed(self) -> Table:
        """Return the same texts with rows as columns."""
        header, *rows = zip(self.header, *self.rows, strict=True)
        marks = {(column - 1, row + 1): mark for (row, column), mark in self.marks.items()}
        return replace(self, header=header, rows=tuple(rows), marks=marks, headings=())


def renaming(names: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that replaces names in a text, where they are words, all at once.

    >>> renaming({"vit": "ViT", "pgd": "vit"})("vit, vit@1: pgd-4 and pgd.")
    'ViT, vit@1: pgd-4 and vit.'
    """
    words = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    pattern = re.compile(rf"(?<![\w@/.-])(?:{words})(?![\w@/-]|\.\w)")
    return (lambda text: pattern.sub(lambda found: names[found[0]], text)) if names else str


def with_labels(style: Style, labels: Mapping[str, str], texts: Collection[str]) -> Style:
    """Return a style whose names are labels of columns in place of their keys.

    Raises:
        UsageError: a name occurs in none of the texts of the tables.
    """
    names = {labels.get(old, old): new for old, new in style.renames.items()}
    for old in names:
        rename = renaming({old: ""})
        if all(rename(text) == text for text in texts):
            raise UsageError(f"no model or column is named {old!r}, to be renamed.{did_you_mean(old, texts)}")
    return replace(style, renames=names)


_LABEL_WIDTH = 14


def text_of(table: Table, *, width: int | None = None) -> str:
    """Return a table as aligned text without colours, emphasised texts with an asterisk.

    Headers of a table wider than ``width`` characters are wrapped; if it is still wider, it is transposed where that is
    narrower.
    """
    table = table.styled
    notes = "\n".join(f"- {note}" for note in (*table.legend(_IN_TEXT), *table.notes))
    shown = _narrow_text(table, width) if width is not None else _aligned(table)
    return "\n\n".join(part for part in (shown, *table.paragraphs, notes, *table.closing) if part) + "\n"


def _narrow_text(table: Table, width: int) -> str:
    wrapped = tuple(
        "\n".join(wrap(each, _LABEL_WIDTH, break_long_words=False, break_on_hyphens=False)) for each in table.header
    )
    shown = [_aligned(table), _aligned(replace(table, header=wrapped))]
    fitting = [each for each in shown if _width(each) <= width or not table.rows]
    return fitting[0] if fitting else min(shown[0], _aligned(table.transposed), key=_width)


def _aligned(table: Table) -> str:
    return text_table(table.header, table.lines(_IN_TEXT))


def _width(text: str) -> int:
    return max(map(len, text.splitlines()))


def text_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an aligned table of texts, without colours."""
    # Without disable_numparse 68.70 becomes 68.7 and a model called 1e5 a number.
    return tabulate(list(rows), headers=header, tablefmt="simple", disable_numparse=True)


def markdown_of(table: Table, above: Sequence[str] = (), below: Sequence[str] = ()) -> str:
    """Return a table in GitHub's Markdown, with blocks of Markdown above it, and between it and what follows it."""
    styled = table.styled
    notes = "\n".join(f"- {escaped(note)}" for note in (*styled.legend(_IN_MARKDOWN), *styled.notes))
    texts = (*map(escaped, styled.paragraphs), notes, *map(escaped, styled.closing))
    return "\n\n".join(block for block in (*above, markdown_table(table), *below, *texts) if block) + "\n"


def markdown_table(table: Table) -> str:
    """Return the rows of a table in Markdown, without notes."""
    table, num_names = table.styled, table.num_names
    lines = [[*map(escaped, row[:num_names]), *row[num_names:]] for row in table.lines(_IN_MARKDOWN, _broken)]
    return tabulate(lines, headers=[*map(escaped, table.header)], tablefmt="github", disable_numparse=True)


def _broken(text: str) -> str:
    return text.replace("\n", "<br>")


# An underscore inside a word is never emphasis, and escaped it would be hard to read unrendered.
_SPECIAL = re.compile(r"[\\`*\[\]|~$#]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def escaped(text: str) -> str:
    """Return text that Markdown shows as it is; printable text is expected."""
    return _SPECIAL.sub(r"\\\g<0>", text).translate(_ENTITIES)


def html_of(table: Table) -> str:
    """Return a table as a whole page: title, table, notes, closing sentences."""
    footer = f"<footer>{escape(' '.join(table.closing))}</footer>"
    shown, notes = _html_parts(table)
    return html_page(table.title, f'<div class="scroll">\n{shown}</div>\n{notes}{footer}')


def fragment_of(table: Table) -> str:
    """Return a table as elements for a notebook."""
    below = f"<p><small>{escape(' '.join(table.closing))}</small></p>\n"
    return f"<div>\n{''.join(_html_parts(table))}{below}</div>\n"


def _html_parts(table: Table) -> tuple[str, str]:
    """Return the rows of a table in HTML, and its notes."""
    table = table.styled
    shown = html_table(table.header, table.lines(_IN_HTML, lambda text: _broken(escape(text))))
    return shown, html_list((*table.legend(_IN_HTML), *table.notes))


def html_table(header: Iterable[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """Return a table of escaped rows in HTML, headed by their first text, with a caption for screen readers."""
    captions = [f'<caption class="hidden-text">{escape(caption)}</caption>\n'] if caption else []
    heads = "".join(f'<th scope="col">{escape(text)}</th>' for text in header)
    lines = "".join(
        f'<tr><th scope="row">{name}</th>{"".join(f"<td>{text}</td>" for text in texts)}</tr>\n'
        for name, *texts in rows
    )
    return f"<table>\n{''.join(captions)}<thead><tr>{heads}</tr></thead>\n<tbody>\n{lines}</tbody>\n</table>\n"


def html_list(notes: Iterable[str]) -> str:
    """Return notes as a list in HTML; nothing without any."""
    items = "".join(f"<li>{escape(note)}</li>\n" for note in notes)
    return f"<ul>\n{items}</ul>\n" if items else ""


def csv_of(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV below a header; None is an empty field, and no text is a formula to a spreadsheet."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([inert_text(each) if isinstance(each, str) else each for each in row] for row in rows)
    return file.getvalue()


def inert_text(text: str) -> str:
    """Return text that no spreadsheet takes for a formula, with invisible characters escaped."""
    shown = printable(text)
    # Some spreadsheets treat full-width signs as ordinary ones, and ignore blanks before them.
    read = unicodedata.normalize("NFKC", shown).lstrip()
    return f"'{shown}" if read.startswith(("=", "+", "-", "@")) else shown
