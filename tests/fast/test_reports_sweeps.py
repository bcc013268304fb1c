"""Reports of sweeps, and of searches at stated distances: which outcomes each number is of."""

import json
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from math import inf
from typing import Any

import pytest
from paired_records import CLEAN
from paired_records import SUITE as PAIRED

from examples import CHECKPOINT, MEASUREMENT, PROVENANCE, failure_of, outcome_columns, outcome_of, record_of
from robench.attacks.fab import Fab
from robench.attacks.fgsm import Fgsm
from robench.core.errors import ContractError, IncompleteError, UnknownNameError
from robench.core.records import Record
from robench.core.report import Cell, Report, Row
from robench.core.shard import DatasetIdentity, Shard
from robench.core.suite import Column, Condition, Suite
from robench.datasets.digits import DIGITS
from robench.declare.columns import columns_of
from robench.perturbations.sweep import Sweep
from robench.reports import RENDERERS, build_report, holdings_of, without_shared
from robench.reports.selection import cover
from robench.store import MemoryStore
from robench.tasks.classification import ClassificationOutcome

SIZE = 6
EPSILONS = (Fraction(2, 255), Fraction(5, 255), Fraction(8, 255))
SWEEP = Condition(
    name="fgsm", dataset=DIGITS, perturbation=Sweep(attacks=tuple(Fgsm(epsilon=each) for each in EPSILONS))
)
SEARCH = Condition(
    name="fab", dataset=DIGITS, perturbation=Fab(norm="l2", num_steps=3), distances=(Fraction(1, 2), Fraction(2))
)
# One character an example, 1 for right, by budget.
VERDICTS = {"2/255": "111110", "1/51": "101110", "8/255": "100010"}
FALLEN_AT = (0.0, 0.1, 0.4, 0.6, 3.0, inf)


def suite(*conditions: Condition, metrics: tuple[str, ...] = ("top1_accuracy",)) -> Suite:
    return replace(PAIRED, conditions=conditions, metrics=metrics, columns=columns_of(conditions, metrics))


def record(condition: Condition, start: int = 0, stop: int = SIZE, model: str = "vit", **provenance: Any) -> Record:
    measurement = replace(
        MEASUREMENT,
        checkpoint=replace(CHECKPOINT, name=model),
        weights_digest=f"{len(model)}" * 64,
        condition=condition,
        dataset=DatasetIdentity(name="digits", fingerprint="d", num_examples=SIZE),
        batch_size=2,
    )
    header = Shard(measurement=measurement, start=start, stop=stop).header
    outcomes = tuple(outcome for index in range(start, stop) for outcome in outcomes_at(condition, index))
    return record_of(header, outcomes, replace(PROVENANCE, **provenance))


def outcomes_at(condition: Condition, index: int) -> list[ClassificationOutcome]:
    name = f"digits/{index}"
    if condition == SWEEP:
        return [outcome_of(name, verdicts[index] == "1", epsilon=each) for each, verdicts in VERDICTS.items()]
    if condition == CLEAN:
        return [outcome_of(name, correct=index != 5)]
    distance = FALLEN_AT[index]
    return [outcome_of(name, distance == inf, found=distance < inf, l2=0.0 if distance == inf else distance)]


def only_row(report: Report) -> Row:
    (row,) = report.rows
    return row


def values(row: Row) -> dict[str, float | None]:
    return {key: None if cell.estimate is None else cell.estimate.value for key, cell in row.cells.items()}


class TestSweeps:
    def test_each_budget_has_its_own_number(self) -> None:
        row = only_row(build_report(suite(CLEAN, SWEEP), [record(CLEAN), record(SWEEP)]))
        assert values(row) == {
            "clean/top1_accuracy": 5 / 6,
            "fgsm@2/255/top1_accuracy": 5 / 6,
            "fgsm@5/255/top1_accuracy": 4 / 6,
            "fgsm@8/255/top1_accuracy": 2 / 6,
        }
        assert {(cell.num_examples, cell.missing) for cell in row.cells.values()} == {(SIZE, 0)}

    def test_threat_models_read_the_budget_that_is_theirs(self) -> None:
        asked = suite(CLEAN, SWEEP, metrics=("robust_accuracy",))
        assert values(only_row(build_report(asked, [record(CLEAN), record(SWEEP)]))) == {
            "linf-2/255/robust_accuracy": 5 / 6,
            "linf-5/255/robust_accuracy": 4 / 6,
            "linf-8/255/robust_accuracy": 2 / 6,
        }

    @pytest.mark.parametrize(
        "parts", [[(0, 2), (2, 4), (4, 6)], [(0, 2), (0, 4), (2, 6)], [(0, 4), (2, 6)], [(0, 3), (1, 6)]]
    )
    def test_shards_that_overlap_count_each_example_once_at_each_budget(self, parts: list[tuple[int, int]]) -> None:
        whole = build_report(suite(SWEEP), [record(SWEEP)])
        cut = build_report(suite(SWEEP), [record(SWEEP, *part) for part in parts])
        assert only_row(cut).cells == only_row(whole).cells

    def test_a_limit_reads_the_first_examples_at_each_budget(self) -> None:
        row = only_row(build_report(suite(SWEEP), [record(SWEEP)], limit=3))
        assert list(values(row).values()) == [3 / 3, 2 / 3, 1 / 3]
        assert {(cell.num_examples, cell.missing) for cell in row.cells.values()} == {(3, 0)}

    def test_a_gap_is_one_of_every_budget(self) -> None:
        cells = only_row(build_report(suite(SWEEP), [record(SWEEP, 0, 4)])).cells
        assert list(cells.values()) == [Cell(estimate=None, num_examples=4, missing=2)] * 3

    def test_a_failed_shard_is_told_once(self) -> None:
        failed = failure_of(record(SWEEP, 4, 6).shard, "image 5 cannot be read")
        notes = only_row(build_report(suite(SWEEP), [record(SWEEP, 0, 4)], [failed])).notes
        assert notes == ("fgsm: 1 shard failed; first error: image 5 cannot be read",)

    def test_kinds_of_device_are_told_once_with_the_numbers_that_mix_them(self) -> None:
        records = [record(CLEAN), record(SWEEP, 0, 2), record(SWEEP, 2, 6, device="NVIDIA H200")]
        notes = only_row(build_report(suite(CLEAN, SWEEP, metrics=("top1_accuracy", "robust_accuracy")), records)).notes
        titles = ("fgsm {} top-1 accuracy", "linf-{} robust accuracy")
        numbers = [title.format(each) for title in titles for each in ("2/255", "5/255", "8/255")]
        assert notes == (f"measured on different kinds of device (NVIDIA H200, cpu): {', '.join(numbers)}",)

    def test_a_sweep_has_no_outcomes_without_a_budget(self) -> None:
        coverage = cover([SWEEP], [record(SWEEP)], dataset_sizes={}, limit=None)["fgsm"]
        assert [outcome.epsilon for outcome in coverage.outcomes_at("1/51")] == ["1/51"] * SIZE
        with pytest.raises(IncompleteError):
            coverage.outcomes_at(None)

    def test_a_column_of_a_whole_sweep_is_refused(self) -> None:
        column = Column(key="x", label="x", metric="top1_accuracy", conditions=("fgsm",))
        with pytest.raises(UnknownNameError, match=r"unknown condition 'fgsm'. Did you mean 'fgsm@\d/255'"):
            build_report(replace(suite(SWEEP), columns=(column,)), [])

    @pytest.mark.parametrize("name", RENDERERS)
    def test_every_format_shows_every_budget(self, name: str) -> None:
        text = RENDERERS[name](build_report(suite(SWEEP), [record(SWEEP)]))
        shown = {"json": "fgsm@5/255/top1", "csv": "fgsm@5/255/top1", "latex": "& 5/255 &"}.get(name, "fgsm 5/255 top")
        assert shown in text


def stored(records: Iterable[Record]) -> MemoryStore:
    store = MemoryStore()
    for each in records:
        store.put(each)
    return store


class TestCoverage:
    def test_how_much_is_in_is_known_of_each_condition_and_model(self) -> None:
        records = [record(SWEEP, 0, 4), record(CLEAN), record(CLEAN, model="other", limit=6)]
        asked = suite(CLEAN, SWEEP, metrics=("robust_accuracy",))
        found = {each.model: each for each in holdings_of(asked, stored(records))}
        assert list(found) == ["other", "vit"]
        counts = {name: (each.num_in, each.missing) for name, each in found["vit"].coverages.items()}
        assert counts == {"clean": (6, 0), "fgsm": (4, 2)}
        assert (found["vit"].num_in, found["vit"].missing, found["vit"].num_complete) == (10, 2, 1)
        fgsm = found["other"].coverages["fgsm"]
        assert (fgsm.num_in, fgsm.missing) == (0, 6)

    def test_other_seeds_and_suites_do_not_count(self) -> None:
        assert holdings_of(suite(CLEAN), stored([record(SWEEP)])) == []
        assert holdings_of(suite(CLEAN), stored([record(CLEAN)]), seed=1) == []

    def test_a_suite_of_which_there_is_only_what_another_shares_says_nothing(self) -> None:
        store = stored([record(CLEAN, 0, 4), record(SWEEP, 0, 4)])
        whole = holdings_of(suite(CLEAN, SWEEP, metrics=("robust_accuracy",)), store)
        shared = holdings_of(replace(suite(CLEAN), name="shares"), store)
        assert [each.suite for each in without_shared([*shared, *whole])] == [whole[0].suite]
        # All of it is measured, whoever asked for it.
        store.put(record(CLEAN, 4, 6))
        complete = holdings_of(replace(suite(CLEAN), name="complete"), store)
        assert without_shared([*complete, *whole]) == [*complete, *whole]

    def test_of_suites_that_share_all_results_the_one_that_was_run_is_named(self) -> None:
        kept = record(CLEAN, 0, 4)
        smaller = replace(suite(CLEAN), name="smaller")
        larger = replace(suite(CLEAN, SWEEP, metrics=("robust_accuracy",)), name="larger")
        for run in (smaller, larger):
            store = stored([replace(kept, provenance=replace(kept.provenance, suite=run.name))])
            found = [holding for each in (smaller, larger) for holding in holdings_of(each, store)]
            assert [each.suite for each in without_shared(found)] == [run.name]


class TestSearches:
    METRICS = ("top1_accuracy", "accuracy_at_distance", "median_distance")

    def test_accuracy_stands_at_each_stated_distance(self) -> None:
        row = only_row(build_report(suite(SEARCH, metrics=self.METRICS), [record(SEARCH)]))
        assert values(row) == {
            "fab/top1_accuracy": 1 / 6,
            "fab/median_distance": pytest.approx(0.6),
            "fab@l2 0.5/accuracy_at_distance": 3 / 6,
            "fab@l2 2/accuracy_at_distance": 2 / 6,
        }

    def test_an_infinite_median_is_a_number_that_tables_show_and_json_which_cannot_say_it_has_null(self) -> None:
        whole = record(SEARCH)
        nothing = outcome_columns(replace(each, correct_top1=True, found=False, l2=0.0) for each in whole.outcomes)
        report = build_report(suite(SEARCH, metrics=("median_distance",)), [replace(whole, outcomes=nothing)])
        assert values(only_row(report)) == {"fab/median_distance": inf}
        assert report.is_complete
        assert "inf [inf, inf]" in RENDERERS["text"](report)
        assert ",inf,inf,inf,6,0" in RENDERERS["csv"](report)
        (row,) = json.loads(RENDERERS["json"](report))["rows"]
        cell = row["cells"]["fab/median_distance"]
        assert cell == {"value": None, "low": None, "high": None, "num_examples": 6, "missing": 0}

    def test_a_search_metric_of_no_search_is_refused(self) -> None:
        column = Column(key="x", label="x", metric="median_distance", conditions=("clean",))
        with pytest.raises(ContractError, match="minimum-norm attack, such as cw or fab; the column's condition has"):
            build_report(replace(suite(CLEAN), columns=(column,)), [record(CLEAN)])
