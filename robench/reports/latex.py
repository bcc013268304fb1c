r"""LaTeX renderer: a tabular with the rules of booktabs, for inclusion in a table environment.

pandas' own escaping does not escape ``<``, ``>``, dashes and a leading ``[``. The first three print as other
characters, and the last is taken for the optional argument of the ``\\`` or ``\midrule`` before it; so texts are
escaped here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from robench.reports.grid import grid_of

if TYPE_CHECKING:
    from robench.core.report import Report
    from robench.reports.grid import Grid

_ESCAPES = str.maketrans(
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


def render_latex(report: Report) -> str:
    """Render the report as a tabular, with notes and one line of provenance below; needs booktabs and T1 fonts."""
    return latex_of(grid_of(report))


def latex_of(grid: Grid) -> str:
    """Render a grid as a tabular."""
    import pandas as pd

    frame = pd.DataFrame(grid.lines(r"\textbf{{{}}}".format, _escape), columns=[_escape(text) for text in grid.header])
    column_format = "l" + "r" * (len(grid.header) - 1)
    table = frame.style.hide(axis="index").to_latex(hrules=True, column_format=column_format)
    below = "".join(rf"\par\noindent {_escape(text)}" + "\n" for text in (*grid.notes, grid.provenance))
    return (
        f"% Needs \\usepackage[T1]{{fontenc}} and \\usepackage{{booktabs}}.\n{table}{{\\footnotesize\n{below}\\par}}\n"
    )


def _escape(text: str) -> str:
    # Two hyphens in a row would print as one dash.
    escaped = re.sub("-(?=-)", "-{}", text.translate(_ESCAPES))
    return f"{{}}{escaped}" if escaped.lstrip().startswith(("[", "*")) else escaped
