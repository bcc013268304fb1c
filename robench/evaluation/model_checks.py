"""Checks of a model: those of AutoAttack, reimplemented, and that of coupled rows.

Source: Croce & Hein 2020, arXiv:2003.01690, and the flags documented with the code: a model that draws random numbers,
one that returns probabilities for logits, and one without gradients. Whether Square beats the gradients is one of the
``comparisons``. Where this differs: all examples of the probe are checked, not only the first batch.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from robench.attacks.fgsm import Fgsm
from robench.core.flags import Flag
from robench.evaluation.coupling import coupling_flag, measure_coupling
from robench.tasks.classification_impl import SIMPLEX, are_probabilities, off_one
from robench.tasks.classification_losses import cross_entropy_loss, dlr_loss, margin_loss

if TYPE_CHECKING:
    from torch import Tensor

    from robench.evaluation.probe import Probe

SOURCE = "auto-attack, checks.py"
NUM_PASSES = 5
RANDOM = 1e-4
# Each of them needs a pass of as many rows: with 32, about as many passes as one of the audit's attacks of 40 steps.
COUPLING_ROWS = 32


def model_checks(probe: Probe) -> list[Flag]:
    """Return the checks for randomness, probabilities, zero gradients, and coupled rows."""
    problem = probe.problem(Fgsm(epsilon=probe.epsilon)).within("checks").at(search=0, step=0)
    passes = [problem.evaluate(problem.inputs, cross_entropy_loss).outputs for _ in range(NUM_PASSES)]
    return [
        _random(passes, problem.labels),
        _probabilities(passes[0]),
        _zero_gradients(probe, passes[0].shape[1]),
        _coupled(probe),
    ]


def _random(passes: list[Tensor], labels: Tensor) -> Flag:
    unit = [each / each.norm(dim=1, keepdim=True).clamp(min=1e-12) for each in passes]
    value = max(float((first - second).norm(dim=1).max()) for first, second in combinations(unit, 2))
    counts = {int((each.argmax(1) == labels).sum()) for each in passes}
    return Flag(
        name="random victim",
        source=SOURCE,
        value=value,
        limit=RANDOM,
        is_raised=value > RANDOM or len(counts) > 1,
        finding=f"repeated predictions differ by at most {value:.2g}, with {len(counts)} numbers of correct answers",
        advice="average gradients over draws (num_draws), and report several predictions",
    )


def _coupled(probe: Probe) -> Flag:
    inputs, seeds = probe.batch.inputs[:COUPLING_ROWS], probe.draws.prediction_seeds[:COUPLING_ROWS]
    return coupling_flag(measure_coupling(probe.model, inputs, seeds))


def _probabilities(logits: Tensor) -> Flag:
    off, is_raised = off_one(logits), are_probabilities(logits)
    return Flag(
        name="probabilities for logits",
        source=SOURCE,
        value=off,
        limit=SIMPLEX,
        is_raised=is_raised,
        finding="the outputs are probabilities" if is_raised else "the outputs are not probabilities",
        advice="return logits: a softmax flattens the gradients, and attacks look weak",
    )


def _zero_gradients(probe: Probe, num_classes: int) -> Flag:
    try:
        gradient = probe.gradient(dlr_loss if num_classes > 2 else margin_loss)
        value = float((gradient.flatten(1).abs().sum(1) == 0).double().mean())
    except RuntimeError:
        value = 1.0
    return Flag(
        name="zero gradients",
        source=SOURCE,
        value=value,
        limit=0.0,
        is_raised=value > 0,
        finding=f"{value:.0%} of the examples have a gradient of exactly zero",
        advice="attack without gradients (square), or through a differentiable stand-in (BPDA)",
    )
