"""Export of suites from a store into a folder: cells, outcomes, and a manifest.

The manifest says what the tables are of and has the digests of their files; no time, machine or path.
"""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types

from robench.core.errors import UsageError
from robench.core.files import replacing, write_whole, writing
from robench.core.inert import inert_json
from robench.core.library_watch import OWN
from robench.core.protocols import Store
from robench.core.suite import Suite
from robench.exports.tables import CELLS, FORMATS, MeasuredCondition, cells_of, measured_by, outcomes_of, schema_for
from robench.reports import report_of_store
from robench.reports.notes import releases_and_devices


def outcomes_table(
    suites: Sequence[Suite],
    store: Store,
    *,
    models: Sequence[str] | None = None,
    limit: int | None = None,
    seed: int | None = None,
    training_seeds: Mapping[str, int] | None = None,
) -> pa.Table:
    """Return the outcomes of some suites as one table, as ``export`` writes them; arguments and errors are its own."""
    schema = schema_for(suites)
    parts: list[pa.Table] = []
    for suite in suites:
        report = report_of_store(suite, store, models=models, limit=limit, seed=seed)
        for each in measured_by(suite, store, report, limit=limit):
            parts += [] if each.is_audit else outcomes_of(each, store, schema, training_seeds or {})
    return pa.concat_tables([schema.empty_table(), *parts]).unify_dictionaries()


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """Result of an export; ``limited`` as of ``core.report.Report``."""

    files: Mapping[Path, int]
    num_missing: int
    limited: Mapping[str, int]


def export(
    suites: Sequence[Suite],
    store: Store,
    folder: Path,
    *,
    format_name: str,
    models: Sequence[str] | None = None,
    limit: int | None = None,
    seed: int | None = None,
    all_seeds: bool = False,
    training_seeds: Mapping[str, int] | None = None,
) -> Exported:
    """Write the tables ``cells`` and ``outcomes`` and ``manifest.json``, in place of existing ones.

    Suites have different names; ``models``, ``limit`` and ``seed`` are as of ``reports.report_of_store``. The folder is
    created; ``format_name`` is a key of ``FORMATS``, the suffix of the tables. ``all_seeds`` adds the means over the
    training seeds of each model, and ``training_seeds`` has that of each checkpoint by name, where it is known.

    Raises:
        UsageError: the limit is below 1, or two suites have one name or do not fit into one table.
        StoreError: a file cannot be read, or the folder not be written; existing files are unharmed.
    """
    names = [suite.name for suite in suites]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"two suites are named {twice[0]!r}; export them into folders of their own")
    seeds = training_seeds or {}
    schema = schema_for(suites)
    cells: list[pa.Table] = []
    measured: list[MeasuredCondition] = []
    limited: dict[str, int] = {}
    for suite in suites:
        report = report_of_store(suite, store, models=models, limit=limit, seed=seed)
        limited |= report.limited
        cells.append(cells_of(suite, report, seeds, all_seeds=all_seeds))
        measured += measured_by(suite, store, report, limit=limit)
    outcomes = (part for each in measured if not each.is_audit for part in outcomes_of(each, store, schema, seeds))
    tables = {f"cells.{format_name}": (CELLS, cells), f"outcomes.{format_name}": (schema, outcomes)}
    options = {"format": format_name, "models": models, "limit": limit, "seed": seed, "all_seeds": all_seeds}
    with writing(folder):
        with ExitStack() as written:
            parts = {name: written.enter_context(replacing(folder / name)) for name in tables}
            num_rows = {name: FORMATS[format_name](parts[name], *table) for name, table in tables.items()}
        files = {folder / name: count for name, count in num_rows.items()}
        manifest = manifest_of(files, suites, measured, seeds, options)
        write_whole(folder / MANIFEST_NAME, (inert_json(manifest) + "\n").encode())
    num_missing = sum(table.column("value").null_count for table in cells)
    return Exported(files=files, num_missing=num_missing, limited=limited)


MANIFEST_NAME = "manifest.json"


def manifest_of(
    files: Mapping[Path, int],
    suites: Sequence[Suite],
    measured: Sequence[MeasuredCondition],
    training_seeds: Mapping[str, int],
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the manifest as JSON values: suites in the order of the tables, audits included in what is measured.

    ``files`` has the number of rows of each written table.
    """
    return {
        "robench": version(OWN),
        "options": dict(options),
        "files": {path.name: {"rows": rows, "sha256": _digest(path)} for path, rows in files.items()},
        "suites": [
            {name: getattr(suite, name) for name in ("name", "version", "seed", "task", "batch_size")}
            | {"dataset": suite.given_dataset, "all_examples": suite.all_examples}
            for suite in suites
        ],
        "measurements": [_measurement(each, training_seeds.get(each.model)) for each in measured],
    }


def _measurement(measured: MeasuredCondition, training_seed: int | None) -> dict[str, Any]:
    coverage, shard = measured.coverage, measured.coverage.records[0].shard
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
