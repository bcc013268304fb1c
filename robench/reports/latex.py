r"""LaTeX of tables: a tabular with the rules of booktabs, which is made smaller where the line is too short for it.

``<``, ``>`` and dashes would print as other characters, and a leading ``[`` is the optional argument of the ``\\`` or
``\midrule`` before it.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from textwrap import wrap

from robench.reports.notes import OF_DEVICES, OF_SEEDS
from robench.reports.table import IN_LATEX, Table

_NEEDS = "% Needs \\usepackage[T1]{fontenc} and \\usepackage{booktabs,graphicx}.\n"
_BEGIN = (
    "{\\small\\noindent\\setlength{\\tabcolsep}{3pt}%\n\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%\n"
    "\\begin{tabular}"
)
# Perhaps with brackets behind it or below it.
_NUMBER = re.compile(r"(.*?)(?:([ \n])([\[(].*[\])]))?", re.DOTALL)
# Of a heading, for each column below it.
_HEADING_WIDTH = 12


def latex_of(table: Table, above: Sequence[str] = (), below: Sequence[str] = ()) -> str:
    """Return a table as a tabular, with texts as paragraphs above it, and blocks of LaTeX between it and its notes.

    With a caption it floats. It needs booktabs, graphicx and T1 fonts. The last closing sentence and the notes on where
    numbers come from are comments.
    """
    shown, style = _without_flags(table).styled, table.style
    of_headings = [f"Headings without a metric: {table.usual}"] if table.usual and shown.headings else []
    stated = [note for note in shown.notes if not _is_of_provenance(note)]
    notes = (*of_headings, *shown.legend(IN_LATEX), *stated, *shown.closing[:-1])
    lines = "\n".join(f"{latex_escaped(text.removesuffix('.'))}." for text in notes)
    texts = "".join(rf"\noindent {latex_escaped(text)}\par" + "\n" for text in above)
    sources = (*shown.closing[-1:], *filter(_is_of_provenance, shown.notes))
    comments = "".join(f"% {latex_escaped(text)}\n" for text in sources)
    notes_below = f"{{\\footnotesize\\raggedright\\smallskip\\noindent\n{lines}\\par}}\n" if lines else ""
    whole = f"{texts}{latex_table(table)}{''.join(below)}{notes_below}"
    if style.caption:
        label = f"\\label{{{style.label}}}\n" if style.label else ""
        whole = (
            f"\\begin{{table}}\n\\centering\n\\caption{{{style.caption}}}\n{label}\\smallskip\n{whole}\\end{{table}}\n"
        )
    return f"{_NEEDS}{comments}{whole}"


def _is_of_provenance(note: str) -> bool:
    return any(f": {beginning}" in note for beginning in (OF_SEEDS, OF_DEVICES))


def latex_table(table: Table) -> str:
    """Return the rows of a table as a tabular, without notes."""
    shown = _without_flags(table).styled
    headings = shown.headings or tuple(("", "", text) for text in shown.header)
    last = _line([_stacked(text, 1, "l" if column == 0 else "r") for column, (_, _, text) in enumerate(headings)])
    heads = f"{_spanning(headings, 0)}{_spanning(headings, 1)}{last}"
    rows = "".join(_row(shown, place) for place in range(len(shown.rows)))
    alignment = "l" + "r" * (len(headings) - 1)
    return f"{_BEGIN}{{{alignment}}}\n\\toprule\n{heads}\\midrule\n{rows}\\bottomrule\n\\end{{tabular}}}}\\par}}\n"


def _without_flags(table: Table) -> Table:
    """Return a table without its column of flags if none is raised, which a note says."""
    if table.header[-1] != "flags" or any(row[-1] != "none" for row in table.rows):
        return table
    rows = tuple(row[:-1] for row in table.rows)
    return replace(
        table, header=table.header[:-1], headings=table.headings[:-1], rows=rows, notes=(*table.notes, "Flags: none")
    )


def _spanning(headings: Sequence[tuple[str, ...]], level: int) -> str:
    """Return a line of headings over several columns, with a rule below each; empty if there are none."""
    cells, rules, place = [], [], 1
    for (*_, text), run in groupby(headings, lambda heading: heading[: level + 1]):
        count = len(list(run))
        if text:
            cells.append(rf"\multicolumn{{{count}}}{{c}}{{{_stacked(text, count, 'c')}}}")
            rules.append(rf"\cmidrule(lr){{{place}-{place + count - 1}}}")
        else:
            cells += [""] * count
        place += count
    return f"{_line(cells)}{''.join(rules)}\n" if rules else ""


def _stacked(text: str, count: int, alignment: str) -> str:
    """Return a heading over so many columns in one line or several."""
    lines = wrap(text, count * _HEADING_WIDTH, break_long_words=False, break_on_hyphens=False)
    stacked = r" \\ ".join(map(latex_escaped, lines))
    return rf"\shortstack[{alignment}]{{{stacked}}}" if len(lines) > 1 else stacked


def _row(table: Table, place: int) -> str:
    """Return a row, and below it one of its intervals if they are there."""
    numbers: list[str] = []
    below: list[str] = []
    for column, text in enumerate(table.rows[place]):
        found = None if column < table.num_names else _NUMBER.fullmatch(text)
        number, separator, interval = (text, None, None) if found is None else found.groups()
        mark, shown = table.marks.get((place, column)), latex_escaped(number)
        shown = shown if mark is None else IN_LATEX[mark][1].format(shown)
        small = f"{{\\scriptsize {latex_escaped(interval or '').removeprefix('{}')}}}"
        numbers.append(rf"{shown}\,{small}" if separator == " " else shown)
        below.append(small if separator == "\n" else "")
    return f"{_line(numbers, '[-2pt]')}{_line(below, '[2pt]')}" if any(below) else _line(numbers)


def _line(cells: Sequence[str], distance: str = "") -> str:
    return rf"{' & '.join(cells)} \\{distance}" + "\n"


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
