"""Settings of a leaderboard that is published: title, first columns, order of rows and note, from a file."""

from collections.abc import Sequence
from dataclasses import replace

from robench.core.errors import UsageError
from robench.declare.boards import leaderboard_entry
from robench.declare.document import Document
from robench.leaderboard.board import BoardColumn, Settings
from robench.reports.arrangement import named_columns


def settings_of(document: Document, columns: Sequence[BoardColumn], costs: Sequence[BoardColumn] = ()) -> Settings:
    """Return the settings of a document for a leaderboard with these columns of its suites and of costs.

    Raises:
        DeclarationError: all problems of the document, also of names that no column has.
    """

    def problem(name: str, is_sort: bool) -> str | None:
        try:
            found = columns_named([*columns, *costs], name)
        except UsageError as error:
            return str(error)
        if is_sort and len(found) > 1:
            return f"{name!r} names several columns; sort by one of {', '.join(each.key for each in found)}"
        if is_sort and not found[0].suite:
            return f"must be a column of a suite, got {name!r}: costs have no test, and so no ranks"
        return None

    entry = leaderboard_entry(document, problem)
    headline = (each.key for name in entry.headline for each in columns_named([*columns, *costs], name))
    return Settings(
        title=entry.title,
        note=entry.note,
        headline=tuple(dict.fromkeys(headline)),
        sort=None if entry.sort is None else columns_named(columns, entry.sort.column)[0].key,
        is_worst_first=entry.sort is not None and entry.sort.direction == "worst-first",
        groups=entry.groups,
    )


def columns_named(columns: Sequence[BoardColumn], name: str) -> list[BoardColumn]:
    """Return the columns that ``name`` names with or without the suite's name before it; see ``named_columns``."""
    keys = [(replace(each.column, key=each.key), each.column) for each in columns]
    found = named_columns([column for both in keys for column in both], name)
    return [each for each, both in zip(columns, keys, strict=True) if any(column in found for column in both)]
