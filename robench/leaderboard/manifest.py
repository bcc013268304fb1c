"""Manifest of a leaderboard's files: suites, measurement keys, versions and digests; no time, machine or path."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING

from robench.core.inert import inert_json
from robench.core.providers import OWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robench.leaderboard.board import ConditionProvenance, Leaderboard
    from robench.reports.json_document import Json

MANIFEST_NAME = "manifest.json"


def render_manifest(board: Leaderboard, files: Mapping[str, str]) -> str:
    """Return the manifest as JSON.

    Args:
        board: the leaderboard.
        files: text of each of its files, by name.
    """
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
