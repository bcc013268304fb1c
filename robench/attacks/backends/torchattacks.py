"""Adapter of torchattacks 3.5.1 (Kim 2020, arXiv:2010.01950); images in [0, 1] only.

Differences from what their names suggest: PGDL2 starts at a radius drawn uniformly, which crowds the middle of the
ball; APGD, APGDT and FAB default to 10 steps and the seed 0 (both are set explicitly here); FAB in l1 fails on a name
it never sets; CW does not search for c, cannot move pixels of exactly 0 or 1, finds nothing if all logits are below 0,
and stops the whole batch at once; SPSA draws its signs once for the whole batch.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from robench.attacks.apgd import Apgd
from robench.attacks.backends.autoattack import fields_of_fab, fields_of_square
from robench.attacks.backends.installed import library
from robench.attacks.backends.shown import check_targets
from robench.attacks.cw import Cw
from robench.attacks.fab import Fab
from robench.attacks.fgsm import Fgsm
from robench.attacks.pgd import Pgd
from robench.attacks.spsa import Spsa
from robench.attacks.square import Square

NORMS = {"linf": "Linf", "l2": "L2"}


# Any: untyped objects of the library, and a declaration of any kind in the table below.
def run_torchattacks(declaration: Any, model: nn.Module, inputs: Tensor, labels: Tensor) -> Tensor:
    """Run the library's attack on inputs (B, C, H, W) in [0, 1], and return the result."""
    match declaration.kind:
        case "apgd":
            has_targets = declaration.loss == "dlr-targeted"
        case "fab":
            has_targets = declaration.num_targets is not None
        case _:
            has_targets = False
    if has_targets:
        check_targets(declaration, model, inputs)
    attack = _ATTACKS[declaration.kind](library("torchattacks"), declaration, model)
    points: Tensor = attack(inputs, labels)
    return points


def _fgsm(attacks: Any, declared: Fgsm, model: nn.Module) -> Any:
    return attacks.FGSM(model, eps=float(declared.epsilon))


def _pgd(attacks: Any, declared: Pgd, model: nn.Module) -> Any:
    kind = attacks.PGD if declared.norm == "linf" else attacks.PGDL2
    step = float(declared.step_length)
    return kind(
        model, eps=float(declared.epsilon), alpha=step, steps=declared.num_steps, random_start=declared.random_start
    )


def _apgd(attacks: Any, declared: Apgd, model: nn.Module) -> Any:
    fields: dict[str, Any] = {
        "norm": NORMS[declared.norm],
        "eps": float(declared.epsilon),
        "steps": declared.num_steps,
        "eot_iter": declared.num_draws,
        "seed": torch.initial_seed(),
    }
    if declared.loss == "dlr-targeted":
        return attacks.APGDT(model, n_classes=declared.num_restarts + 1, **fields)
    return attacks.APGD(model, loss=declared.loss, n_restarts=declared.num_restarts, **fields)


def _fab(attacks: Any, declared: Fab, model: nn.Module) -> Any:
    return attacks.FAB(
        model,
        **fields_of_fab(declared),
        norm=NORMS[declared.norm],
        steps=declared.num_steps,
        multi_targeted=declared.num_targets is not None,
        n_classes=(declared.num_targets or 1) + 1,
        seed=torch.initial_seed(),
    )


def _square(attacks: Any, declared: Square, model: nn.Module) -> Any:
    return attacks.Square(model, **fields_of_square(declared), norm=NORMS[declared.norm], seed=torch.initial_seed())


def _spsa(attacks: Any, declared: Spsa, model: nn.Module) -> Any:
    return attacks.SPSA(
        model,
        eps=float(declared.epsilon),
        delta=float(declared.delta),
        lr=float(declared.learning_rate),
        nb_iter=declared.num_steps,
        nb_sample=declared.num_samples,
    )


def _cw(attacks: Any, declared: Cw, model: nn.Module) -> Any:
    return attacks.CW(model, c=declared.initial_c, kappa=0, steps=declared.num_steps, lr=declared.learning_rate)


_ATTACKS: Mapping[str, Callable[[Any, Any, nn.Module], Any]] = {
    "fgsm": _fgsm,
    "pgd": _pgd,
    "apgd": _apgd,
    "fab": _fab,
    "square": _square,
    "spsa": _spsa,
    "cw": _cw,
}
