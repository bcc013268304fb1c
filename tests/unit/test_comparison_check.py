"""Results checked against a baseline: verdicts, refusals, the file, and what is written for machines."""

import json
import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest
from paired_records import CLEAN, FGSM, SUITE, flipped, record, store_of
from refusals import Refusal, check
from scipy import stats

from robench.attacks.cw import Cw
from robench.attacks.fgsm import Fgsm
from robench.comparison import Check, baseline_of, check_results
from robench.comparison.documents import check_json, check_junit, check_markdown, check_text
from robench.core.errors import IncomparableError, IncompleteError, StoreError, UnknownNameError, UsageError
from robench.core.suite import Suite
from robench.store import MemoryStore
from robench.store.baseline import Baseline, decode_baseline, encode_baseline, read_baseline, write_baseline
from robench.store.parquet import encode_record
from robench.testing.metric import classified

RIGHT = "1" * 100
HOSTILE = "=cmd\x1b[31m\u202e<b>&\"'|`\n# forged ]]>\x00"


def baseline(clean: str = RIGHT, fgsm: str = RIGHT, **settings: Any) -> Baseline:
    return baseline_of([SUITE], store_of(("m", clean, fgsm), **settings), ["m"])


def checked(kept: Baseline, clean: str, fgsm: str, suite: Suite = SUITE, **settings: Any) -> Check:
    tolerance = settings.pop("tolerance", None)
    seed = settings.get("seed")
    store = store_of(("m", clean, fgsm), **({"weights": "new"} | settings))
    return check_results(kept, [suite], store, tolerance=tolerance, seed=seed)


def verdicts_of(check: Check) -> list[str]:
    return [cell.verdict for cell in check.cells]


class TestVerdicts:
    def test_the_same_results_pass(self) -> None:
        found = checked(baseline(), RIGHT, RIGHT, weights="a")
        assert found.has_passed
        assert verdicts_of(found) == ["passed"] * 3
        assert {(cell.newly_wrong, cell.newly_right, cell.p_value) for cell in found.cells} == {(0, 0, 1.0)}
        assert found.notes == ("m: the weights are those of the baseline",)

    def test_a_significant_loss_fails_and_names_its_cells(self) -> None:
        found = checked(baseline(), RIGHT, "0" * 10 + "1" * 90)
        assert verdicts_of(found) == ["passed", "worse", "worse"]
        fgsm = found.cells[1]
        assert not found.notes
        assert fgsm.p_value == 2.0**-10
        assert fgsm.p_holm == 3 * 2.0**-10
        assert fgsm.difference is not None
        assert (fgsm.difference.value, fgsm.newly_wrong, fgsm.newly_right) == (pytest.approx(-0.1), 10, 0)
        assert fgsm.difference.low is not None
        assert fgsm.difference.low < -0.1 < (fgsm.difference.high or 0)
        assert not found.has_passed

    def test_the_line_is_drawn_by_holm_over_all_cells(self) -> None:
        """Of 3 cells two equal ones need 3 p <= 0.05: 6 newly wrong examples are enough, 5 are not."""
        assert checked(baseline(), RIGHT, "0" * 5 + "1" * 95).has_passed
        assert not checked(baseline(), RIGHT, "0" * 6 + "1" * 94).has_passed
        # One-sided alone, 5 would be significant.
        assert 2.0**-5 < 0.05

    def test_a_gain_never_fails(self) -> None:
        found = checked(baseline("0" * 50 + "1" * 50), RIGHT, RIGHT)
        assert found.has_passed
        assert found.cells[0].p_value == 1.0
        assert found.cells[0].newly_right == 50

    def test_the_p_value_is_scipys_one_sided_binomial(self) -> None:
        before, after = flipped(100, 20, 9, 60)
        found = checked(baseline(fgsm=before), RIGHT, after)
        expected = stats.binomtest(20, 29, 0.5, alternative="greater").pvalue
        assert found.cells[1].p_value == pytest.approx(expected, abs=1e-12)

    def test_lost_coverage_fails(self) -> None:
        store = MemoryStore()
        store.put(record(CLEAN, RIGHT, "m"))
        store.put(record(FGSM, "1" * 60, "m", size=100))
        found = check_results(baseline(), [SUITE], store)
        assert verdicts_of(found) == ["passed", "missing", "missing"]
        assert found.cells[1].after.missing == 40
        assert not found.has_passed
        nothing = check_results(baseline(), [SUITE], MemoryStore())
        assert verdicts_of(nothing) == ["missing"] * 3

    def test_a_number_that_never_was_does_not_fail(self) -> None:
        column = replace(SUITE.columns[1], key="median", label="median", metric="median_distance", norm="l2")
        nearest = replace(FGSM, perturbation=Cw(num_steps=1, num_search_steps=1, initial_c=1.0, learning_rate=0.1))
        suite = replace(SUITE, columns=(*SUITE.columns, column), conditions=(CLEAN, nearest))
        fooled = {"l2": 0.0, "correct_top1": False, "loss_nats": None}
        rows = [replace(row, prediction=(row.target + 1) % 10, **fooled) for row in classified(1)[:50]]
        store = MemoryStore()
        for condition, broken in ((CLEAN, None), (nearest, True)):
            made = record(condition, "1" * 50, "m")
            store.put(replace(made, outcomes=type(made.outcomes).of([replace(row, found=broken) for row in rows])))
        kept = baseline_of([suite], store, ["m"])
        found = check_results(kept, [suite], store)
        assert verdicts_of(found)[-1] == "no number"
        assert found.has_passed
        skipped = ElementTree.fromstring(check_junit(found)).findall("testsuite/testcase/skipped")
        assert [each.get("message") for each in skipped] == ["the baseline has no number here"]

    def test_a_limited_baseline_is_checked_on_the_same_examples(self) -> None:
        kept = baseline_of([SUITE], store_of(("m", RIGHT, RIGHT)), ["m"], limit=40)
        found = checked(kept, "1" * 40 + "0" * 60, "1" * 40 + "0" * 60)
        assert found.has_passed
        assert found.cells[0].after.num_examples == 40

    def test_of_a_number_that_is_no_mean_the_permutation_decides(self) -> None:
        column = replace(SUITE.columns[1], key="mean", label="mean", metric="mean_accuracy")
        suite = replace(SUITE, columns=(column,))

        def store(num_right: int) -> MemoryStore:
            found = store_of(("m", RIGHT, RIGHT))
            made = record(FGSM, RIGHT, "m", weights=str(num_right), time="2026-12-01")
            rows = [replace(r, num_predictions=10, num_correct=num_right - k % 3) for k, r in enumerate(made.outcomes)]
            found.put(replace(made, outcomes=type(made.outcomes).of(rows)))
            found.put(record(CLEAN, RIGHT, "m", weights=str(num_right), time="2026-12-01"))
            return found

        worse = check_results(baseline_of([suite], store(9), ["m"]), [suite], store(8))
        assert (worse.cells[0].test, worse.cells[0].verdict) == ("paired permutation", "worse")
        assert worse.cells[0].p_value == 1 / 10_000
        assert worse.cells[0].newly_wrong is None
        better = check_results(baseline_of([suite], store(8), ["m"]), [suite], store(9))
        assert (better.cells[0].verdict, better.cells[0].p_value) == ("passed", 1.0)

    def test_of_an_error_a_larger_number_is_the_worse_one(self) -> None:
        from test_comparison_statistics import readings_of

        from robench.comparison.evidence import evidence_of
        from robench.metrics import METRICS

        metric = METRICS["mean_error"]
        bad, good = readings_of("mean_error", 1), readings_of("mean_error", 2)
        right = {
            name: {
                severity: type(outcomes).of([replace(row, correct_top1=True) for row in outcomes])
                for severity, outcomes in severities.items()
            }
            for name, severities in good.corrupted.items()
        }
        good = replace(good, corrupted=right)
        assert evidence_of(metric, good, bad, "a column", 99).worse_p_value == 1 / 100
        assert evidence_of(metric, bad, good, "a column", 99).worse_p_value == 1.0
        assert METRICS["fpr95"].lower_is_better
        assert not METRICS["auroc"].lower_is_better


class TestTolerance:
    def test_it_is_off_by_default(self) -> None:
        found = checked(baseline(), RIGHT, "0" * 4 + "1" * 96)
        assert found.has_passed
        assert (found.tolerance, found.false_alarm_rate) == (None, None)
        assert "tolerance" not in check_text(found)

    def test_a_larger_loss_fails_and_its_false_alarm_rate_is_printed(self) -> None:
        before, after = flipped(100, 12, 8, 60)
        kept = baseline(RIGHT, before)
        found = checked(kept, RIGHT, after, tolerance=3.0)
        assert verdicts_of(found) == ["passed", "beyond tolerance", "beyond tolerance"]
        # Of 20 changed examples 12 or more are newly wrong.
        rate = stats.binom.sf(11, 20, 0.5)
        assert [cell.false_alarm for cell in found.cells] == pytest.approx([0.0, rate, rate])
        assert found.false_alarm_rate == pytest.approx(2 * rate)
        assert f"up to {100 * 2 * rate:.2g} % of checks" in check_text(found)
        assert checked(kept, RIGHT, after, tolerance=4.0).has_passed


def refused(message: str, suite: Suite = SUITE, error: type[Exception] = IncomparableError, **settings: Any) -> Refusal:
    return Refusal(lambda _: checked(baseline(), RIGHT, RIGHT, suite, **settings), error, message)


def unknown(message: str, *suites: Suite, error: type[Exception] = UnknownNameError, **settings: Any) -> Refusal:
    store = store_of(("m", RIGHT, RIGHT))
    return Refusal(lambda _: check_results(baseline(), suites, store, **settings), error, message)


def incomplete(message: str, *models: str, error: type[Exception]) -> Refusal:
    def call(_: Path) -> None:
        store = store_of(("m", RIGHT, RIGHT))
        store.put(record(FGSM, "1" * 10, "n", size=100))
        baseline_of([SUITE], store, models)

    return Refusal(call, error, message)


def with_fewer_records(_: Path) -> None:
    made = baseline()
    checked(replace(made, records=made.records[:1]), RIGHT, RIGHT)


def with_a_plug_in(_: Path) -> None:
    made = baseline(versions={"torch": "2.15", "attacks-of-others": "1.0"})
    (protocol,) = made.protocols
    checked(replace(made, protocols=(replace(protocol, plugins={"attacks-of-others": "1.0"}),)), RIGHT, RIGHT)


def of_a_record(folder: Path) -> None:
    (folder / "b").write_bytes(encode_record(record(CLEAN, RIGHT, "m")))
    read_baseline(folder / "b")


def into_a_file(folder: Path) -> None:
    (folder / "file").write_text("")
    write_baseline(folder / "file" / "b", baseline())


OTHER_FGSM = replace(FGSM, perturbation=Fgsm(epsilon=Fraction(4, 255)))
PROTOCOLS = (
    refused("suite 'small' has version 2, and the baseline 1", replace(SUITE, version=2)),
    refused("has seed 1, and the baseline 0", replace(SUITE, seed=1)),
    refused("has batch size 3, and the baseline 2", replace(SUITE, batch_size=3)),
    refused("no condition 'fgsm' any more", replace(SUITE, conditions=(CLEAN,), columns=SUITE.columns[:1])),
    refused("no column 'robust' any more", replace(SUITE, columns=SUITE.columns[:2])),
    refused("condition 'fgsm' of suite 'small' is another one", replace(SUITE, conditions=(CLEAN, OTHER_FGSM))),
    refused("condition 'clean' of suite", replace(SUITE, conditions=(replace(CLEAN, num_examples=50), FGSM))),
    refused("has seed 3, and the baseline 0", seed=3),
    Refusal(with_a_plug_in, IncomparableError, r"uses attacks-of-others none, and the baseline 1\.0"),
)
REFUSALS = (
    refused("'clean' of m was measured on data with the fingerprint e, and", data="e"),
    refused("must be 0 points or more", error=UsageError, tolerance=-1.0),
    refused("must be 0 points or more", error=UsageError, tolerance=float("nan")),
    Refusal(with_fewer_records, IncomparableError, "the baseline has no results of condition '.*' of m"),
    unknown("unknown model of the baseline 'n'", SUITE, models=["n"]),
    unknown("unknown suite of the baseline 'other'", replace(SUITE, name="other")),
    unknown("nothing of the baseline", error=UsageError),
    incomplete("n lacks 100 examples of condition 'clean'", "m", "n", error=IncompleteError),
    incomplete("unknown model with results 'k'", "k", error=UnknownNameError),
    Refusal(of_a_record, IncomparableError, "it is not a baseline"),
    Refusal(read_baseline, UsageError, "cannot be read"),
    Refusal(lambda folder: read_baseline(folder / "none"), UsageError, "cannot be read"),
    Refusal(into_a_file, StoreError, "cannot"),
    Refusal(lambda _: encode_baseline(Baseline(protocols=(), records=())), StoreError, "outcomes of one task"),
)


class TestRefusals:
    @pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.message[:60])
    def test_what_cannot_be_compared_is_an_error(self, refusal: Refusal, tmp_path: Path) -> None:
        check(refusal, tmp_path)

    @pytest.mark.parametrize("refusal", PROTOCOLS, ids=lambda refusal: refusal.message[:60])
    def test_another_protocol_is_an_error_with_the_way_out(self, refusal: Refusal, tmp_path: Path) -> None:
        check(refusal, tmp_path)
        check(refusal._replace(message="write a new baseline"), tmp_path)

    def test_records_of_another_version_of_a_plug_in_are_an_error(self) -> None:
        from robench.comparison.baseline import check_records, measured
        from robench.reports.results import Stored

        def coverage(version: str) -> Any:
            store = store_of(("m", RIGHT, RIGHT), versions={"others": version})  # type: ignore[arg-type]
            return measured(SUITE, Stored(SUITE, store, None, 0), "m", None).coverages["clean"]

        check_records(coverage("1.0"), coverage("1.0"), ["others"], "here")
        message = r"here was measured with others 1\.1, and the baseline's with 1\.0"
        with pytest.raises(IncomparableError, match=message):
            check_records(coverage("1.0"), coverage("1.1"), ["others"], "here")

    def test_another_release_of_torch_is_none(self) -> None:
        assert checked(baseline(), RIGHT, RIGHT, versions={"torch": "3.0"}).has_passed

    def test_a_new_column_is_a_note(self) -> None:
        kept = baseline_of([replace(SUITE, columns=SUITE.columns[:2])], store_of(("m", RIGHT, RIGHT)), ["m"])
        found = checked(kept, RIGHT, RIGHT)
        assert len(found.cells) == 2
        assert "small: not in the baseline, and so not checked: robust" in found.notes


class TestFile:
    def test_what_was_written_is_read_and_equal_baselines_give_equal_bytes(self, tmp_path: Path) -> None:
        kept = baseline_of([SUITE], store_of(("m", RIGHT, RIGHT), ("n", RIGHT, "0" * 100)), ["m", "n"])
        write_baseline(tmp_path / "b.parquet", kept)
        found = read_baseline(tmp_path / "b.parquet")
        assert found == kept
        assert encode_baseline(found) == encode_baseline(kept) == (tmp_path / "b.parquet").read_bytes()
        assert found.protocols[0].models == ("m", "n")
        assert [record.shard.weights_digest for record in found.records] == ["m-a", "m-a", "n-a", "n-a"]

    def test_any_reader_of_parquet_opens_it(self, tmp_path: Path) -> None:
        write_baseline(tmp_path / "b.parquet", baseline(RIGHT, "0" * 100))
        table = pq.read_table(tmp_path / "b.parquet").to_pandas()
        assert table.groupby("condition", observed=True)["correct_top1"].mean().to_dict() == {"clean": 1, "fgsm": 0}

    def test_shards_are_joined_and_two_suites_share_conditions(self) -> None:
        store = MemoryStore()
        for start in range(0, 100, 20):
            for condition in (CLEAN, FGSM):
                store.put(record(condition, "1" * 20, "m", start=start, size=100))
        again = replace(SUITE, name="again", conditions=(replace(CLEAN, num_examples=30), FGSM))
        kept = baseline_of([again, SUITE], store, ["m"])
        assert [len(each.outcomes) for each in kept.records] == [100, 100]
        assert len(check_results(kept, [SUITE, again], store).cells) == 6

    @pytest.mark.parametrize("seed", range(20))
    def test_a_damaged_file_is_refused(self, tmp_path: Path, seed: int) -> None:
        draw = random.Random(seed)
        content = bytearray(encode_baseline(baseline()))
        place = draw.randrange(len(content))
        content[place] ^= 1 << draw.randrange(8)
        (tmp_path / "b").write_bytes(content[: draw.choice([len(content), place])])
        with pytest.raises(IncomparableError, match="cannot be used"):
            read_baseline(tmp_path / "b")

    def test_names_of_any_kind_come_back(self) -> None:
        kept = baseline_of([SUITE], store_of((HOSTILE, RIGHT, RIGHT)), [HOSTILE])
        assert decode_baseline(encode_baseline(kept)) == kept


class TestDocuments:
    def failing(self, name: str = "m") -> Check:
        store = store_of((name, RIGHT, RIGHT))
        kept = baseline_of([SUITE], store, [name])
        label = replace(SUITE.columns[0], label=HOSTILE if name == HOSTILE else "clean top-1")
        suite = replace(SUITE, columns=(label, *SUITE.columns[1:]))
        later = MemoryStore()
        later.put(record(CLEAN, "0" * 20 + "1" * 80, name, weights="new"))
        later.put(record(FGSM, "1" * 60, name, weights="new", size=100))
        return check_results(kept, [suite], later)

    def test_junit_has_a_case_a_cell(self) -> None:
        root = ElementTree.fromstring(check_junit(self.failing()))
        (suite,) = root
        assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "3", "0")
        assert [case.get("name") for case in suite] == ["clean top-1", "fgsm top-1", "robust"]
        assert {case.get("classname") for case in suite} == {"small.m"}
        assert [case[0].get("type") for case in suite] == ["worse", "missing", "missing"]
        message = suite[0][0].get("message") or ""
        assert "20 examples newly wrong, 0 right" in message
        assert "exact McNemar p = 9.5e-07" in message

    def test_the_summary_shows_what_failed_before_the_rest(self) -> None:
        text = check_markdown(self.failing())
        assert text.startswith("### robench check: failed\n")
        assert text.index("| worse") < text.index("<details>")
        assert "failed: 1 worse, 2 missing, of 3 cells" in text
        assert check_markdown(checked(baseline(), RIGHT, RIGHT)).startswith("### robench check: passed\n")

    def test_json_has_every_number(self) -> None:
        document = json.loads(check_json(self.failing()))
        assert document["passed"] is False
        assert [cell["verdict"] for cell in document["cells"]] == ["worse", "missing", "missing"]
        assert document["cells"][0]["change"]["value"] == pytest.approx(-0.2)
        assert document["cells"][1]["change"] is None

    @pytest.mark.parametrize("document", [check_text, check_markdown, check_json, check_junit])
    def test_foreign_names_are_inert(self, document: Any) -> None:
        text = document(self.failing(HOSTILE))
        assert text.replace("\n", "").isprintable()
        assert not [line for line in text.splitlines() if line.startswith(("# forged", "forged"))]
        if document is check_markdown:
            assert "<b>" not in text
        if document is check_junit:
            (suite,) = ElementTree.fromstring(text)
            wanted = "small.=cmd\\x1b[31m\\u202e<b>&\"'|`\\n# forged ]]>\\x00"
            assert [case.get("classname") for case in suite] == [wanted] * 3
