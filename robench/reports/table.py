r"""Tables of printable texts, and one renderer of them for each format: plain text, Markdown, LaTeX, HTML and CSV.

Names come from files that strangers write. In Markdown, everything that would be interpreted as emphasis, a link, an
image, mathematics or HTML is escaped. A text that begins with ``=``, ``+``, ``-`` or ``@`` is a formula to a
spreadsheet; an apostrophe before it keeps it text in CSV. In LaTeX, which is a tabular with the rules of booktabs,
``<``, ``>`` and dashes would print as other characters, and a leading ``[`` is the optional argument of the ``\\`` or
``\midrule`` before it.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from textwrap import wrap

from tabulate import tabulate

from robench.core.inert import printable
from robench.reports.page import html_page


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Table of printable texts, not yet escaped for any format.

    Attributes:
        rows: one text per column.
        paragraphs: sentences below the table; ``notes``: items of a list below these; ``closing``: sentences below all.
        bold: places of emphasised texts in ``rows``: row, then column.
        num_names: number of first texts of a row that are names of others; the following ones are robench's own, with
            brackets that need no escaping in Markdown.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    paragraphs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    closing: tuple[str, ...] = ()
    bold: frozenset[tuple[int, int]] = frozenset()
    num_names: int = 1

    def lines(self, mark: Callable[[str], str], shown: Callable[[str], str] = str) -> list[list[str]]:
        """Return the rows with each text escaped by ``shown``, and emphasised ones marked."""
        return [
            [mark(shown(text)) if (place, column) in self.bold else shown(text) for column, text in enumerate(row)]
            for place, row in enumerate(self.rows)
        ]

    @property
    def transposed(self) -> Table:
        """Return the same texts with rows as columns."""
        header, *rows = zip(self.header, *self.rows, strict=True)
        bold = frozenset((column - 1, row + 1) for row, column in self.bold)
        return replace(self, header=header, rows=tuple(rows), bold=bold)


_LABEL_WIDTH = 14


def text_of(table: Table, *, width: int | None = None) -> str:
    """Return a table as aligned text without colours, emphasised texts with an asterisk.

    Headers of a table wider than ``width`` characters are wrapped; if it is still wider, it is transposed where that is
    narrower.
    """
    notes = "\n".join(f"- {note}" for note in table.notes)
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
    return text_table(table.header, table.lines("{} *".format))


def _width(text: str) -> int:
    return max(map(len, text.splitlines()))


def text_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an aligned table of texts, without colours."""
    # Without disable_numparse 68.70 becomes 68.7 and a model called 1e5 a number.
    return tabulate(list(rows), headers=header, tablefmt="simple", disable_numparse=True)


def markdown_of(table: Table, above: Sequence[str] = (), below: Sequence[str] = ()) -> str:
    """Return a table in GitHub's Markdown, with blocks of Markdown above it, and between it and what follows it."""
    notes = "\n".join(f"- {escaped(note)}" for note in table.notes)
    texts = (*map(escaped, table.paragraphs), notes, *map(escaped, table.closing))
    return "\n\n".join(block for block in (*above, markdown_table(table), *below, *texts) if block) + "\n"


def markdown_table(table: Table) -> str:
    """Return the rows of a table in Markdown, without notes."""
    num_names = table.num_names
    lines = [[*map(escaped, row[:num_names]), *row[num_names:]] for row in table.lines("**{}**".format)]
    return tabulate(lines, headers=[*map(escaped, table.header)], tablefmt="github", disable_numparse=True)


# An underscore inside a word is never emphasis, and escaped it would be hard to read unrendered.
_SPECIAL = re.compile(r"[\\`*\[\]|~$#]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def escaped(text: str) -> str:
    """Return text that Markdown shows as it is; printable text is expected."""
    return _SPECIAL.sub(r"\\\g<0>", text).translate(_ENTITIES)


def latex_of(table: Table, above: Sequence[str] = (), below: Sequence[str] = ()) -> str:
    """Return a table as a tabular, with texts as paragraphs above it, and blocks of LaTeX between it and its notes.

    It needs booktabs and T1 fonts.
    """
    texts = "".join(rf"\noindent {latex_escaped(text)}\par" + "\n" for text in above)
    notes = "".join(rf"\par\noindent {latex_escaped(text)}" + "\n" for text in (*table.notes, *table.closing))
    needs = "% Needs \\usepackage[T1]{fontenc} and \\usepackage{booktabs}.\n"
    return f"{needs}{texts}{latex_table(table)}{''.join(below)}{{\\footnotesize\n{notes}\\par}}\n"


def latex_table(table: Table) -> str:
    """Return the rows of a table as a tabular, without notes."""
    header, *rows = (
        rf"{' & '.join(line)} \\" + "\n"
        for line in (map(latex_escaped, table.header), *table.lines(r"\textbf{{{}}}".format, latex_escaped))
    )
    alignment = "l" + "r" * (len(table.header) - 1)
    return (
        f"\\begin{{tabular}}{{{alignment}}}\n\\toprule\n{header}\\midrule\n{''.join(rows)}\\bottomrule\n"
        "\\end{tabular}\n"
    )


_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
        "—": r"\textemdash{}",
        "…": r"\ldots{}",
        "†": r"\textdagger{}",
        **{character: f"\\{character}" for character in "&%$#_{}"},
    }
)


def latex_escaped(text: str) -> str:
    """Return text that LaTeX prints as it is; printable text is expected."""
    # Two hyphens in a row would print as one dash.
    escaped = re.sub("-(?=-)", "-{}", text.translate(_LATEX))
    return f"{{}}{escaped}" if escaped.lstrip().startswith(("[", "*")) else escaped


def html_of(table: Table) -> str:
    """Return a table as a whole page: title, table, notes, closing sentences."""
    footer = f"<footer>{escape(' '.join(table.closing))}</footer>"
    shown = html_table(table.header, table.lines("<b>{}</b>".format, escape))
    return html_page(table.title, f'<div class="scroll">\n{shown}</div>\n{html_list(table.notes)}{footer}')


def fragment_of(table: Table) -> str:
    """Return a table as elements for a notebook."""
    shown = html_table(table.header, table.lines("<b>{}</b>".format, escape))
    below = f"<p><small>{escape(' '.join(table.closing))}</small></p>\n"
    return f"<div>\n{shown}{html_list(table.notes)}{below}</div>\n"


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
