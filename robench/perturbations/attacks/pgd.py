"""Projected gradient descent in the l-infinity ball.

Source: Madry et al. 2018, arXiv:1706.06083, section 2.1.
Differences: none in the step. As in torchattacks, each restart returns its last iterate; between restarts an example
keeps the first one that fools the victim, else the one of highest loss (the paper keeps the highest loss).
The step size is absolute, in pixel units (foolbox's default is relative to epsilon).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.functional import cross_entropy

from robench.core.seeds import Stream
from robench.perturbations.attacks.ball import Ball, linf_ball
from robench.perturbations.attacks.gradient import cross_entropy_gradient

if TYPE_CHECKING:
    from robench.core.protocols import Batch, Draws, Victim
    from robench.declarations.attacks import Pgd


def pgd(declaration: Pgd, batch: Batch, victim: Victim, draws: Draws) -> torch.Tensor:
    """Return inputs (B, ...) after ``num_steps`` signed gradient steps, the best of ``num_restarts``."""
    ball = linf_ball(batch.inputs, declaration.epsilon)
    best = _descend(declaration, batch, victim, draws, ball, restart=0)
    if declaration.num_restarts == 1:
        return best
    best_score = _score(victim, best, batch.targets)
    for restart in range(1, declaration.num_restarts):
        point = _descend(declaration, batch, victim, draws, ball, restart)
        score = _score(victim, point, batch.targets)
        better = (score > best_score).reshape(-1, *[1] * (point.ndim - 1))
        best = torch.where(better, point, best)
        best_score = torch.maximum(score, best_score)
    return best


def _descend(declaration: Pgd, batch: Batch, victim: Victim, draws: Draws, ball: Ball, restart: int) -> torch.Tensor:
    point = batch.inputs
    if declaration.random_start:
        unit = draws.uniform(Stream(purpose="start", restart=restart), point.shape[1:])
        point = ball.project(point + (2.0 * unit - 1.0) * float(declaration.epsilon))
    step_size = float(declaration.step_size)
    for _ in range(declaration.num_steps):
        gradient = cross_entropy_gradient(victim, point, batch.targets)
        point = ball.project(point + step_size * gradient.sign())
    return point


@torch.no_grad()
def _score(victim: Victim, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return (B,) loss in nats, or infinity where the victim is fooled."""
    logits = victim.logits(inputs)
    loss = cross_entropy(logits, targets, reduction="none")
    return torch.where(logits.argmax(1) == targets, loss, torch.inf)
