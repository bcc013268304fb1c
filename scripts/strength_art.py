"""Attacks of ART (Adversarial Robustness Toolbox 1.20.1), which robench compares itself with and has no backend for."""

from __future__ import annotations

from importlib import import_module
from math import inf
from typing import TYPE_CHECKING, Any

import torch

from robench.attacks.backends.shown import ShownVictim, undisturbed
from robench.core.seeds import Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from robench.attacks.problem import Problem

ORDERS = {"linf": inf, "l2": 2}


# Any: a declaration of any kind that is in the table below, and untyped objects of the library.
def run_art(declared: Any, problem: Problem) -> Tensor:
    """Return what ART makes of the inputs (B, C, H, W) in [0, 1], with the true labels."""
    evasion, estimators = import_module("art.attacks.evasion"), import_module("art.estimators.classification")
    model = ShownVictim(problem)
    with torch.no_grad():
        num_classes = model(problem.inputs[:1]).shape[1]
    classifier = estimators.PyTorchClassifier(
        model,
        loss=torch.nn.CrossEntropyLoss(),
        input_shape=tuple(problem.inputs.shape[1:]),
        nb_classes=num_classes,
        clip_values=(0.0, 1.0),
        device_type="cpu",
    )
    (seed, *_) = problem.draws.seeds(Stream(purpose="library"))
    with undisturbed(problem.inputs.device, seed):
        attack = _ATTACKS[declared.kind](evasion, classifier, declared, len(problem))
        points = attack.generate(x=problem.inputs.numpy(), y=problem.labels.numpy())
    return torch.from_numpy(points)


def _fgsm(evasion: Any, classifier: Any, declared: Any, size: int) -> Any:
    return evasion.FastGradientMethod(
        classifier, norm=ORDERS[declared.norm], eps=float(declared.epsilon), batch_size=size
    )


def _pgd(evasion: Any, classifier: Any, declared: Any, size: int) -> Any:
    return evasion.ProjectedGradientDescent(
        classifier,
        norm=ORDERS[declared.norm],
        eps=float(declared.epsilon),
        eps_step=float(declared.step_length),
        max_iter=declared.num_steps,
        num_random_init=int(declared.random_start),
        batch_size=size,
        verbose=False,
    )


def _apgd(evasion: Any, classifier: Any, declared: Any, size: int) -> Any:
    return evasion.AutoProjectedGradientDescent(
        classifier,
        norm=ORDERS[declared.norm],
        eps=float(declared.epsilon),
        eps_step=2 * float(declared.epsilon),
        max_iter=declared.num_steps,
        nb_random_init=declared.num_restarts,
        batch_size=size,
        loss_type="cross_entropy",
        verbose=False,
    )


def _square(evasion: Any, classifier: Any, declared: Any, size: int) -> Any:
    return evasion.SquareAttack(
        classifier,
        norm=ORDERS[declared.norm],
        max_iter=declared.num_queries - 1,
        eps=float(declared.epsilon),
        p_init=declared.p_init,
        nb_restarts=declared.num_restarts,
        batch_size=size,
        verbose=False,
    )


def _cw(evasion: Any, classifier: Any, declared: Any, size: int) -> Any:
    return evasion.CarliniL2Method(
        classifier,
        confidence=declared.confidence,
        learning_rate=declared.learning_rate,
        binary_search_steps=declared.num_search_steps,
        max_iter=declared.num_steps,
        initial_const=declared.initial_c,
        batch_size=size,
        verbose=False,
    )


_ATTACKS: Mapping[str, Callable[[Any, Any, Any, int], Any]] = {
    "fgsm": _fgsm,
    "pgd": _pgd,
    "apgd": _apgd,
    "square": _square,
    "cw": _cw,
}
