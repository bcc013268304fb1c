"""Reader of leaderboard files: title, first columns, order of rows and note of a leaderboard."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from robench.declare.document import Document, Place, Problem
from robench.declare.schema import attempt, construct


@dataclass(frozen=True, slots=True, kw_only=True)
class SortEntry:
    """Entry of the order of a leaderboard's rows in a file.

    Attributes:
        column: column by which rows are sorted and ranked, such as ``pgd/top1_accuracy``; with the suite's name before
            it where several suites have it.
        direction: ``best-first`` or ``worst-first``; rows without the number come last.
    """

    column: str
    direction: Literal["best-first", "worst-first"] = "best-first"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderboardEntry:
    """Entry of a leaderboard in a file, below ``leaderboard``.

    Attributes:
        title: title of the leaderboard; empty for the names of its suites.
        headline: columns to show first, in this order: keys, metrics, conditions or patterns such as ``pgd*``; the
            others are folded away. Empty for all, in the order of the suites.
        sort: order of the rows, and column of the ranks; null for rows by name, without ranks.
        note: text below the title.
        groups: patterns of names of models, such as ``cifar10-adversarial-*``, by the name of a group with a ranking of
            its own, in this order. A model is in the first that matches; others by whether their recipe in a registry
            is adversarial training.
    """

    title: str = ""
    headline: tuple[str, ...] = ()
    sort: SortEntry | None = None
    note: str = ""
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderboardFile:
    """Content of a leaderboard file.

    Attributes:
        leaderboard: settings of the leaderboard.
    """

    leaderboard: LeaderboardEntry


def leaderboard_entry(
    document: Document, column_problem: Callable[[str, bool], str | None] = lambda name, is_sort: None
) -> LeaderboardEntry:
    """Return the leaderboard of a document.

    ``column_problem`` returns the problem with the name of a column, of ``sort`` if the second argument is true, or
    None. By default names of columns are not checked, since suites have them.

    Raises:
        DeclarationError: all problems of the document.
    """
    problems: list[Problem] = []
    entry = attempt(partial(construct, LeaderboardFile), document, (), problems)
    sort: Place = ("leaderboard", "sort", "column")
    headline: Place = ("leaderboard", "headline")
    for place in (*((*headline, index) for index, _ in enumerate(document.list_at(*headline))), sort):
        name = document.at(*place)
        if isinstance(name, str) and (wrong := column_problem(name, place == sort)):
            problems.append(document.problem(place, wrong))
    return document.settle(entry, problems).leaderboard
