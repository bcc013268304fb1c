"""Probe of an audit: examples that are correct when clean, attacks on them, and signs that these attacks failed.

The indicators are those of Pintor et al. 2022, arXiv:2106.09947, with the values of the authors' code
(src/indicators/indicators.py), on examples that are right when clean; the attack is APGD on the cross-entropy, 100
steps. The comparisons are those of ``metrics.sanity``.

Where this differs: unstable predictions are measured on the margin, whose size does not vanish for confident models, as
the cross-entropy does; the relative change of a loss near zero is meaningless. A margin that changes as its gradient
says is not unstable, only steep: what counts is the rest of the change. It is summed over the examples and divided by
the sum of the margins; relative to each example's own margin, a few near the boundary would outweigh all others.
Incomplete optimisation is the mean drop over surviving examples. Transfer failure compares the verdict of the attack's
own passes with that of the final prediction at the same points.

Where examples have many answers, such as pixels, the numbers of right ones take the place of verdicts, and the task's
objective that of the cross-entropy. Without any constraint fewer of them may stay right than with another example in
the place of each. Stability, which needs a margin, and rightness at any distance are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import fsum
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from robench.attacks.apgd import Apgd
from robench.attacks.apgd_impl import ApgdSearch
from robench.attacks.attack import problem_of
from robench.attacks.base import Attack
from robench.attacks.fgsm import Fgsm
from robench.attacks.pgd import Pgd
from robench.attacks.problem import Problem
from robench.attacks.search import Kept
from robench.attacks.square import RandomSearch, random_searches
from robench.core.budgets import spelling_of
from robench.core.errors import NoGradientError
from robench.core.flags import Flag
from robench.core.protocols import Batch, Draws, Model
from robench.core.seeds import Stream
from robench.domains import Domain, domain_of
from robench.metrics.sanity import MORE_STEPS, RANDOM_SEARCH, SINGLE_STEP, SMALLER_BUDGET, beaten, right_at_any_distance
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import predict
from robench.tasks import task_of
from robench.tasks.base import Loss, ManyAnswers, resolved
from robench.tasks.classification_impl import margin_loss

SOURCE = "Pintor et al. 2022"
NUM_STEPS = 100
NUM_NEIGHBOURS = 100
UNSTABLE = 0.10
LAST_STEPS = 10
INCOMPLETE = 0.05
NUM_QUERIES = 500
QUARTER = Fraction(1, 4)
# Of models whose graph is missing, or broken on the way to the inputs.
NO_GRADIENT = (NoGradientError, RuntimeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Model and examples that it classifies correctly when clean.

    Attributes:
        epsilon: the budget in l-infinity, in units of the inputs, at which the model's robustness is claimed.
        half_range: the distance within which all inputs can become equal; see ``domains.base.DomainRules``.
    """

    model: Model
    batch: Batch
    draws: Draws
    epsilon: Fraction
    half_range: Fraction
    batch_size: int

    def __len__(self) -> int:
        return len(self.batch.ids)

    @property
    def has_many(self) -> bool:
        """Return whether examples have many answers."""
        return isinstance(task_of(self.batch).rules, ManyAnswers)

    @property
    def objective(self) -> Loss:
        """Return the loss that the model's task maximises by default: of classifiers the cross-entropy."""
        return task_of(self.batch).rules.objective

    @property
    def domain(self) -> Domain:
        """Return the domain of the inputs."""
        return domain_of(self.batch)

    @property
    def random_searches(self) -> Sequence[type[RandomSearch]]:
        """Return the form of the Square attack that works on the inputs; empty if robench has none."""
        return random_searches(self.domain.axes)[:1]

    def problem(self, declaration: Attack) -> Problem:
        """Return the problem of an attack."""
        return problem_of(declaration, self.batch, self.model, self.draws, self.batch_size)

    def gradient(self, loss: Loss) -> Tensor:
        """Return the gradient of a loss at the clean inputs, (B, ...).

        Raises:
            NoGradientError, RuntimeError: it does not exist, for example because the model detached its graph.
        """
        problem = self.problem(Fgsm(epsilon=self.epsilon)).within("gradient").at(search=0, step=0)
        return problem.differentiate(problem.inputs, loss).gradient()

    def survives(self, declaration: Attack) -> NDArray[np.bool_] | NDArray[np.float64]:
        """Return whether each example survives an attack in the space of the inputs, by the final prediction.

        Of examples of many answers it is the proportion that is still right.
        """
        made = perturb(declaration, self.batch, self.model, self.draws, self.batch_size)
        problem = self.problem(declaration)
        num_right = problem.num_right(problem.predict(made.inputs)).cpu().numpy()
        return num_right / problem.num_answers().cpu().numpy() if self.has_many else num_right > 0

    def text_of(self, proportion: float) -> str:
        """Return a proportion of the examples, or of their answers, in words."""
        return f"{proportion:.0%} of the {'answers' if self.has_many else 'examples'}"


def clean_correct(model: Model, batch: Batch, draws: Draws, epsilon: Fraction, batch_size: int) -> Probe:
    """Return a probe of the examples of a batch that the final prediction classifies correctly.

    Examples of many answers are in it if one of these is right.
    """
    logits, rules = predict(model, batch.inputs, draws.prediction_seeds, batch_size), task_of(batch).rules
    if isinstance(rules, ManyAnswers):
        is_right = rules.num_right(logits, batch.targets) > 0
    else:
        is_right = logits.argmax(1) == batch.targets
    places = is_right.nonzero()[:, 0]
    rows, ids = places.tolist(), batch.ids
    chosen = replace(
        batch, ids=tuple(ids[row] for row in rows), inputs=batch.inputs[places], targets=batch.targets[places]
    )
    return Probe(
        model=model,
        batch=chosen,
        draws=draws.take(rows),
        epsilon=epsilon,
        half_range=domain_of(batch).rules.half_range(batch.inputs),
        batch_size=batch_size,
    )


@dataclass(frozen=True, slots=True)
class Path:
    """Trace of an attack: (steps, B) losses of its passes, and how many answers were right, 0 or 1 of a classifier.

    Attributes:
        fewest: (B,) right answers at the best point on the way; ``returned``: at the returned point in the attack's
            passes; ``predicted``: there in the final prediction.
    """

    values: Tensor
    fewest: Tensor
    returned: Tensor
    predicted: Tensor


def indicators(probe: Probe) -> list[Flag]:
    """Return the six indicators, in the order of the paper."""
    attack = Apgd(epsilon=probe.epsilon, num_steps=NUM_STEPS)
    unavailable, is_differentiable = _unavailable_gradients(probe)
    # There is no margin of many answers.
    unstable = [] if probe.has_many else [_unstable_predictions(probe)]
    if not is_differentiable:
        return [unavailable, *unstable]
    path = _walk(probe.problem(attack).within("path"), attack)
    return [
        unavailable,
        *unstable,
        _silent_success(path),
        _incomplete_optimisation(path),
        _transfer_failure(path),
        _unconstrained_failure(probe),
    ]


def _unavailable_gradients(probe: Probe) -> tuple[Flag, bool]:
    """Return the indicator, and whether any example has a gradient, be it of a saturated cross-entropy."""
    stand_in = "attack through a differentiable stand-in (BPDA)"
    try:
        # Attacks continue a cross-entropy that rounds to 0; this one is as it is.
        rounding = probe.objective if probe.has_many else _rounding_cross_entropy
        is_missing, is_zero = (_without_gradient(probe, loss) for loss in (probe.objective, rounding))
    except NO_GRADIENT as error:
        finding = f"the backward pass fails: {str(error).partition(chr(10))[0]}"
        return _flag("unavailable gradients", 1.0, 0.0, finding, stand_in), False
    missing, zero = float(is_missing.double().mean()), float(is_zero.double().mean())
    finding, advice = f"{missing:.0%} of the examples have no gradient at all", stand_in
    if zero > missing:
        finding += (
            f"; {zero - missing:.0%} have one, but their cross-entropy is saturated: float32 rounds its gradient to 0, "
            "which robench's attacks rescale and other libraries' may not"
        )
        remedy = "attack saturated examples with a margin or DLR loss"
        advice = f"{advice}, and {remedy}" if missing else remedy
    return _flag("unavailable gradients", zero, 0.0, finding, advice), missing < 1


def _without_gradient(probe: Probe, loss: Loss) -> Tensor:
    return (probe.gradient(loss).flatten(1) == 0).all(dim=1)


@resolved
def _rounding_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return cross_entropy(logits, labels, reduction="none")


def _unstable_predictions(probe: Probe) -> Flag:
    attack = Apgd(epsilon=probe.epsilon, num_steps=NUM_STEPS)
    problem = probe.problem(attack).within("neighbours").at(search=0, step=0)
    base = problem.evaluate(problem.inputs, margin_loss).values
    try:
        gradient = probe.gradient(margin_loss)
    except NO_GRADIENT:
        gradient = torch.zeros_like(problem.inputs)
    unexplained, radius = torch.zeros_like(base), probe.domain.audit_epsilon or probe.epsilon
    for number in range(NUM_NEIGHBOURS):
        draws = problem.draws.uniform(Stream(purpose="neighbours", draw=number), problem.inputs.shape[1:])
        noise = problem.region.freed((draws - 0.5) * float(radius))
        change = problem.evaluate(problem.inputs + noise, margin_loss).values - base
        unexplained += (change - (gradient * noise).flatten(1).sum(1)).abs() / NUM_NEIGHBOURS
    # An example counts as changed by at most its margin, so that a single one cannot decide.
    value = float(torch.minimum(unexplained, base.abs()).sum() / base.abs().sum().clamp(min=1e-12))
    levels = probe.domain.levels
    within = f"{float(radius) / 2:g}" if levels is None else f"{float(radius * levels) / 2:g}/{levels}"
    finding = f"margins change by {value:.1%} more than gradients explain within {within}"
    return _flag("unstable predictions", value, UNSTABLE, finding, "average gradients over noise or draws (num_draws)")


def _walk(problem: Problem, attack: Apgd) -> Path:
    """Return the trace of one search, which returns its point of highest loss, with preference for fooling ones."""
    search = ApgdSearch(attack, problem)
    state = search.begin(problem, restart=0)
    kept, places = Kept(problem), torch.arange(len(problem), device=problem.inputs.device)
    values, num_right = [], []
    for step in range(search.num_steps):
        state = search.step(problem.at(search=0, step=step), state, step)
        assert state.seen is not None  # a step reports its pass
        kept.offer(problem, places, state.seen)
        values.append(state.seen.values)
        num_right.append(problem.num_right(state.seen.outputs))
    last = problem.at(search=0, step=search.num_steps)
    return Path(
        values=torch.stack(values),
        fewest=torch.stack(num_right).amin(0),
        returned=problem.num_right(last.evaluate(kept.points, search.loss).outputs),
        predicted=problem.num_right(problem.predict(kept.points)),
    )


def _silent_success(path: Path) -> Flag:
    value = float((path.fewest < path.returned).double().mean())
    finding = f"{value:.0%} of the examples were fooled during the search, but not at the returned point"
    return _flag("silent success", value, 0.0, finding, "return the best point (returns: best), average over draws")


def _incomplete_optimisation(path: Path) -> Flag:
    survives = path.predicted > 0
    if not bool(survives.any()):
        return _flag("incomplete optimisation", 0.0, INCOMPLETE, "no example survives", "")
    best = path.values[:, survives].cummax(0).values
    span = (best[-1] - best[0]).clamp(min=1e-12)
    value = float(((best[-1] - best[-1 - LAST_STEPS]) / span).mean())
    finding = f"{value:.1%} of the rise of the loss came in the last {LAST_STEPS} of {NUM_STEPS} steps"
    return _flag("incomplete optimisation", value, INCOMPLETE, finding, "take more steps, or longer ones")


def _transfer_failure(path: Path) -> Flag:
    value = float((path.returned < path.predicted).double().mean())
    finding = f"{value:.0%} of the examples are fooled in the attack's passes and not in the prediction"
    return _flag(
        "transfer failure", value, 0.0, finding, "attack the predicting model: average over its draws (num_draws)"
    )


def _unconstrained_failure(probe: Probe) -> Flag:
    survives = probe.survives(Apgd(epsilon=2 * probe.half_range, num_steps=NUM_STEPS))
    value, limit = fsum(survives) / len(survives), 0.0
    finding = f"{probe.text_of(value)} survive without any constraint"
    if probe.has_many:
        limit = _right_by_another(probe)
        finding = f"{finding}; {limit:.0%} do in the best other example's place"
    other = "masked-ce, js" if probe.has_many else "margin, dlr"
    advice = f"try another loss ({other}) or a black-box attack"
    return _flag("unconstrained attack failure", value, limit, finding, advice)


def _right_by_another(probe: Probe) -> float:
    """Return the proportion of many answers that stay right if each example becomes the other one that leaves least.

    Without any constraint an attack can do that. It is 1 for a single example.
    """
    problem = probe.problem(Fgsm(epsilon=probe.epsilon))
    outputs, num_answers = problem.predict(problem.inputs), problem.num_answers()
    fewest = num_answers
    for shift in range(1, len(probe)):
        fewest = torch.minimum(fewest, problem.num_right(outputs.roll(shift, 0)))
    return float((fewest / num_answers).double().mean())


def _flag(name: str, value: float, limit: float, finding: str, advice: str) -> Flag:
    return Flag(
        name=name, source=SOURCE, value=value, limit=limit, is_raised=value > limit, finding=finding, advice=advice
    )


def comparisons(probe: Probe, num_classes: int) -> list[Flag]:
    """Return the comparisons, by attacks within the probe's budget; none if torch finds no gradient.

    That with random search is left out where none works on the axes of the inputs.
    """
    epsilon, half_range = probe.epsilon, probe.half_range
    twice = max(epsilon, 2 * min(epsilon, half_range))
    try:
        probe.gradient(probe.objective)
    except NO_GRADIENT:
        return []
    pgd = probe.survives(Pgd(epsilon=epsilon, relative_step=QUARTER, num_steps=20))
    apgd = probe.survives(Apgd(epsilon=epsilon, num_steps=50))
    fgsm = probe.survives(Fgsm(epsilon=epsilon))
    loss: Literal["objective", "margin"] = "objective" if probe.has_many else "margin"
    squares = [
        probe.survives(each(epsilon=epsilon, num_queries=NUM_QUERIES, p_init=0.8, loss=loss))
        for each in probe.random_searches
    ]
    larger = probe.survives(Apgd(epsilon=twice, num_steps=50))
    longer = probe.survives(Apgd(epsilon=epsilon, num_steps=100))
    what = f"Square of {NUM_QUERIES} queries against APGD of 50 steps"
    flags = [
        beaten(SINGLE_STEP, pgd, fgsm, "FGSM against PGD of 20 steps"),
        *(beaten(RANDOM_SEARCH, apgd, square, what) for square in squares),
        beaten(SMALLER_BUDGET, larger, apgd, "epsilon against twice epsilon"),
        beaten(MORE_STEPS, apgd, longer, "APGD of 100 steps against 50"),
    ]
    # Of many answers chance level depends on their frequencies: one mask may be right about most pixels of all images.
    if not probe.has_many:
        anywhere = probe.survives(Pgd(epsilon=half_range, relative_step=QUARTER, num_steps=100))
        what = f"PGD of 100 steps at linf {spelling_of(half_range)}"
        flags.append(right_at_any_distance(anywhere, num_classes, what))
    return flags
