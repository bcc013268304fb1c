"""Two models compared: numbers, corrections, gaps, refusals and formats."""

import csv
import io
import json
from dataclasses import replace
from itertools import product

import pytest
from paired_records import CLEAN, FGSM, SUITE, record, store_of
from presence import present
from scipy import stats

from robench.comparison import RENDERERS, Comparison, compare_models
from robench.comparison.compare import OVER_SEEDS, RETRAINING
from robench.comparison.evidence import difference_over_seeds
from robench.core.errors import IncomparableError, UnknownNameError, UsageError
from robench.core.suite import Suite
from robench.store import MemoryStore

CLEAN_A, FGSM_A = "1111111110", "1111100000"
CLEAN_B, FGSM_B = "1111111100", "1000011100"
HOSTILE = "=cmd|x\x1b[31m\u202e*_<b>|`[a](javascript:b)\n# forged"


def both(**settings: str) -> MemoryStore:
    return store_of(("one", CLEAN_A, FGSM_A), ("two", CLEAN_B, FGSM_B), **settings)


def compared(store: MemoryStore | None = None, *suites: Suite, **settings: int) -> Comparison:
    return compare_models(suites or (SUITE,), store or both(), "one", "two", **settings)  # type: ignore[arg-type]


class TestNumbers:
    def test_each_column_has_both_numbers_their_difference_and_its_test(self) -> None:
        comparison = compared()
        clean, fgsm, robust = comparison.rows
        assert [row.column.key for row in comparison.rows] == ["clean/top1_accuracy", "fgsm/top1_accuracy", "robust"]
        assert present(clean.difference).value == pytest.approx(0.1)
        assert (present(fgsm.first.estimate).value, present(fgsm.second.estimate).value) == (0.5, 0.4)
        assert fgsm.p_value == pytest.approx(stats.binomtest(3, 7, 0.5).pvalue)
        assert fgsm.only_first == ("digits/0001", "digits/0002", "digits/0003", "digits/0004")
        assert fgsm.only_second == ("digits/0005", "digits/0006", "digits/0007")
        assert robust.test == "exact McNemar"
        assert comparison.is_complete
        assert {"devices", "torch", "seed"} <= comparison.provenance.keys()

    def test_the_models_turned_around_turn_every_sign(self) -> None:
        one, other = compared(), compare_models([SUITE], both(), "two", "one")
        for row, turned in zip(one.rows, other.rows, strict=True):
            assert present(turned.difference).value == -present(row.difference).value
            assert present(turned.difference).low == pytest.approx(-(present(row.difference).high or 0))
            assert (turned.only_first, turned.only_second) == (row.only_second, row.only_first)
            assert turned.p_value == row.p_value

    def test_p_is_multiplied_by_the_columns_of_its_suite_whatever_else_is_compared(self) -> None:
        store = store_of(("one", "1" * 40, "1" * 30 + "0" * 10), ("two", "1" * 40, "1" * 20 + "0" * 20))
        alone = compared(store)
        assert [row.p_value for row in alone.rows] == [1.0, 2 / 2**10, 2 / 2**10]
        assert [row.p_corrected for row in alone.rows] == [1.0, 6 / 2**10, 6 / 2**10]
        twice = compared(store, SUITE, replace(SUITE, name="again"))
        assert [row.suite for row in twice.rows] == ["small"] * 3 + ["again"] * 3
        assert twice.rows[1].p_corrected == 6 / 2**10
        assert twice.suites == (("small", 1), ("again", 1))

    def test_a_limit_compares_the_first_examples(self) -> None:
        comparison = compared(limit=5)
        fgsm = comparison.rows[1]
        assert (present(fgsm.first.estimate).value, fgsm.first.num_examples) == (1.0, 5)
        assert comparison.limit == 5
        assert "first 5 examples" in RENDERERS["text"](comparison)

    def test_results_of_another_seed_are_not_read(self) -> None:
        with pytest.raises(UnknownNameError):
            compared(seed=7)
        assert compared(both(seed=7), seed=7).rows == compared().rows  # type: ignore[arg-type]

    def test_nothing_depends_on_the_order_of_records(self) -> None:
        kept = [*both().records(lambda shard: True)]
        turned = MemoryStore()
        for each in reversed(kept):
            turned.put(each)
        assert compared(turned) == compared()


class TestGaps:
    def test_a_missing_cell_says_so_and_takes_no_part(self) -> None:
        store = store_of(("one", CLEAN_A, FGSM_A))
        store.put(record(CLEAN, CLEAN_B, "two"))
        store.put(record(FGSM, FGSM_B[:4], "two", size=10))
        comparison = compared(store)
        clean, fgsm, robust = comparison.rows
        assert (clean.p_corrected, clean.p_value) == (1.0, 1.0)
        assert fgsm.second.missing == 6
        assert (fgsm.difference, fgsm.p_value, fgsm.p_corrected, fgsm.only_first) == (None, None, None, None)
        assert robust.difference is None
        assert not comparison.is_complete
        text = RENDERERS["text"](comparison)
        assert text.count("— (6 of 10 missing)") == 2
        assert text.count("— (missing)") == 2
        cell = json.loads(RENDERERS["json"](comparison))["rows"][1]
        assert (cell["second"], cell["difference"], cell["p"]) == ({"value": None, "missing": 6}, None, None)

    @pytest.mark.parametrize(
        ("names", "limit", "error", "message"),
        [
            (("two", "on"), None, UnknownNameError, r"'on'\. Did you mean 'one'\?.*robench run --suite small"),
            (("one", "one"), None, UsageError, "with itself"),
            (("one", "two"), 0, UsageError, "at least 1 example"),
        ],
    )
    def test_what_cannot_be_compared_is_refused(
        self, names: tuple[str, str], limit: int | None, error: type[Exception], message: str
    ) -> None:
        with pytest.raises(error, match=message):
            compare_models([SUITE], both(), *names, limit=limit)

    def test_other_data_are_refused(self) -> None:
        store = both()
        for condition, verdicts in ((CLEAN, CLEAN_B), (FGSM, FGSM_B)):
            store.put(record(condition, verdicts, "two", data="e", time="2026-12-01"))
        with pytest.raises(IncomparableError, match="condition 'clean': one was measured on data with the finger"):
            compared(store)

    def test_only_the_newest_weights_count(self) -> None:
        store = both()
        for condition in (CLEAN, FGSM):
            store.put(record(condition, "1" * 10, "two", weights="b", time="2026-12-01"))
        comparison = compared(store)
        assert [row.second.estimate and row.second.estimate.value for row in comparison.rows] == [1.0] * 3
        assert any(note.startswith("two: clean, fgsm: older measurements") for note in comparison.notes)

    def test_what_the_intervals_are_of_is_said_where_there_is_one(self) -> None:
        assert compared().notes == (RETRAINING,)
        store = MemoryStore()
        for name in ("one", "two"):
            store.put(record(CLEAN, "1", name, size=10))
        assert compared(store).notes == ()


class TestSeeds:
    """Accuracies under FGSM: 0.5, 0.6, 0.7 of one, 0.4, 0.3, 0.3 of the other."""

    ONE, TWO = ("one", "one@1", "one@2"), ("two", "two@1", "two@2")

    def store(self, *left_out: str) -> MemoryStore:
        rows = {"one": 5, "one@1": 6, "one@2": 7, "two": 4, "two@1": 3, "two@2": 3}
        kept = [(name, "1" * 10, "1" * right + "0" * (10 - right)) for name, right in rows.items()]
        return store_of(*(row for row in kept if row[0] not in left_out))

    def compared(self, store: MemoryStore | None = None, **settings: object) -> Comparison:
        seeds = (self.ONE, self.TWO)
        return compare_models([SUITE], store or self.store(), "one", "two", **{"seeds": seeds, **settings})  # type: ignore[arg-type]

    def test_means_are_compared_by_welchs_test(self) -> None:
        fgsm = self.compared().rows[1]
        expected = stats.ttest_ind([0.5, 0.6, 0.7], [0.4, 0.3, 0.3], equal_var=False)
        wanted = (0.6 - 1 / 3, *expected.confidence_interval())
        found = present(fgsm.difference)
        assert (found.value, found.low, found.high) == pytest.approx(wanted, abs=1e-12)
        assert fgsm.p_value == pytest.approx(expected.pvalue, abs=1e-12)
        assert fgsm.test == "Welch's t over seeds"
        assert (fgsm.only_first, fgsm.only_second) == (None, None)
        assert present(fgsm.first.estimate).of_seeds == (0.5, 0.6, 0.7)

    def test_seeds_that_do_not_differ_leave_no_doubt(self) -> None:
        clean = self.compared().rows[0]
        found = present(clean.difference)
        assert (found.value, found.low, found.high, clean.p_value) == (0, 0, 0, 1)
        assert difference_over_seeds([0.5, 0.5], [0.25, 0.25])[1] == 0

    def test_the_notes_say_what_the_intervals_are_of(self) -> None:
        comparison = self.compared()
        assert comparison.notes[-1] == OVER_SEEDS
        assert RETRAINING not in comparison.notes
        assert "Welch's t 95 % over training seeds" in RENDERERS["text"](comparison)

    def test_json_has_the_names_and_numbers_of_the_seeds(self) -> None:
        document = json.loads(RENDERERS["json"](self.compared()))
        assert document["seeds"] == [list(self.ONE), list(self.TWO)]
        assert document["rows"][1]["second"]["of_seeds"] == [0.4, 0.3, 0.3]
        assert json.loads(RENDERERS["json"](compared()))["seeds"] is None

    def test_a_seed_without_results_is_refused(self) -> None:
        with pytest.raises(UnknownNameError, match="two@2"):
            self.compared(self.store("two@2"))

    def test_one_training_is_not_two_seeds(self) -> None:
        store, equal = self.store(), {"weights": "b", "tensors": "equal", "time": "2026-11-22T10:00:00+00:00"}
        for name, condition in product(self.TWO[:2], (CLEAN, FGSM)):
            store.put(record(condition, "1" * 10, name, **equal))  # type: ignore[arg-type]  # texts
        with pytest.raises(UsageError, match="two@1 has the weights of two, and does not count again"):
            self.compared(store)

    def test_one_training_has_no_interval_over_seeds(self) -> None:
        with pytest.raises(UsageError, match="two has one training, and means over training seeds need two of both"):
            self.compared(seeds=(self.ONE, ["two"]))

    def test_a_number_that_one_seed_lacks_is_missing(self) -> None:
        store = self.store("two@2")
        store.put(record(CLEAN, "1" * 10, "two@2"))
        comparison = self.compared(store)
        assert comparison.rows[0].difference is not None
        assert comparison.rows[1].difference is None
        assert comparison.rows[1].second.estimate is None

    @pytest.mark.parametrize("numbers", [([0.31, 0.44, 0.46, 0.41], [0.40, 0.38, 0.33]), ([1.5, 1.25], [1.0, 1.75, 2])])
    def test_test_and_interval_are_scipys(self, numbers: tuple[list[float], list[float]]) -> None:
        expected = stats.ttest_ind(*numbers, equal_var=False)
        difference, p_value = difference_over_seeds(*numbers)
        assert p_value == pytest.approx(expected.pvalue, abs=1e-12)
        bounds = expected.confidence_interval()
        assert (difference.low, difference.high) == pytest.approx((bounds.low, bounds.high), abs=1e-12)


class TestFormats:
    def test_flipped_examples_are_listed_on_demand(self) -> None:
        listed = "fgsm top-1, only two right (3): digits/0005 digits/0006 digits/0007"
        assert listed in RENDERERS["text"](compared(), flipped=True)
        assert listed not in RENDERERS["text"](compared())
        # Nothing is listed where nothing flipped.
        assert "clean top-1, only two" not in RENDERERS["text"](compared(), flipped=True)

    @pytest.mark.parametrize("name", RENDERERS)
    def test_foreign_names_are_inert(self, name: str) -> None:
        store = store_of((HOSTILE, CLEAN_A, FGSM_A), ("two", CLEAN_B, FGSM_B))
        column = replace(SUITE.columns[1], label=HOSTILE, key=HOSTILE)
        suites = [replace(SUITE, name=HOSTILE, columns=(*SUITE.columns, column)), SUITE]
        text = RENDERERS[name](compare_models(suites, store, HOSTILE, "two"), flipped=True)
        assert text.replace("\n", "").isprintable()
        assert not [line for line in text.splitlines() if line.startswith(("#", "forged"))]
        if name == "markdown":
            assert "<b>" not in text
            assert "](javascript" not in text.replace("\\]", "")
            assert len({line.count("|") - line.count("\\|") for line in text.splitlines() if line[:1] == "|"}) == 1
        if name == "csv":
            assert not [cell for line in csv.reader(io.StringIO(text)) for cell in line if cell.startswith("=")]
            assert {len(line) for line in csv.reader(io.StringIO(text))} == {19}
        if name == "json":
            assert json.loads(text)["first"] == HOSTILE
