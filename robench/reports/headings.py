"""Headings of LaTeX's tables in up to three lines: suites, groups of columns such as attacks, and columns."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from robench.core.inert import clipped
from robench.core.suite import Column
from robench.metrics import title_of

# Texts of the three lines; empty where a line has none.
Heading = tuple[str, str, str]


def headings_of(
    columns: Sequence[Column], labels: Sequence[str], suites: Sequence[str], names: Mapping[str, str]
) -> tuple[tuple[Heading, ...], str]:
    """Return a heading for each column, and the title of the most frequent metric, which they leave out.

    ``labels`` are the columns' headings in one line, and ``suites`` the names of their suites, empty for no first line.
    ``names`` has new headings of columns by label or condition.
    """
    titles = [title_of(column) if column.group else "" for column in columns]
    usual = max(titles, key=titles.count, default="")
    found: list[Heading] = []
    for (suite, _), run in groupby(range(len(columns)), lambda each: (suites[each], columns[each].group or each)):
        places = list(run)
        is_group, shared = len(places) > 1, titles[places[0]]
        shared = shared if all(titles[each] == shared for each in places) else ""
        group = _joined(columns[places[0]].group, "" if shared == usual else shared) if is_group else ""
        for each in places:
            title, label = titles[each], columns[each].label.removeprefix(f"{suite}: ")
            condition = label.removesuffix(title).strip()
            short = _joined(columns[each].setting, "" if title in (usual, shared) else title) or title
            whole = condition if title == usual and condition else label
            named = names.get(condition) if condition != columns[each].group else None
            heading = names.get(labels[each]) or named or (short if is_group else whole)
            found.append((clipped(suite), clipped(group), clipped(heading)))
    return tuple(found), usual


def _joined(*texts: str) -> str:
    return " ".join(filter(None, texts))
