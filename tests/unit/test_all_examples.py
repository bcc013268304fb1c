"""``--all-examples``: whole datasets in place of the numbers of examples that a suite states, over the same results."""

import csv
import io
import json
from dataclasses import replace

import pytest
from paired_records import CLEAN, FGSM, SUITE, record, store_of

from robench.comparison import RENDERERS as COMPARISONS
from robench.comparison import baseline_of, check_results, compare_models
from robench.core.errors import IncomparableError, IncompleteError
from robench.core.suite import Suite
from robench.leaderboard import RENDERERS as BOARDS
from robench.leaderboard import leaderboard_of
from robench.reports import explain, report_of_store
from robench.runs.check import check_request
from robench.store import MemoryStore
from robench.store.baseline import decode_baseline, encode_baseline

# The suite states 3 of 8 examples, which cut its second batch of 2 short.
STATED = replace(SUITE, conditions=tuple(replace(each, num_examples=3) for each in (CLEAN, FGSM)))
WHOLE = STATED.whole()


def store(*models: str, num_in: int = 8) -> MemoryStore:
    """A store in which the first 3 examples are right and all others wrong, in shards as both suites plan them."""
    kept = MemoryStore()
    for model in models or ("m",):
        for condition in (CLEAN, FGSM):
            kept.put(record(condition, "11", model, size=8))
            kept.put(record(condition, "1", model, start=2, size=8))
            for start, verdicts in ((2, "10"), (4, "00"), (6, "00")):
                if start + 2 <= num_in:
                    kept.put(record(condition, verdicts, model, start=start, size=8))
    return kept


def test_a_suite_without_numbers_is_itself() -> None:
    assert SUITE.whole() is SUITE
    assert [each.num_examples for each in WHOLE.conditions] == [None, None]
    assert replace(WHOLE, conditions=STATED.conditions, all_examples=False) == STATED


@pytest.mark.parametrize(
    ("suite", "limit", "num_in", "cell"),
    [
        (STATED, None, 8, (1.0, 3, 0)),
        (STATED, 5, 8, (1.0, 3, 0)),
        (WHOLE, None, 8, (0.375, 8, 0)),
        (WHOLE, 5, 8, (0.6, 5, 0)),
        (WHOLE, None, 3, (None, 3, 5)),
        (STATED, None, 3, (1.0, 3, 0)),
    ],
)
def test_each_table_has_exactly_its_own_examples(
    suite: Suite, limit: int | None, num_in: int, cell: tuple[float | None, int, int]
) -> None:
    (row,) = report_of_store(suite, store(num_in=num_in), limit=limit).rows
    assert row.all_examples is suite.all_examples
    for each in row.cells.values():
        assert (each.estimate and each.estimate.value, each.num_examples, each.missing) == cell


def test_what_reads_results_says_so() -> None:
    kept = store("m", "n")
    whole, stated = (compare_models([suite], kept, "m", "n") for suite in (WHOLE, STATED))
    assert "all examples" in COMPARISONS["text"](whole)
    assert "all examples" not in COMPARISONS["text"](stated)
    assert json.loads(COMPARISONS["json"](whole))["all_examples"] is True
    assert ", all examples" in explain(WHOLE, kept, "m").render("text")
    assert "all examples" not in explain(STATED, kept, "m").render("text")
    board = leaderboard_of([WHOLE], kept)
    assert all("m (all examples)" in BOARDS[name](board) for name in ("md", "latex", "html"))
    assert {line["all_examples"] for line in csv.DictReader(io.StringIO(BOARDS["csv"](board)))} == {"True"}
    assert all(row["all_examples"] for row in json.loads(BOARDS["json"](board))["rows"])


class TestBaselines:
    @pytest.mark.parametrize(
        ("kept", "now", "found"),
        [
            (WHOLE, STATED, r"covers all examples \(--all-examples\) of suite 'small'.*; add --all-examples"),
            (STATED, WHOLE, "covers the number of examples that the suite states.*; leave out --all-examples"),
        ],
    )
    def test_one_of_the_other_setting_is_refused_at_once(self, kept: Suite, now: Suite, found: str) -> None:
        baseline = decode_baseline(encode_baseline(baseline_of([kept], store(), ["m"])))
        assert check_results(baseline, [kept], store()).has_passed
        with pytest.raises(IncomparableError, match=found) as raised:
            check_results(baseline, [now], store())
        assert raised.value.exit_code == 4
        with pytest.raises(IncomparableError, match=found):
            check_request(baseline, (now,), ["m"])

    def test_what_is_missing_names_the_option(self) -> None:
        with pytest.raises(IncompleteError, match="'robench run --suite small --model m --all-examples'"):
            baseline_of([WHOLE], store(num_in=3), ["m"])

    def test_releases_that_do_not_know_the_option_read_a_baseline_without_it(self) -> None:
        assert b"all_examples" not in encode_baseline(baseline_of([SUITE], store_of(("m", "11", "10")), ["m"]))
