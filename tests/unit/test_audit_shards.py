"""Audits in shards: flags as those of one shard of all examples, as many examples as fit, nothing measured twice."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_evaluation_audit import DIGITS as IMAGES
from test_evaluation_audit import Centred, Counted, Quantised, Small
from tiny_models import write_registry

from examples import CHECKPOINT, MEASUREMENT, record_of
from robench.attacks.apgd import Apgd
from robench.attacks.pgd import Pgd
from robench.cli.run_command import _lines_of_audits
from robench.core.errors import UsageError
from robench.core.flags import Flag, Observations
from robench.core.records import Record
from robench.core.shard import Measurement, Shard, into_shards, pieces_of, rest_of
from robench.core.suite import Condition, Suite
from robench.datasets.digits import DIGITS
from robench.declare import find_checkpoints
from robench.evaluation import chosen_attacks, probe
from robench.evaluation.actions import AUDIT_EXAMPLES, AUDIT_PASSES, AUDIT_SHARD, FEW_PASSES, Audit
from robench.evaluation.audit import audit_shard
from robench.metrics.audits import CHOSEN, judged
from robench.metrics.sanity import LEAST_COMPARED, RANDOM_SEARCH
from robench.perturbations.clean import Clean
from robench.reports.flags import flags_of, flags_of_audit, notes_of_audits
from robench.reports.selection import Coverage
from robench.runs import RunRequest
from robench.runs.audits import num_audited, of_size
from robench.runs.checks import check
from robench.runs.finding import find
from robench.runs.prepare import PreparedRun, plan
from robench.scheduling.estimates import Work
from robench.store import FolderStore
from robench.store.parquet import decode_record, encode_record

AUDIT = Condition(name="audit-digits", dataset=DIGITS, perturbation=Clean(), action=Audit(), num_examples=32)
MEASURED = replace(MEASUREMENT, condition=AUDIT, batch_size=AUDIT_EXAMPLES, dataset=IMAGES.identity)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have long searches take few steps."""

    def shortened(attack: Any) -> Any:
        return lambda num_steps, **fields: attack(num_steps=min(num_steps, 12), **fields)

    monkeypatch.setattr(probe, "Apgd", shortened(Apgd))
    monkeypatch.setattr(probe, "Pgd", shortened(Pgd))
    monkeypatch.setattr(chosen_attacks, "Apgd", shortened(Apgd))
    monkeypatch.setattr(probe, "NUM_STEPS", 12)
    monkeypatch.setattr(probe, "LAST_STEPS", 2)
    monkeypatch.setattr(probe, "NUM_NEIGHBOURS", 5)
    monkeypatch.setattr(probe, "NUM_QUERIES", 20)
    monkeypatch.setattr(chosen_attacks, "NUM_STEPS", 5)
    monkeypatch.setattr(chosen_attacks, "WITH_SCORES", 60)
    monkeypatch.setattr(chosen_attacks, "BY_LABELS", 20)


def audited(victim: Any, start: int, stop: int, measurement: Measurement = MEASURED) -> Record:
    return decode_record(
        encode_record(audit_shard(Shard(measurement=measurement, start=start, stop=stop), victim, IMAGES))
    )


class TestMerged:
    """The rows of two shards are those of one, so that each rule sees the same."""

    @pytest.mark.usefixtures("short")
    @pytest.mark.parametrize(
        ("victim", "raised"),
        [
            (Small(lambda logits: 300 * logits), {"unavailable gradients", CHOSEN}),
            pytest.param(Small(), set(), marks=pytest.mark.slow),
            pytest.param(
                Quantised(),
                {"zero gradients", "unavailable gradients", "right at any distance", CHOSEN},
                marks=pytest.mark.slow,
            ),
        ],
        ids=["saturated", "honest", "without gradients"],
    )
    def test_flags_of_two_shards_are_those_of_one(self, victim: Any, raised: set[str]) -> None:
        whole, first, second = (audited(victim, *bounds) for bounds in ((0, 16), (0, 8), (8, 16)))
        flags = {flag.name: flag for flag in flags_of_audit([first, second])}
        assert [*flags] == [flag.name for flag in whole.flags]
        assert {name for name, flag in flags.items() if flag.is_raised} == raised
        for wanted in whole.flags:
            found = flags[wanted.name]
            assert found.is_raised == wanted.is_raised, wanted.name
            assert found.value == pytest.approx(wanted.value, rel=1e-3, abs=1e-6), wanted.name
            # Rows are compared within a shard.
            assert found.finding == wanted.finding or wanted.name == "coupled rows"

    def test_few_examples_take_the_declared_passes_and_compare_no_attacks(self) -> None:
        victim = Counted()
        audited(victim, 0, 3, of_size(MEASURED, 3))
        clean = AUDIT_EXAMPLES
        forward, backward = FEW_PASSES
        assert 0.9 * forward <= (victim.num_forward - clean) / 3 <= forward
        assert 0.9 * backward <= victim.num_backward / 3 <= backward
        assert of_size(MEASURED, 3).key == of_size(MEASURED, 8).key == MEASURED.key

    def test_eight_examples_of_two_shards_decide_what_four_cannot(self) -> None:
        def seen(lost: int) -> Observations:
            settings = ("Square against APGD",)
            columns = ((True,) * lost, (False,) * lost)
            return Observations(check=RANDOM_SEARCH.name, columns=columns, settings=settings)

        assert [flag.is_raised for flag in (*judged([seen(4)]), *judged([seen(LEAST_COMPARED - 1)]))] == [False, False]
        (flag,) = judged([seen(4), seen(4)])
        # Two-sided: eight coins that all fall alike.
        assert (flag.is_raised, flag.value) == (True, 1.0)
        assert "Square against APGD: 100.0 points fewer survive (p = 0.0078)" in flag.finding

    def test_a_shard_without_right_examples_counts_only_if_no_other_has_any(self) -> None:
        wrong = Observations(check="nothing to attack", columns=((8,),))
        zero = Observations(check="zero gradients", columns=((False,),), settings=("",))
        assert [flag.name for flag in judged([wrong, zero])] == ["zero gradients"]
        (flag,) = judged([wrong, wrong])
        assert (flag.is_raised, flag.finding) == (True, "the model is right about none of 16 clean examples")
        (few,) = judged([replace(wrong, columns=((3,),))])
        assert not few.is_raised

    def test_chosen_attacks_are_counted_together_and_told_where_all_examples_raise_a_check(self) -> None:
        first = Observations(check=CHOSEN, columns=(("APGD", "Square"), (8, 6), (2, 3)))
        second = Observations(check=CHOSEN, columns=(("APGD", "PGD", "Square"), (8, 8, 7), (0, 1, 3)))
        raised = Observations(check="silent success", columns=((True, False),))
        calm = Observations(check="silent success", columns=((False,),))
        flag = {each.name: each for each in judged([first, raised, second, calm])}[CHOSEN]
        # 14 of 16 survive APGD; PGD takes 1 of 8 and Square 6 of 13.
        assert (flag.limit, flag.value, flag.is_raised) == (14 / 16, 7 / 16, True)
        assert flag.finding.split("; ")[1:] == ["Square fools 6 of 13", "PGD fools 1 of 8", "44% survive all"]
        assert [each.name for each in judged([first, calm])] == ["silent success"]

    @pytest.mark.usefixtures("short")
    def test_coupled_rows_are_those_of_the_shard_that_shows_most(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("robench.evaluation.audit.indicators", lambda probe: [])
        monkeypatch.setattr("robench.evaluation.audit.comparisons", lambda probe, num_classes, compares: [])
        parts = [audited(Centred(), 0, 8), audited(Centred(), 8, 16), audited(Centred(), 16, 17)]
        values = [flag.value for each in parts for flag in each.flags if flag.name == "coupled rows"]
        assert values[2] is None
        (flag,) = [flag for flag in flags_of_audit(parts) if flag.name == "coupled rows"]
        assert flag.is_raised
        assert flag.value == max(value for value in values if value is not None)


def audit_of(*bounds: tuple[int, int], flags: Sequence[Flag] = (), check: str = "silent success") -> Coverage:
    """Return an audit with shards of these bounds, of one right example each."""
    seen = Observations(check=check, columns=((8,) if check.startswith("nothing") else (False,),))
    records = [
        replace(
            record_of(Shard(measurement=MEASURED, start=start, stop=stop).header),
            flags=tuple(flags),
            observations=() if flags else (seen,),
        )
        for start, stop in bounds
    ]
    return Coverage(
        condition="audit-digits", num_wanted=AUDIT_EXAMPLES, records=tuple(records), failures=(), has_older=False
    )


class TestShown:
    @pytest.mark.parametrize(
        ("bounds", "said"),
        [
            ([(0, 3)], "on 3 of 32 examples (--audit full: all); comparisons of attacks, which need 8, are left out"),
            ([(0, 8)], "on 8 of 32 examples (--audit full: all); comparisons of attacks find only what changes 100 %"),
            ([(0, 8), (8, 16), (16, 24)], "on 24 of 32 examples (--audit full: all); comparisons of attacks find only"),
            ([(0, 8), (8, 16), (16, 24)], "what changes 34 % of them or more"),
        ],
    )
    def test_fewer_examples_are_told_with_their_power(self, bounds: list[tuple[int, int]], said: str) -> None:
        (note,) = notes_of_audits([audit_of(*bounds)])
        assert note.startswith("audit-digits: on ")
        assert said in note

    def test_of_no_right_example_that_is_told(self) -> None:
        (note,) = notes_of_audits([audit_of((0, 2), check="nothing to attack")])
        assert note.endswith("the model is right about none of them, so that nothing was checked")

    def test_a_full_audit_and_one_of_a_single_shard_from_before_say_nothing(self) -> None:
        flag = Flag(name="n", source="s", value=1.0, limit=0.0, is_raised=True, finding="f", advice="a")
        old = audit_of((0, 32), flags=[flag])
        assert notes_of_audits([old, audit_of((0, 8), (8, 16), (16, 24), (24, 32)), audit_of()]) == []
        assert flags_of([old], []) == (flag,)


def attacked(num_steps: int, num_examples: int) -> Suite:
    """Return a suite of PGD, whose passes of an example are one forward pass more than its steps."""
    attack = Pgd(epsilon=Fraction(8, 255), relative_step=Fraction(1, 4), num_steps=num_steps)
    return Suite(
        name=f"pgd-{num_steps}",
        version=1,
        seed=0,
        task="classification",
        batch_size=10,
        conditions=(Condition(name="pgd", dataset=DIGITS, perturbation=attack, num_examples=num_examples),),
        metrics=("top1_accuracy",),
        columns=(),
    )


def measured(suite: Suite, name: str = CHECKPOINT.name) -> Iterator[Measurement]:
    for condition in suite.conditions:
        checkpoint = replace(CHECKPOINT, name=name)
        yield replace(MEASURED, checkpoint=checkpoint, condition=condition, batch_size=suite.batch_size)


class TestSize:
    @pytest.mark.parametrize("num_steps", [1, 9, 40, 200, 399, 400, 800, 1200, 5000])
    @pytest.mark.parametrize("limit", [None, 25])
    def test_the_largest_number_that_fits_into_a_quarter(self, num_steps: int, limit: int | None) -> None:
        count = num_audited(MEASURED, [*measured(attacked(num_steps, 60)), *measured(attacked(900, 60), "m2")], limit)
        # Limits are rounded up to batches of ten.
        room = (num_steps + 1 / 3) * (60 if limit is None else 30) / 4
        full, few = (forward / 3 + 2 * backward / 3 for forward, backward in (AUDIT_PASSES, FEW_PASSES))
        fitting = [each for each in range(1, 33) if each % 8 == 0 and each * full <= room]
        fitting += [each for each in range(1, 8) if each * few <= room]
        assert count == max(fitting, default=1)

    def test_small_data_and_unknown_passes(self) -> None:
        few = replace(MEASURED, dataset=replace(MEASURED.dataset, num_examples=5))
        assert num_audited(few, measured(attacked(10_000, 60)), None) == 5
        (unknown,) = measured(attacked(10, 60))
        perturbation: Any = type("Unknown", (Pgd,), {"most_passes": None})
        fields = {"epsilon": Fraction(1, 255), "relative_step": Fraction(1, 4), "num_steps": 1}
        condition = replace(unknown.condition, perturbation=perturbation(**fields))
        assert num_audited(MEASURED, [replace(unknown, condition=condition)], None) == 32

    def test_shards_do_not_depend_on_what_else_is_kept_and_nothing_is_measured_twice(self) -> None:
        whole, four = into_shards([MEASURED], 1), list(pieces_of(MEASURED, AUDIT_SHARD, 32))
        assert [(each.start, each.stop) for each in four] == [(0, 8), (8, 16), (16, 24), (24, 32)]
        kept = {each.key for each in whole}
        assert [rest_of(each, kept) for each in four] == [None] * 4
        (few,) = pieces_of(MEASURED, AUDIT_SHARD, 3)
        assert rest_of(few, {four[0].key}) is None
        assert rest_of(few, kept) is None
        # Fewer examples left comparisons out, so that the shard is measured whole.
        assert rest_of(four[0], {few.key}) == four[0]
        assert rest_of(four[1], {four[0].key}) == four[1]

    def test_suites_share_the_larger_audit_and_one_of_before_is_whole(self, tmp_path: Path) -> None:
        suites = attacked(3, 60), attacked(1200, 60)
        checkpoints = tuple(find_checkpoints(["honest"], (write_registry(tmp_path),)))
        checked = check(find(RunRequest(suites=suites, checkpoints=checkpoints, executor="serial")))

        def planned(*asked: Suite, **fields: Any) -> PreparedRun:
            request = replace(checked.found.request, suites=asked, **fields)
            return plan(replace(checked, found=replace(checked.found, request=request)))

        def audits(shards: Sequence[Shard]) -> list[tuple[int, int]]:
            return [(each.start, each.stop) for each in shards if isinstance(each.measurement.condition.action, Audit)]

        both, full = planned(*suites), planned(suites[0], audit="full", keep_adversarial="float32")
        assert audits(planned(suites[0]).shards) == [(0, 1)]
        assert audits(both.shards) == 2 * [(0, 8), (8, 16)]
        assert audits(full.shards)[-1] == (24, 32)
        assert audits(planned(suites[0], audit=False).shards) == []
        store, measurement = FolderStore(tmp_path / "r"), full.shards[0].measurement
        store.put(record_of(Shard(measurement=measurement, start=0, stop=8).header))
        assert audits(full.todo(store)) == [(8, 16), (16, 24), (24, 32)]
        store.put(record_of(Shard(measurement=measurement, start=0, stop=32).header))
        assert audits(full.todo(store)) == audits(both.todo(store)) == []

    @pytest.mark.parametrize(
        ("seconds", "audit", "said"),
        [
            (2040, "full", ["audits take 34 min of 37 min: --audit quarter has fewer examples"]),
            (2040, True, ["audits take 34 min of 37 min: --audit none leaves them out"]),
            (900, "full", []),
            (50, "full", []),
        ],
    )
    def test_a_plan_names_audits_that_dominate(self, seconds: float, audit: Any, said: list[str]) -> None:
        of_audits, work = (
            Work(forward=1, backward=1, is_whole=True, known_seconds=each)
            for each in (seconds, 60 if seconds < 60 else 2220)
        )
        outlook: Any = SimpleNamespace(work=work, of_audits=of_audits)
        assert _lines_of_audits(RunRequest(suites=(), checkpoints=(), audit=audit), outlook) == said

    def test_another_size_is_refused(self) -> None:
        with pytest.raises(UsageError, match="audit must be True, False or 'full', got 'half'"):
            RunRequest(suites=(), checkpoints=(), audit="half")  # type: ignore[arg-type]
