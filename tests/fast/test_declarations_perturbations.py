"""What perturbations answer when generic code asks them, and the neutral answers of those with none of their own."""

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import pytest
from presence import present

from robench.attacks.apgd import Apgd
from robench.attacks.autoattack import AutoAttack
from robench.attacks.cw import Cw
from robench.attacks.fab import Fab
from robench.attacks.fgsm import Fgsm
from robench.attacks.pgd import Pgd
from robench.core.errors import DeclarationError
from robench.core.suite import PREDICT, Condition
from robench.corruptions import COMMON_CORRUPTIONS, EXTRA_CORRUPTIONS, TYPES
from robench.corruptions.corruption import Corruption
from robench.datasets import DATASETS
from robench.datasets.base import corrupted_of
from robench.datasets.digits import DIGITS
from robench.declarations.base import PerturbationBase
from robench.declare.suites import read_suite
from robench.evaluation.actions import Audit, Rescore
from robench.perturbations import PERTURBATIONS
from robench.perturbations.clean import Clean
from robench.perturbations.greedy_word_swap import GreedyWordSwap
from robench.perturbations.sweep import Sweep

DELETE = GreedyWordSwap(ranking="delete", num_queries=9, substitutions="table", table={"film": ("movie", "picture")})
EPSILON = Fraction(8, 255)
PGD = Pgd(epsilon=EPSILON, step_size=Fraction(2, 255), num_steps=10)
APGD = Apgd(epsilon=EPSILON, num_steps=10)
CW = Cw(num_steps=3, num_search_steps=1, initial_c=1.0, learning_rate=0.01)
FAB = Fab(num_steps=3, norm="l1")


# Kinds whose answers are written out below; a further one may answer as it likes.
KINDS = (
    *("clean", "corruption", "uniform-noise", "gaussian-noise", "fgsm", "pgd", "apgd", "cw", "fab", "square", "spsa"),
    *("sparse-l1", "autoattack", "word-swap", "character-edits", "greedy-word-swap", "gradient-word-swap"),
    *("textattack", "textattack-augmenter"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Silent(PerturbationBase):
    kind: ClassVar[str] = "silent"


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("is_clean", {"clean"}),
        ("is_attack", set(KINDS) - {"clean", "corruption", "word-swap", "character-edits", "textattack-augmenter"}),
        ("is_minimum_norm", {"cw", "fab"}),
        ("is_iterated", {"pgd", "apgd"}),
        ("is_single_step", {"fgsm"}),
        ("is_gradient_free", {"square", "spsa", "uniform-noise", "gaussian-noise", "greedy-word-swap", "textattack"}),
        ("makes_inputs", set(KINDS) - {"clean"}),
    ],
)
def test_kinds_answer_what_is_the_same_for_all_of_a_kind(question: str, wanted: Any) -> None:
    assert {kind for kind in KINDS if getattr(PERTURBATIONS[kind], question)} == set(wanted)


def test_what_says_nothing_has_neutral_answers() -> None:
    silent = Silent()
    assert (silent.drawn_as, silent.clip, silent.backend, silent.batch_dependence) == ("silent", "box", "robench", "")
    assert silent.threat_model is silent.epsilon_name is silent.search_norm is silent.corruption is None
    assert silent.at_budgets == ()
    assert silent.keeps_scores
    assert silent.makes_inputs
    assert not silent.is_attack
    assert not silent.stops_at_success
    assert not silent.returns_published_point
    assert not silent.budgets_are_linked
    assert silent.distance_problem() == ""
    assert not silent.is_same_at_another_budget(silent)
    assert not silent.is_twice_as_long_as(silent)


def test_inputs_are_kept_of_nothing_that_makes_none() -> None:
    rescore = Rescore(source="a", mean=(0.0,), std=(1.0,))
    asked = [(Clean(), Audit()), (PGD, rescore), (Clean(), PREDICT), (PGD, PREDICT)]
    conditions = [Condition(name="c", dataset=DIGITS, perturbation=each, action=action) for each, action in asked]
    assert [each.makes_inputs for each in conditions] == [False, False, False, True]


class TestBudgets:
    def test_the_same_attack_at_another_budget_may_have_steps_in_proportion(self) -> None:
        larger = replace(PGD, epsilon=2 * EPSILON, step_size=Fraction(4, 255))
        assert larger.is_same_at_another_budget(PGD)
        assert not replace(larger, num_steps=11).is_same_at_another_budget(PGD)
        assert not APGD.is_same_at_another_budget(PGD)

    def test_an_ensemble_is_another_where_its_members_are(self) -> None:
        small, large = (AutoAttack(epsilon=k * EPSILON, variant="standard") for k in (1, 2))
        assert large.is_same_at_another_budget(small)
        own = AutoAttack(epsilon=EPSILON, variant="custom", members=(APGD,))
        assert not own.is_same_at_another_budget(small)

    def test_linked_budgets_say_so(self) -> None:
        attacks = PGD, replace(PGD, epsilon=2 * EPSILON)
        assert not Sweep(attacks=attacks).budgets_are_linked
        assert Sweep(attacks=attacks, carry=True).budgets_are_linked

    def test_a_sweep_has_the_limits_of_its_attack(self) -> None:
        cut = [Fgsm(epsilon=Fraction(k), space="normalised", clip="unit") for k in (1, 2)]
        assert Sweep(attacks=tuple(cut)).clip == "unit"


class TestLength:
    @pytest.mark.parametrize(("num_steps", "is_twice"), [(19, False), (20, True), (21, True), (10, False)])
    def test_it_is_twice_as_long_from_twice_the_steps_on(self, num_steps: int, is_twice: bool) -> None:
        assert replace(PGD, num_steps=num_steps).is_twice_as_long_as(PGD) is is_twice

    def test_it_is_not_where_anything_else_differs(self) -> None:
        assert not replace(PGD, num_steps=40, num_restarts=2).is_twice_as_long_as(PGD)
        assert not replace(APGD, num_steps=40).is_twice_as_long_as(PGD)


class TestMinimumNorm:
    @pytest.mark.parametrize(
        ("attack", "wanted"),
        [
            (CW, ""),
            (replace(CW, confidence=1.0), "confidence above 0"),
            (replace(CW, clip="none", clip_min=0.0, clip_max=1.0), "clip_min and clip_max"),
            (replace(CW, labels="predicted", confidence=1.0), "labels predicted"),
            (replace(CW, backend="foolbox"), "backend foolbox"),
            (FAB, ""),
            (replace(FAB, stop="at_success", epsilon=EPSILON), "stop at_success"),
        ],
    )
    def test_it_says_what_keeps_its_distances_from_meaning_anything(self, attack: Any, wanted: str) -> None:
        assert wanted in attack.distance_problem()
        assert bool(attack.distance_problem()) is bool(wanted)

    def test_limits_and_label_are_those_of_cw(self) -> None:
        limited = replace(CW, clip="none", clip_min=0.0, clip_max=1.0, labels="predicted", target="own")
        assert (limited.limits, limited.seeks_label) == ((0.0, 1.0), True)
        assert (CW.limits, CW.seeks_label, FAB.limits, FAB.seeks_label) == (None, False, None, False)


class TestCorruptions:
    def test_its_type_and_severity_tell_its_family(self) -> None:
        snow = Corruption(type="snow", severity=3)
        assert snow.corruption == ("snow", 3)
        found = present(corrupted_of(Condition(name="a", dataset=DIGITS, perturbation=snow)))
        assert (found.family, found.type, found.severity) == ("digits-c", "snow", 3)

    def test_published_sets_are_a_list_of_their_own(self) -> None:
        published = {declared.corruption for declared in DATASETS.values()} - {None}
        assert published == {*COMMON_CORRUPTIONS, *EXTRA_CORRUPTIONS} <= TYPES.keys()


def test_other_tasks_and_domains_of_a_word_swap_are_refused() -> None:
    assert DELETE.problems_on(DATASETS["sotu"]) == []
    assert DELETE.problems_on(DATASETS["digits"]) == [("", "must serve texts, got dataset digits of images")]
    other: Any = type("Other", (), {"domain": "texts", "task": "regression", "name": "prices"})
    said = "must serve classification or language-modeling, got dataset prices of regression"
    assert DELETE.problems_on(other) == [("", said)]


def test_a_suite_states_substitutes_by_word(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(
        "name: search\nversion: 1\ndescription: A search.\ntask: language-modeling\ndataset: sotu\nseed: 0\n"
        "batch_size: 1\nbatches_per_shard: 1\nmetrics: [perplexity]\nconditions:\n  - name: greedy\n    perturbation:\n"
        "      {kind: greedy-word-swap, ranking: unk, num_queries: 9, most_changed: 1/4, substitutions: table,\n"
        "       table: {good: [fine, nice]}}\n"
    )
    (condition,) = read_suite(path).conditions
    given: Any = condition.perturbation
    assert given == replace(DELETE, ranking="unk", most_changed=Fraction(1, 4), table={"good": ("fine", "nice")})
    path.write_text(path.read_text().replace("nice]", "very nice]"))
    with pytest.raises(DeclarationError, match="single words without white space"):
        read_suite(path)
