"""Randomness belongs to the example: what a drawing model's examples meet, alone, among others, and where some leave.

Every attack of the registry is run on a victim whose logits are scaled by random numbers made of each row's seed, and
whose arithmetic is one row's at a time, so that nothing but seeds can tell a row alone from the same row in company.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
import torch
from attack_examples import rows_of
from test_perturbations_contract import EXAMPLES

from robench import load_checkpoint, load_dataset
from robench.attacks import ATTACKS
from robench.attacks.apgd import Apgd
from robench.attacks.autoattack import AutoAttack
from robench.attacks.base import Attack, SearchingAttack
from robench.attacks.cw import Cw
from robench.attacks.fab import Fab
from robench.attacks.pgd import Pgd
from robench.attacks.sparse_l1 import SparseL1
from robench.attacks.spsa import Spsa
from robench.attacks.square import Square
from robench.core.protocols import Batch
from robench.core.seeds import example_seed
from robench.perturbations.dispatch import perturb, perturb_each
from robench.perturbations.draws import ExampleDraws
from robench.perturbations.sweep import Sweep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robench.core.protocols import Perturbed

NUM_EXAMPLES = 24
# As of every image that is attacked in earnest, a multiple of 32 values: torch computes what is left over of a tensor
# by other instructions, whose atanh differs in the last bit.
SHAPE = (3, 4, 8)
EPSILON = Fraction(16, 255)
SOON: dict[str, Any] = {"epsilon": EPSILON, "stop": "at_success"}
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
    "apgd-restarts": Apgd(**SOON, num_steps=5, num_restarts=2, num_draws=2),
    "apgd-targeted": Apgd(**SOON, num_steps=5, loss="dlr-targeted", num_restarts=3),
    "apgd-shrinking": Apgd(
        norm="l1", epsilon=Fraction(3), stop="at_success", num_steps=6, radii="shrinking", num_restarts=2
    ),
    "square-restarts": Square(**SOON, num_queries=20, p_init=0.8, num_restarts=2),
    "spsa-restarts": MEMBERS[5],
    "sparse-l1-restarts": SparseL1(
        epsilon=Fraction(3),
        stop="at_success",
        num_steps=4,
        step_size=Fraction(1),
        sparsity=0.9,
        num_restarts=2,
        random_start=True,
    ),
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
RUN = {name: declared for name, declared in EXAMPLES.items() if isinstance(declared, Attack)} | LEAVING


class Drawing:
    """Logits of a small network, scaled class by class by random numbers of the row's seed; notes what it is asked."""

    device = torch.device("cpu")
    normalisation = torch.full((3, 1, 1), 0.5), torch.full((3, 1, 1), 0.25)
    takes_seeds = True

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(5)
        self.first, self.second = torch.randn(96, 12, generator=generator), torch.randn(12, 5, generator=generator)
        self.noise: dict[int, torch.Tensor] = {}
        # Seeds of each pass, and whether the pass is a prediction: those alone are made without a graph, and not for
        # inference.
        self.passes: list[tuple[set[int], bool]] = []

    def logits(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        assert seeds is not None
        is_prediction = not torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
        self.passes.append((set(seeds), is_prediction))
        return torch.stack([self._of_row(row, seed) for row, seed in zip(inputs, seeds, strict=True)])

    def _of_row(self, row: torch.Tensor, seed: int) -> torch.Tensor:
        if seed not in self.noise:
            generator = torch.Generator().manual_seed(seed % 2**63)
            self.noise[seed] = torch.rand(5, generator=generator) + 0.5
        hidden = torch.tanh((row - 0.5).flatten() @ self.first)
        return (hidden @ self.second) * self.noise[seed].clone()


def batch_of(num_examples: int = NUM_EXAMPLES) -> Batch:
    inputs = torch.rand(num_examples, *SHAPE, generator=torch.Generator().manual_seed(1))
    victim = Drawing()
    targets = victim.logits(inputs, ExampleDraws(range(num_examples)).prediction_seeds).argmax(1)
    return Batch(ids=tuple(map(str, range(num_examples))), inputs=inputs, targets=targets)


def attacked(
    declared: Any, batch: Batch, rows: Sequence[int], victim: Any = None, batch_size: int = NUM_EXAMPLES
) -> Perturbed:
    """Return what becomes of some rows of a batch, each with the seed that it has in the whole."""
    some = rows_of(batch, list(rows))
    return perturb(declared, some, victim or Drawing(), ExampleDraws(rows), batch_size)


def assert_same(few: Perturbed, whole: Perturbed, rows: Sequence[int]) -> None:
    """Hold that points, what was found and what it took are the same to the bit."""
    differ = [row for place, row in enumerate(rows) if not torch.equal(few.inputs[place], whole.inputs[row])]
    assert differ == []
    for name in ("found", "num_queries", "num_gradients"):
        one, other = getattr(few, name), getattr(whole, name)
        assert (one is None and other is None) or torch.equal(one, other[list(rows)]), name


def test_every_attack_is_run_and_every_one_that_can_leave_early_does() -> None:
    assert {type(declared) for declared in RUN.values()} == set(ATTACKS.values())
    searching = {type(each) for each in RUN.values() if isinstance(each, SearchingAttack | Fab)}
    assert searching <= {type(each) for each in LEAVING.values() if getattr(each, "stop", "") == "at_success"}


@pytest.mark.parametrize("name", RUN)
def test_an_example_alone_and_among_others_is_the_same_to_the_bit(name: str) -> None:
    batch, everybody = batch_of(), range(NUM_EXAMPLES)
    whole = attacked(RUN[name], batch, everybody)
    if name in LEAVING:
        assert whole.num_queries is not None
        assert len(set(whole.num_queries.tolist())) > 1, "nobody left before the others"
    # The last to leave has gone through all that can move its draws.
    last = 0 if whole.num_queries is None else int(whole.num_queries.argmax())
    for rows in ([last], [0], [5], [11], [2, 3, 13, 19, 22]):
        assert_same(attacked(RUN[name], batch, rows), whole, rows)


@pytest.mark.parametrize("warm_start", [False, True])
@pytest.mark.parametrize("carry", [False, True])
def test_so_is_an_example_of_a_sweep(carry: bool, warm_start: bool) -> None:
    attacks = tuple(
        Pgd(epsilon=Fraction(n, 255), relative_step=Fraction(1, 4), num_steps=3, num_restarts=2) for n in (2, 8, 24)
    )
    declared, batch = Sweep(attacks=attacks, carry=carry, warm_start=warm_start), batch_of()
    whole = [made for _, made in swept(declared, batch, range(NUM_EXAMPLES))]
    assert not torch.equal(whole[0].inputs, whole[2].inputs)
    for rows in ([4], [9], [1, 15, 20]):
        for few, of_all in zip(swept(declared, batch, rows), whole, strict=True):
            assert_same(few[1], of_all, rows)


def swept(declared: Sweep, batch: Batch, rows: Sequence[int]) -> list[tuple[Any, Perturbed]]:
    return list(perturb_each(declared, rows_of(batch, list(rows)), Drawing(), ExampleDraws(rows), NUM_EXAMPLES))


@pytest.mark.parametrize("name", RUN)
def test_every_pass_has_draws_of_its_own_and_never_those_of_the_prediction(name: str) -> None:
    victim, num_examples = Drawing(), 6
    # So large that the samples of a row, which are a pass, are shown together.
    attacked(RUN[name], batch_of(), range(num_examples), victim, batch_size=1000)
    predictions = set(ExampleDraws(range(num_examples)).prediction_seeds)
    # Several points of one pass may share a draw on purpose, as pairs of samples do, and rows that fill it up.
    met = Counter(seed for seeds, is_prediction in victim.passes if not is_prediction for seed in seeds)
    assert [seed for seed, count in met.items() if count > 1] == []
    assert not met.keys() & predictions
    assert all(seeds <= predictions for seeds, is_prediction in victim.passes if is_prediction)


def test_a_search_of_cw_meets_the_same_draws_whenever_the_search_before_it_ended() -> None:
    """An early stop of the first search does not move the passes of the second."""
    batch, victims = batch_of(), (Drawing(), Drawing())
    cw = LEAVING["cw-early"]
    for victim, stops_early in zip(victims, (True, False), strict=True):
        attacked(replace(cw, stops_early=stops_early), batch, [0], victim)
    short, full = ([seeds for seeds, is_prediction in each.passes if not is_prediction] for each in victims)
    assert len(short) < len(full) == cw.num_steps * cw.num_search_steps
    assert all(seeds in full for seeds in short)


def test_cw_on_a_published_model_that_draws_does_not_depend_on_the_others() -> None:
    victim, dataset = load_checkpoint("digits-mom-vit"), load_dataset("digits")
    batch = dataset.batch(0, NUM_EXAMPLES)
    seeds = [example_seed(0, dataset.identity.fingerprint, "cw", each) for each in batch.ids]
    declared = Cw(num_steps=10, num_search_steps=3, initial_c=1.0, learning_rate=0.02)
    whole = perturb(declared, batch, victim, ExampleDraws(seeds), NUM_EXAMPLES)
    differ = []
    for row in range(0, NUM_EXAMPLES, 4):
        alone = perturb(declared, rows_of(batch, [row]), victim, ExampleDraws([seeds[row]]), NUM_EXAMPLES)
        differ += [] if torch.equal(alone.inputs[0], whole.inputs[row]) else [row]
    assert whole.num_queries is not None
    assert len(set(whole.num_queries.tolist())) > 1
    assert differ == []
