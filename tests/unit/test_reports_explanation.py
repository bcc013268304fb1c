"""Reports of made-up results: explanations of one model, and other precisions, found only when asked for."""

import csv
import io
import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from leaderboard_examples import FINE, MASKED, NUM_EXAMPLES, adv_suite, fill, shift_suite

from examples import CHECKPOINT, MEASUREMENT, PROVENANCE, failure_of, outcome_of, record_of
from robench.core.errors import IncompleteError, UnknownNameError, UsageError
from robench.core.inert import printable
from robench.core.records import Record
from robench.core.shard import DatasetIdentity, Shard
from robench.core.suite import Column, Condition, Suite
from robench.datasets.digits import DIGITS
from robench.leaderboard import ranked
from robench.perturbations.clean import Clean
from robench.reports import RENDERERS, build_report, explain, holdings_of, needs, report_of_store
from robench.reports.holdings import unused_in
from robench.reports.results import Listing
from robench.reports.seeds import over_seeds
from robench.runs.request import RunRequest
from robench.store import MemoryStore
from robench.store.envelope import envelope_text, members_of, shard_of
from robench.store.parquet import decode_record, encode_record


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    kept = MemoryStore()
    fill(kept, adv_suite(), {"vit": 0.5, "rpc": 0.3}, half=["rpc"], flags={"vit": (MASKED, FINE)})
    fill(kept, shift_suite(), {"vit": 0.5})
    return kept


def test_a_sweep_has_a_row_for_each_budget_with_its_own_number(store) -> None:
    suite = shift_suite()
    views = {view.name: view for view in explain(suite, store, "vit").views}
    assert [name for name in views if name.startswith("sweep")] == [f"sweep@{each}" for each in ("0", *_BUDGETS)]
    row = report_of_store(suite, store, models=["vit"]).rows[0]
    for budget in _BUDGETS:
        view = views[f"sweep@{budget}"]
        assert view.budget == f"linf-{budget}"
        assert view.settings == {"relative_step": "1/4", "num_steps": 4}
        assert view.cells["top-1 accuracy"] == row.cells[f"sweep@{budget}/top1_accuracy"]


_BUDGETS = ("2/255", "4/255", "8/255")


def test_turned_examples_are_right_when_clean_and_wrong_under_the_attack(store) -> None:
    explained = explain(adv_suite(), store, "vit")
    verdicts = {}
    for record in store.records(lambda shard: (shard.checkpoint, shard.seed) == ("vit", 0)):
        for outcome in record.outcomes:
            verdicts[record.shard.condition, outcome.example_id] = outcome.correct_top1
    for name in ("fgsm", "pgd"):
        wanted = [each for (condition, each), right in verdicts.items() if condition == name and not right]
        wanted = [each for each in wanted if verdicts["clean", each]]
        (view,) = [view for view in explained.views if view.name == name]
        assert view.num_turned == len(wanted) > 0
        assert set(view.turned) <= set(wanted)
    assert explained.views[0].num_turned is None


def test_what_is_not_complete_names_no_examples(store) -> None:
    explained = explain(adv_suite(), store, "rpc")
    missing = [view for view in explained.views if view.num_in < NUM_EXAMPLES]
    assert missing
    assert all(view.num_turned is None for view in missing)
    assert f"of {NUM_EXAMPLES}" in explained.render("text")


def test_raised_flags_say_what_was_found_what_to_do_and_whose_rule_it_is(store) -> None:
    text = explain(adv_suite(), store, "vit").render("text")
    assert "zero gradients: 40 % of the gradients are zero (0.4, limit 0.1)" in text
    assert "    what to do: attack with square\n    rule: Carlini et al. 2019" in text
    assert "not raised: coupled rows" in text


def test_nothing_audited_is_said(store) -> None:
    explained = explain(shift_suite(), store, "vit")
    flags = explained.flags
    assert ("Flags: not audited" in explained.render("text")) == (flags is None)
    unaudited = replace(explained, flags=None)
    assert "Flags: not audited, so that nobody has looked" in unaudited.render("text")
    assert json.loads(unaudited.render("json"))["flags"] is None


def test_failed_shards_are_named_with_their_error() -> None:
    whole, store = MemoryStore(), MemoryStore()
    fill(whole, adv_suite(), {"vit": 0.5})
    for record in whole.records(lambda shard: True):
        is_lost = (record.shard.condition, record.shard.start) == ("pgd", 60)
        store.put(failure_of(record.shard, "CUDA out of memory") if is_lost else record)
    explained = explain(adv_suite(), store, "vit")
    assert explained.failures == ("vit / pgd / examples 60-119: CUDA out of memory",)
    assert "Failures:\n  vit / pgd / examples 60-119: CUDA out of memory" in explained.render("text")


def test_an_example_has_its_outcome_under_every_budget(store) -> None:
    record = next(store.records(lambda shard: shard.condition == "sweep"))
    wanted = record.outcomes.ids.tolist()[0]
    explained = explain(shift_suite(), store, "vit", example=wanted)
    assert {outcome.example_id for outcome in explained.outcomes.values()} == {wanted}
    assert len(explained.outcomes) == len(explained.views)
    assert explained.outcomes["sweep@4/255"].epsilon == "4/255"
    assert "correct top1" in explained.render("text")


def test_unknown_models_examples_and_suites_are_refused(store) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'vit'"):
        explain(adv_suite(), store, "vitt")
    with pytest.raises(UsageError, match="no outcome of example 'x' is kept; ids are such as"):
        explain(adv_suite(), store, "vit", example="x")
    with pytest.raises(IncompleteError, match="no results of suite 'adv'"):
        explain(adv_suite(), MemoryStore(), "vit")


def test_foreign_texts_are_printed_inert(store) -> None:
    evil = "a\x1b[31mb\nc"
    explained = explain(adv_suite(), store, "vit", example=next(store.records(lambda shard: True)).outcomes.ids[0])
    hostile = replace(explained, model=evil, failures=(evil,), notes=(evil,), example=evil)
    text = hostile.render("text")
    assert printable(text.replace("\n", "")) == text.replace("\n", "")
    assert json.loads(hostile.render("json"))["model"] == evil


CLEAN = Condition(name="clean", dataset=DIGITS, perturbation=Clean())
COLUMN = Column(key="clean/top1_accuracy", label="clean", metric="top1_accuracy", conditions=("clean",))
SUITE = Suite(
    name="tiny", version=1, seed=0, task="classification", batch_size=4, conditions=(CLEAN,),
    metrics=("top1_accuracy",), columns=(COLUMN,),
)  # fmt: skip


def shard_in(dtype: str, model: str = "vit") -> Shard:
    measurement = replace(
        MEASUREMENT, checkpoint=replace(CHECKPOINT, name=model), condition=CLEAN,
        dataset=DatasetIdentity(name=DIGITS.name, fingerprint="f", num_examples=4), batch_size=4, dtype=dtype,
        weights_digest=model.encode().hex().ljust(64, "0"),
    )  # fmt: skip
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
