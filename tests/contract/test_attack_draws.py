"""Randomness belongs to the example: what a drawing model's examples meet, alone, among others, and where some leave.

Every attack of the registry is run on a victim whose logits are scaled by random numbers made of each row's seed, and
whose arithmetic is one row's at a time, so that nothing but seeds can tell a row alone from the same row in company.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from attack_examples import SmoothVictim, anywhere, attacked, margins, predicted_by
from presence import present
from test_perturbations_contract import EXAMPLES

from robench import load_checkpoint, load_dataset
from robench.attacks.apgd import Apgd
from robench.attacks.autoattack import AutoAttack
from robench.attacks.base import Attack, SearchingAttack
from robench.attacks.cw import Cw
from robench.attacks.fab import Fab
from robench.attacks.pgd import Pgd
from robench.attacks.sparse_l1 import SparseL1
from robench.attacks.spsa import Spsa
from robench.attacks.square import Square
from robench.attacks.transfer_pgd import TransferPgd
from robench.core.protocols import Batch, Perturbed
from robench.core.seeds import example_seed
from robench.perturbations.dispatch import perturb, perturb_each
from robench.perturbations.draws import ExampleDraws
from robench.perturbations.sweep import Sweep
from robench.testing.attack import (
    ATTACK_CHECKS,
    NUM_DRAWING,
    an_example_of_a_drawing_model_is_the_same_alone,
    every_pass_has_draws_of_its_own,
    of_drawing_model,
    require_same_rows,
)
from robench.testing.models import DrawingModel, drawing_batch, rows_of

EPSILON = Fraction(16, 255)
SOON: dict[str, Any] = {"epsilon": EPSILON, "stop": "at_success"}
L1_BUDGET = {"epsilon": Fraction(3), "step_size": Fraction(1)}
MEMBERS: tuple[Any, ...] = (
    Cw(num_steps=10, num_search_steps=2, initial_c=1.0, learning_rate=0.05),
    Apgd(**SOON, num_steps=3),
    Apgd(**SOON, num_steps=3),
    Apgd(**SOON, num_steps=3, loss="dlr-targeted", num_restarts=2),
    Fab(**SOON, num_steps=2, num_targets=2, num_restarts=2),
    Spsa(**SOON, num_steps=2, learning_rate=Fraction(1, 100), delta=Fraction(1, 100), num_samples=10),
    Spsa(**SOON, num_steps=2, learning_rate=Fraction(1, 100), delta=Fraction(1, 100), num_samples=10),
    Square(**SOON, num_queries=5, p_init=0.8),
)
# Beside the examples of the contract: every way to leave early, several searches, several draws, ensembles.
LEAVING: dict[str, Any] = {
    "pgd-restarts": Pgd(**SOON, relative_step=Fraction(1, 4), num_steps=3, num_restarts=2, num_draws=2),
    "pgd-worst": Pgd(**SOON, relative_step=Fraction(1, 4), num_steps=3, num_draws=3, over_draws="worst"),
    "transfer-pgd-leaving": TransferPgd(
        **SOON, relative_step=Fraction(1, 2), num_steps=6, returns="best", translation=3
    ),
    "apgd-restarts": Apgd(**SOON, num_steps=5, num_restarts=2, num_draws=2),
    "apgd-targeted": Apgd(**SOON, num_steps=5, loss="dlr-targeted", num_restarts=3),
    "apgd-shrinking": Apgd(
        norm="l1", epsilon=Fraction(3), stop="at_success", num_steps=6, radii="shrinking", num_restarts=2
    ),
    "square-restarts": Square(**SOON, num_queries=20, p_init=0.8, num_restarts=2),
    "spsa-restarts": MEMBERS[5],
    "sparse-l1-restarts": SparseL1(**SOON | L1_BUDGET, num_steps=4, sparsity=0.9, num_restarts=2, random_start=True),
    "fab-targets": Fab(**SOON, num_steps=3, num_targets=3, num_restarts=2),
    "fab-restarts": Fab(**SOON, num_steps=3, num_restarts=2),
    "cw-early": Cw(num_steps=20, num_search_steps=4, initial_c=0.5, learning_rate=0.1),
    # A small budget, within which some examples stand to the end: what comes after CW meets them wherever it stopped.
    "ensemble": AutoAttack(
        epsilon=EPSILON / 4,
        variant="custom",
        members=tuple(replace(each, epsilon=EPSILON / 4) if hasattr(each, "epsilon") else each for each in MEMBERS),
    ),
}
EXAMPLES_OF_ATTACKS = {name: declared for name, declared in EXAMPLES.items() if isinstance(declared, Attack)}
# Examples of further attacks that can stop early, in a form that does.
LEAVING |= {
    f"{name}-leaving": replace(declared, **{field: SOON[field] for field in SOON if hasattr(declared, field)})
    for name, declared in EXAMPLES_OF_ATTACKS.items()
    if any(field.name == "stop" for field in fields(declared))
    and type(declared) not in {type(each) for each in LEAVING.values()}
}
RUN = EXAMPLES_OF_ATTACKS | LEAVING
# Attacks that stay to the end draw as those of their kind that leave.
LEAVING_KINDS = {type(each) for each in LEAVING.values()}
DRAWING = [
    name if name in LEAVING or type(each) not in LEAVING_KINDS else pytest.param(name, marks=pytest.mark.slow)
    for name, each in RUN.items()
]


def test_every_attack_that_can_leave_early_does() -> None:
    searching = {type(each) for each in RUN.values() if isinstance(each, SearchingAttack | Fab)}
    assert searching <= {type(each) for each in LEAVING.values() if getattr(each, "stop", "") == "at_success"}


@pytest.mark.parametrize("name", DRAWING)
def test_an_example_alone_and_among_others_is_the_same_to_the_bit(name: str) -> None:
    an_example_of_a_drawing_model_is_the_same_alone(RUN[name])


@pytest.mark.parametrize("name", LEAVING)
def test_of_those_that_leave_early_some_leave_before_others(name: str) -> None:
    whole = of_drawing_model(RUN[name], drawing_batch(NUM_DRAWING), range(NUM_DRAWING))
    assert len(set(present(whole.num_queries).tolist())) > 1, "nobody left before the others"


@pytest.mark.parametrize("name", DRAWING)
def test_every_pass_has_draws_of_its_own_and_never_those_of_the_prediction(name: str) -> None:
    every_pass_has_draws_of_its_own(RUN[name])


@pytest.mark.parametrize("name", LEAVING)
def test_what_leaves_early_keeps_what_every_attack_promises(name: str) -> None:
    for check in ATTACK_CHECKS:
        check(RUN[name])


@pytest.mark.parametrize("name", [name for name in LEAVING if isinstance(LEAVING[name], SearchingAttack)])
def test_leaving_early_changes_no_verdict_and_saves_passes(name: str) -> None:
    victim, declared = SmoothVictim(), LEAVING[name]
    batch = predicted_by(victim, anywhere(24))
    never, leaving = (attacked(replace(declared, stop=stop), batch, victim) for stop in ("never", "at_success"))
    fooled = margins(never.inputs, batch, victim) > 0
    assert torch.equal(margins(leaving.inputs, batch, victim) > 0, fooled)
    assert bool(fooled.any())
    assert bool((present(leaving.num_queries) < present(never.num_queries))[fooled].any())


@pytest.mark.parametrize("carry", [False, True])
def test_so_is_an_example_of_a_sweep(carry: bool) -> None:
    attacks = tuple(
        Pgd(epsilon=Fraction(n, 255), relative_step=Fraction(1, 4), num_steps=3, num_restarts=2) for n in (2, 8, 24)
    )
    declared, batch = Sweep(attacks=attacks, carry=carry), drawing_batch(NUM_DRAWING)
    whole = [made for _, made in swept(declared, batch, range(NUM_DRAWING))]
    assert not torch.equal(whole[0].inputs, whole[2].inputs)
    for rows in ([4], [9], [1, 15, 20]):
        for few, of_all in zip(swept(declared, batch, rows), whole, strict=True):
            require_same_rows(few[1], of_all, rows)


def swept(declared: Sweep, batch: Batch, rows: Sequence[int]) -> list[tuple[Any, Perturbed]]:
    return list(perturb_each(declared, rows_of(batch, list(rows)), DrawingModel(), ExampleDraws(rows), NUM_DRAWING))


def test_a_search_of_cw_meets_the_same_draws_whenever_the_search_before_it_ended() -> None:
    """An early stop of the first search does not move the passes of the second."""
    batch, victims = drawing_batch(NUM_DRAWING), (DrawingModel(), DrawingModel())
    cw = LEAVING["cw-early"]
    for victim, stops_early in zip(victims, (True, False), strict=True):
        of_drawing_model(replace(cw, stops_early=stops_early), batch, [0], victim)
    short, full = ([seeds for seeds, is_prediction in each.passes if not is_prediction] for each in victims)
    assert len(short) < len(full) == cw.num_steps * cw.num_search_steps
    assert all(seeds in full for seeds in short)


def test_cw_on_a_published_model_that_draws_does_not_depend_on_the_others() -> None:
    victim, dataset = load_checkpoint("digits-mom-vit"), load_dataset("digits")
    batch = dataset.batch(0, NUM_DRAWING)
    seeds = [example_seed(0, dataset.identity.fingerprint, "cw", each) for each in batch.ids]
    declared = Cw(num_steps=10, num_search_steps=3, initial_c=1.0, learning_rate=0.02)
    whole = perturb(declared, batch, victim, ExampleDraws(seeds), NUM_DRAWING)
    differ = []
    for row in range(0, NUM_DRAWING, 4):
        alone = perturb(declared, rows_of(batch, [row]), victim, ExampleDraws([seeds[row]]), NUM_DRAWING)
        differ += [] if torch.equal(alone.inputs[0], whole.inputs[row]) else [row]
    assert len(set(present(whole.num_queries).tolist())) > 1
    assert differ == []
