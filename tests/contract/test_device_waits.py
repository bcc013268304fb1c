"""How often attacks and the harness wait for a device, counted on a device that computes on the CPU.

Attacks without a line here have the bounds ``OTHERS_A_STEP`` and ``OTHERS``.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
import torch
from counting_device import DEVICE, waits_counted
from presence import present
from test_perturbations_contract import EXAMPLES

from robench.attacks.base import Attack
from robench.attacks.fab_impl import onto_hyperplane
from robench.attacks.ledger import CHECKED_EVERY, Ledger
from robench.attacks.regions import LOOKED_EVERY, MOST_ITERATIONS, NUM_CORRECTIONS, region_of
from robench.attacks.square import Square
from robench.core.errors import ContractError
from robench.core.protocols import Batch
from robench.devices import to_device
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws
from robench.tasks.classification_impl import LOSSES
from robench.testing.models import SHAPE, needs_masks

NUM_EXAMPLES, NUM_CLASSES, NUM_HIDDEN = 8, 5, 12
CPU = torch.device("cpu")
MORE = 4

# By example: the most waits for each further step of each search, and apart from steps.
WAITS_A_STEP: dict[str, tuple[float, int]] = {
    "pgd": (0, 1),
    "pgd-last": (0, 1),
    "pgd-momentum": (0, 1),
    # A step whose rounding is corrected, and in l1 the iteration onto ball and box.
    "pgd-l2": (1, 3),
    "pgd-l1": (2, 8),
    # Who leaves; and once the clean prediction.
    "pgd-at-success": (1, 3),
    "apgd": (0, 1),
    # Checks of the sparsity, in searches as short as these in each step.
    "apgd-l1": (3.5, 16),
    "square": (0, 1),
    "square-l2": (2, 4),
    # One in CHECKED_EVERY passes: 33 passes a step, since samples fill batches.
    "spsa": (0.5, 1),
    "sparse-l1": (2, 2),
    # Searches that progress no more end; ten looks a search.
    "cw": (0.5, 4),
    "fab": (1, 4),
    "fab-l2": (2, 4),
}
# Attacks without a number of steps: the most waits of all.
WAITS: dict[str, int] = {
    "uniform-noise": 0, "gaussian-noise": 1, "gaussian-noise-linf": 0, "fgsm": 1, "fgsm-l2": 2, "fgsm-l1": 3,
    "autoattack": 20,
}  # fmt: skip
OTHERS_A_STEP, OTHERS = (4.0, 20), 20
DECLARED = {
    name: declared for name, declared in EXAMPLES.items() if isinstance(declared, Attack) and not needs_masks(declared)
}


class Curved:
    """Model of one hidden layer, on any device, that draws nothing; some logits may be broken, or large."""

    takes_seeds = True

    def __init__(self, device: torch.device, breaks_at: int | None = None, scale: float = 1.0) -> None:
        generator = torch.Generator().manual_seed(7)
        size = torch.Size(SHAPE).numel()
        self.device = device
        self.first = torch.randn(size, NUM_HIDDEN, generator=generator).to(device)
        self.second = torch.randn(NUM_HIDDEN, NUM_CLASSES, generator=generator).to(device)
        self.normalisation = torch.full((3, 1, 1), 0.5).to(device), torch.full((3, 1, 1), 0.25).to(device)
        self.breaks_at, self.scale, self.num_passes = breaks_at, scale, 0

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        self.num_passes += 1
        outputs = self.scale * (torch.tanh((inputs - 0.5).flatten(1) @ self.first) @ self.second)
        return outputs * torch.nan if self.num_passes == self.breaks_at else outputs

    def with_gradients(self, mode: str) -> Curved:
        return self


def examples_of(model: Curved) -> Batch:
    inputs = torch.rand(NUM_EXAMPLES, *SHAPE, generator=torch.Generator().manual_seed(1)).to(model.device)
    with torch.no_grad():
        targets = Curved(model.device).outputs(inputs).argmax(1)
    # One is wrong from the start.
    targets[3] = (targets[3] + 1) % NUM_CLASSES
    return Batch(ids=tuple(map(str, range(NUM_EXAMPLES))), inputs=inputs, targets=targets)


def attacked(declared: Attack, model: Curved, batch: Batch) -> list[torch.Tensor | None]:
    """Return all that an attack gives."""
    draws = ExampleDraws(range(NUM_EXAMPLES), model.device)
    # Any: as much of a model as attacks use.
    victim: Any = model
    made = perturb(declared, batch, victim, draws, NUM_EXAMPLES)
    return [getattr(made, field.name) for field in dataclasses.fields(made)]


def on_device(declared: Attack, **options: Any) -> tuple[list[torch.Tensor | None], Counter[str]]:
    """Return all that an attack gives on the counting device, and the waits of the attack alone."""
    with waits_counted() as waited:
        model = Curved(DEVICE, **options)
        batch = examples_of(model)
        waited.counts.clear()
        made = attacked(declared, model, batch)
        counts = waited.counts.copy()
        return [None if each is None else each.cpu() for each in made], counts


@cache
def counted(declared: Attack) -> Counter[str]:
    return on_device(declared)[1]


def lengthened(declared: Attack) -> Attack | None:
    for name in ("num_steps", "num_queries"):
        if hasattr(declared, name):
            return dataclasses.replace(declared, **{name: getattr(declared, name) + MORE})
    return None


def test_every_bound_is_of_an_example() -> None:
    assert set(WAITS_A_STEP) | set(WAITS) <= set(DECLARED)


STEPPING = [name for name in DECLARED if name not in WAITS and lengthened(DECLARED[name])]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One attack in steps, one that samples and one without steps; ``tests/slow`` has the others."""
    if "stepping" in metafunc.fixturenames:
        metafunc.parametrize("stepping", ["pgd", "pgd-at-success"])
    if "attack" in metafunc.fixturenames:
        metafunc.parametrize("attack", ["pgd", "fgsm-l2", "square"])


def test_attacks_on_a_device_give_the_bits_of_a_cpu_and_wait_within_their_bound(attack: str) -> None:
    made, counts = on_device(DECLARED[attack])
    on_cpu = attacked(DECLARED[attack], model := Curved(CPU), examples_of(model))
    for one, other in zip(made, on_cpu, strict=True):
        assert (one is None) == (other is None)
        assert one is None or other is None or torch.equal(one, other)
    if attack in WAITS or lengthened(DECLARED[attack]) is None:
        assert counts.total() <= WAITS.get(attack, OTHERS), counts


@pytest.mark.parametrize("is_plug_ins", [False, True])
def test_saturated_examples_wait_no_more_and_have_the_bits_of_a_cpu(
    is_plug_ins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_plug_ins:
        wanted = LOSSES["ce"]
        monkeypatch.setitem(LOSSES, "ce", lambda *given: wanted(*given))  # type: ignore[misc]  # read only elsewhere
    made, counts = on_device(DECLARED["pgd"], scale=100.0)
    on_cpu = attacked(DECLARED["pgd"], model := Curved(CPU, scale=100.0), examples_of(model))
    assert all(one is None or other is None or torch.equal(one, other) for one, other in zip(made, on_cpu, strict=True))
    assert counts == counted(DECLARED["pgd"])


def test_each_further_step_waits_within_its_bound(stepping: str) -> None:
    declared, (a_step, besides) = DECLARED[stepping], WAITS_A_STEP.get(stepping, OTHERS_A_STEP)
    longer = present(lengthened(declared))
    num_searches = getattr(declared, "num_restarts", 1)
    short, long = (counted(each).total() for each in (declared, longer))
    assert long - short <= a_step * MORE * num_searches
    num_steps = getattr(declared, "num_steps", 0) or getattr(declared, "num_queries", 0)
    num_searches = getattr(declared, "num_search_steps", num_searches) * (getattr(declared, "num_targets", 1) or 1)
    assert short <= a_step * num_steps * num_searches + besides * num_searches


def test_square_waits_for_its_draws_and_tables_nowhere() -> None:
    declared = Square(epsilon=Fraction(8, 255), num_queries=CHECKED_EVERY - 8, p_init=0.8)
    _, counts = on_device(declared)
    assert counts.total() == 1


class TestBrokenOutputs:
    PGD = DECLARED["pgd"]

    @pytest.mark.parametrize("breaks_at", [1, 5, 27])
    def test_of_any_pass_refuse_the_attack_at_its_end(self, breaks_at: int) -> None:
        with pytest.raises(ContractError, match="NaN or infinite outputs"):
            on_device(self.PGD, breaks_at=breaks_at)

    def test_are_seen_on_a_cpu_in_the_pass_itself(self) -> None:
        model = Curved(CPU, breaks_at=5)
        batch = examples_of(model)
        with pytest.raises(ContractError, match="NaN or infinite outputs"):
            attacked(self.PGD, model, batch)
        assert model.num_passes == 5

    @pytest.mark.slow
    def test_end_a_long_attack_within_a_number_of_passes(self) -> None:
        long: Any = dataclasses.replace(self.PGD, **{"num_steps": 5 * CHECKED_EVERY})
        with waits_counted():
            model = Curved(DEVICE, breaks_at=3)
            batch = examples_of(model)
            with pytest.raises(ContractError, match="NaN or infinite outputs"):
                attacked(long, model, batch)
        assert model.num_passes == CHECKED_EVERY

    def test_are_forgotten_once_refused(self) -> None:
        ledger = Ledger(2)
        with pytest.raises(ContractError, match="NaN or infinite"):
            ledger.watch(torch.tensor([0.0, torch.inf]))
        ledger.watch(torch.zeros(2))
        ledger.require_finite()


@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("epsilon", [0.5, 1e-3, 1e-8])
def test_projections_on_a_device_are_those_of_a_cpu(norm: str, epsilon: float) -> None:
    generator = torch.Generator().manual_seed(5)
    clean = torch.rand(NUM_EXAMPLES, *SHAPE, generator=generator)
    change = torch.randn(clean.shape, generator=generator)
    # Some are inside, some hardly outside, some far away, and one has not moved.
    lengths = change.flatten(1).norm(p=2 if norm == "l2" else 1, dim=1)
    factors = torch.tensor([0.0, 0.1, 0.999999, 1.0, 1.000001, 2.0, 10.0, 1e4]) * epsilon / lengths
    points = clean + change * factors.view(-1, 1, 1, 1)
    # One row at a time: on a CPU, a row whose rounding resists six corrections has the others rounded with it.
    wanted = torch.cat(
        [
            region_of(norm, clean[[row]], epsilon, torch.zeros(()), torch.ones(())).project(points[[row]])
            for row in range(NUM_EXAMPLES)
        ]
    )
    with waits_counted() as waited:
        here = [to_device(each, DEVICE) for each in (clean, torch.zeros(()), torch.ones(()), points)]
        made = region_of(norm, here[0], epsilon, *here[1:3]).project(here[3])
        assert waited.total <= 1 + (MOST_ITERATIONS // LOOKED_EVERY if norm == "l1" else NUM_CORRECTIONS)
        assert torch.equal(made.cpu(), wanted)


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_steps_onto_hyperplanes_on_a_device_are_those_of_a_cpu(norm: str) -> None:
    generator = torch.Generator().manual_seed(6)
    normal = torch.randn(NUM_EXAMPLES, 40, generator=generator)
    normal[1] = 0
    room = torch.rand(2, NUM_EXAMPLES, 40, generator=generator) ** 4
    gap = torch.randn(NUM_EXAMPLES, generator=generator) * torch.tensor([0.1, 1.0, 1.0, 3.0, 5.0, 10.0, 100.0, 0.0])
    wanted = onto_hyperplane(gap, normal, -room[0], room[1], norm)
    with waits_counted() as waited:
        here = [to_device(each, DEVICE) for each in (gap, normal, -room[0], room[1])]
        made = onto_hyperplane(*here, norm)
        assert waited.total <= (0 if norm == "l1" else 4)
        assert torch.equal(made.cpu(), wanted)
