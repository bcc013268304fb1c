"""Manifest of exported tables: what they are of, and the digests of their files; no time, machine or path."""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from robench.core.providers import OWN
from robench.reports.notes import releases_and_devices

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from robench.core.suite import Suite
    from robench.exports.outcomes import MeasuredCondition

MANIFEST_NAME = "manifest.json"


def manifest_of(
    files: Mapping[Path, int],
    suites: Sequence[Suite],
    measured: Sequence[MeasuredCondition],
    training_seeds: Mapping[str, int],
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the manifest as JSON values.

    Args:
        files: number of rows of each written table.
        suites: in the order of the tables.
        measured: all that the tables are read off, audits included.
        training_seeds: seed of each checkpoint's training, by name, where there is one.
        options: what was asked for.

    Raises:
        OSError: a file cannot be read.
    """
    return {
        "robench": version(OWN),
        "options": dict(options),
        "files": {path.name: {"rows": rows, "sha256": _digest(path)} for path, rows in files.items()},
        "suites": [
            {
                "name": suite.name,
                "version": suite.version,
                "seed": suite.seed,
                "task": suite.task,
                "batch_size": suite.batch_size,
                "dataset": suite.given_dataset,
                "all_examples": suite.all_examples,
            }
            for suite in suites
        ],
        "measurements": [_measurement(each, training_seeds.get(each.model)) for each in measured],
    }


def _measurement(measured: MeasuredCondition, training_seed: int | None) -> dict[str, Any]:
    coverage, shard = measured.coverage, measured.first.shard
    versions, devices = releases_and_devices(record.provenance for record in coverage.records)
    return {
        "suite": measured.suite.name,
        "model": measured.model,
        "training_seed": training_seed,
        "condition": measured.condition.name,
        "is_audit": measured.is_audit,
        "key": shard.measurement_key,
        "weights": shard.weights_digest,
        "dataset": shard.dataset.name,
        "fingerprint": shard.dataset.fingerprint,
        "dataset_size": shard.dataset.num_examples,
        "seed": shard.seed,
        "batch_size": shard.batch_size,
        "num_examples": coverage.num_in,
        "missing": coverage.missing,
        "devices": list(devices),
        "versions": versions,
    }


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
