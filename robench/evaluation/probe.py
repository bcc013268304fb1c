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
from robench.core.flags import Observations
from robench.core.protocols import Batch, Draws, Model
from robench.core.seeds import Stream
from robench.domains import Domain, domain_of
from robench.metrics.sanity import ANY_DISTANCE, MORE_STEPS, RANDOM_SEARCH, SINGLE_STEP, SMALLER_BUDGET
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import predict
from robench.tasks import task_of
from robench.tasks.base import Loss, ManyAnswers, resolved
from robench.tasks.classification_impl import margin_loss

NUM_STEPS = 100
NUM_NEIGHBOURS = 100
LAST_STEPS = 10
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


def observed(
    check: str, *columns: Tensor | NDArray[np.generic] | list[str], settings: tuple[float | str, ...] = ()
) -> Observations:
    """Return observations of a check: columns (N,) of examples, or of what else it counts."""
    plain = tuple(tuple(each if isinstance(each, list) else each.tolist()) for each in columns)
    return Observations(check=check, columns=plain, settings=settings)


def indicators(probe: Probe) -> list[Observations]:
    """Return the observations of the six indicators, in the order of the paper."""
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
        observed("silent success", path.fewest < path.returned),
        _incomplete_optimisation(path),
        observed("transfer failure", path.returned < path.predicted),
        _unconstrained_failure(probe),
    ]


def _unavailable_gradients(probe: Probe) -> tuple[Observations, bool]:
    """Return the observations of the indicator, and whether any example has a gradient, be it a saturated one."""
    error = ""
    try:
        # Attacks continue a cross-entropy that rounds to 0; this one is as it is.
        rounding = probe.objective if probe.has_many else _rounding_cross_entropy
        is_missing, is_zero = (_without_gradient(probe, loss) for loss in (probe.objective, rounding))
    except NO_GRADIENT as found:
        error = str(found).partition("\n")[0] or type(found).__name__
        is_missing = is_zero = torch.ones(len(probe), dtype=torch.bool)
    seen = observed("unavailable gradients", is_missing, is_zero, [error] * len(probe))
    return seen, not bool(is_missing.all())


def _without_gradient(probe: Probe, loss: Loss) -> Tensor:
    return (probe.gradient(loss).flatten(1) == 0).all(dim=1)


@resolved
def _rounding_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return cross_entropy(logits, labels, reduction="none")


def _unstable_predictions(probe: Probe) -> Observations:
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
    levels = probe.domain.levels
    within = f"{float(radius) / 2:g}" if levels is None else f"{float(radius * levels) / 2:g}/{levels}"
    # An example counts as changed by at most its margin, so that a single one cannot decide.
    margins = base.abs()
    return observed("unstable predictions", torch.minimum(unexplained, margins), margins, settings=(within,))


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


def _incomplete_optimisation(path: Path) -> Observations:
    best = path.values[:, path.predicted > 0].cummax(0).values
    span = (best[-1] - best[0]).clamp(min=1e-12)
    late = (best[-1] - best[-1 - LAST_STEPS]) / span
    return observed("incomplete optimisation", late, settings=(LAST_STEPS, NUM_STEPS))


def _unconstrained_failure(probe: Probe) -> Observations:
    survives = probe.survives(Apgd(epsilon=2 * probe.half_range, num_steps=NUM_STEPS))
    others = _right_by_another(probe) if probe.has_many else torch.zeros(len(probe))
    noun = "answers" if probe.has_many else "examples"
    return observed("unconstrained attack failure", survives, others, settings=(noun,))


def _right_by_another(probe: Probe) -> Tensor:
    """Return (B,) the proportion of answers that stay right if an example becomes the other that leaves least.

    Without any constraint an attack can do that. It is 1 for a single example.
    """
    problem = probe.problem(Fgsm(epsilon=probe.epsilon))
    outputs, num_answers = problem.predict(problem.inputs), problem.num_answers()
    fewest = num_answers
    for shift in range(1, len(probe)):
        fewest = torch.minimum(fewest, problem.num_right(outputs.roll(shift, 0)))
    return (fewest / num_answers).double()


def comparisons(probe: Probe, num_classes: int, *, compares: bool = True) -> list[Observations]:
    """Return the examples that attacks within the probe's budget leave; none if torch finds no gradient.

    That with random search is left out where none works on the axes of the inputs, and without ``compares`` all that
    need several examples.
    """
    try:
        probe.gradient(probe.objective)
    except NO_GRADIENT:
        return []
    seen = _compared(probe) if compares else []
    # Of many answers chance level depends on their frequencies: one mask may be right about most pixels of all images.
    if not probe.has_many:
        half_range = probe.half_range
        anywhere = probe.survives(Pgd(epsilon=half_range, relative_step=QUARTER, num_steps=100))
        what = f"PGD of 100 steps at linf {spelling_of(half_range)}"
        seen.append(observed(ANY_DISTANCE.name, anywhere, settings=(num_classes, what)))
    return seen


def _compared(probe: Probe) -> list[Observations]:
    epsilon = probe.epsilon
    twice = max(epsilon, 2 * min(epsilon, probe.half_range))
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
    return [
        observed(SINGLE_STEP.name, pgd, fgsm, settings=("FGSM against PGD of 20 steps",)),
        *(observed(RANDOM_SEARCH.name, apgd, square, settings=(what,)) for square in squares),
        observed(SMALLER_BUDGET.name, larger, apgd, settings=("epsilon against twice epsilon",)),
        observed(MORE_STEPS.name, apgd, longer, settings=("APGD of 100 steps against 50",)),
    ]
