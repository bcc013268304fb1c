"""Sweeps and stated distances in files: what is read, and which columns come of it."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from robench.attacks.apgd import Apgd
from robench.attacks.autoattack import AutoAttack
from robench.attacks.cw import Cw
from robench.attacks.fab import Fab
from robench.attacks.fgsm import Fgsm
from robench.attacks.pgd import Pgd
from robench.core.errors import DeclarationError
from robench.core.suite import Distance, Suite
from robench.declare import find_suite, parse_suite
from robench.perturbations.sweep import Sweep

CLEAN = {"name": "clean"}
FGSM = {"name": "fgsm", "perturbation": {"kind": "fgsm", "epsilons": ["4/255", "5/255", "8/255"]}}
FAB = {"kind": "fab", "norm": "l2", "num_steps": 3}
CW = {"kind": "cw", "num_steps": 1, "num_search_steps": 1, "initial_c": 1, "learning_rate": 0.1}


def suite(*conditions: Any, metrics: Any = ("top1_accuracy",)) -> Suite:
    fields = {"name": "s", "version": 1, "seed": 0, "dataset": "digits", "batch_size": 100}
    return parse_suite({**fields, "conditions": list(conditions), "metrics": list(metrics)})


def problems_of(*conditions: Any, metrics: Any = ("top1_accuracy",)) -> list[str]:
    with pytest.raises(DeclarationError) as caught:
        suite(*conditions, metrics=metrics)
    return [line.strip() for line in str(caught.value).splitlines()[1:]]


def sweep(**fields: Any) -> Any:
    (condition,) = suite({"name": "a", "perturbation": fields}).conditions
    return condition.perturbation


class TestReading:
    def test_epsilons_are_the_attacks_budgets(self) -> None:
        wanted = tuple(Fgsm(epsilon=Fraction(level, 255)) for level in (4, 8))
        assert sweep(kind="fgsm", epsilons=["4/255", "8/255"]) == Sweep(attacks=wanted)

    def test_all_other_fields_are_each_attacks(self) -> None:
        read = sweep(kind="pgd", epsilons=[0.01, "1/50"], relative_step="1/4", num_steps=20, norm="l2", carry=True)
        first = Pgd(epsilon=Fraction(1, 100), relative_step=Fraction(1, 4), num_steps=20, norm="l2")
        assert read == Sweep(attacks=(first, replace(first, epsilon=Fraction(1, 50))), carry=True)

    def test_a_budget_of_zero_is_one(self) -> None:
        read = sweep(kind="pgd", epsilons=[0, "1/50"], relative_step="1/4", num_steps=20)
        assert [attack.epsilon for attack in read.at_budgets] == [0, Fraction(1, 50)]

    def test_members_of_an_ensemble_that_name_no_budget_have_the_ensembles(self) -> None:
        members = [{"kind": "apgd", "num_steps": 3}, FAB | {"norm": "linf"}]
        read = sweep(kind="autoattack", variant="custom", epsilons=["4/255", "8/255"], members=members)
        for level, attack in zip((4, 8), read.attacks, strict=True):
            wanted = Apgd(epsilon=Fraction(level, 255), num_steps=3), Fab(num_steps=3)
            assert attack == AutoAttack(epsilon=Fraction(level, 255), variant="custom", members=wanted)

    def test_a_member_of_an_ensemble_is_no_sweep(self) -> None:
        members = [{"kind": "fgsm", "epsilons": ["4/255", "8/255"]}]
        ensemble = {"kind": "autoattack", "variant": "custom", "epsilon": "8/255", "members": members}
        (problem,) = problems_of({"name": "a", "perturbation": ensemble})
        assert problem.startswith("conditions[0].perturbation.members[0].epsilons: unknown field 'epsilons'.")

    def test_a_mistake_that_all_budgets_share_is_told_once(self) -> None:
        wrong = {"kind": "fgsm", "epsilons": ["4/255", "8/255"], "loss": "cw"}
        assert problems_of({"name": "a", "perturbation": wrong}) == [
            "conditions[0].perturbation.loss: unknown value 'cw'. Known: balanced-ce, ce, cospgd, dlr, js, margin, "
            "masked-ce, objective, segpgd."
        ]

    def test_the_kind_is_asked_for_first(self) -> None:
        (missing,) = problems_of({"name": "a", "perturbation": {"epsilons": ["4/255", "8/255"]}})
        assert missing.startswith("conditions[0].perturbation.kind: missing.")
        (unknown,) = problems_of({"name": "a", "perturbation": {"kind": "fgsmm", "epsilons": ["4/255", "8/255"]}})
        assert unknown.startswith("conditions[0].perturbation.kind: unknown perturbation 'fgsmm'.")

    def test_fields_of_sweeps_are_no_fields_of_one_attack(self) -> None:
        (problem,) = problems_of({"name": "a", "perturbation": {"kind": "fgsm", "epsilon": "8/255", "carry": True}})
        assert problem.startswith("conditions[0].perturbation.carry: unknown field 'carry'.")

    def test_the_same_sweep_under_two_names_is_one_condition(self) -> None:
        assert problems_of(FGSM, {**FGSM, "name": "again"}) == [
            "conditions[1]: again measures exactly what fgsm measures; keep one"
        ]

    @pytest.mark.parametrize("fields", [{"carry": True}, {"stop": "at_success"}])
    def test_scores_of_what_was_left_alone_cannot_be_read(self, fields: dict[str, object]) -> None:
        pgd = {"kind": "pgd", "epsilons": ["1/255", "2/255"], "relative_step": "1/4", "num_steps": 2, **fields}
        (problem,) = problems_of({"name": "pgd", "perturbation": pgd}, metrics=["top5_accuracy"])
        assert problem.startswith("metrics[0]: top5_accuracy cannot be computed with early stopping, as in pgd")


class TestColumns:
    def test_a_sweep_has_a_column_a_budget_and_metric(self) -> None:
        columns = suite(CLEAN, FGSM, metrics=["top1_accuracy", "worst_accuracy"]).columns
        names = ("clean", "fgsm@4/255", "fgsm@5/255", "fgsm@8/255")
        keys = [f"{name}/{metric}" for name in names for metric in ("top1_accuracy", "worst_accuracy")]
        assert [column.key for column in columns] == keys
        assert [column.label for column in columns][4] == "fgsm 5/255 top-1 accuracy"
        assert [column.conditions for column in columns][6] == ("fgsm@8/255",)

    def test_each_budget_counts_in_its_own_threat_model(self) -> None:
        pgd = {"kind": "pgd", "epsilon": "8/255", "relative_step": "1/4", "num_steps": 2}
        columns = suite(CLEAN, FGSM, {"name": "pgd", "perturbation": pgd}, metrics=["robust_accuracy"]).columns
        assert [(column.key, column.conditions) for column in columns] == [
            ("linf-4/255/robust_accuracy", ("clean", "fgsm@4/255")),
            ("linf-5/255/robust_accuracy", ("clean", "fgsm@5/255")),
            ("linf-8/255/robust_accuracy", ("clean", "fgsm@8/255", "pgd")),
        ]

    def test_so_does_a_sweep_that_carries(self) -> None:
        carrying = {"name": "c", "perturbation": {**FGSM["perturbation"], "carry": True}}  # type: ignore[dict-item]  # a dict
        columns = suite(CLEAN, FGSM, carrying, metrics=["robust_accuracy"]).columns
        assert columns[0].conditions == ("clean", "fgsm@4/255", "c@4/255")

    def test_a_sweep_needs_the_same_examples_as_the_clean_condition(self) -> None:
        (first, *others) = problems_of(CLEAN, {**FGSM, "num_examples": 100}, metrics=["robust_accuracy"])
        assert first.endswith("the same num_examples in all of its conditions, but clean has 600, fgsm@4/255 has 100")
        assert len(others) == 2

    def test_the_shipped_sweep_has_pgd_at_rising_budgets(self) -> None:
        read = find_suite("digits-sweep")
        assert [column.key for column in read.columns] == [
            "clean/top1_accuracy",
            "pgd@0/top1_accuracy",
            *(f"pgd@{level}/255/top1_accuracy" for level in range(2, 13, 2)),
        ]


class TestDistances:
    def test_each_stated_distance_has_a_column(self) -> None:
        condition = {"name": "fab", "distances": ["1/2", 1], "perturbation": FAB}
        columns = suite(CLEAN, condition, metrics=["accuracy_at_distance", "top1_accuracy"]).columns
        assert [(column.key, column.label) for column in columns] == [
            ("clean/top1_accuracy", "clean top-1 accuracy"),
            ("fab/top1_accuracy", "fab top-1 accuracy"),
            ("fab@l2 0.5/accuracy_at_distance", "fab accuracy at distance l2 0.5"),
            ("fab@l2 1/accuracy_at_distance", "fab accuracy at distance l2 1"),
        ]
        assert columns[2].distance == Distance(norm="l2", value=Fraction(1, 2))
        assert (columns[2].conditions, columns[1].distance) == (("fab",), None)

    def test_the_norm_is_the_attacks(self) -> None:
        condition = {"name": "fab", "distances": ["8/255"], "perturbation": {**FAB, "norm": "linf"}}
        (column,) = suite(condition, metrics=["accuracy_at_distance"]).columns
        assert column.key == "fab@linf 0.0313725/accuracy_at_distance"

    def test_a_search_has_a_median_and_nothing_else_has(self) -> None:
        conditions = (CLEAN, FGSM, {"name": "cw", "perturbation": CW}, {"name": "fab", "perturbation": FAB})
        columns = suite(*conditions, metrics=["median_distance"]).columns
        assert [(column.key, column.label) for column in columns] == [
            ("cw/median_distance", "cw median distance (pixels)"),
            ("fab/median_distance", "fab median distance (pixels)"),
        ]

    def test_distances_do_not_decide_outcomes(self) -> None:
        suites = [suite({"name": "f", "distances": each, "perturbation": FAB}) for each in ([], [1], [1, 2])]
        assert len({each.conditions[0].perturbation_key for each in suites}) == 1

    @pytest.mark.parametrize(
        ("attack", "reason"),
        [
            ({**FAB, "labels": "predicted"}, "labels predicted"),
            ({**FAB, "norm": "linf", "backend": "torchattacks", "num_final_steps": 0, "alpha_max": 0.1}, "backend"),
            ({**FAB, "epsilon": 1, "stop": "at_success"}, "stop at_success"),
            ({**CW, "clip": "none", "clip_min": 0.0, "clip_max": 1.0}, "clip_min and clip_max"),
        ],
    )
    def test_a_search_whose_distances_say_less_has_neither_number(self, attack: Any, reason: str) -> None:
        stated = {"name": "a", "distances": [1], "perturbation": attack}
        distances, metric = problems_of(stated, metrics=["median_distance"])
        assert distances.startswith(f"conditions[0].distances: must be left out for an attack with {reason}")
        assert metric.startswith(f"metrics[0]: median_distance cannot be computed from a, an attack with {reason}")

    def test_without_a_suite_that_asks_such_a_search_is_taken(self) -> None:
        predicted = {"name": "a", "perturbation": {**FAB, "labels": "predicted"}}
        (read,) = suite(predicted).conditions
        assert isinstance(read.perturbation, Fab | Cw)
