"""Adapter of foolbox 3.3.4 (Rauber and others 2017, arXiv:1707.04131).

Differences from robench's attacks: in l1, fgsm and pgd step along the normalised gradient itself instead of its largest
coordinates, and pgd rescales changes that are too long; sparse-l1 projects onto the ball and then the box; cw stops the
whole batch at once, and returns black images if it finds nothing, which it counts as found if the victim misclassifies
black; this adapter replaces them by the clean ones; fmn keeps one value more than its radius in l0.
"""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

import torch
from torch import Tensor, nn

from robench.attacks.backends.installed import library
from robench.attacks.cw import Cw
from robench.attacks.ddn import Ddn
from robench.attacks.fgsm import Fgsm
from robench.attacks.fmn import Fmn
from robench.attacks.pgd import Pgd
from robench.attacks.rows import spread
from robench.attacks.sparse_l1 import SparseL1

NAMES = {"linf": "Linf", "l2": "L2", "l1": "L1"}
FMN_NAMES = {"linf": "LInf", "l1": "L1", "l0": "L0"}


# Any: untyped objects of the library, and a declaration of any kind in the table below.
def run_foolbox(declaration: Any, model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    """Run the library's attack on inputs (B, ...), and return the result."""
    points: Tensor
    foolbox = library("foolbox")
    bounds = (0, 1) if declaration.clip == "box" else (-inf, inf)
    shown = foolbox.PyTorchModel(model, bounds=bounds, device=inputs.device)
    attack = _ATTACKS[declaration.kind](foolbox.attacks, declaration)
    if declaration.is_minimum_norm:
        points, _, _ = attack(shown, inputs, labels, epsilons=None)
        if declaration.kind != "cw":
            return points
        is_black = (points == 0).flatten(1).all(1)
        return torch.where(spread(is_black, inputs), inputs, points)
    # The second of the three is the point clipped to the budget by the library itself.
    _, points, _ = attack(shown, inputs, labels, epsilons=float(declaration.epsilon))
    return points


def _fgsm(attacks: Any, declared: Fgsm) -> Any:
    return getattr(attacks, f"{NAMES[declared.norm]}FastGradientAttack")()


def _pgd(attacks: Any, declared: Pgd) -> Any:
    return getattr(attacks, f"{NAMES[declared.norm]}ProjectedGradientDescentAttack")(
        abs_stepsize=float(declared.step_length), steps=declared.num_steps, random_start=declared.random_start
    )


def _sparse_l1(attacks: Any, declared: SparseL1) -> Any:
    return attacks.SparseL1DescentAttack(
        quantile=declared.sparsity,
        abs_stepsize=float(declared.step_size),
        steps=declared.num_steps,
        random_start=declared.random_start,
    )


def _cw(attacks: Any, declared: Cw) -> Any:
    return attacks.L2CarliniWagnerAttack(
        binary_search_steps=declared.num_search_steps,
        steps=declared.num_steps,
        stepsize=declared.learning_rate,
        confidence=declared.confidence,
        initial_const=declared.initial_c,
        abort_early=declared.stops_early,
    )


def _ddn(attacks: Any, declared: Ddn) -> Any:
    return attacks.DDNAttack(init_epsilon=declared.initial_norm, steps=declared.num_steps, gamma=declared.gamma)


def _fmn(attacks: Any, declared: Fmn) -> Any:
    return getattr(attacks, f"{FMN_NAMES[declared.norm]}FMNAttack")(
        steps=declared.num_steps,
        max_stepsize=declared.alpha_initial,
        min_stepsize=declared.alpha_final,
        gamma=declared.gamma_initial,
    )


_ATTACKS: Mapping[str, Callable[[Any, Any], Any]] = {
    "fgsm": _fgsm,
    "pgd": _pgd,
    "sparse-l1": _sparse_l1,
    "cw": _cw,
    "ddn": _ddn,
    "fmn": _fmn,
}
