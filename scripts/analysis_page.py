"""Table of docs/analysis.md, from the declarations of analyses."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

from robench.analyses import ANALYSES

if TYPE_CHECKING:
    from robench.analyses.base import AnalysisBase, Statistic

BEGIN, END = "<!-- analyses -->\n", "<!-- /analyses -->"


def page(text: str) -> str:
    """Return the page with the table of today's analyses between its two marks."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + table() + END + rest.split(END)[1]


def table() -> str:
    """Return a row for each of robench's own analyses."""
    rows = [_row(kind, ANALYSES[kind]) for kind in ANALYSES.builtin]
    return "\n".join(("| kind | shows | needs | statistics | source |", "|---|---|---|---|---|", *rows, ""))


def _row(kind: str, declared: type[AnalysisBase]) -> str:
    needs = [*declared.needs, *["patches"] * declared.needs_grid]
    needs += ["a clean and a perturbed pass"] * (declared.subject == "change")
    numbers = [_number(name, statistic) for name, statistic in declared.statistics.items()]
    source = re.search(r"^Source: (.+?)(?:\n\n|\Z)", inspect.getdoc(declared) or "", re.DOTALL | re.MULTILINE)
    cited = " ".join(source[1].split()).rstrip(".") if source else ""
    return f"| `{kind}` | {declared.title} | {', '.join(needs) or 'no model'} | {'; '.join(numbers)} | {cited} |"


def _number(name: str, statistic: Statistic) -> str:
    labels = {"x": statistic.x, "y": statistic.y}
    axes = ", ".join(labels.get(axis) or axis for axis in statistic.axes)
    unit = f" ({statistic.unit})" if statistic.unit else ""
    return f"`{name}`: {statistic.meaning}{unit}" + (f", by {axes}" if axes else "")
