"""Attacks of other libraries: theirs byte for byte, within robench's harness, and nothing else disturbed."""

import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from fractions import Fraction
from functools import cache
from importlib import import_module
from typing import Any

import foolbox
import numpy as np
import pyautoattack
import pytest
import torch
import torchattacks
from attack_examples import Module, rows_of
from cleverhans.torch.attacks.projected_gradient_descent import projected_gradient_descent
from conftest import ROOT
from presence import present
from pyautoattack.autopgd_base import APGDAttack
from torch import Tensor, nn

from robench.attacks.apgd import Apgd
from robench.attacks.attack import problem_of
from robench.attacks.autoattack import AutoAttack
from robench.attacks.backends import installed
from robench.attacks.backends.run import _without_rounding
from robench.attacks.backends.served import SERVED
from robench.attacks.cw import Cw
from robench.attacks.ddn import Ddn
from robench.attacks.fab import Fab
from robench.attacks.fgsm import Fgsm
from robench.attacks.fmn import Fmn
from robench.attacks.pgd import Pgd
from robench.attacks.sparse_l1 import SparseL1
from robench.attacks.spsa import Spsa
from robench.attacks.square import Square
from robench.core.errors import ContractError, DeclarationError, UsageError
from robench.core.protocols import Batch, Perturbed
from robench.core.seeds import Stream
from robench.declarations.preprocessing import ImagePreprocessing
from robench.domains.images import IMAGES
from robench.models.loaded import LoadedModel
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws

SHAPE = (3, 8, 8)
NUM_CLASSES = 6
EPSILON = Fraction(8, 255)
RADII = {"linf": EPSILON, "l2": Fraction(1, 2), "l1": Fraction(3), "l0": Fraction(1)}


class Curved(nn.Module):
    """A small classifier of inputs of mean 0.4 and deviation 0.25, whose classes are curved."""

    def __init__(self, num_classes: int = NUM_CLASSES, shift: float = 0.0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        size = SHAPE[0] * SHAPE[1] * SHAPE[2]
        self.first = nn.Parameter(torch.randn(20, size, generator=generator) / 4)
        self.second = nn.Parameter(torch.randn(num_classes, 20, generator=generator))
        self.dropout = nn.Dropout(0.5)
        self.shift = shift

    def forward(self, inputs: Tensor) -> Tensor:
        return self.dropout(torch.tanh(inputs.flatten(1) @ self.first.T)) @ self.second.T + self.shift


PREPROCESSING = ImagePreprocessing(mean=(0.4, 0.4, 0.4), std=(0.25, 0.25, 0.25))
VICTIM = LoadedModel(Curved(), PREPROCESSING)


def batch_of(num_examples: int = 12, seed: int = 1) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.rand(num_examples, *SHAPE, generator=generator)
    inputs[0, 0, 0, :4] = torch.tensor([0.0, 1.0, 1e-8, 1 - 2**-24])
    with torch.no_grad():
        targets = VICTIM.outputs(inputs).argmax(1)
    # One that is wrong before any attack.
    targets[1] = (targets[1] + 1) % NUM_CLASSES
    return Batch(ids=tuple(f"example-{i}" for i in range(num_examples)), inputs=inputs, targets=targets)


BATCH = batch_of()


def run(
    declared: Any, batch: Batch = BATCH, *, victim: Any = VICTIM, first: int = 0, size: int | None = None
) -> Perturbed:
    seeds = range(first, first + len(batch.ids))
    return perturb(declared, batch, victim, ExampleDraws(list(seeds)), size)


@cache
def ran(declared: Any) -> Perturbed:
    """The first run, which several tests look at."""
    return run(declared)


def examples() -> dict[str, Any]:
    """One of each kind, norm and library."""
    found: dict[str, Any] = {}
    for backend, kinds in SERVED.items():
        for kind, served in kinds.items():
            for norm in served.norms:
                found[f"{backend}-{kind}-{norm}"] = example(backend, kind, norm)
    return found


def example(backend: str, kind: str, norm: Any, *, share: int = 1) -> Any:
    """Return an attack of a library within a share of the budget."""
    bounded: dict[str, Any] = {"backend": backend, "norm": norm, "epsilon": RADII[norm] / share}
    step = RADII[norm] / share / 4
    match kind:
        case "fgsm":
            return Fgsm(**bounded)
        case "pgd":
            return Pgd(**bounded, step_size=step, num_steps=4, returns="last")
        case "apgd":
            return Apgd(**bounded, num_steps=8, stop="at_success", num_restarts=2)
        case "square":
            return Square(**bounded, num_queries=20, p_init=0.8, stop="at_success", trials="as_drawn")
        case "fab":
            return Fab(**bounded, num_steps=4, num_targets=3, num_final_steps=0, stop="at_success")
        case "autoattack":
            # The least of it: norm l1 has no other.
            return AutoAttack(**bounded, variant="rand")
        case "ddn" | "fmn":
            ddn = Ddn(backend="foolbox", num_steps=8, initial_norm=0.5)
            return ddn if kind == "ddn" else Fmn(backend="foolbox", norm=norm, num_steps=8, overshoot=0.0)
        case "sparse-l1":
            projection: Any = "exact" if backend == "foolbox" else "rescale"
            return SparseL1(**bounded, num_steps=4, step_size=step, sparsity=0.9, projection=projection, returns="last")
        case "spsa":
            released: Any = {"formula": "released"} if backend == "cleverhans" else {"random_start": False}
            return Spsa(
                **bounded, num_steps=2, learning_rate=Fraction(1, 100), delta=Fraction(1, 100), num_samples=8,
                returns="last", **released,
            )  # fmt: skip
        case _:
            own: Any = {"stops_early": False, "continues": True} if backend == "cleverhans" else {}
            num_searches = 1 if backend == "torchattacks" else 2
            return Cw(
                backend=backend,  # type: ignore[arg-type]  # one of the table's
                num_steps=12, num_search_steps=num_searches, initial_c=1.0, learning_rate=0.02, **own,
            )  # fmt: skip


EXAMPLES = examples()
# 100 steps of 20 draws; the ensembles have tests of their own.
QUICK = {name: declared for name, declared in EXAMPLES.items() if declared.kind != "autoattack"}
EACH = pytest.mark.parametrize("declared", QUICK.values(), ids=QUICK.keys())


@EACH
class TestEveryAttackOfALibrary:
    def test_stays_in_range_and_budget(self, declared: Any) -> None:
        result = ran(declared)
        assert result.inputs.dtype == torch.float32
        assert not result.inputs.requires_grad
        IMAGES.rules.check_perturbed(result.inputs, BATCH.inputs, declared, VICTIM)

    def test_same_seeds_give_the_same_bytes_whatever_ran_before(self, declared: Any) -> None:
        first = ran(declared)
        torch.manual_seed(99)
        run(replace(declared), batch_of(5, seed=7), first=50)
        assert torch.equal(run(declared).inputs, first.inputs)

    def test_generators_settings_and_the_victim_are_as_before(self, declared: Any) -> None:
        torch.manual_seed(7)
        np.random.seed(7)  # the global generator is what is watched
        random.seed(7)
        before = BATCH.inputs.clone(), torch.random.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
        trace, module = sys.gettrace(), VICTIM._module
        with torch.no_grad():
            run(declared)
            assert not torch.is_grad_enabled()
        assert torch.equal(BATCH.inputs, before[0])
        assert torch.equal(torch.random.get_rng_state(), before[1])
        assert np.array_equal(np.random.get_state()[1], before[2])
        assert random.getstate() == before[3]
        assert sys.gettrace() is trace
        assert not any(each.training for each in module.modules())
        assert not any(each.requires_grad or each.grad is not None for each in module.parameters())

    def test_a_batch_is_its_own_whoever_else_is_in_the_shard(self, declared: Any) -> None:
        together = run(declared, size=6)
        halves = [run(declared, rows_of(BATCH, range(start, start + 6)), first=start, size=6) for start in (0, 6)]
        assert torch.equal(together.inputs, torch.cat([half.inputs for half in halves]))

    def test_exact_makes_an_example_its_own(self, declared: Any) -> None:
        exact, few = replace(declared, exact=True), rows_of(BATCH, range(0, 3))
        together = run(exact, few, size=3)
        alone = run(exact, rows_of(few, range(2, 3)), first=2, size=3)
        assert torch.equal(together.inputs[2], alone.inputs[0])

    def test_passes_are_counted(self, declared: Any) -> None:
        result = ran(declared)
        assert int(present(result.num_queries).min()) >= 1
        is_blind = declared.kind in ("square", "spsa")
        assert bool((present(result.num_gradients) == 0).all()) is is_blind

    def test_what_counts_as_found_is_what_the_victim_gets_wrong(self, declared: Any) -> None:
        result = ran(declared)
        if not declared.is_minimum_norm:
            assert result.found is None
            return
        found = present(result.found)
        with torch.no_grad():
            wrong = VICTIM.outputs(result.inputs).argmax(1) != BATCH.targets
        assert torch.equal(found, wrong)
        assert bool(found.any())
        assert torch.equal(result.inputs[~found], BATCH.inputs[~found])

    def test_a_victim_that_gives_nan_is_refused(self, declared: Any) -> None:
        broken = LoadedModel(Curved(shift=float("nan")), PREPROCESSING)
        with pytest.raises(ContractError, match="NaN"):
            run(declared, victim=broken)


OTHER_VALUES: dict[str, Any] = {
    "epsilon": (Fraction(1), Fraction(50)), "step_size": Fraction(1, 9999), "num_steps": 3,
    "random_start": (True, False),
    "num_restarts": 3, "num_draws": 3, "loss": ("dlr", "ce"), "radii": "shrinking", "num_targets": (1, None),
    "alpha_max": 0.9, "eta": 1.4, "beta": 0.5, "num_queries": 5, "p_init": 0.1, "sparsity": 0.5,
    "learning_rate": Fraction(1, 7), "delta": Fraction(1, 3), "num_samples": 5, "initial_c": 30.0, "confidence": 3.0,
    "num_search_steps": 3, "clip": "none", "target": "own", "initial_norm": 0.1, "gamma": 0.3, "alpha_initial": 0.1,
    "alpha_final": 0.7, "gamma_initial": 0.5,
}  # fmt: skip


class Watched:
    """The victim, which remembers what it was shown."""

    device, normalisation = VICTIM.device, VICTIM.normalisation

    def __init__(self) -> None:
        self.shown: list[Tensor] = []

    def outputs(self, inputs: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        self.shown.append(inputs.detach().flatten())
        return VICTIM.outputs(inputs, seeds)


def shown_by(declared: Any, *, at_border: bool) -> Tensor:
    """Everything that an attack shows to the victim, and its end; of grey images, or of black and white ones."""
    watched = Watched()
    inputs = (BATCH.inputs[2:6] > 0.5).float() if at_border else BATCH.inputs[2:6]
    with torch.no_grad():
        targets = VICTIM.outputs(inputs).argmax(1)
    end = run(declared, Batch(ids=tuple("abcd"), inputs=inputs, targets=targets), victim=watched).inputs
    return torch.cat([*watched.shown, end.flatten()])


def changed() -> dict[str, Any]:
    """Each example, on a budget that fools nobody, beside itself with one field changed, where it can be."""
    pairs: dict[str, Any] = {}
    for backend, kinds in SERVED.items():
        for kind, served in kinds.items():
            for norm in served.norms if kind != "autoattack" else ():
                declared = example(backend, kind, norm, share=50)
                for other in variants(declared):
                    (field,) = (each.name for each in fields(declared) if differs(each.name, declared, other))
                    pairs[f"{backend}-{kind}-{norm}-{field}-{getattr(other, field)}"] = (declared, other)
    return pairs


def differs(name: str, declared: Any, other: Any) -> bool:
    return bool(getattr(declared, name) != getattr(other, name))


def variants(declared: Any) -> Iterator[Any]:
    for field in sorted({each.name for each in fields(declared)} & OTHER_VALUES.keys()):
        values = OTHER_VALUES[field] if isinstance(OTHER_VALUES[field], tuple) else (OTHER_VALUES[field],)
        # In l1 and l2 a budget of 1 may still fool nobody.
        for value in values[-1:] if field == "epsilon" and declared.norm != "linf" else values:
            number = float(value) if isinstance(getattr(declared, field), float) else value
            with suppress(ValueError):
                other = replace(declared, **{field: number})
                if other != declared and not other.problems_of_budget(IMAGES):
                    yield other


CHANGED = changed()


@pytest.mark.parametrize(("declared", "other"), CHANGED.values(), ids=CHANGED.keys())
def test_every_field_reaches_the_library(declared: Any, other: Any) -> None:
    at_border = bool(declared.clip != other.clip)
    before, after = (shown_by(each, at_border=at_border) for each in (declared, other))
    assert not torch.equal(before, after)


def seeded(first: int = 0) -> int:
    """The seed of a batch whose first example has this one."""
    (seed,) = ExampleDraws([first]).seeds(Stream(purpose="library"))
    return seed


def test_fgsm_of_every_library_is_robenchs() -> None:
    ours = run(Fgsm(epsilon=EPSILON)).inputs
    for backend in ("torchattacks", "foolbox", "cleverhans"):
        theirs = run(EXAMPLES[f"{backend}-fgsm-linf"]).inputs
        torch.testing.assert_close(theirs, ours, atol=1e-6, rtol=0)


def test_pgd_is_torchattacks_byte_for_byte() -> None:
    declared = EXAMPLES["torchattacks-pgd-linf"]
    torch.manual_seed(seeded())
    theirs = torchattacks.PGD(Module(VICTIM), eps=8 / 255, alpha=2 / 255, steps=4)(BATCH.inputs, BATCH.targets)
    assert torch.equal(run(declared).inputs, theirs)


def test_pgd_is_cleverhans_byte_for_byte() -> None:
    torch.manual_seed(seeded())
    theirs = projected_gradient_descent(
        Module(VICTIM), BATCH.inputs, 0.5, 0.125, 4, 2, clip_min=0, clip_max=1, y=BATCH.targets
    )
    assert torch.equal(run(EXAMPLES["cleverhans-pgd-l2"]).inputs, theirs.detach())


def test_sparse_l1_is_foolbox_byte_for_byte() -> None:
    shown = foolbox.PyTorchModel(Module(VICTIM).eval(), bounds=(0, 1))
    attack = foolbox.attacks.SparseL1DescentAttack(quantile=0.9, abs_stepsize=0.75, steps=4)
    _, theirs, _ = attack(shown, BATCH.inputs, BATCH.targets, epsilons=3.0)
    assert torch.equal(run(EXAMPLES["foolbox-sparse-l1-l1"]).inputs, theirs)


@pytest.mark.parametrize("name", ["ddn-l2", "fmn-linf", "fmn-l1"])
def test_ddn_and_fmn_of_foolbox_are_robenchs(name: str) -> None:
    theirs = EXAMPLES[f"foolbox-{name}"]
    ours = run(replace(theirs, backend="robench"))
    assert torch.equal(present(ours.found), present(run(theirs).found))
    torch.testing.assert_close(run(theirs).inputs, ours.inputs, atol=1e-5, rtol=0)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """As the harness computes: a norm summed otherwise may leave the budget by a rounding, which is drawn back."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_apgd_is_pyautoattacks_byte_for_byte() -> None:
    attack = APGDAttack(Module(VICTIM), n_iter=8, norm="L2", n_restarts=2, eps=0.5, seed=seeded(), device="cpu")
    theirs = attack.perturb(BATCH.inputs, BATCH.targets)
    assert torch.equal(run(EXAMPLES["autoattack-apgd-l2"]).inputs, theirs)


def test_autoattack_is_pyautoattacks_byte_for_byte() -> None:
    few, declared = rows_of(BATCH, range(0, 4)), replace(EXAMPLES["autoattack-autoattack-linf"], epsilon=Fraction(1, 9))
    theirs = pyautoattack.AutoAttack(Module(VICTIM), norm="Linf", eps=1 / 9, version="rand", seed=seeded())
    expected, _ = theirs.run_standard_evaluation(few.inputs, few.targets, batch_size=4)
    result = run(declared, few)
    assert torch.equal(result.inputs, expected)
    IMAGES.rules.check_perturbed(result.inputs, few.inputs, declared, VICTIM)


def test_the_seed_of_a_batch_is_that_of_its_first_example() -> None:
    declared = EXAMPLES["torchattacks-pgd-linf"]
    draws = [ExampleDraws([0, *range(90, 101)]), ExampleDraws([1, *range(90, 101)])]
    same, other = (perturb(declared, BATCH, VICTIM, each).inputs for each in draws)
    assert torch.equal(same, run(declared).inputs)
    assert not torch.equal(other, same)


def test_autoattack_keeps_a_debuggers_trace() -> None:
    def trace(*arguments: Any) -> None: ...

    before = sys.gettrace()
    try:
        sys.settrace(trace)
        run(replace(EXAMPLES["autoattack-autoattack-linf"], epsilon=Fraction(1, 2)), rows_of(BATCH, range(0, 2)))
        after = sys.gettrace()
    finally:
        sys.settrace(before)
    assert after is trace


@pytest.mark.slow
def test_autoattack_has_no_more_targets_than_there_are_classes() -> None:
    """Six classes have five targets; the package alone fails on an index."""
    declared = AutoAttack(backend="autoattack", epsilon=Fraction(1, 10_000), variant="standard")
    one = rows_of(BATCH, range(2, 3))
    result = run(declared, one)
    IMAGES.rules.check_perturbed(result.inputs, one.inputs, declared, VICTIM)
    assert torch.equal(result.inputs, one.inputs), "what stands comes back clean"
    # apgd-ce, and five targets each of apgd and fab.
    assert int(present(result.num_gradients)[0]) == 101 + 5 * 101 + 5 * 100


def test_cw_toward_the_own_class_is_found_where_it_is_reached() -> None:
    """What two papers' code runs: normalised images cut to [0, 1], which alone changes what the victim says."""
    declared = Cw(
        num_steps=10, num_search_steps=2, initial_c=1.0, learning_rate=0.1, stops_early=False, continues=True,
        target="own", labels="predicted", space="normalised", clip="none", clip_min=0.0, clip_max=1.0,
    )  # fmt: skip
    ours, theirs = run(declared), run(replace(declared, backend="cleverhans"))
    assert torch.equal(present(ours.found), present(theirs.found))
    assert bool(present(theirs.found).any())
    lengths = [(each.inputs - BATCH.inputs).flatten(1).norm(dim=1) for each in (ours, theirs)]
    torch.testing.assert_close(*lengths, atol=0, rtol=0.01)


@pytest.mark.parametrize("backend", ["torchattacks", "autoattack"])
def test_more_targets_than_classes_are_refused_by_name(backend: Any) -> None:
    fab = replace(EXAMPLES[f"{backend}-fab-linf"], num_targets=NUM_CLASSES)
    with pytest.raises(
        DeclarationError, match=f"num_targets must be at most 5 with backend {backend}, since the model"
    ):
        run(fab)
    apgd = replace(EXAMPLES[f"{backend}-apgd-linf"], loss="dlr-targeted", num_restarts=NUM_CLASSES)
    with pytest.raises(DeclarationError, match="num_restarts must be at most 5"):
        run(apgd)


def test_autoattack_with_too_few_classes_is_refused_as_robenchs_own() -> None:
    three = LoadedModel(Curved(num_classes=3), PREPROCESSING)
    few = replace(rows_of(BATCH, range(0, 2)), targets=torch.tensor([0, 1]))
    for backend in ("robench", "autoattack"):
        declared = AutoAttack(backend=backend, epsilon=EPSILON, variant="standard")  # type: ignore[arg-type]  # both are
        with pytest.raises(
            DeclarationError, match="with a model of 3 classes: its apgd with loss dlr-targeted needs at least 4"
        ):
            run(declared, few, victim=three)


@pytest.mark.parametrize("backend", ["foolbox", "cleverhans"])
def test_normalised_space_without_limits_is_what_papers_code_does(backend: Any) -> None:
    declared = Fgsm(epsilon=Fraction(1, 4), space="normalised", clip="none", labels="predicted")
    theirs = run(replace(declared, backend=backend)).inputs
    torch.testing.assert_close(theirs, run(declared).inputs, atol=1e-6, rtol=0)
    assert float(theirs.max()) > 1
    torch.testing.assert_close((theirs - BATCH.inputs).abs().max(), torch.tensor(0.25 * 0.25), atol=1e-6, rtol=0)


@pytest.mark.parametrize("backend", ["torchattacks", "autoattack"])
def test_a_library_has_the_schedule_of_square_that_is_declared(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library = torchattacks.Square if backend == "torchattacks" else import_module("pyautoattack.square").SquareAttack
    met, own = [], library.p_selection
    monkeypatch.setattr(library, "p_selection", lambda self, trial: met.append(own(self, trial)) or met[-1])
    right, rescaled = rows_of(BATCH, range(2, 6)), example(backend, "square", "linf", share=50)
    for schedule, smallest in (("rescaled", 0.8 / 512), ("fixed", 0.8 / 2)):
        met.clear()
        run(replace(rescaled, schedule=schedule), right)
        assert (len(met), met[0], met[-1]) == (19, 0.8, smallest)


def test_a_black_image_of_foolbox_is_none_that_was_found() -> None:
    """Where its cw finds nothing it gives zeros, and counts them as found if the victim gets black wrong."""
    declared = Cw(backend="foolbox", num_steps=1, num_search_steps=1, initial_c=1e-3, learning_rate=1e-4)
    right = rows_of(BATCH, range(2, 8))
    with torch.no_grad():
        assert bool((VICTIM.outputs(torch.zeros_like(right.inputs)).argmax(1) != right.targets).any())
    result = run(declared, right)
    assert not bool(present(result.found).any())
    assert torch.equal(result.inputs, right.inputs)


def test_what_leaves_a_budget_by_rounding_is_drawn_back_and_nothing_else() -> None:
    declared = EXAMPLES["foolbox-pgd-l1"]
    problem = problem_of(declared, BATCH, VICTIM, ExampleDraws(range(12)), 12)
    change = torch.randn(12, *SHAPE, generator=torch.Generator().manual_seed(2)).double()
    unit = change / change.flatten(1).abs().sum(1).view(-1, 1, 1, 1)
    for excess, is_moved in ((-0.1, False), (5e-6, True), (1e-3, False)):
        points = (problem.inputs.double() + 3 * (1 + excess) * unit).float()
        result = _without_rounding(declared, problem, points)
        assert torch.equal(result, points) is not is_moved
        lengths = (result.double() - problem.inputs.double()).flatten(1).abs().sum(1)
        assert bool((lengths <= 3).all()) is (excess < 1e-3)


def num_found(result: Perturbed) -> int:
    return int(present(result.found).sum())


@pytest.mark.parametrize(("backend", "num_expected"), [("torchattacks", 1), ("foolbox", 12), ("cleverhans", 12)])
def test_a_constant_added_to_all_logits_stops_torchattacks_cw_and_no_other(backend: str, num_expected: int) -> None:
    """Known of the library, and why robench does not rest on it: only what is wrong anyway is found."""
    shifted = LoadedModel(Curved(shift=-20.0), PREPROCESSING)
    declared = replace(EXAMPLES[f"{backend}-cw-l2"], initial_c=10.0, num_steps=60)
    assert num_found(run(declared)) > 6
    assert num_found(run(declared, victim=shifted)) == num_expected


def test_a_missing_library_is_named_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "find_spec", lambda name: None)
    lines = {
        "torchattacks": "backend torchattacks needs the package torchattacks, which is not installed: "
        "pip install --no-deps torchattacks==3.5.1",
        "autoattack": "backend autoattack needs the package pyautoattack, which is not installed: "
        f"pip install --editable '{ROOT}[autoattack]'",
        "foolbox": f"pip install --editable '{ROOT}[foolbox]'",
        "cleverhans": "pip install --no-deps cleverhans==4.0.0",
    }
    for backend, line in lines.items():
        with pytest.raises(UsageError) as missing:
            run(EXAMPLES[f"{backend}-{'apgd' if backend == 'autoattack' else 'pgd'}-linf"])
        assert line in str(missing.value)
