"""Tables and lists of all renderers: plain text, GitHub's Markdown, CSV and HTML.

Names come from files that strangers write. In Markdown, everything that would be interpreted as emphasis, a link, an
image, mathematics or HTML is escaped. A text that begins with ``=``, ``+``, ``-`` or ``@`` is a formula to a
spreadsheet; an apostrophe before it keeps it text in CSV.
"""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence
from html import escape

from tabulate import tabulate

from robench.core.inert import printable

# An underscore inside a word is never emphasis, and escaped it would be hard to read unrendered.
_SPECIAL = re.compile(r"[\\`*\[\]|~$#]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_FORMULA_STARTS = ("=", "+", "-", "@")


def escaped(text: str) -> str:
    """Return text that Markdown shows as it is; printable text is expected."""
    return _SPECIAL.sub(r"\\\g<0>", text).translate(_ENTITIES)


def inert_text(text: str) -> str:
    """Return text that no spreadsheet takes for a formula, with invisible characters escaped."""
    shown = printable(text)
    # Some spreadsheets treat full-width signs as ordinary ones, and ignore blanks before them.
    read = unicodedata.normalize("NFKC", shown).lstrip()
    return f"'{shown}" if read.startswith(_FORMULA_STARTS) else shown


def text_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an aligned table of texts, without colours."""
    # Without disable_numparse 68.70 becomes 68.7 and a model called 1e5 a number.
    return tabulate(list(rows), headers=header, tablefmt="simple", disable_numparse=True)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], num_names: int | None = None) -> str:
    """Return a table in Markdown whose header is escaped, and in each row the first ``num_names`` texts, or all.

    Texts after the names are robench's own, with brackets that need no escaping.
    """
    shown = [[*map(escaped, row[:num_names]), *([] if num_names is None else row[num_names:])] for row in rows]
    return tabulate(shown, headers=[*map(escaped, header)], tablefmt="github", disable_numparse=True)


def csv_of(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV below a header; None is an empty field."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return file.getvalue()


def html_list(notes: Iterable[str]) -> str:
    """Return notes as a list in HTML; nothing without any."""
    items = "".join(f"<li>{escape(note)}</li>\n" for note in notes)
    return f"<ul>\n{items}</ul>\n" if items else ""
