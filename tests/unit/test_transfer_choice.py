"""What is transferred, and between whom."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from examples import CHECKPOINT, PGD
from robench.core.errors import UnknownNameError, UsageError
from robench.core.suite import Condition, Suite
from robench.datasets.digits import DIGITS
from robench.declarations.base import DeclarationBase
from robench.perturbations.clean import Clean
from robench.perturbations.sweep import Sweep
from robench.runs.transfer import check_same_pixels, choose

SWEEP = Sweep(attacks=tuple(replace(PGD, epsilon=Fraction(k, 255)) for k in (2, 6, 12)))


def condition(name: str, perturbation: DeclarationBase) -> Condition:
    return Condition(name=name, dataset=DIGITS, perturbation=perturbation)


SUITE = Suite(
    name="s",
    version=1,
    seed=0,
    task="classification",
    batch_size=10,
    conditions=(condition("clean", Clean()), condition("pgd", PGD), condition("sweep", SWEEP)),
    metrics=(),
    columns=(),
)


def seen(name: str = "m", **changes: Any) -> Any:
    return replace(CHECKPOINT, name=name, preprocessing=replace(CHECKPOINT.preprocessing, **changes))  # type: ignore[type-var]


class TestChoose:
    def test_an_attack_is_meant_by_its_name(self) -> None:
        view = choose(SUITE, "pgd")
        assert (view.name, view.attack, view.epsilon) == ("pgd", PGD, None)

    def test_a_sweep_by_its_largest_budget(self) -> None:
        view = choose(SUITE, "sweep")
        assert (view.name, view.label, view.epsilon) == ("sweep@12/255", "sweep 12/255", "4/85")
        assert view.attack == replace(PGD, epsilon=Fraction(12, 255))

    @pytest.mark.parametrize("name", ["sweep@6/255", "sweep@2/85", "sweep@12/510"])
    def test_a_budget_by_its_value_however_it_is_written(self, name: str) -> None:
        assert choose(SUITE, name).epsilon == "2/85"

    @pytest.mark.parametrize("name", ["swep", "sweep@7/255", "pgd@8/255", "sweep@", "sweep@1/0", "@", ""])
    def test_an_unknown_one_is_refused_with_those_that_there_are(self, name: str) -> None:
        with pytest.raises(UnknownNameError, match=r"unknown condition of suite 's'.*(pgd, sweep, sweep@12|'sweep)"):
            choose(SUITE, name)

    def test_what_attacks_nothing_is_refused_with_those_that_do(self) -> None:
        with pytest.raises(UsageError, match="nothing is transferred; choose an attack: pgd, sweep"):
            choose(SUITE, "clean")
        with pytest.raises(UsageError, match="this suite has none"):
            choose(replace(SUITE, conditions=SUITE.conditions[:1]), "clean")

    def test_a_name_may_have_an_at_in_it(self) -> None:
        suite = replace(SUITE, conditions=(condition("a@b", PGD), condition("a@2/4", PGD)))
        assert choose(suite, "a@b").name == "a@b"
        assert choose(suite, "a@2/4").name == "a@2/4"


class TestPixels:
    def test_mean_and_deviation_may_differ(self) -> None:
        check_same_pixels([seen("a"), seen("b", mean=(0.1, 0.2, 0.3), std=(0.9, 0.8, 0.7))])
        check_same_pixels([seen("a")])

    @pytest.mark.parametrize(
        ("changes", "shown"),
        [
            ({"resize": 248}, "resize 248, no crop, bicubic against no resize"),
            ({"crop": 224}, "no resize, crop 224, bicubic"),
            ({"interpolation": "bilinear"}, "no resize, no crop, bilinear against no resize, no crop, bicubic"),
        ],
    )
    def test_but_nothing_that_changes_pixels(self, changes: dict[str, Any], shown: str) -> None:
        with pytest.raises(UsageError, match=f"'c' sees other pixels than 'a' .*{shown}"):
            check_same_pixels([seen("a"), seen("b"), seen("c", **changes)])

    def test_inputs_of_another_kind_must_be_the_same_altogether(self) -> None:
        words = replace(CHECKPOINT, name="w", preprocessing=PGD)
        check_same_pixels([words, words])
        with pytest.raises(UsageError, match="pgd against no resize"):
            check_same_pixels([seen("a"), words])
