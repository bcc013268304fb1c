"""Leaderboards as JSON: what ``--format json`` prints, what the page's script reads, and the manifest of the files.

Numbers are unrounded and proportions in [0, 1]; names are unchanged. The manifest has suites, measurement
keys, versions and digests; no time, machine or path.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from math import isinf

from robench.comparison.pairing import PairTest
from robench.core.inert import inert_json
from robench.core.library_watch import OWN
from robench.leaderboard.board import PLAIN, BoardColumn, BoardRow, ConditionProvenance, Leaderboard
from robench.leaderboard.tables import notes_of, tests_of
from robench.reports.grid import cell_text
from robench.reports.machine_readable import Json, plain_cell, scope_of


def render_json(board: Leaderboard) -> str:
    """Return the leaderboard as one JSON document, see ``document_of``; raises ValueError if a number is NaN."""
    return inert_json(document_of(board)) + "\n"


def document_of(board: Leaderboard) -> dict[str, Json]:
    """Return the leaderboard as JSON values.

    A cell has ``value``, ``low``, ``high``, ``num_examples`` and ``missing`` as in a report, ``text`` as tables
    print it, ``is_infinite`` where its value is, and its rank: ``is_best``, ``is_close``, and ``p``, ``p_corrected``
    and ``test`` where it was tested. ``pairs`` of a column are ``[row, row, p, test]``, rows counted from 0, not
    corrected; ``num_columns`` is what they are multiplied by. With settings there are ``settings``, and where rows are
    sorted by a column a row has its ``rank``, or why it is ``unranked``.
    """
    settings = board.settings
    return {
        **({} if settings == PLAIN else {"settings": {**asdict(settings), "headline": list(settings.headline)}}),
        "suites": [asdict(suite) for suite in board.suites],
        "test": tests_of(board),
        "columns": [_column(column, board.pairs.get(column.key, {})) for column in board.columns],
        "rows": [_row(row, board) for row in board.rows],
        "notes": list(notes_of(board)),
    }


def _column(column: BoardColumn, pairs: Mapping[tuple[int, int], PairTest]) -> Json:
    return {
        "key": column.key,
        "suite": column.suite,
        "column": column.column.key,
        "label": column.label,
        "metric": column.column.metric,
        "title": column.metric,
        "unit": column.unit,
        "interval": column.interval,
        "lower_is_better": column.lower_is_better,
        "conditions": list(column.column.conditions),
        "measurements": list(column.measurements),
        "num_columns": column.num_columns,
        "pairs": [[first, second, each.p_value, each.test] for (first, second), each in pairs.items()],
    }


def _row(row: BoardRow, board: Leaderboard) -> Json:
    document: dict[str, Json] = {"model": row.model}
    if row.entry is not None:
        document["entry"] = {**asdict(row.entry), "links": list(row.entry.links)}
    if row.rank is not None:
        document["rank"] = row.rank
    if row.unranked:
        document["unranked"] = row.unranked
    document |= scope_of(row)
    document["cells"] = {column.key: _cell(row, column.key) for column in board.columns}
    document["measured"] = {
        key: [{**asdict(each), "devices": list(each.devices)} for each in found] for key, found in row.measured.items()
    }
    if row.notes:
        document["notes"] = list(row.notes)
    if row.flags is not None:
        document["flags"] = [
            {"suites": list(suites), **asdict(flag)} for suites, flag in zip(row.flag_suites, row.flags, strict=True)
        ]
    return document


def _cell(row: BoardRow, key: str) -> Json:
    cell, rank = row.cells[key], row.ranks.get(key)
    document = plain_cell(cell) | {"text": cell_text(cell)}
    if cell.estimate is not None and isinf(cell.estimate.value):
        document["is_infinite"] = True
    if rank is not None:
        document |= {"is_best": rank.is_best, "is_close": rank.is_close}
        document |= {} if rank.p is None else {"p": rank.p, "p_corrected": rank.adjusted, "test": rank.test}
    return document


MANIFEST_NAME = "manifest.json"


def render_manifest(board: Leaderboard, files: Mapping[str, str]) -> str:
    """Return the manifest as JSON; ``files`` has the text of each file of the leaderboard, by name."""
    document: dict[str, Json] = {
        "robench": version(OWN),
        "files": {name: {"sha256": hashlib.sha256(text.encode()).hexdigest()} for name, text in files.items()},
        "suites": [
            {"name": suite.name, "version": suite.version, "seed": suite.seed, "batch_size": suite.batch_size}
            for suite in board.suites
        ],
        "measurements": [
            {
                "model": row.model,
                "limit": row.limit,
                "all_examples": row.all_examples,
                "suite": key.partition("/")[0],
                **_measurement(each),
            }
            for row in board.rows
            for key, found in row.measured.items()
            for each in found
        ],
    }
    return inert_json(document) + "\n"


def _measurement(measured: ConditionProvenance) -> dict[str, Json]:
    document: dict[str, Json] = {**asdict(measured), "devices": list(measured.devices)}
    del document["finished_at"]
    return document
