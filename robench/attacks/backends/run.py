"""Adapter that runs another library's attack in robench's harness: seeds, batches, counts and success.

A library receives anchored batches of the pass size, with the global generators seeded by the batch's first example:
the same shard gives the same bytes, and nothing else of the process is disturbed. But the other examples of a batch may
change an example's outcome (means over the batch, random numbers in the order of the rows, the whole batch stopping at
once). ``exact`` passes one example at a time, at the cost of small passes. No state is carried from batch to batch.

Passes are counted where the victim is called. Libraries do not report the example of a row, so each example of a batch
is assigned the same number of passes, rounded up. Budget, range and success are measured by the harness, as of all
attacks; but points that exceed an l1 or l2 budget by a few millionths, the rounding errors of thousands of float32
summands, are projected back.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from robench.attacks.backends.autoattack import run_autoattack
from robench.attacks.backends.cleverhans import run_cleverhans
from robench.attacks.backends.foolbox import run_foolbox
from robench.attacks.backends.shown import ShownVictim, undisturbed
from robench.attacks.backends.torchattacks import run_torchattacks
from robench.attacks.base import Attack, BoundedAttack
from robench.attacks.minimum_norm import MinimumNormAttack
from robench.attacks.problem import Problem, Reached
from robench.attacks.regions import shortened
from robench.attacks.rows import length_of, spread
from robench.core.seeds import Stream

# Any: a declaration of any attack of the library.
Runner = Callable[[Any, nn.Module, Tensor, Tensor], Tensor]

# Fractions of epsilon: the harness's tolerance, and the limit of rounding errors.
TOLERATED, MOST_ROUNDED = 5e-7, 1e-5
RUNNERS: Mapping[str, Runner] = {
    "torchattacks": run_torchattacks,
    "autoattack": run_autoattack,
    "foolbox": run_foolbox,
    "cleverhans": run_cleverhans,
}


def by_library(declaration: Attack, problem: Problem) -> Reached:
    """Run the declared attack by its backend on inputs (B, ...), and return the result.

    Raises:
        UsageError: the library is not installed.
        DeclarationError: the attack needs more classes than the victim has.
    """
    size = 1 if declaration.exact else problem.batch_size
    starts = range(0, len(problem), size)
    batches = [torch.arange(start, min(start + size, len(problem))) for start in starts]
    points = torch.cat([_run(declaration, problem.take(batch)) for batch in batches])
    return _judged(declaration, problem, points) if isinstance(declaration, MinimumNormAttack) else Reached(points)


def _run(declaration: Attack, problem: Problem) -> Tensor:
    model, inputs = ShownVictim(problem), problem.inputs
    (seed, *_) = problem.draws.seeds(Stream(purpose="library"))
    with undisturbed(inputs.device, seed):
        points = RUNNERS[declaration.backend](declaration, model, inputs.clone(), problem.labels.clone())
    problem.ledger.num_queries[problem.rows] += -(-model.num_rows // len(inputs))
    problem.ledger.num_gradients[problem.rows] += -(-model.num_differentiated // len(inputs))
    points = points.detach().to(inputs.dtype)
    return _without_rounding(declaration, problem, points) if isinstance(declaration, BoundedAttack) else points


def _without_rounding(declaration: BoundedAttack, problem: Problem, points: Tensor) -> Tensor:
    """Return the points, projected back if they exceed the budget by the rounding of a long sum."""
    if declaration.norm == "linf":
        return points
    epsilon = float(declaration.epsilon)
    lengths = length_of(points.double() - problem.inputs.double(), declaration.norm)
    rounded = (lengths > epsilon * (1 + TOLERATED)) & (lengths <= epsilon * (1 + MOST_ROUNDED))
    points = points.clone()
    points[rounded] = shortened(points[rounded], problem.inputs[rounded], epsilon, int(declaration.norm[1:]))
    return points


def _judged(declaration: MinimumNormAttack, problem: Problem, points: Tensor) -> Reached:
    """Decide by the final prediction which points of a minimum-norm attack are adversarial."""
    found = problem.fooled(problem.predict(points))
    if declaration.seeks_label:
        found = ~found
    origin = problem.inputs if declaration.limits is None else problem.inputs.clamp(*declaration.limits)
    return Reached(torch.where(spread(found, points), points, origin), found)
