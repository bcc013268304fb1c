"""Leaderboards as JSON: what ``--format json`` prints, what the page's script reads, and the manifest of the files.

Numbers are unrounded and proportions in [0, 1]; names are unchanged. The manifest has suites, measurement
keys, versions and digests; no time, machine or path.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
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
    sorted by a column a row has its ``rank``, or why it is ``unranked``; its ``group`` where there are several.

    Where models have several training seeds, ``rows`` are checkpoints, and ``mechanisms`` models over their seeds: they
    are ranked, tested and paired, with a ``deviation`` over seeds. Their provenance is that of the rows.
    """
    settings = board.settings
    by_mechanism = () if board.by_mechanism is None else board.by_mechanism.rows
    mechanisms = [_row(replace(row, measured={}), board) for row in by_mechanism]
    return {
        **({} if settings == PLAIN else {"settings": {**asdict(settings), "headline": list(settings.headline)}}),
        "suites": [asdict(suite) for suite in board.suites],
        "test": tests_of(board.shown),
        "columns": [_column(column, board.shown.pairs.get(column.key, {})) for column in board.columns],
        "rows": [_row(row, board) for row in board.rows],
        **({"mechanisms": mechanisms} if mechanisms else {}),
        "notes": list(notes_of(board.shown)),
    }


def packed(values: Sequence[Json]) -> Json:
    """Return JSON values without repetitions, which the page's script unpacks (``elements.js``).

    Of objects it has the packed values of each field, with the places of objects that lack it; where all fields hold
    objects, or all lists, the names and the packed lists of values. Of lists it has the lengths and all items, and of
    other values the distinct ones with their places, or, where most differ, each.

    >>> packed([{"a": 5}, {"a": 5, "b": [1, 2]}])
    {'fields': {'a': [{'of': [5]}], 'b': [{'lengths': {'of': [2]}, 'items': {'of': [1, 2]}}, [0]]}}
    """
    objects = [each for each in values if isinstance(each, dict)]
    lists = [each for each in values if isinstance(each, list)]
    if objects and len(objects) == len(values):
        held = {type(value) for each in objects for value in each.values()}
        if held in ({dict}, {list}):
            return {
                "names": _distinct([[*each] for each in objects]),
                "values": packed([[*each.values()] for each in objects]),
            }
        fields: dict[str, Json] = {}
        for name in dict.fromkeys(name for each in objects for name in each):
            lacking: list[Json] = [place for place, each in enumerate(objects) if name not in each]
            fields[name] = [packed([each[name] for each in objects if name in each]), *([lacking] if lacking else [])]
        return {"fields": fields}
    if lists and len(lists) == len(values):
        items = [item for each in lists for item in each]
        return {"lengths": packed([len(each) for each in lists]), "items": packed(items)}
    return _distinct(values)


def _distinct(values: Sequence[Json]) -> Json:
    texts = [json.dumps(each) for each in values]
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    if len(places) > 1 and len(values) < 2 * len(places):
        return {"of": [*values]}
    found: dict[str, Json] = {"of": [json.loads(text) for text in places]}
    return found if len(places) == 1 else {**found, "places": [places[text] for text in texts]}


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
    document |= {name: text for name, text in (("unranked", row.unranked), ("group", row.group)) if text}
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
