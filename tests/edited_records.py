"""Random edits of sealed records, each sealed again, and what reading and verification make of them.

Records are committed results: digits under attacks with all columns, language models and classifiers of texts with the
columns of the archive.
"""

import json
import logging
import math
import random
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # likewise

from robench.core.errors import RobenchError
from robench.declare import find_suite
from robench.evaluation.actions import audits_of
from robench.reports import report_of_store
from robench.store import FolderStore
from robench.store.sealed import seal
from robench.store.upkeep import verify_store

REPORTS = Path(__file__).parents[1] / "reports"
SUITES = {name: find_suite(name) for name in ("digits-adv", "sotu-swap", "sotu-eras-splits")}
OF_ARCHIVE = ("sotu-lm", "sotu-fourier-lm", "sotu-eras-finetuned-smoe", "sotu-eras-finetuned-switch")
UNCHANGED, FOUND, MISSING, OTHER = "unchanged", "found", "shown as missing", "another number"
# Edits that nobody can find without the model or the texts: other answers with all that follows from them, and scores
# within the limits that the other columns set. docs/reliability.md names them.
ONLY_THE_MODEL = frozenset(
    {
        "prediction and all that follows from it",
        "losses of all words and of kept ones",
        "column correct_top5",
        "column num_tokens",
        "column num_kept",
        "column loss_nats",
        "column kept_loss_nats",
        "column clean_kept_loss_nats",
        "column unknown_loss_nats",
        "column num_unknown",
    }
)
BLANK = '"sha256":"' + "0" * 64 + '"'
WRONG_TYPES: tuple[Any, ...] = ("0", None, [], {}, 1.5, True, -1, 10**30, "", ["x"], {"a": None})

Numbers = dict[tuple[str, str, str], Any]


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit of one file: what was changed, by a name such as ``column loss_nats``, and how."""

    kind: str
    path: Path
    how: str


def base_folder(folder: Path) -> Path:
    """Write a results folder with records, packs and manifests of three tasks."""
    with TemporaryDirectory() as name, tarfile.open(REPORTS / "demo.tar.xz") as archive:
        archive.extractall(demo := Path(name), filter="data")
        store = FolderStore(demo)
        single = FolderStore(folder)
        for manifest in store.manifests():
            key = manifest.shard.measurement_key
            if manifest.shard.checkpoint == "digits-vit":
                for record in store.records_of([key]):
                    single.put(record)
            else:
                _copy(demo / "records" / key, folder / "records" / key)
    with tarfile.open(REPORTS / "archive.tar.xz") as archive:
        contents: dict[PurePosixPath, bytes] = {}
        for member in archive:
            file = archive.extractfile(member)
            assert file is not None
            contents[PurePosixPath(member.name)] = file.read()
    for path, content in contents.items():
        if json.loads(contents[path.parent / "_manifest.json"])["shard"]["checkpoint"] in OF_ARCHIVE:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
    return folder


def _copy(source: Path, target: Path) -> None:
    target.mkdir(parents=True)
    for path in source.iterdir():
        (target / path.name).write_bytes(path.read_bytes())


def resealed(table: pa.Table, members: Mapping[str, Any]) -> bytes:
    """Return a table with an envelope as a sealed file."""
    sink = BytesIO()
    with pq.ParquetWriter(sink, table.schema.remove_metadata(), store_schema=False) as writer:
        writer.write_table(table.replace_schema_metadata(None))
        writer.add_key_value_metadata({"robench": text_of(members)})
    return seal(sink.getvalue())


def text_of(members: Mapping[str, Any]) -> str:
    """Return an envelope as JSON, with a blank seal at its end."""
    rest = {name: value for name, value in members.items() if name not in ("format", "sha256")}
    return f'{json.dumps(rest, separators=(",", ":"))[:-1]},"format":{members["format"]},{BLANK}}}'


def edit(folder: Path, number: int) -> Edit:
    """Edit a random file of a folder, in place, and seal it again."""
    generator = random.Random(number)
    paths = sorted((folder / "records").rglob("*.*"))
    # As many of each task, of which the folder has different numbers of files.
    task = generator.choice(["digits", "sotu-lm", "sotu-eras"])
    suffix = generator.choice([".json", *[".parquet"] * 4])
    path = generator.choice([each for each in paths if each.suffix == suffix and _task_of(each) == task])
    if path.suffix == ".json":
        members = json.loads(path.read_bytes())
        what, how = _edit_header(members, generator)
        path.write_bytes(seal(text_of(members).encode()))
        return Edit(f"manifest's {what}", path, how)
    table = pq.read_table(path)
    members = json.loads(table.schema.metadata[b"robench"])
    way = generator.choice([_edit_header, _edit_column, _edit_column, _edit_column, _edit_consistently])
    if way is _edit_header:
        what, how = _edit_header(members, generator)
    else:
        table, what, how = way(table, generator)
    path.write_bytes(resealed(table, members))
    return Edit(what, path, how)


def _task_of(path: Path) -> str:
    text = (path.parent / "_manifest.json").read_text()
    name = json.loads(text)["shard"]["checkpoint"]
    return "digits" if name.startswith("digits") else "sotu-eras" if name.startswith("sotu-eras") else "sotu-lm"


def _edit_header(members: dict[str, Any], generator: random.Random) -> tuple[str, str]:
    """Change a field of a header or a provenance: another value, another type, or none."""
    place = generator.choice([each for each in ("shard", "provenance", "headers", "parts") if each in members])
    fields = members[place] if isinstance(members[place], dict) else generator.choice(members[place])
    if place == "shard" and generator.random() < 0.2:
        fields = fields["dataset"]
    name = generator.choice(sorted(fields))
    before = fields[name]
    way = generator.choice(["type", "value", "value", "gone"])
    if way == "gone":
        del fields[name]
    elif way == "type":
        fields[name] = generator.choice(WRONG_TYPES)
    elif isinstance(before, bool | str):
        fields[name] = (not before) if isinstance(before, bool) else generator.choice([before[::-1], before + "x", "9"])
    elif isinstance(before, int | float):
        fields[name] = before + generator.choice([1, -1, 100])
    else:
        fields[name] = generator.choice(WRONG_TYPES)
    return f"field {name}", f"{way}: {before!r:.60} became {fields.get(name)!r:.60}"


def _edit_column(table: pa.Table, generator: random.Random) -> tuple[pa.Table, str, str]:
    """Change some values of a column, or exchange them."""
    place = generator.randrange(table.num_columns)
    field = table.schema.field(place)
    values = table.column(place).to_pylist()
    rows = generator.sample(range(len(values)), k=generator.choice([1, 1, 2, len(values) // 4]))
    way = generator.choice(["other", "other", "extreme", "missing", "exchanged"])
    if way == "exchanged":
        for row, other in zip(rows, reversed(rows), strict=True):
            values[row], values[other] = values[other], values[row]
        values[rows[0]], values[rows[0] - 1] = values[rows[0] - 1], values[rows[0]]
    for row in rows if way != "exchanged" else ():
        values[row] = None if way == "missing" else _changed(values[row], field.type, way, generator)
    if pa.types.is_dictionary(field.type):
        column = pa.array(values, pa.string()).dictionary_encode()
    else:
        column = pa.array(values, field.type)
    changed = table.set_column(place, pa.field(field.name, column.type, nullable=True), column)
    return changed, f"column {field.name}", f"{way} of {len(rows)} rows"


def _changed(value: Any, kind: pa.DataType, way: str, generator: random.Random) -> Any:
    if pa.types.is_boolean(kind):
        return not value
    if pa.types.is_integer(kind):
        return generator.choice([-1, 0, 2**62]) if way == "extreme" else (value or 0) + generator.choice([1, 2, -1])
    if pa.types.is_floating(kind):
        extreme = [math.nan, math.inf, -math.inf, -1.0, 1e300, 0.0]
        return generator.choice(extreme) if way == "extreme" else (value or 0.1) * generator.choice([0.5, 0.9, 1.1, 2])
    return "x" if way == "extreme" else f"{value}x"


def _edit_consistently(table: pa.Table, generator: random.Random) -> tuple[pa.Table, str, str]:
    """Change what follows from each other together, as only someone does who knows what is compared."""
    rows = set(generator.sample(range(len(table)), k=len(table) // 5))
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    if "prediction" in columns:
        # Values of right and of wrong predictions.
        scores = {"correct_top5": (True, True), "confidence": (0.9, 0.9), "loss_nats": (-math.log(0.9), 3.0)}
        for row in rows:
            is_right, target = not columns["correct_top1"][row], columns["target"][row]
            columns["correct_top1"][row] = is_right
            columns["prediction"][row] = target if is_right else (target + 1) % 3
            for name, (right, wrong) in scores.items():
                if name in columns and columns[name][row] is not None:
                    columns[name][row] = right if is_right else wrong
        what = "prediction and all that follows from it"
    else:
        for name in ("loss_nats", "kept_loss_nats"):
            for row in rows if name in columns else ():
                columns[name][row] = None if columns[name][row] is None else 0.8 * columns[name][row]
        what = "losses of all words and of kept ones"
    arrays = [
        table.column(field.name) if pa.types.is_dictionary(field.type) else pa.array(columns[field.name], field.type)
        for field in table.schema
    ]
    return pa.Table.from_arrays(arrays, schema=table.schema.remove_metadata()), what, f"{len(rows)} rows"


def numbers(folder: Path) -> Numbers:
    """Return all numbers of the reports of a folder, and what is missing of them."""
    found: Numbers = {}
    for name, suite in SUITES.items():
        for row in report_of_store(suite, FolderStore(folder)).rows:
            found |= {(name, row.model, key): cell.estimate for key, cell in row.cells.items()}
    return found


def verified(folder: Path) -> bool:
    """Return whether verification finds nothing, as ``robench store verify``."""
    store = FolderStore(folder)
    for suite in SUITES.values():
        store.expect([*suite.conditions, *audits_of(suite)])
    return not verify_store(store).damaged


def outcome_of_edit(folder: Path, before: Numbers, told: list[str] | None = None) -> str:
    """Return what reports and verification make of an edited folder; ``told`` receives the warnings."""
    handler = _Heard([] if told is None else told)
    logger = logging.getLogger("robench.store")
    logger.addHandler(handler)
    try:
        after = numbers(folder)
        is_sound = verified(folder)
    except RobenchError as error:
        handler.told.append(str(error))
        return FOUND
    finally:
        logger.removeHandler(handler)
    if handler.told or not is_sound:
        return FOUND
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    if not changed:
        return UNCHANGED
    return MISSING if all(after.get(key) is None for key in changed) else OTHER


def is_explained(made: Edit, outcome: str) -> bool:
    """Return whether an edit ended as it may: unnoticed with another number only if the model alone could tell."""
    return outcome != OTHER or made.kind in ONLY_THE_MODEL


class _Heard(logging.Handler):
    def __init__(self, told: list[str]) -> None:
        super().__init__()
        self.told = told

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(record.getMessage())
