"""Checks of a model: those of AutoAttack, reimplemented, and that of coupled rows.

Source: Croce & Hein 2020, arXiv:2003.01690, and the flags documented with the code: a model that draws random numbers,
one that returns probabilities for logits, and one without gradients. Whether Square beats the gradients is one of the
``probe.comparisons``. Where this differs: all examples of the probe are checked, not only the first batch.
"""

from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor

from robench.attacks.fgsm import Fgsm
from robench.attacks.problem import Problem
from robench.core.errors import UsageError
from robench.core.flags import RANDOM_VICTIM, Flag, Observations
from robench.core.protocols import Batch, Model
from robench.domains import domain_of
from robench.evaluation.coupling import coupling_observed, measure_coupling
from robench.evaluation.probe import NO_GRADIENT, Probe, observed
from robench.metrics.audits import PROBABILITIES, in_place_of_logits
from robench.tasks import task_of
from robench.tasks.base import Loss, ManyAnswers
from robench.tasks.classification_impl import (
    FALSE_REFUSAL,
    chance_of_at_most,
    dlr_loss,
    margin_loss,
)

NUM_PASSES = 5
# Each of them needs a pass of as many rows: with 32, about as many passes as one of the audit's attacks of 40 steps.
COUPLING_ROWS = 32
# Probability with which guesses are right as often: from it on, the model may be guessing.
NEAR_CHANCE = 0.01
# Of normalised values of the right training data: farther from 0 or from 1, as a factor, they are of other statistics.
OFF_CENTRE, SPREAD = 1.0, 2.0


def model_checks(probe: Probe) -> list[Observations]:
    """Return the observations of the checks for randomness, probabilities, zero gradients, and coupled rows."""
    problem = probe.problem(Fgsm(epsilon=probe.epsilon)).within("checks").at(search=0, step=0)
    passes = [problem.evaluate(problem.inputs, probe.objective).outputs for _ in range(NUM_PASSES)]
    loss = probe.objective if probe.has_many else dlr_loss if passes[0].shape[1] > 2 else margin_loss
    return [
        _random(passes, problem),
        observed("probabilities for logits", *_ranges(passes[0])),
        _zero_gradients(probe, loss),
        _coupled(probe),
    ]


def clean_accuracy(model: Model, batch: Batch, logits: Tensor, expected: float | None) -> Flag:
    """Return whether a model is right about far too few clean examples, and whether mean and std explain it.

    Examples have inputs (B, ...), whose padding does not count, and logits (B, classes); ``expected`` is the accuracy
    stated for these data, None to compare with chance. Of examples of many answers, logits (B, classes, ...), these are
    counted, and compared with chance alone.
    """
    targets, rules = batch.targets.to(logits.device), task_of(batch).rules
    if isinstance(rules, ManyAnswers):
        counts = rules.num_right(logits, targets), rules.num_answers(targets)
        num_right, num_examples = (int(each.sum()) for each in counts)
        what, expected = "answers of clean examples", None
    else:
        num_right, num_examples = int((logits.argmax(1) == targets).sum()), len(batch.ids)
        what = "clean examples"
    chance = 1 / logits.shape[1]
    if expected is None:
        is_raised = 1 - chance_of_at_most(num_right - 1, num_examples, chance) >= NEAR_CHANCE
        compared = f"chance is {chance:.1%}"
    else:
        is_raised = chance_of_at_most(num_right, num_examples, expected) < FALSE_REFUSAL
        compared = f"its registry entry expects {expected:.1%}"
    mean, std = (part.to(batch.inputs) for part in model.normalisation)
    domain = domain_of(batch)
    seen, valid = (batch.inputs - mean) / std, domain.rules.valid(batch.inputs)
    seen = seen if valid is None else seen[valid]
    centre, spread = float(seen.mean()), float(seen.std())
    is_suspect = abs(centre) > OFF_CENTRE or not 1 / SPREAD <= spread <= SPREAD
    advice = "check its weights, its preprocessing (mean, std, resize) and the order of its classes"
    if is_suspect:
        within = "" if domain.limits is None else ", of values in [{:g}, {:g}]".format(*domain.limits)
        advice = (
            f"first suspect mean and std of its preprocessing, which give these {domain.name} the mean {centre:.2g} "
            f"and the standard deviation {spread:.2g} in place of about 0 and 1; state those of training{within}"
        )
    return Flag(
        name="clean accuracy",
        source="robench",
        value=num_right / num_examples,
        limit=chance if expected is None else expected,
        is_raised=is_raised,
        finding=f"the model is right about {num_right} of {num_examples} {what}; {compared}",
        advice=advice,
    )


def _random(passes: list[Tensor], problem: Problem) -> Observations:
    rows = [each.flatten(1) for each in passes]
    unit = [each / each.norm(dim=1, keepdim=True).clamp(min=1e-12) for each in rows]
    distances = [(first - second).norm(dim=1) for first, second in combinations(unit, 2)]
    num_right = [problem.num_right(each) for each in passes]
    return observed(RANDOM_VICTIM, torch.stack(distances).amax(0), problem.num_answers(), *num_right)


def _coupled(probe: Probe) -> Observations:
    inputs, seeds = probe.batch.inputs[:COUPLING_ROWS], probe.draws.prediction_seeds[:COUPLING_ROWS]
    return coupling_observed(measure_coupling(probe.model, inputs, seeds))


def require_logits(outputs: Sequence[Tensor], model: str) -> None:
    """Refuse outputs (B, classes, ...) of a model on clean examples unless they are logits.

    Raises:
        UsageError: the message says what they are, and what to do.
    """
    least, highest, off_one, counts = (torch.cat(each) for each in zip(*map(_ranges, outputs), strict=True))
    found = in_place_of_logits(float(least.min()), float(highest.max()), float(off_one.max()), int(counts.sum()))
    if not found:
        return
    advice = "a softmax or sigmoid flattens gradients, so that attacks look weak; leave it out of the model"
    if found != PROBABILITIES:
        advice += ". If they are logits, subtract 1 from all of them, which changes no prediction and no loss"
    raise UsageError(f"model {model!r} gives {found}, wanted logits: {advice}")


def _ranges(outputs: Tensor) -> list[Tensor]:
    """Return (B,) least and largest outputs (B, classes, ...), deviations of sums over classes from one, and counts."""
    rows = outputs.flatten(1)
    off_one = (outputs.sum(1) - 1).abs().reshape(len(outputs), -1)
    return [rows.amin(1), rows.amax(1), off_one.amax(1), torch.full((len(rows),), rows.shape[1])]


def _zero_gradients(probe: Probe, loss: Loss) -> Observations:
    try:
        is_zero = probe.gradient(loss).flatten(1).abs().sum(1) == 0
    except NO_GRADIENT:
        is_zero = torch.ones(len(probe), dtype=torch.bool)
    named = "".join(f" ({each.kind})" for each in probe.random_searches)
    return observed("zero gradients", is_zero, settings=(named,))
