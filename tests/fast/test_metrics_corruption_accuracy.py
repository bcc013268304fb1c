"""Accuracies under corruptions as columns of suites: of one type over its severities, and over a family's types."""

import pytest

from examples import outcome_columns, outcome_of
from robench.core.columns import Outcomes
from robench.core.errors import ContractError, IncompleteError
from robench.corruptions import COMMON_CORRUPTIONS, EXTRA_CORRUPTIONS
from robench.declare import find_suite
from robench.metrics import METRICS, Readings

BY_TYPE = {1: "corruption_top1_accuracy", 5: "corruption_top5_accuracy"}
BY_FAMILY = {1: "mean_top1_accuracy", 5: "mean_top5_accuracy"}
NUM_IMAGES = 20


def severities(*num_right: int, num_among_five: int = NUM_IMAGES) -> dict[int, Outcomes]:
    """Return 20 images a severity, so many of them right, and so many with the class among the first five."""
    return {
        severity: outcome_columns(
            outcome_of(f"val/{index:02d}", index < right, correct_top5=index < max(num_among_five, right))
            for index in range(NUM_IMAGES)
        )
        for severity, right in enumerate(num_right, 1)
    }


def read(metric: str, **corrupted: dict[int, Outcomes]) -> float:
    return METRICS[metric].compute(Readings(family="imagenet-c", corrupted=corrupted)).value


def test_the_accuracy_of_a_type_is_the_mean_over_its_severities() -> None:
    assert read(BY_TYPE[1], snow=severities(20, 15, 10, 5, 0)) == pytest.approx(0.5)
    assert read(BY_TYPE[5], snow=severities(5, 4, 3, 2, 1, num_among_five=12)) == pytest.approx(0.6)


def test_the_accuracy_of_a_family_is_the_mean_over_its_types() -> None:
    corrupted = {"snow": severities(20, 20, 20, 20, 20), "fog": severities(10, 10, 0, 0, 0, num_among_five=10)}
    assert read(BY_FAMILY[1], **corrupted) == pytest.approx((1 + 0.2) / 2)
    assert read(BY_FAMILY[5], **corrupted) == pytest.approx((1 + 0.5) / 2)


@pytest.mark.parametrize(("chosen", "left_out"), [(COMMON_CORRUPTIONS, EXTRA_CORRUPTIONS)])
def test_a_family_averages_the_fifteen_and_each_type_has_its_own(
    chosen: tuple[str, ...], left_out: tuple[str, ...]
) -> None:
    corrupted = {name: severities(*[20] * 5) for name in chosen} | {name: severities(*[0] * 5) for name in left_out}
    assert read(BY_FAMILY[1], **corrupted) == 1
    assert read(BY_FAMILY[1], **{name: corrupted[name] for name in left_out}) == 0
    assert read(BY_TYPE[1], spatter=corrupted["spatter"]) == 0


@pytest.mark.parametrize("metric", [*BY_TYPE.values(), *BY_FAMILY.values()])
def test_a_missing_severity_or_example_is_refused(metric: str) -> None:
    with pytest.raises(IncompleteError, match=r"snow wants the severities 1 to 5, got \[1, 2, 3, 4\]"):
        read(metric, snow=severities(1, 1, 1, 1))
    fewer = severities(*[1] * 5) | {5: outcome_columns([outcome_of("val/00", True)])}
    with pytest.raises((IncompleteError, ContractError)):
        read(metric, snow=fewer)


@pytest.mark.parametrize(
    ("suite", "types"),
    [
        ("imagenet-c", COMMON_CORRUPTIONS),
        ("imagenet-c-extra", EXTRA_CORRUPTIONS),
        ("imagenet-c-live", COMMON_CORRUPTIONS),
        ("digits-c", (*COMMON_CORRUPTIONS, *EXTRA_CORRUPTIONS)),
        ("digits-c-extra", EXTRA_CORRUPTIONS),
    ],
)
def test_suites_of_corruptions_have_both_accuracies(suite: str, types: tuple[str, ...]) -> None:
    columns = {column.key: column.label for column in find_suite(suite).columns}
    family = "digits-c" if suite.startswith("digits") else suite.removesuffix("-extra")
    wanted = {f"{family}/{kind}/corruption_top1_accuracy": f"{family} {kind} top-1 accuracy" for kind in types}
    wanted |= {f"{family}/mean_top1_accuracy": f"{family} mean top-1 accuracy"}
    assert wanted.items() <= columns.items()
