"""Tables, lists and pages of all renderers: plain text, GitHub's Markdown, CSV and HTML.

Names come from files that strangers write. In Markdown, everything that would be interpreted as emphasis, a link, an
image, mathematics or HTML is escaped. A text that begins with ``=``, ``+``, ``-`` or ``@`` is a formula to a
spreadsheet; an apostrophe before it keeps it text in CSV. HTML is a self-contained page without scripts, fonts or
images, light or dark by preference.
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
_CSS = """\
:root { color-scheme: light dark; --ink: #1c1e21; --paper: #fff; --faint: #5f6670; --line: #d5d9de; --stripe: #f5f6f8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --paper: #16181b; --faint: #9aa2ac; --line: #363b42; --stripe: #1e2125; }
}
body { margin: 2rem auto; max-width: 72rem; padding: 0 1rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .4rem .8rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--paper); font-weight: normal; }
thead th { border-bottom: 2px solid var(--ink); }
tbody tr:nth-child(even) { background: var(--stripe); }
ul, footer { color: var(--faint); font-size: .875rem; overflow-wrap: anywhere; }
"""


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


def html_page(title: str, body: str) -> str:
    """Return a whole page with a title above its body."""
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{escape(title)}</title>
<style>
{_CSS}</style>
</head>
<body>
<h1>{escape(title)}</h1>
{body}
</body>
</html>
"""
