"""The suites that repeat what the papers' code does: as written, with the parameters that were read in that code."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from robench.core.suite import Suite
from robench.declare import read_suite

ROOT = Path(__file__).parents[2]
PAPERS = ("rpc", "rkde", "elliptical", "twicing", "boost")
# As in the code of the papers, by cleverhans 4.0: what is not named in a call is its default.
RELEASED: dict[str, dict[str, Any]] = {
    "fgsm": {"space": "normalised", "labels": "predicted", "clip": "none", "norm": "linf", "loss": "ce"},
    "pgd": {
        "space": "normalised", "labels": "predicted", "clip": "none", "norm": "linf", "loss": "ce", "num_steps": 20,
        "relative_step": Fraction(15, 100), "random_start": True, "num_restarts": 1, "returns": "last", "momentum": 0.0,
    },
    "spsa": {
        "space": "normalised", "labels": "predicted", "clip": "none", "learning_rate": Fraction(1, 100),
        "delta": Fraction(1, 100), "num_samples": 128, "formula": "released", "returns": "last",
    },
    "sparse-l1": {
        "space": "normalised", "labels": "predicted", "clip": "none", "epsilon": 10, "step_size": 1, "num_steps": 20,
        "sparsity": 0.99, "projection": "rescale", "returns": "last",
    },
    "uniform-noise": {"space": "normalised", "clip": "none", "epsilon": Fraction(3, 10)},
}  # fmt: skip
CONFIDENT = {"num_steps": 1000, "num_search_steps": 5, "learning_rate": 0.005, "initial_c": 0.01, "target": "other"}
OWN_TARGET = {"num_steps": 10, "learning_rate": 0.1, "confidence": 10, "target": "own"}
CW = {"rpc": CONFIDENT, "rkde": CONFIDENT, "elliptical": OWN_TARGET}
TENTH, LEVEL = Fraction(1, 10), Fraction(1, 255)
# Updates and budget, as the scripts call it, and (-paper) as the text has it.
SPSA: dict[str, dict[str, tuple[int, Fraction]]] = {
    "rpc": {"spsa": (10, TENTH), "spsa-paper": (40, TENTH)},
    "rkde": {"spsa": (40, TENTH), "spsa-paper": (40, LEVEL)},
    "elliptical": {"spsa": (40, TENTH)},
    "twicing": {"spsa": (40, LEVEL)},
}
# What normalised inputs meet in code that is written for images, and what the text says.
READINGS = {"": ("normalised", "unit"), "-paper": ("input", "box")}
BUDGETS = {"rpc": range(1, 7), "rkde": range(1, 7), "elliptical": range(1, 7), "twicing": [4], "boost": [1]}
# FGSM and PGD by the text's budget, in pixels: else the call of the code.
IN_PIXELS = {"rkde": ("fgsm-paper", "pgd-paper")}


def suite(family: str, paper: str) -> Suite:
    return read_suite(ROOT / "suites" / f"{family}-adv-{paper}.yaml")


def attacks(family: str, paper: str, kind: str) -> list[Any]:
    found: list[Any] = [condition.perturbation for condition in suite(family, paper).conditions]
    return [attack for attack in found if attack.kind == kind]


def named(family: str, paper: str) -> dict[str, Any]:
    return {condition.name: condition.perturbation for condition in suite(family, paper).conditions}


@pytest.mark.parametrize("paper", PAPERS)
class TestParameters:
    @pytest.mark.parametrize("kind", RELEASED)
    def test_calls_are_those_of_the_released_code(self, paper: str, kind: str) -> None:
        for condition, attack in named("imagenet", paper).items():
            if attack.kind == kind:
                wanted = RELEASED[kind] | ({"space": "input"} if condition in IN_PIXELS.get(paper, ()) else {})
                assert {name: getattr(attack, name) for name in wanted} == wanted

    @pytest.mark.parametrize(("family", "scale"), [("imagenet", 1), ("digits", 4)])
    def test_budgets_of_fgsm_and_pgd_are_those_of_the_loop_and_of_the_text(
        self, family: str, scale: int, paper: str
    ) -> None:
        wanted = {f"{kind}-{i}": scale * i * LEVEL for i in BUDGETS[paper] for kind in ("fgsm", "pgd")}
        wanted |= dict.fromkeys(IN_PIXELS.get(paper, ()), scale * LEVEL)
        found = named(family, paper)
        assert {name: each.epsilon for name, each in found.items() if each.kind in ("fgsm", "pgd")} == wanted

    def test_spsa_has_the_updates_of_the_authors_scripts(self, paper: str) -> None:
        found = {name: attack for name, attack in named("imagenet", paper).items() if attack.kind == "spsa"}
        met = {name: (attack.num_steps, attack.epsilon) for name, attack in found.items()}
        assert met == SPSA.get(paper, {})

    def test_the_digits_twin_of_spsa_has_four_times_the_budget(self, paper: str) -> None:
        for name, (num_steps, epsilon) in SPSA.get(paper, {}).items():
            twin = named("digits", paper)[name]
            assert (twin.num_steps, twin.epsilon) == (num_steps, 4 * epsilon)

    def test_cw_is_called_as_the_authors_call_it_and_cuts_normalised_images(self, paper: str) -> None:
        found = attacks("imagenet", paper, "cw")
        assert len(found) == (paper in CW)
        for attack in found:
            wanted = {**CW[paper], "clip_min": 0, "clip_max": 1, "stops_early": False, "labels": "predicted"}
            assert {name: getattr(attack, name) for name in wanted} == wanted

    def test_nothing_of_it_is_called_robust_accuracy(self, paper: str) -> None:
        for family in ("imagenet", "digits"):
            assert "robust_accuracy" not in suite(family, paper).metrics
            assert not any("robust" in column.key for column in suite(family, paper).columns)

    def test_the_digits_twin_has_the_same_conditions_in_the_same_order(self, paper: str) -> None:
        names = [[condition.name for condition in suite(family, paper).conditions] for family in ("imagenet", "digits")]
        assert names[0] == names[1]

    def test_what_was_inferred_is_marked(self, paper: str) -> None:
        assert ("inferred" in suite("imagenet", paper).description) == (paper in ("twicing", "boost"))


@pytest.mark.parametrize(("suffix", "reading"), READINGS.items())
class TestAutoAttackAndSquareOfRpc:
    def test_budget_labels_and_the_point_that_is_left_are_the_same_in_both_readings(
        self, suffix: str, reading: tuple[str, str]
    ) -> None:
        for kind in ("autoattack", "square"):
            attack = named("imagenet", "rpc")[f"{kind}{suffix}"]
            assert (attack.kind, attack.epsilon, attack.norm) == (kind, LEVEL, "linf")
            assert (attack.space, attack.clip) == reading
            assert (attack.labels, attack.returns) == ("true", "published")

    def test_they_run_on_the_whole_set_and_have_top_5(self, suffix: str, reading: tuple[str, str]) -> None:
        found = {condition.name: condition for condition in suite("imagenet", "rpc").conditions}
        columns = {column.key for column in suite("imagenet", "rpc").columns}
        for kind in ("autoattack", "square"):
            assert found[f"{kind}{suffix}"].num_examples is None
            assert {f"{kind}{suffix}/top1_accuracy", f"{kind}{suffix}/top5_accuracy"} <= columns

    def test_the_ensemble_is_the_standard_one_and_square_has_its_queries(
        self, suffix: str, reading: tuple[str, str]
    ) -> None:
        ensemble, square = (named("imagenet", "rpc")[f"{kind}{suffix}"] for kind in ("autoattack", "square"))
        assert ensemble.variant == "standard"
        assert (square.num_queries, square.p_init, square.stop) == (5000, 0.8, "at_success")
        of_ensemble = ensemble.attacks(1000)
        assert [(attack.kind, attack.space, attack.clip) for attack in of_ensemble] == [
            (kind, *reading) for kind in ("apgd", "apgd", "fab", "square")
        ]
        assert of_ensemble[-1] == square

    def test_the_twin_has_the_same_members_with_fewer_steps(self, suffix: str, reading: tuple[str, str]) -> None:
        ensemble, square = (named("digits", "rpc")[f"{kind}{suffix}"] for kind in ("autoattack", "square"))
        members = ensemble.attacks(10)
        assert [attack.kind for attack in members] == ["apgd", "apgd", "fab", "square"]
        assert [getattr(attack, "returns", None) for attack in members] == ["published", "published", None, "published"]
        for attack in (ensemble, square, *members):
            assert (attack.space, attack.clip) == reading
            assert getattr(attack, "epsilon", None) == 4 * LEVEL
