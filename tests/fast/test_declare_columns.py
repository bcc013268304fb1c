"""Columns: which metric is read off which conditions."""

from fractions import Fraction

import pytest

from robench.attacks.fgsm import Fgsm
from robench.attacks.noise import UniformNoise
from robench.attacks.pgd import Pgd
from robench.core.suite import Condition
from robench.datasets import DATASETS
from robench.datasets.digits import DIGITS
from robench.datasets.imagenet import IMAGENET_1K
from robench.declarations.supports import L0
from robench.declare.columns import columns_of, num_examples_of, threat_problems
from robench.perturbations.clean import Clean

EIGHT = Fraction(8, 255)
CLEAN = Condition(name="clean", dataset=DIGITS, perturbation=Clean())
PHOTOS = Condition(name="photos", dataset=IMAGENET_1K, perturbation=Clean())


def fgsm(name: str, epsilon: Fraction = EIGHT, dataset: str = "digits", num_examples: int | None = None) -> Condition:
    return Condition(
        name=name, dataset=DATASETS[dataset], perturbation=Fgsm(epsilon=epsilon), num_examples=num_examples
    )


def test_columns_run_by_condition_and_then_by_metric() -> None:
    columns = columns_of((CLEAN, fgsm("fgsm")), ("top5_accuracy", "top1_accuracy"))
    assert [column.key for column in columns] == [
        "clean/top5_accuracy", "clean/top1_accuracy", "fgsm/top5_accuracy", "fgsm/top1_accuracy",
    ]  # fmt: skip
    assert [column.label for column in columns][:2] == ["clean top-5 accuracy", "clean top-1 accuracy"]
    assert [column.metric for column in columns][:2] == ["top5_accuracy", "top1_accuracy"]
    assert [column.conditions for column in columns][1:3] == [("clean",), ("fgsm",)]


def test_threat_models_come_last_one_column_a_budget() -> None:
    pgd = Condition(
        name="pgd", dataset=DIGITS, perturbation=Pgd(epsilon=EIGHT, step_size=Fraction(2, 255), num_steps=20)
    )
    noise = Condition(name="noise", dataset=DIGITS, perturbation=UniformNoise(epsilon=Fraction(1, 10)))
    columns = columns_of((fgsm("fgsm"), CLEAN, noise, pgd), ("robust_accuracy", "top1_accuracy"))
    assert [(column.key, column.conditions) for column in columns[4:]] == [
        ("linf-8/255/robust_accuracy", ("clean", "fgsm", "pgd"))
    ]
    assert [column.label for column in columns[4:]] == ["linf-8/255 robust accuracy"]
    assert [column.metric for column in columns[4:]] == ["robust_accuracy"]


def test_the_dataset_is_named_only_where_there_are_several() -> None:
    conditions = (CLEAN, PHOTOS, fgsm("fgsm"), fgsm("fgsm-photos", dataset="imagenet-1k"))
    assert [
        (column.key, column.label, column.conditions) for column in columns_of(conditions, ("robust_accuracy",))
    ] == [
        ("digits/linf-8/255/robust_accuracy", "digits linf-8/255 robust accuracy", ("clean", "fgsm")),
        ("imagenet-1k/linf-8/255/robust_accuracy", "imagenet-1k linf-8/255 robust accuracy", ("photos", "fgsm-photos")),
    ]


def test_no_two_columns_share_a_key() -> None:
    attacks = tuple(fgsm(f"fgsm-{level}", Fraction(level, 255)) for level in range(1, 9))
    columns = columns_of((CLEAN, PHOTOS, *attacks), ("top1_accuracy", "top5_accuracy", "robust_accuracy"))
    assert len({column.key for column in columns}) == len(columns) == 10 * 2 + 8


def test_of_several_clean_conditions_the_one_of_the_attacks_size_is_taken() -> None:
    few = Condition(name="few", dataset=DIGITS, perturbation=Clean(), num_examples=100)
    conditions = (CLEAN, few, fgsm("fgsm", num_examples=100), fgsm("fgsm-4", Fraction(4, 255)))
    assert threat_problems(conditions, "robust_accuracy") == []
    assert [column.conditions for column in columns_of(conditions, ("robust_accuracy",))] == [
        ("clean", "fgsm-4"),
        ("few", "fgsm"),
    ]


def pgd(name: str, epsilon: Fraction, norm: str = "linf", l0: L0 | None = None) -> Condition:
    attack = Pgd(epsilon=epsilon, step_size=epsilon / 4, num_steps=20, norm=norm, l0=l0)
    return Condition(name=name, dataset=DIGITS, perturbation=attack)


def test_budgets_ascend_within_an_attack_and_a_norm_in_the_order_of_the_suite() -> None:
    conditions = (
        CLEAN, pgd("pgd-l2", Fraction(1, 2), "l2"), fgsm("fgsm"), fgsm("fgsm-10", Fraction(10, 255)),
        pgd("pgd-20", EIGHT), fgsm("fgsm-1", Fraction(1, 255)),
        pgd("sparse-24", Fraction(1), l0=L0(count=24)), pgd("sparse-8", Fraction(1), l0=L0(count=8)),
    )  # fmt: skip
    columns = columns_of(conditions, ("top1_accuracy", "robust_accuracy"))
    assert [(column.label.split()[0], column.group, column.setting) for column in columns] == [
        ("clean", "clean", ""), ("pgd-l2", "pgd-l2", "1/2"),
        ("fgsm-1", "fgsm", "1/255"), ("fgsm", "fgsm", "8/255"), ("fgsm-10", "fgsm", "10/255"),
        # A number of steps.
        ("pgd-20", "pgd-20", "8/255"),
        ("sparse-8", "sparse", "8-pixels"), ("sparse-24", "sparse", "24-pixels"),
        ("l2-1/2", "l2", "1/2"),
        ("linf-1/255", "linf", "1/255"), ("linf-8/255", "linf", "8/255"), ("linf-10/255", "linf", "10/255"),
        ("linf-1-8-pixels", "linf-8-pixels", "1"), ("linf-1-24-pixels", "linf-24-pixels", "1"),
    ]  # fmt: skip


def test_attacks_of_one_budget_on_different_examples_are_a_problem() -> None:
    conditions = (CLEAN, fgsm("all"), fgsm("few", num_examples=100))
    assert threat_problems(conditions, "robust_accuracy") == [
        "robust_accuracy under linf-8/255 needs the same num_examples in all of its conditions, "
        "but clean has 600, all has 600, few has 100"
    ]


def test_a_dataset_without_a_clean_condition_is_one_problem_however_many_budgets() -> None:
    conditions = (PHOTOS, fgsm("a"), fgsm("b", Fraction(4, 255)))
    assert threat_problems(conditions, "robust_accuracy") == [
        "robust_accuracy needs a clean condition on digits; add {name: clean}"
    ]


@pytest.mark.parametrize(("asked", "num_examples"), [(None, 600), (1, 1), (600, 600), (601, 600)])
def test_a_condition_has_at_most_the_examples_of_its_dataset(asked: int | None, num_examples: int) -> None:
    assert num_examples_of(fgsm("fgsm", num_examples=asked)) == num_examples
