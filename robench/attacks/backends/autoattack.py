"""Adapter of pyautoattack 0.2.0: AutoAttack and its parts by their authors (arXiv:2003.01690); images only.

A version of AutoAttack runs as the package sets it up. With fewer other classes than targets it would fail on an index,
so the number of targets is reduced. For apgd, fab and square it returns the clean image of surviving examples, and does
not attack fooled ones further (early stopping).
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from robench.attacks.apgd import Apgd
from robench.attacks.autoattack import AutoAttack
from robench.attacks.backends.installed import library
from robench.attacks.backends.shown import check_targets, num_classes_of
from robench.attacks.fab import Fab
from robench.attacks.square import Square

NORMS = {"linf": "Linf", "l2": "L2", "l1": "L1"}


# Any: untyped results of the library, and a declaration of any kind in the table below.
def run_autoattack(declaration: Any, model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    """Run the package's attack on inputs (B, C, H, W) in [0, 1], and return the result.

    Raises:
        DeclarationError: the attack needs more classes than the model has.
    """
    points: Tensor = _ATTACKS[declaration.kind](declaration, model, inputs, labels)
    return points


def _apgd(declared: Apgd, model: nn.Module, inputs: Tensor, labels: Tensor) -> Any:
    module = library("autoattack", "autopgd_base")
    fields: dict[str, Any] = {
        **_shared(declared, inputs),
        "eps": float(declared.epsilon),
        "n_iter": declared.num_steps,
        "eot_iter": declared.num_draws,
        "use_largereps": declared.radii == "shrinking",
    }
    if declared.loss == "dlr-targeted":
        check_targets(declared, model, inputs)
        attack = module.APGDAttack_targeted(model, n_target_classes=declared.num_restarts, **fields)
    else:
        attack = module.APGDAttack(model, loss=declared.loss, n_restarts=declared.num_restarts, **fields)
    return attack.perturb(inputs, labels)


def _fab(declared: Fab, model: nn.Module, inputs: Tensor, labels: Tensor) -> Any:
    if declared.num_targets is not None:
        check_targets(declared, model, inputs)
    attack = library("autoattack", "fab_pt").FABAttack_PT(
        model,
        **_shared(declared, inputs),
        **fields_of_fab(declared),
        n_iter=declared.num_steps,
        targeted=declared.num_targets is not None,
        n_target_classes=declared.num_targets or 0,
    )
    return attack.perturb(inputs, labels)


def _square(declared: Square, model: nn.Module, inputs: Tensor, labels: Tensor) -> Any:
    attack = library("autoattack", "square").SquareAttack(
        model, **_shared(declared, inputs), **fields_of_square(declared)
    )
    return attack.perturb(inputs, labels)


def fields_of_fab(declared: Fab) -> dict[str, Any]:
    """Return the arguments that FAB has here and in torchattacks alike."""
    return {
        "eps": float("inf") if declared.stop == "never" or declared.epsilon is None else float(declared.epsilon),
        "n_restarts": declared.num_restarts,
        "alpha_max": declared.alpha_max,
        "eta": declared.eta,
        "beta": declared.beta,
    }


def fields_of_square(declared: Square) -> dict[str, Any]:
    """Return the arguments that Square has here and in torchattacks alike."""
    return {
        "eps": float(declared.epsilon),
        # The first point is not counted there.
        "n_queries": declared.num_queries - 1,
        "n_restarts": declared.num_restarts,
        "p_init": declared.p_init,
        "loss": declared.loss,
        "resc_schedule": declared.schedule == "rescaled",
    }


def _ensemble(declared: AutoAttack, model: nn.Module, inputs: Tensor, labels: Tensor) -> Any:
    num_classes = num_classes_of(model, inputs)
    # Refuses models with too few classes for the losses, as robench's own does.
    declared.attacks(num_classes)
    ensemble = library("autoattack").AutoAttack(
        model,
        norm=NORMS[declared.norm],
        eps=float(declared.epsilon),
        version=declared.variant,
        seed=torch.initial_seed(),
        device=inputs.device,
    )
    for attack in (ensemble.apgd_targeted, ensemble.fab):
        attack.n_target_classes = min(attack.n_target_classes, num_classes - 1)
    points, _ = ensemble.run_standard_evaluation(inputs, labels, batch_size=len(inputs))
    return points


def _shared(declared: Apgd | Fab | Square, inputs: Tensor) -> dict[str, Any]:
    return {"norm": NORMS[declared.norm], "seed": torch.initial_seed(), "device": inputs.device}


_ATTACKS: Mapping[str, Callable[[Any, nn.Module, Tensor, Tensor], Any]] = {
    "apgd": _apgd,
    "fab": _fab,
    "square": _square,
    "autoattack": _ensemble,
}
