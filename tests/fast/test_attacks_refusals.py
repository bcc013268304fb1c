"""Attacks and sweeps that are declared with fields that contradict each other, each with its message.

Bounds of numbers are checked over the registry (``test_bounds_contract.py``).
"""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from refusals import Refusal, check

from robench.attacks.apgd import Apgd
from robench.attacks.autoattack import AutoAttack
from robench.attacks.cw import Cw
from robench.attacks.fab import Fab
from robench.attacks.fgsm import Fgsm
from robench.attacks.pgd import Pgd
from robench.attacks.sparse_l1 import SparseL1
from robench.attacks.spsa import Spsa
from robench.attacks.square import Square
from robench.perturbations.clean import Clean
from robench.perturbations.greedy_word_swap import GreedyWordSwap
from robench.perturbations.sweep import Sweep

EPSILON, SMALL = Fraction(8, 255), Fraction(4, 255)
FGSM = Fgsm(epsilon=EPSILON)
PGD = Pgd(epsilon=EPSILON, step_size=EPSILON / 4, num_steps=2)
APGD = Apgd(epsilon=EPSILON, num_steps=10)
SQUARE = Square(epsilon=EPSILON, num_queries=9, p_init=0.8, stop="at_success")
SPSA = Spsa(epsilon=EPSILON, num_steps=2, learning_rate=EPSILON, delta=EPSILON, num_samples=2)
SPARSE = SparseL1(epsilon=Fraction(2), step_size=Fraction(1, 2), num_steps=8, sparsity=0.9)
CW = Cw(num_steps=4, num_search_steps=3, initial_c=0.1, learning_rate=0.01)
FAB = Fab(num_steps=5)
AUTO = AutoAttack(epsilon=EPSILON, variant="rand")
SWAP = GreedyWordSwap(ranking="delete", num_queries=9, substitutions="table", table={"film": ("movie", "picture")})
UNIT: dict[str, Any] = {"space": "normalised", "clip": "unit"}


def of(attack: Any, message: str, **fields: Any) -> Refusal:
    return Refusal(lambda _: replace(attack, **fields), ValueError, message)


def swept(message: str, *attacks: Any, **fields: Any) -> Refusal:
    return Refusal(lambda _: Sweep(attacks=attacks, **fields), ValueError, message)


def at(attack: Any, *budgets: int, **fields: Any) -> list[Any]:
    return [replace(attack, epsilon=budget * SMALL, **fields) for budget in budgets]


def ensemble(budget: int, num_steps: int = 3) -> AutoAttack:
    member = Apgd(epsilon=budget * SMALL, num_steps=num_steps)
    return AutoAttack(epsilon=budget * SMALL, variant="custom", members=(member,))


def custom(message: str, *members: Any) -> Refusal:
    return of(AUTO, f"members must {message}", variant="custom", members=members)


REFUSALS = {
    "spsa norm": of(SPSA, "^norm must be linf or l2 for spsa, got l1$", norm="l1"),
    "sparse-l1 norm": of(SPARSE, "^norm must be l1 for sparse-l1, got linf$", norm="linf"),
    "sparse-l1 step": of(SPARSE, "^step_size must be at most epsilon 2, got 3$", step_size=Fraction(3)),
    "sparse-l1 restarts": of(SPARSE, "^num_restarts must be 1 without random_start, got 2$", num_restarts=2),
    "square last": of(SQUARE, "returns must be best for square", stop="never", returns="last"),
    "square published": of(SQUARE, "stop must be at_success with returns publ", stop="never", returns="published"),
    "pgd published": of(PGD, "returns must be best or last for pgd", returns="published"),
    "apgd published": of(APGD, "stop must be never with returns publ", stop="at_success", returns="published"),
    "apgd norm": of(APGD, "^norm must be linf or l2 or l1 for apgd, got l0$", norm="l0"),
    "apgd radii": of(
        APGD, "^radii must be constant for norm l2: shrinking ones exist in", radii="shrinking", norm="l2"
    ),
    "apgd phases": of(APGD, "^num_steps must be at least 3 with radii shrinking", radii="shrinking", num_steps=2),
    "apgd last": of(APGD, "^returns must be best with stop at_success, got last$", stop="at_success", returns="last"),
    "fab restarts": of(FAB, "^epsilon must be given with num_restarts above 1, got 2$", num_restarts=2),
    "fab stop": of(FAB, "^epsilon must be given with stop at_success$", stop="at_success"),
    "cw one limit": of(CW, "^clip_min and clip_max must be given together, got one of them$", clip_min=0.0),
    "cw limits": of(CW, "^clip_min must be below clip_max 0.0, got 1.0$", clip="none", clip_min=1.0, clip_max=0.0),
    "cw box": of(CW, "^clip must be none with clip_min and clip_max, got box$", clip_min=0.0, clip_max=1.0),
    "cw own": of(CW, "^labels must be predicted with target own, which is the victim's own class", target="own"),
    "cw continues": of(CW, "^stops_early must be false if searches continue the previous one", continues=True),
    "unit of inputs": of(FGSM, "clip must be box with space input", clip="unit"),
    "unit in l2": of(FGSM, "norm must be linf with clip unit, got l2", norm="l2", **UNIT),
    "unit of foolbox": of(FGSM, "clip must be box or none with backend foolbox, got unit", backend="foolbox", **UNIT),
    "unit of a library": of(SQUARE, "clip must be", backend="autoattack", **UNIT),
    "no members": custom("be at least one attack with variant custom, got none"),
    "strange member": custom(r"be attacks, got clean in members\[1\]", FGSM, Clean()),
    "member's epsilon": custom("have epsilon 8/255, as the ensemble, got 4/255", replace(FGSM, epsilon=EPSILON / 2)),
    "member's norm": custom(r"have norm linf, as the ensemble, got l2 in members\[1\]", FGSM, replace(FAB, norm="l2")),
    "member's clip": custom("have clip box, as the ensemble, got none", replace(FGSM, clip="none")),
    "member's backend": custom(
        "have backend robench, as the ensemble, got autoattack", replace(APGD, stop="at_success", backend="autoattack")
    ),
    "members of plus": of(AUTO, "^members must be empty with variant plus", variant="plus", members=(FGSM,)),
    "autoattack labels": of(AUTO, "^labels must be true for autoattack, which uses early stopping", labels="predicted"),
    "autoattack norm": of(AUTO, "^norm must be linf or l2 or l1 for autoattack, got l0$", norm="l0"),
    "descending budgets": swept("epsilons must ascend, got 4/255 after 8/255", *at(PGD, 2, 1)),
    "equal budgets": swept("epsilons must ascend, got 4/255 twice", *at(PGD, 1, 1)),
    "one budget": swept("epsilons must have at least 2 entries, got 1", *at(PGD, 1)),
    "no attack": swept("at least 2 entries, got 0"),
    "no budget": swept("of an attack with a budget, got fab, which has none", PGD, replace(FAB, epsilon=EPSILON)),
    "clean": swept("of an attack with a budget, got clean, which has none", PGD, Clean()),
    "other steps": swept("attacks must be equal except for epsilon", *at(PGD, 1), *at(PGD, 2, num_steps=3)),
    "another attack": swept("attacks must be equal except for epsilon", *at(PGD, 1), *at(FGSM, 2)),
    "other members": swept("equal except for epsilon", ensemble(1), ensemble(2, num_steps=4)),
    "carry predicted": swept("carry must be false with labels pred", *at(PGD, 1, 2, labels="predicted"), carry=True),
    "carry last": swept("carry must be false with returns last", *at(PGD, 1, 2, returns="last"), carry=True),
    "carry published": swept(
        "carry must be false with returns pub", *at(SQUARE, 1, 2, returns="published"), carry=True
    ),
    "all of a sweep": swept("ascend.*; carry must", *at(FGSM, 2, 1, labels="predicted"), carry=True),
}

REFUSALS |= {
    "no table": of(SWAP, "table must list substitutes of words with substitutions table", table={}),
    "table of typos": of(SWAP, "table must be left out with substitutions typos", substitutions="typos"),
    "two unknown words": of(SWAP, "unknown must be one word without white space, got 'two", unknown="two words"),
    "no unknown word": of(SWAP, "unknown must be one word", unknown=""),
    "two substitutes": of(SWAP, "table.film must have other single words", table={"film": ("movie", "motion picture")}),
    "the same word": of(SWAP, "table.film must have other single words.* got 'film'", table={"film": ("film",)}),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_fields_that_contradict_each_other_are_refused(name: str, tmp_path: Path) -> None:
    check(REFUSALS[name], tmp_path)
