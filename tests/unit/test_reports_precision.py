"""Results in other precisions: their own keys and headers, found only when asked for, and marked in every table."""

import csv
import io
import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from examples import CHECKPOINT, MEASUREMENT, PROVENANCE, failure_of, outcome_of, record_of
from robench.core.errors import UsageError
from robench.core.records import Record
from robench.core.shard import DatasetIdentity, Shard
from robench.core.suite import Column, Condition, Suite
from robench.datasets.digits import DIGITS
from robench.leaderboard import ranked
from robench.perturbations.clean import Clean
from robench.reports import RENDERERS, build_report, holdings_of, needs, report_of_store
from robench.reports.holdings import unused_in
from robench.reports.results import Listing
from robench.reports.seeds import over_seeds
from robench.runs.request import RunRequest
from robench.store import MemoryStore
from robench.store.envelope import envelope_text, members_of, shard_of
from robench.store.parquet import decode_record, encode_record

CLEAN = Condition(name="clean", dataset=DIGITS, perturbation=Clean())
COLUMN = Column(key="clean/top1_accuracy", label="clean", metric="top1_accuracy", conditions=("clean",))
SUITE = Suite(
    name="tiny",
    version=1,
    seed=0,
    task="classification",
    batch_size=4,
    conditions=(CLEAN,),
    metrics=("top1_accuracy",),
    columns=(COLUMN,),
)


def shard_in(dtype: str, model: str = "vit") -> Shard:
    measurement = replace(
        MEASUREMENT,
        checkpoint=replace(CHECKPOINT, name=model),
        condition=CLEAN,
        dataset=DatasetIdentity(name=DIGITS.name, fingerprint="f", num_examples=4),
        batch_size=4,
        dtype=dtype,
        weights_digest=model.encode().hex().ljust(64, "0"),
    )
    return Shard(measurement=measurement, start=0, stop=4)


def record_in(dtype: str, num_right: int, model: str = "vit", time: str = PROVENANCE.finished_at) -> Record:
    outcomes = [outcome_of(f"digits-{index:05d}", index < num_right) for index in range(4)]
    return record_of(shard_in(dtype, model).header, outcomes, replace(PROVENANCE, finished_at=time))


# The newest is in half precision.
RECORDS = [record_in("float32", 4), record_in("bfloat16", 3, time="2026-11-22T11:00:00+00:00"), record_in("float16", 2)]


def store_of(*records: Any) -> MemoryStore:
    store = MemoryStore()
    for record in records:
        store.put(record)
    return store


class TestIdentity:
    def test_each_precision_has_its_keys_and_float32_those_from_before(self) -> None:
        shards = [shard_in(dtype) for dtype in ("float32", "bfloat16", "float16")]
        assert len({shard.key for shard in shards}) == 3
        assert shards[0].measurement.identity["dtype"] == "float32"
        assert shards[0].key == replace(shards[0], measurement=replace(shards[1].measurement, dtype="float32")).key

    def test_headers_say_it_and_are_otherwise_as_before_they_could(self) -> None:
        exact, half = shard_in("float32").header, shard_in("bfloat16").header
        assert "dtype" not in members_of(exact)
        assert "dtype" not in envelope_text(exact, PROVENANCE)
        assert members_of(half)["dtype"] == "bfloat16"
        for record in RECORDS:
            assert decode_record(encode_record(record)) == record
            table = pq.read_table(pa.BufferReader(encode_record(record)))
            # Whoever reads the files without robench groups by this column.
            assert set(table["model"].to_pylist()) == {"vit" if record is RECORDS[0] else f"vit ({record.shard.dtype})"}
        # Headers from before the field existed.
        assert shard_of({"shard": members_of(exact)}).dtype == "float32"


class TestSelection:
    def test_results_are_found_in_the_precision_asked_for_alone(self) -> None:
        headers = [record.shard for record in RECORDS]
        assert [needs(SUITE)(each) for each in headers] == [True, False, False]
        assert [needs(SUITE, precision="float16")(each) for each in headers] == [False, False, True]
        assert all(needs(SUITE, precision=None)(each) for each in headers)

    @pytest.mark.parametrize(("precision", "value"), [("float32", 1.0), ("bfloat16", 0.75), ("float16", 0.5)])
    def test_tables_mix_none(self, precision: str, value: float) -> None:
        for report in (
            build_report(SUITE, RECORDS, precision=precision),
            report_of_store(SUITE, store_of(*RECORDS), precision=precision),
        ):
            (row,) = report.rows
            estimate = row.cells[COLUMN.key].estimate
            assert estimate is not None
            assert estimate.value == value
            assert report.precision == precision

    def test_without_asking_there_is_no_row_of_a_model_in_half_precision_alone(self) -> None:
        assert build_report(SUITE, RECORDS[1:]).rows == ()
        assert holdings_of(SUITE, store_of(*RECORDS[1:])) == []
        (holding,) = holdings_of(SUITE, store_of(*RECORDS), precision="bfloat16")
        assert holding.measurements == {RECORDS[1].shard.measurement_key}

    def test_failures_belong_to_their_precision(self) -> None:
        failed = failure_of(shard_in("float16").header, "in float16: NaN")
        (exact,) = build_report(SUITE, RECORDS[:1], [failed]).rows
        (half,) = build_report(SUITE, RECORDS[:1], [failed], precision="float16").rows
        assert exact.notes == ()
        assert any("in float16: NaN" in note for note in half.notes)

    def test_models_are_ranked_among_results_in_their_precision(self) -> None:
        others = [record_in("float32", 1, "fan"), record_in("bfloat16", 4, "fan")]
        store = store_of(*RECORDS, *others)
        best = {}
        for precision in ("float32", "bfloat16"):
            report = ranked(report_of_store(SUITE, store, precision=precision), SUITE, store)
            best[precision] = [row.model for row in report.rows if row.ranks[COLUMN.key].is_best]
            assert {row.precision for row in report.rows} == {None if precision == "float32" else precision}
        assert best == {"float32": ["vit"], "bfloat16": ["fan"]}

    def test_what_is_needed_in_any_precision_is_no_garbage(self) -> None:
        digest = RECORDS[0].shard.weights_digest
        known = {"vit": replace(CHECKPOINT, weights=replace(CHECKPOINT.weights, sha256=digest))}
        assert unused_in(Listing(store_of(*RECORDS)), [SUITE], known) == []
        assert len(unused_in(Listing(store_of(*RECORDS)), [replace(SUITE, conditions=())], known)) == 3


class TestMarks:
    REPORT = build_report(SUITE, RECORDS, precision="bfloat16")

    def test_rows_have_a_note(self) -> None:
        (row,) = self.REPORT.rows
        assert row.title == "vit (bfloat16)"
        assert row.model == "vit"
        assert "ran in bfloat16" in row.notes[0]
        (exact,) = build_report(SUITE, RECORDS).rows
        assert exact.title == "vit"
        assert exact.notes == ()

    @pytest.mark.parametrize("format_name", [name for name in RENDERERS if name != "html"])
    def test_every_format_says_it(self, format_name: str) -> None:
        shown = RENDERERS[format_name](self.REPORT)
        assert "bfloat16" in shown
        assert "bfloat16" not in RENDERERS[format_name](build_report(SUITE, RECORDS))
        if format_name not in ("json", "csv"):
            assert "vit (bfloat16" in shown

    def test_programs_that_read_tables_can_tell(self) -> None:
        (line,) = csv.DictReader(io.StringIO(RENDERERS["csv"](self.REPORT)))
        assert line["model"] == "vit (bfloat16)"
        (row,) = json.loads(RENDERERS["json"](self.REPORT))["rows"]
        assert (row["model"], row["precision"]) == ("vit", "bfloat16")
        assert list(self.REPORT.to_frame().index) == ["vit (bfloat16)"]

    def test_means_over_seeds_keep_it(self) -> None:
        records = [record_in("bfloat16", right, name) for right, name in ((4, "vit"), (2, "vit@1"))]
        (row,) = over_seeds(build_report(SUITE, records, precision="bfloat16")).rows
        assert row.seeds == ("vit", "vit@1")
        assert row.title == "vit (bfloat16)"


def test_a_run_in_a_format_that_there_is_not_is_refused() -> None:
    unknown: Any = "int8"
    with pytest.raises(UsageError, match=r"--precision must be one of float32, bfloat16, .*, got 'int8'"):
        RunRequest(suites=(SUITE,), checkpoints=(), precision=unknown)
