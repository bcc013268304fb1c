"""The suites that repeat what the papers' code does: as written, with the parameters that were read in that code."""

from __future__ import annotations

import runpy
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from robench.core.suite import Suite
from robench.declare import read_suite

ROOT = Path(__file__).parents[2]
TEXTS: dict[str, str] = runpy.run_path(str(ROOT / "scripts" / "paper_suites.py"))["texts"]()
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
SPSA_STEPS = {"rpc": 10, "rkde": 40, "elliptical": 40, "twicing": 40}
BUDGETS = {"rpc": range(1, 7), "rkde": range(1, 7), "elliptical": range(1, 7), "twicing": [4], "boost": [1]}


def suite(family: str, paper: str) -> Suite:
    return read_suite(ROOT / "suites" / f"{family}-adv-{paper}.yaml")


def attacks(family: str, paper: str, kind: str) -> list[Any]:
    found: list[Any] = [condition.perturbation for condition in suite(family, paper).conditions]
    return [attack for attack in found if attack.kind == kind]


@pytest.mark.parametrize("name", TEXTS)
def test_the_file_is_what_the_script_writes(name: str) -> None:
    assert (ROOT / "suites" / name).read_text() == TEXTS[name], "run `make suites`"


@pytest.mark.parametrize("paper", PAPERS)
class TestParameters:
    @pytest.mark.parametrize("kind", RELEASED)
    def test_calls_are_those_of_the_released_code(self, paper: str, kind: str) -> None:
        for attack in attacks("imagenet", paper, kind):
            assert {name: getattr(attack, name) for name in RELEASED[kind]} == RELEASED[kind]

    def test_budgets_of_fgsm_and_pgd_are_those_of_the_loop_over_255ths(self, paper: str) -> None:
        for kind in ("fgsm", "pgd"):
            wanted = [Fraction(i, 255) for i in BUDGETS[paper]]
            assert [attack.epsilon for attack in attacks("imagenet", paper, kind)] == wanted

    def test_spsa_has_the_updates_of_the_authors_scripts(self, paper: str) -> None:
        wanted = [SPSA_STEPS[paper]] if paper in SPSA_STEPS else []
        assert [attack.num_steps for attack in attacks("imagenet", paper, "spsa")] == wanted

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
