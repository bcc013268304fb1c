"""Flags in tables: kept by audits, or raised by conditions beside each other; shown in every format."""

import csv
import io
import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from paired_records import CLEAN
from paired_records import SUITE as PAIRED
from presence import present

from examples import CHECKPOINT, MEASUREMENT, PROVENANCE, failure_of, outcome_columns, outcome_of
from robench.attacks.base import BoundedAttack
from robench.attacks.fgsm import Fgsm
from robench.attacks.noise import UniformNoise
from robench.attacks.pgd import Pgd
from robench.attacks.square import Square
from robench.core.declared import Declaration
from robench.core.flags import Flag
from robench.core.records import Record
from robench.core.report import Row
from robench.core.shard import DatasetIdentity, Shard
from robench.core.suite import Condition, Suite
from robench.datasets import DATASETS
from robench.datasets.digits import DIGITS
from robench.evaluation.actions import AUDIT_EXAMPLES, audits_of
from robench.perturbations.sweep import Sweep
from robench.reports import RENDERERS, build_report, needs
from robench.tasks import TASKS
from robench.tasks.classification import CLASSIFICATION

EPSILON = Fraction(8, 255)
NUM_EXAMPLES = 40
FLAG = Flag(
    name="random victim", source="somebody", value=0.5, limit=0.1, is_raised=True, finding="it draws", advice="average"
)
CALM = replace(FLAG, name="zero gradients", is_raised=False, finding="there are none", advice="look elsewhere")


def pgd(epsilon: Fraction = EPSILON, num_steps: int = 20, **fields: Any) -> Pgd:
    return Pgd(epsilon=epsilon, relative_step=Fraction(1, 4), num_steps=num_steps, **fields)


def suite_of(**attacks: Declaration) -> Suite:
    attacked = (Condition(name=name, dataset=DIGITS, perturbation=each) for name, each in attacks.items())
    conditions, columns = (CLEAN, *attacked), PAIRED.columns[:1]
    return replace(PAIRED, batch_size=NUM_EXAMPLES, conditions=conditions, columns=columns, audit=True)


def record(
    condition: Condition, num_standing: int, batch_size: int = NUM_EXAMPLES, flags: tuple[Flag, ...] = ()
) -> Record:
    size = condition.num_examples or NUM_EXAMPLES
    measurement = replace(
        MEASUREMENT,
        checkpoint=replace(CHECKPOINT, name="vit"),
        condition=condition,
        dataset=DatasetIdentity(name="digits", fingerprint="d", num_examples=NUM_EXAMPLES),
        batch_size=batch_size,
    )
    outcomes = outcome_columns(outcome_of(f"digits-{index:05d}", index < num_standing) for index in range(size))
    shard = Shard(measurement=measurement, start=0, stop=size).header
    return Record(shard=shard, outcomes=outcomes, provenance=PROVENANCE, flags=flags)


def row_of(suite: Suite, records: list[Record]) -> Row:
    (row,) = build_report(suite, records, models=["vit"]).rows
    return row


def compared(first: tuple[BoundedAttack, int], second: tuple[BoundedAttack, int]) -> tuple[Flag, ...] | None:
    """Return the flags of two attacks, under each of which so many of 40 examples stand."""
    suite = suite_of(first=first[0], second=second[0])
    standing = {"clean": 40, "first": first[1], "second": second[1]}
    return row_of(suite, [record(each, standing[each.name]) for each in suite.conditions]).flags


class TestAudits:
    def test_there_is_one_of_each_dataset_that_is_attacked(self) -> None:
        (audit,) = audits_of(suite_of(pgd=pgd(), fgsm=Fgsm(epsilon=EPSILON)))
        assert (audit.dataset.name, audit.num_examples) == ("digits", AUDIT_EXAMPLES)

    def test_clean_suites_and_those_that_want_none_have_none(self) -> None:
        assert audits_of(suite_of()) == ()
        assert audits_of(replace(suite_of(pgd=pgd()), audit=False)) == ()

    def test_its_flags_stand_in_the_row_and_the_raised_ones_are_known(self) -> None:
        suite = suite_of(pgd=pgd())
        row = row_of(suite, [record(audits_of(suite)[0], 32, AUDIT_EXAMPLES, (FLAG, CALM))])
        assert row.flags == (FLAG, CALM)
        assert row.raised == (FLAG,)

    def test_its_records_are_selected_by_their_own_batch_size(self) -> None:
        suite = suite_of(pgd=pgd())
        (audit,) = audits_of(suite)
        assert needs(suite)(record(audit, 32, AUDIT_EXAMPLES).shard)
        assert not needs(suite)(record(audit, 32, NUM_EXAMPLES).shard)
        assert not needs(suite)(record(suite.conditions[1], 32, AUDIT_EXAMPLES).shard)

    def test_a_model_without_one_has_no_flags_rather_than_none_raised(self) -> None:
        suite = suite_of(pgd=pgd())
        assert row_of(suite, [record(suite.conditions[0], 40)]).flags is None

    def test_a_failed_one_is_a_note(self) -> None:
        suite = suite_of(pgd=pgd())
        shard = record(audits_of(suite)[0], 32, AUDIT_EXAMPLES).shard
        (row,) = build_report(suite, [], [failure_of(shard, error="no gradient")], models=["vit"]).rows
        assert row.notes == ("audit-digits: 1 shard failed; first error: no gradient",)


class TestComparisons:
    @pytest.mark.parametrize(
        ("stronger", "weaker", "name"),
        [
            (pgd(), Fgsm(epsilon=EPSILON), "single step beats iterations"),
            (pgd(), Square(epsilon=EPSILON, num_queries=10, p_init=0.8), "random search beats gradients"),
            (pgd(), UniformNoise(epsilon=EPSILON), "random search beats gradients"),
            (pgd(2 * EPSILON), pgd(), "smaller budget beats larger"),
            (pgd(), pgd(num_steps=40), "twice the steps change the result"),
        ],
    )
    def test_a_weaker_attack_that_wins_is_flagged_in_either_order(
        self, stronger: BoundedAttack, weaker: BoundedAttack, name: str
    ) -> None:
        for flags in (compared((stronger, 30), (weaker, 10)), compared((weaker, 10), (stronger, 30))):
            (flag,) = present(flags)
            assert (flag.name, flag.is_raised, flag.value) == (name, True, 0.5)

    @pytest.mark.parametrize(
        ("stronger", "weaker"), [(pgd(), Fgsm(epsilon=EPSILON)), (pgd(2 * EPSILON), pgd()), (pgd(), pgd(num_steps=40))]
    )
    def test_the_expected_order_is_kept_unraised(self, stronger: BoundedAttack, weaker: BoundedAttack) -> None:
        flags = present(compared((stronger, 10), (weaker, 10)))
        assert [flag.is_raised for flag in flags] == [False]

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (pgd(), Fgsm(epsilon=EPSILON, norm="l2")),
            (pgd(), Fgsm(epsilon=2 * EPSILON)),
            (pgd(2 * EPSILON, num_steps=10), pgd()),
            (pgd(), pgd(num_steps=39)),
            (pgd(), pgd(num_steps=40, momentum=0.5)),
            (pgd(labels="predicted"), Fgsm(epsilon=EPSILON, labels="predicted")),
        ],
        ids=["other norm", "other budget", "other steps too", "not twice", "other momentum", "predicted labels"],
    )
    def test_attacks_of_which_nothing_is_known_are_not_compared(
        self, first: BoundedAttack, second: BoundedAttack
    ) -> None:
        assert not compared((first, 30), (second, 10))

    def test_what_is_not_complete_is_not_compared(self) -> None:
        suite = suite_of(pgd=pgd(), fgsm=Fgsm(epsilon=EPSILON))
        assert row_of(suite, [record(suite.conditions[0], 40), record(suite.conditions[1], 30)]).flags is None

    @pytest.mark.parametrize(("num_standing", "is_raised"), [(4, False), (5, True)])
    def test_more_than_one_in_ten_digits_right_where_all_can_be_grey_is_flagged(
        self, num_standing: int, is_raised: bool
    ) -> None:
        suite = suite_of(half=pgd(Fraction(1, 2)))
        (flag,) = row_of(suite, [record(each, num_standing) for each in suite.conditions]).flags or ()
        assert (flag.name, flag.is_raised) == ("right at any distance", is_raised)

    def test_series_have_no_budget_that_reaches_everything(self) -> None:
        suite = suite_of(half=pgd(Fraction(1, 2)))
        of_series = [replace(each, dataset=DATASETS["japanese-vowels"]) for each in suite.conditions]
        suite = replace(suite, conditions=tuple(of_series))
        assert row_of(suite, [record(each, 40) for each in of_series]).flags is None

    def test_what_is_right_by_chance_is_known_of_audited_tasks_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        builtin: Any = TASKS.builtin  # a dict
        monkeypatch.setitem(builtin, CLASSIFICATION.name, replace(CLASSIFICATION, is_audited=False))
        suite = suite_of(half=pgd(Fraction(1, 2)))
        assert row_of(suite, [record(each, 40) for each in suite.conditions]).flags is None


class TestSweeps:
    def flags(self, **fields: bool) -> list[Flag]:
        """Return the flags of a sweep that leaves fewer standing at the smaller of its budgets."""
        suite = suite_of(sweep=Sweep(attacks=(pgd(), pgd(2 * EPSILON)), **fields))
        clean, swept = (record(each, 40) for each in suite.conditions)
        budgets = {"8/255": 10, "16/255": 30}
        outcomes = [
            outcome_of(f"digits-{index:05d}", index < num_standing, epsilon=epsilon)
            for index in range(NUM_EXAMPLES)
            for epsilon, num_standing in budgets.items()
        ]
        return list(row_of(suite, [clean, replace(swept, outcomes=outcome_columns(outcomes))]).flags or ())

    def test_budgets_of_a_plain_sweep_are_compared_under_their_labels(self) -> None:
        (flag,) = self.flags()
        assert (flag.name, flag.is_raised) == ("smaller budget beats larger", True)
        assert flag.finding.startswith("sweep 8/255 against sweep 16/255: 50.0 points fewer survive")

    def test_budgets_that_lean_on_each_other_say_nothing_of_monotonicity(self) -> None:
        assert self.flags(carry=True) == []


class TestFormats:
    def rendered(self, name: str, flags: tuple[Flag, ...]) -> str:
        suite = suite_of(pgd=pgd())
        records = [record(audits_of(suite)[0], 32, AUDIT_EXAMPLES, flags), record(suite.conditions[0], 40)]
        return RENDERERS[name](build_report(suite, records, models=["vit", "unmeasured"]))

    @pytest.mark.parametrize("name", ["text", "md", "latex", "html"])
    def test_readers_see_how_many_are_raised_and_what_to_do(self, name: str) -> None:
        text = self.rendered(name, (FLAG, CALM))
        assert "1 raised" in text
        assert "vit: random victim: it draws; average" in text
        assert "look elsewhere" not in text
        assert "(not audited)" in text

    @pytest.mark.parametrize("name", ["text", "md", "latex", "html"])
    @pytest.mark.parametrize(
        ("attacks", "domain", "is_said"), [(True, "images", True), (True, "tokens", False), (False, "images", False)]
    )
    def test_a_number_under_an_attack_without_audit_says_so(
        self, name: str, attacks: bool, domain: str, is_said: bool
    ) -> None:
        suite = replace(suite_of(**({"pgd": pgd()} if attacks else {})), audit=False)
        dataset = replace(DIGITS, domain=domain)
        suite = replace(suite, conditions=tuple(replace(each, dataset=dataset) for each in suite.conditions))
        rendered = RENDERERS[name](build_report(suite, [record(each, 40) for each in suite.conditions]))
        assert ("(not audited)" in rendered) == is_said
        assert ("flags" in rendered) == is_said

    @pytest.mark.parametrize("name", ["text", "md", "latex", "html"])
    def test_none_raised_is_said(self, name: str) -> None:
        assert "none" in self.rendered(name, (CALM,))

    def test_json_holds_every_flag_whole(self) -> None:
        audited, unmeasured = json.loads(self.rendered("json", (FLAG, CALM)))["rows"]
        assert [Flag(**flag) for flag in audited["flags"]] == [FLAG, CALM]
        assert "flags" not in unmeasured

    def test_csv_has_a_line_with_their_number(self) -> None:
        lines = list(csv.DictReader(io.StringIO(self.rendered("csv", (FLAG, CALM)))))
        (line,) = [line for line in lines if line["column"] == "flags"]
        assert (line["model"], line["metric"], line["value"]) == ("vit", "num_raised", "1")

    def test_a_table_without_any_has_no_such_column(self) -> None:
        suite = suite_of()
        assert "flags" not in RENDERERS["text"](build_report(suite, [record(suite.conditions[0], 40)], models=["vit"]))
