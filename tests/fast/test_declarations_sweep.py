"""Sweeps as declarations: what they refuse, what they say for all budgets, and what is read off them."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from robench.attacks.autoattack import AutoAttack
from robench.attacks.fab import Fab
from robench.attacks.noise import GaussianNoise
from robench.attacks.pgd import Pgd
from robench.core.identity import key_of
from robench.core.suite import Condition, views_of
from robench.datasets.digits import DIGITS
from robench.perturbations.clean import Clean
from robench.perturbations.sweep import Sweep

SMALL, LARGE = Fraction(4, 255), Fraction(8, 255)
PGD = Pgd(epsilon=SMALL, relative_step=Fraction(1, 4), num_steps=20)


def sweep_of(attack: Any, *epsilons: Fraction, **fields: Any) -> Sweep:
    return Sweep(attacks=tuple(replace(attack, epsilon=each) for each in epsilons or (SMALL, LARGE)), **fields)


def test_its_key_changes_with_budgets_and_fields_and_with_nothing_else() -> None:
    sweeps = [
        sweep_of(PGD), sweep_of(PGD, SMALL, Fraction(16, 255)), sweep_of(PGD, SMALL, LARGE, Fraction(16, 255)),
        sweep_of(PGD, carry=True), PGD,
    ]  # fmt: skip
    assert len({key_of(each) for each in sweeps}) == len(sweeps)
    assert key_of(sweep_of(PGD)) == key_of(sweep_of(PGD, carry=False))


class TestWhatIsSaidOfAll:
    def test_it_is_an_attack(self) -> None:
        assert sweep_of(PGD).is_attack

    def test_random_numbers_are_those_of_its_attack(self) -> None:
        assert (sweep_of(PGD).drawn_as, PGD.drawn_as, Clean().drawn_as) == ("pgd", "pgd", "clean")

    def test_it_has_no_single_budget(self) -> None:
        assert sweep_of(PGD).threat_model is sweep_of(PGD).epsilon_name is None

    def test_examples_are_left_alone_at_success_and_by_carrying(self) -> None:
        stopping = replace(PGD, stop="at_success")
        found = [each.stops_at_success for each in (sweep_of(PGD), sweep_of(stopping), sweep_of(PGD, carry=True))]
        assert found == [False, True, True]
        assert sweep_of(AutoAttack(epsilon=SMALL, variant="standard")).stops_at_success

    def test_it_depends_on_batches_where_its_attack_does(self) -> None:
        library = replace(PGD, returns="last", backend="foolbox")
        assert sweep_of(library).batch_dependence == "pgd by foolbox"
        assert sweep_of(replace(library, exact=True)).batch_dependence == ""
        assert sweep_of(PGD).batch_dependence == ""

    def test_its_backend_is_that_of_its_attack(self) -> None:
        assert sweep_of(replace(PGD, returns="last", backend="foolbox")).backend == "foolbox"

    def test_only_attacks_without_a_budget_search_for_the_nearest(self) -> None:
        asked = [Fab(num_steps=3, norm="l1"), PGD, sweep_of(PGD), Clean(), GaussianNoise(epsilon=SMALL)]
        assert [each.search_norm for each in asked] == ["l1", None, None, None, None]


class TestViews:
    def test_a_sweep_has_one_a_budget(self) -> None:
        sweep = sweep_of(PGD, Fraction(0), Fraction(1, 100), Fraction(5, 255))
        views = views_of(Condition(name="p", dataset=DIGITS, perturbation=sweep))
        assert [view.name for view in views] == ["p@0", "p@1/100", "p@5/255"]
        assert [view.label for view in views] == ["p 0", "p 1/100", "p 5/255"]
        assert [view.epsilon for view in views] == ["0", "1/100", "1/51"]
        assert tuple(view.attack for view in views) == sweep.attacks

    @pytest.mark.parametrize("perturbation", [Clean(), PGD, Fab(num_steps=3)])
    def test_all_else_is_its_own_view(self, perturbation: Any) -> None:
        condition = Condition(name="c", dataset=DIGITS, perturbation=perturbation)
        (view,) = views_of(condition)
        assert (view.name, view.label, view.epsilon) == ("c", "c", None)
        assert (view.condition, view.attack) == (condition, perturbation)
