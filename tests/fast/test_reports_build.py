"""Records to a table: every rule, on records of a model that answers by hand."""

import random
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paired_records import CLEAN, FGSM
from paired_records import SUITE as PAIRED
from presence import present

from examples import CHECKPOINT, MEASUREMENT, PROVENANCE, failure_of, outcome_of, record_of
from robench.attacks.fgsm import Fgsm
from robench.attacks.pgd import Pgd
from robench.core.errors import UnknownNameError, UsageError
from robench.core.flags import Flag
from robench.core.records import Record
from robench.core.report import Cell
from robench.core.shard import DatasetIdentity, Shard
from robench.core.suite import Column, Condition, Role, Suite
from robench.datasets.digits import DIGITS
from robench.datasets.imagenet import IMAGENET_1K
from robench.evaluation.actions import AUDIT_EXAMPLES, audits_of
from robench.models.foreign import Timm
from robench.perturbations.clean import Clean
from robench.reports import build_report, needs

EPSILON = Fraction(8, 255)
PGD = Condition(name="pgd", dataset=DIGITS, perturbation=Pgd(epsilon=EPSILON, step_size=EPSILON, num_steps=2))
COLUMNS = (
    Column(key="clean/top1_accuracy", label="clean", metric="top1_accuracy", conditions=("clean",)),
    Column(key="pgd/top1_accuracy", label="PGD", metric="top1_accuracy", conditions=("pgd",)),
    replace(PAIRED.columns[2], conditions=("clean", "fgsm", "pgd"), roles=(Role(name="clean"), Role(), Role())),
)
SUITE = replace(PAIRED, name="digits-adv", conditions=(CLEAN, FGSM, PGD), columns=COLUMNS, audit=True)
# One character an example, 1 for right: clean 5 of 6, robust (every column of digits all ones) 2 of 6.
VERDICTS = {"clean": "111110", "fgsm": "110111", "pgd": "101101"}
TIME = "2026-11-21T10:00:00+00:00"
LATER = "2026-11-22T10:00:00+00:00"


def suite(**changes) -> Suite:
    return replace(SUITE, **changes)


def shard(condition, start, stop, *, model="vit", weights="a", data="d", size=6, seed=0, batch_size=2, **settings):
    architecture = Timm(name=settings.get("architecture", "vit_tiny"))
    task = settings.get("task", "classification")
    measurement = replace(
        MEASUREMENT,
        checkpoint=replace(CHECKPOINT, name=model, architecture=architecture, task=task),
        condition=condition,
        weights_digest=weights,
        dataset=DatasetIdentity(name=condition.dataset.name, fingerprint=data, num_examples=size),
        seed=seed,
        batch_size=batch_size,
    )
    return Shard(measurement=measurement, start=start, stop=stop).header


def provenance(*, device="cpu", time=TIME, limit=None, torch="2.15.0"):
    versions = {"robench": "0.1.0", "torch": torch}
    return replace(PROVENANCE, device=device, versions=versions, finished_at=time, limit=limit)


def record(condition, start=0, stop=6, verdicts=None, *, device="cpu", time=TIME, limit=None, torch="2.15.0", **named):
    verdicts = verdicts or VERDICTS[condition.name]
    return record_of(
        shard(condition, start, stop, **named),
        tuple(outcome_of(f"digits/{index}", verdicts[index] == "1") for index in range(start, stop)),
        provenance(device=device, time=time, limit=limit, torch=torch),
    )


def failure(condition, start=0, stop=2, error="image 3 cannot be read", *, time=TIME, limit=None, **named):
    return failure_of(shard(condition, start, stop, **named), error, provenance(time=time, limit=limit))


def whole(**named) -> list[Record]:
    """All three shards of all three conditions."""
    return [record(each, start, start + 2, **named) for each in (CLEAN, FGSM, PGD) for start in (0, 2, 4)]


def only_row(report):
    (row,) = report.rows
    return row


def values(row) -> list[float | None]:
    return [None if cell.estimate is None else cell.estimate.value for cell in row.cells.values()]


class TestCoupledModels:
    def test_records_of_a_coupled_model_give_their_batch_size_and_a_note(self):
        records = [replace(each, shard=replace(each.shard, coupled=True)) for each in whole()]
        row = only_row(build_report(SUITE, records))
        assert row.batch_size == 2
        (note,) = row.notes
        assert note.startswith("coupled rows: every number holds at batch size 2 only")
        assert values(row) == values(only_row(build_report(SUITE, whole())))

    def test_one_marked_record_marks_the_row(self):
        first, *others = whole()
        marked = replace(first, shard=replace(first.shard, coupled=True))
        assert only_row(build_report(SUITE, [*others, marked])).batch_size == 2

    @pytest.mark.parametrize(("is_raised", "batch_size"), [(True, 2), (False, None)])
    def test_an_audit_that_found_it_marks_the_row_of_records_without_a_mark(self, is_raised, batch_size):
        flag = Flag(
            name="coupled rows", source="robench", value=3.0, limit=1.0, is_raised=is_raised, finding="f", advice="a"
        )
        condition = audits_of(SUITE)[0]
        audited = replace(record(condition, verdicts="111111", batch_size=AUDIT_EXAMPLES), flags=(flag,))
        row = only_row(build_report(SUITE, [*whole(), audited]))
        assert row.batch_size == batch_size
        assert flag in present(row.flags)
        assert row.is_audited

    def test_models_that_the_registry_declares_are_marked_and_no_others(self):
        report = build_report(SUITE, [*whole(), *whole(model="other")], coupled={"vit"})
        assert {row.model: row.batch_size for row in report.rows} == {"vit": 2, "other": None}

    def test_where_examples_have_several_sizes_each_is_a_pass_of_its_own(self, monkeypatch):
        wanted = values(only_row(build_report(SUITE, whole())))
        monkeypatch.setattr(type(DIGITS), "has_one_size", False)
        assert build_report(SUITE, whole()).rows == ()
        row = only_row(build_report(SUITE, [*whole(), *whole(batch_size=1)], coupled={"vit"}))
        assert values(row) == wanted
        assert row.batch_size == 1
        assert "every number holds at batch size 1 only" in row.notes[0]

    def test_a_model_that_is_not_coupled_has_neither(self):
        row = only_row(build_report(SUITE, whole()))
        assert (row.batch_size, row.notes) == (None, ())


class TestNumbers:
    def test_a_complete_row_has_every_number(self):
        row = only_row(build_report(SUITE, whole()))
        assert row.model == "vit"
        assert list(row.cells) == [column.key for column in COLUMNS]
        assert values(row) == [5 / 6, 4 / 6, 2 / 6]
        assert [(cell.num_examples, cell.missing) for cell in row.cells.values()] == [(6, 0)] * 3
        assert (row.limit, row.notes) == (None, ())

    @settings(max_examples=10)
    @given(st.permutations(range(9)), st.randoms())
    def test_the_order_of_the_records_does_not_matter(self, order: list[int], draw: random.Random):
        records = [*whole(), *whole(model="other", device="NVIDIA H200")]
        failures = [failure(PGD, model="third"), failure(FGSM, 2, 4, "out of memory", model="third")]
        wanted = build_report(SUITE, records, failures)
        shuffled = [records[index] for index in order] + draw.sample(records[9:], 9)
        assert build_report(SUITE, shuffled, reversed(failures)) == wanted

    def test_rows_come_by_name_or_in_the_order_asked_for_and_once(self):
        records = [*whole(model="b"), *whole(model="c"), *whole(model="a")]
        for asked, wanted in ((None, ["a", "b", "c"]), (["c", "a", "c"], ["c", "a"])):
            assert [row.model for row in build_report(SUITE, records, models=asked).rows] == wanted

    def test_a_suite_without_a_recorded_model_gives_no_rows(self):
        report = build_report(SUITE, [])
        assert (report.rows, report.columns, report.suite, report.version) == ((), COLUMNS, "digits-adv", 1)

    def test_a_condition_of_fewer_examples_reads_the_first_of_them(self):
        short = Condition(name="pgd", dataset=DIGITS, perturbation=PGD.perturbation, num_examples=3)
        report = build_report(suite(conditions=(short,), columns=COLUMNS[1:2]), [record(PGD)])
        cell = only_row(report).cells["pgd/top1_accuracy"]
        assert (cell.estimate.value, cell.num_examples, cell.missing) == (2 / 3, 3, 0)

    def test_a_condition_of_more_examples_than_there_are_reads_them_all(self):
        long = Condition(name="clean", dataset=DIGITS, perturbation=Clean(), num_examples=1000)
        report = build_report(suite(conditions=(long,), columns=COLUMNS[:1]), [record(CLEAN)])
        assert only_row(report).cells["clean/top1_accuracy"].missing == 0

    def test_conditions_of_different_examples_are_not_joined_and_the_reason_is_noted(self):
        short = Condition(name="fgsm", dataset=DIGITS, perturbation=FGSM.perturbation, num_examples=3)
        row = only_row(build_report(suite(conditions=(CLEAN, short, PGD)), whole()))
        assert row.cells["robust"] == Cell(estimate=None, num_examples=3, missing=0)
        assert row.notes[0].startswith("robust: 3 examples are in attack 1 of 2 or in the conditions before it")


class TestWhatBelongs:
    def test_records_are_found_by_perturbation_and_not_by_the_name_of_their_condition(self):
        renamed = Condition(name="no attack", dataset=DIGITS, perturbation=Clean())
        report = build_report(SUITE, [record(renamed, verdicts=VERDICTS["clean"])])
        assert values(only_row(report))[0] == 5 / 6

    @pytest.mark.parametrize(
        "difference",
        [{"seed": 1}, {"batch_size": 4}, {"task": "segmentation"}],
        ids=lambda difference: next(iter(difference)),
    )
    def test_what_was_measured_otherwise_does_not_count(self, difference):
        assert build_report(SUITE, [record(CLEAN, **difference)]).rows == ()

    def test_another_dataset_or_budget_does_not_count(self):
        elsewhere = Condition(name="clean", dataset=IMAGENET_1K, perturbation=Clean())
        weaker = Condition(name="fgsm", dataset=DIGITS, perturbation=Fgsm(epsilon=EPSILON / 2))
        records = [record(elsewhere, verdicts="111111"), record(weaker, verdicts="111111")]
        assert build_report(SUITE, records).rows == ()

    def test_a_seed_takes_the_place_of_the_suites_own(self):
        report = build_report(SUITE, [*whole(), *whole(seed=7, model="seven")], seed=7)
        assert [row.model for row in report.rows] == ["seven"]
        assert (report.seed, report.provenance["seed"]) == (7, "7")

    def test_measurements_leave_out_all_others(self):
        mine, others = whole(), whole(weights="b", time=LATER)
        keys = {each.shard.measurement_key for each in mine}
        report = build_report(SUITE, [*mine, *others], measurements={"vit": keys})
        assert report == build_report(SUITE, mine)

    def test_one_measurement_serves_every_name_of_the_same_weights(self):
        records = whole(model="first")
        keys = {each.shard.measurement_key for each in records}
        report = build_report(SUITE, records, models=["second", "first"], measurements={"first": keys, "second": keys})
        assert [row.model for row in report.rows] == ["second", "first"]
        assert report.rows[0].cells == report.rows[1].cells
        assert report.is_complete

    def test_needs_selects_all_that_the_report_reads_and_no_more(self):
        elsewhere = Condition(name="clean", dataset=IMAGENET_1K, perturbation=Clean())
        mine = [*whole(), *whole(seed=7), *whole(weights="b")]
        others = [record(elsewhere, verdicts="111111"), record(CLEAN, batch_size=4)]
        is_needed = needs(SUITE)
        assert [is_needed(each.shard) for each in mine] == [True] * 27
        assert [is_needed(each.shard) for each in others] == [False] * 2
        assert [needs(SUITE, seed=7)(each.shard) for each in (mine[0], mine[9])] == [False, True]
        for seed in (None, 7):
            selected = [each for each in mine + others if is_needed(each.shard)]
            assert build_report(SUITE, selected, seed=seed) == build_report(SUITE, mine + others, seed=seed)


class TestGaps:
    def test_a_gap_is_counted_and_nothing_is_averaged_around_it(self):
        records = [each for each in whole() if each.shard.title != "vit / pgd / examples 2-3"]
        cells = only_row(build_report(SUITE, records)).cells
        assert cells["pgd/top1_accuracy"] == Cell(estimate=None, num_examples=4, missing=2)
        assert cells["clean/top1_accuracy"].estimate.value == 5 / 6

    def test_a_number_over_several_conditions_counts_the_emptiest(self):
        records = [record(CLEAN), record(FGSM, 0, 2), record(PGD, 0, 4)]
        assert only_row(build_report(SUITE, records)).cells["robust"] == Cell(estimate=None, num_examples=2, missing=4)

    def test_a_condition_without_records_misses_what_its_dataset_has(self):
        cell = only_row(build_report(SUITE, [record(CLEAN)])).cells["pgd/top1_accuracy"]
        assert cell == Cell(estimate=None, num_examples=0, missing=6)

    def test_a_model_that_was_asked_for_and_is_not_there_is_shown_as_missing(self):
        report = build_report(SUITE, whole(), models=["vit", "absent"])
        assert list(report.rows[1].cells.values()) == [Cell(estimate=None, num_examples=0, missing=6)] * 3

    def test_the_newest_record_of_the_dataset_in_any_suite_tells_its_size(self):
        newer = record(CLEAN, seed=5, size=8, time=LATER)
        for records in ([newer, record(CLEAN)], [record(CLEAN), newer]):
            assert only_row(build_report(SUITE, records, models=["absent"])).cells["robust"].missing == 8

    @pytest.mark.parametrize("limit", [None, 4])
    def test_without_any_record_of_the_dataset_the_number_of_missing_is_unknown(self, limit):
        report = build_report(SUITE, [], models=["absent"], limit=limit)
        assert set(only_row(report).cells.values()) == {Cell(estimate=None, num_examples=0, missing=None)}

    def test_the_suite_tells_the_number_of_missing_where_it_names_one(self):
        long = Condition(name="clean", dataset=DIGITS, perturbation=Clean(), num_examples=1000)
        report = build_report(suite(conditions=(long,), columns=COLUMNS[:1]), [], models=["absent"])
        assert only_row(report).cells["clean/top1_accuracy"].missing == 1000


class TestLimits:
    def test_a_limit_reads_the_first_examples_and_marks_the_row(self):
        row = only_row(build_report(SUITE, whole(), limit=4))
        assert row.limit == 4
        assert values(row) == [1.0, 3 / 4, 2 / 4]
        assert {(cell.num_examples, cell.missing) for cell in row.cells.values()} == {(4, 0)}

    def test_a_limit_beyond_the_dataset_reads_all_of_it(self):
        cells = only_row(build_report(SUITE, whole(), limit=100)).cells
        assert [(cell.num_examples, cell.missing) for cell in cells.values()] == [(6, 0)] * 3

    def test_models_of_limited_runs_alone_are_left_out_without_the_limit(self):
        limited = [record(each, 0, 2, limit=2, model="trial") for each in (CLEAN, FGSM, PGD)]
        assert [row.model for row in build_report(SUITE, [*whole(), *limited]).rows] == ["vit"]
        assert [row.model for row in build_report(SUITE, limited, limit=2).rows] == ["trial"]

    def test_conditions_of_limited_runs_alone_are_named_with_the_limit_beside_whole_ones(self):
        limited = [record(each, 0, 2, limit=2) for each in (FGSM, PGD)]
        row = only_row(build_report(SUITE, [record(CLEAN), *limited, record(FGSM, 2, 4, limit=4)]))
        assert "fgsm, pgd: measured with --limit 4 alone; add it for the numbers of these" in row.notes
        # Of runs without a limit a gap may be closed by going on.
        unfinished = only_row(build_report(SUITE, [record(CLEAN), record(FGSM, 0, 2, limit=2), record(FGSM, 2, 4)]))
        assert not any("--limit" in note for note in unfinished.notes)

    def test_an_unfinished_limited_run_is_shown_under_its_limit(self):
        row = only_row(build_report(SUITE, [record(CLEAN, 0, 2, limit=4)], limit=4))
        assert row.cells["clean/top1_accuracy"] == Cell(estimate=None, num_examples=2, missing=2)

    def test_their_releases_are_left_out_of_the_provenance_too(self):
        limited = record(CLEAN, 0, 2, limit=2, model="trial", torch="2.16.0")
        assert build_report(SUITE, [*whole(), limited]).provenance["torch"] == "2.15.0"

    def test_a_limited_run_that_completed_a_number_is_shown(self):
        assert values(only_row(build_report(SUITE, [record(CLEAN, limit=6)])))[0] == 5 / 6

    def test_a_limited_row_is_shown_once_a_whole_run_added_to_it(self):
        records = [record(CLEAN, 0, 2, limit=2), record(CLEAN, 2, 4)]
        assert only_row(build_report(SUITE, records)).cells["clean/top1_accuracy"].num_examples == 4

    def test_a_whole_run_that_failed_shows_its_row(self):
        records = [record(CLEAN, 0, 2, limit=2)]
        assert build_report(SUITE, records, [failure(CLEAN, 2, 4, limit=4)]).rows == ()
        assert only_row(build_report(SUITE, records, [failure(CLEAN, 2, 4)])).model == "vit"

    def test_shards_of_different_limits_may_overlap(self):
        overlapping = [record(CLEAN, 0, 2, limit=2), record(CLEAN, 0, 4, limit=4), record(CLEAN, 2, 6)]
        cell = only_row(build_report(SUITE, overlapping)).cells["clean/top1_accuracy"]
        assert (cell.estimate.value, cell.num_examples, cell.missing) == (5 / 6, 6, 0)

    @pytest.mark.parametrize("limit", [0, -5])
    def test_a_limit_below_1_is_refused(self, limit):
        with pytest.raises(UsageError, match=f"at least 1 example, got {limit}"):
            build_report(SUITE, whole(), limit=limit)


class TestOlderMeasurements:
    @pytest.mark.parametrize(
        "difference",
        [{"weights": "b"}, {"data": "e"}, {"architecture": "vit_small"}],
        ids=lambda difference: next(iter(difference)),
    )
    def test_the_newest_measurement_counts_and_the_rest_is_noted(self, difference):
        newer = record(CLEAN, verdicts="000000", time=LATER, **difference)
        row = only_row(build_report(SUITE, [newer, record(CLEAN)]))
        assert row.cells["clean/top1_accuracy"].estimate.value == 0.0
        assert row.notes == ("clean: older measurements are left out (weights, data or settings changed since)",)

    def test_old_and_new_records_never_fill_up_one_cell(self):
        records = [record(CLEAN, 0, 4), record(CLEAN, 4, 6, weights="b", time=LATER)]
        cell = only_row(build_report(SUITE, records)).cells["clean/top1_accuracy"]
        assert cell == Cell(estimate=None, num_examples=2, missing=4)

    def test_a_row_never_mixes_weights(self):
        records = [*whole(), record(CLEAN, weights="b", time=LATER)]
        row = only_row(build_report(SUITE, records))
        assert values(row) == [5 / 6, None, None]
        assert row.notes[0].startswith("clean, fgsm, pgd: older measurements are left out")

    def test_going_back_to_earlier_weights_brings_their_clean_accuracy_back(self):
        tried = record(CLEAN, verdicts="000000", weights="b", time="2026-11-21T12:00:00+00:00")
        records = [record(CLEAN), tried, record(PGD, time=LATER)]
        assert values(only_row(build_report(SUITE, records)))[:2] == [5 / 6, 4 / 6]

    def test_new_weights_that_fail_do_not_bring_the_numbers_of_the_old_ones(self):
        row = only_row(build_report(SUITE, whole(), [failure(CLEAN, weights="b", time=LATER)]))
        assert values(row) == [None, None, None]
        assert row.notes[0] == "clean: 1 shard failed; first error: image 3 cannot be read"

    def test_a_trial_of_new_weights_does_not_hide_the_row(self):
        row = only_row(build_report(SUITE, [*whole(), record(CLEAN, 0, 2, weights="b", time=LATER, limit=2)]))
        assert row.cells["clean/top1_accuracy"] == Cell(estimate=None, num_examples=2, missing=4)


class TestNotes:
    def test_failed_shards_are_counted_with_the_first_error_in_dataset_order(self):
        failures = [failure(PGD, 4, 6, "a later one"), failure(PGD, 0, 2, "the first"), failure(CLEAN, 2, 4, "other")]
        notes = only_row(build_report(SUITE, [record(FGSM)], failures)).notes
        assert notes == ("clean: 1 shard failed; first error: other", "pgd: 2 shards failed; first error: the first")

    def test_a_failure_whose_examples_are_in_is_not_mentioned(self):
        failures = [failure(PGD, 0, 4, limit=4), failure(CLEAN, 0, 2)]
        assert only_row(build_report(SUITE, whole(), failures)).notes == ()

    def test_a_failure_beyond_the_limit_is_not_mentioned(self):
        row = only_row(build_report(SUITE, [record(CLEAN, 0, 4)], [failure(CLEAN, 4, 6)], limit=4))
        assert (values(row)[0], row.notes) == (1.0, ())

    def test_a_model_that_failed_everywhere_has_a_row(self):
        row = only_row(build_report(SUITE, [], [failure(CLEAN)]))
        assert row.cells["clean/top1_accuracy"] == Cell(estimate=None, num_examples=0, missing=6)

    def test_a_cell_or_a_number_over_conditions_that_mixes_kinds_of_device_says_so(self):
        said = "measured on different kinds of device (NVIDIA H200, cpu): "
        records = [record(CLEAN, 0, 4), record(CLEAN, 4, 6, device="NVIDIA H200"), record(PGD)]
        top5 = Column(key="top5", label="top-5", metric="top5_accuracy", conditions=("clean",))
        row = only_row(build_report(suite(columns=(COLUMNS[0], top5)), records))
        assert row.notes == (f"{said}{COLUMNS[0].label}, top-5",)
        records = [record(CLEAN), record(FGSM), record(PGD, device="NVIDIA H200")]
        assert only_row(build_report(SUITE, records)).notes == (f"{said}robust",)

    def test_passes_that_memory_made_smaller_are_told(self):
        records = [record(CLEAN, 0, 4), record(CLEAN, 4, 6)]
        smaller = replace(records[1], provenance=replace(records[1].provenance, rows_per_pass=32))
        row = only_row(build_report(SUITE, [records[0], smaller, record(PGD)]))
        assert row.notes == (
            "clean: memory was too small for the batch size: passes of 32 rows or more in 1 of 2 shards",
        )

    def test_the_provenance_joins_the_distinct_values_of_the_records_used(self):
        records = [record(CLEAN, torch="2.16.0"), record(PGD, device="NVIDIA H200"), record(FGSM, seed=3, torch="1.0")]
        assert build_report(SUITE, records).provenance == {
            "robench": "0.1.0", "torch": "2.15.0, 2.16.0", "devices": "NVIDIA H200, cpu", "seed": "0",
            "interval": "Wilson 95 %",
        }  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "meant"), [({"metric": "top1_acuracy"}, "top1_accuracy"), ({"conditions": ("pdg",)}, "pgd")]
)
def test_unknown_metrics_and_conditions_are_named(wrong, meant):
    with pytest.raises(UnknownNameError, match=f"Did you mean '{meant}'"):
        build_report(suite(columns=(replace(COLUMNS[0], **wrong),)), [])
