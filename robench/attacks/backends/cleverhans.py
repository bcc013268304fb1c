"""Adapter of cleverhans 4.0.0 for torch (Papernot and others 2018, arXiv:1610.00768), used in the code of many papers.

Differences from robench's attacks: in l1, fgsm moves the one coordinate of largest gradient, and fails where the
gradient is zero; pgd starts within a cube in l2 too; spsa estimates the gradient at twice the clean input, one image at
a time; sparse-l1 rescales changes that are too long; cw continues each search from the last. Without ``clip`` there are
no limits, as in the papers' code. Labels are always passed, so that none are predicted.
"""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from torch import Tensor, nn

from robench.attacks.backends.installed import library
from robench.attacks.backends.shown import num_classes_of
from robench.attacks.cw import Cw
from robench.attacks.fgsm import Fgsm
from robench.attacks.pgd import Pgd
from robench.attacks.sparse_l1 import SparseL1
from robench.attacks.spsa import Spsa

ORDERS = {"linf": inf, "l2": 2, "l1": 1}


# Any: untyped results of the library, and a declaration of any kind in the table below.
def run_cleverhans(declaration: Any, model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    """Run the library's attack on inputs (B, ...), and return the result."""
    points: Tensor = _ATTACKS[declaration.kind](declaration, model, inputs, labels)
    return points


def _fgsm(declared: Fgsm, model: nn.Module, inputs: Tensor, labels: Tensor) -> Any:
    attack = library("cleverhans", "torch.attacks.fast_gradient_method").fast_gradient_method
    return attack(model, inputs, float(declared.epsilon), ORDERS[declared.norm], y=labels, **_limits(declared.clip))


def _pgd(declared: Pgd, model: nn.Module, inputs: Tensor, labels: Tensor) -> Any:
    attack = library("cleverhans", "torch.attacks.projected_gradient_descent").projected_gradient_descent
    return attack(
        model,
        inputs,
        eps=float(declared.epsilon),
        eps_iter=float(declared.step_length),
        nb_iter=declared.num_steps,
        norm=ORDERS[declared.norm],
        y=labels,
        rand_init=declared.random_start,
        # Robench measures the budget itself; these fail on rounding errors.
        sanity_checks=False,
        **_limits(declared.clip),
    )


def _spsa(declared: Spsa, model: nn.Module, inputs: Tensor, labels: Tensor) -> Any:
    attack = library("cleverhans", "torch.attacks.spsa").spsa
    lowest, highest = (0, 1) if declared.clip == "box" else (-inf, inf)
    return attack(
        model,
        inputs,
        eps=float(declared.epsilon),
        nb_iter=declared.num_steps,
        norm=ORDERS[declared.norm],
        clip_min=lowest,
        clip_max=highest,
        y=labels,
        learning_rate=float(declared.learning_rate),
        delta=float(declared.delta),
        spsa_samples=declared.num_samples,
        sanity_checks=False,
    )


def _sparse_l1(declared: SparseL1, model: nn.Module, inputs: Tensor, labels: Tensor) -> Any:
    attack = library("cleverhans", "torch.attacks.sparse_l1_descent").sparse_l1_descent
    return attack(
        model,
        inputs,
        eps=float(declared.epsilon),
        eps_iter=float(declared.step_size),
        nb_iter=declared.num_steps,
        y=labels,
        # Coordinates that cannot move do not count among the largest, as in robench and foolbox.
        clip_grad=declared.clip == "box",
        grad_sparsity=100 * declared.sparsity,
        sanity_checks=False,
        **_limits(declared.clip),
    )


def _cw(declared: Cw, model: nn.Module, inputs: Tensor, labels: Tensor) -> Any:
    attack = library("cleverhans", "torch.attacks.carlini_wagner_l2").carlini_wagner_l2
    lowest, highest = declared.clip_min, declared.clip_max
    return attack(
        model,
        inputs,
        num_classes_of(model, inputs),
        y=labels,
        targeted=declared.target == "own",
        lr=declared.learning_rate,
        confidence=declared.confidence,
        clip_min=0 if lowest is None else lowest,
        clip_max=1 if highest is None else highest,
        initial_const=declared.initial_c,
        binary_search_steps=declared.num_search_steps,
        max_iterations=declared.num_steps,
    )


def _limits(clip: str) -> dict[str, int]:
    return {"clip_min": 0, "clip_max": 1} if clip == "box" else {}


_ATTACKS: Mapping[str, Callable[[Any, nn.Module, Tensor, Tensor], Any]] = {
    "fgsm": _fgsm,
    "pgd": _pgd,
    "spsa": _spsa,
    "sparse-l1": _sparse_l1,
    "cw": _cw,
}
