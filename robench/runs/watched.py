"""Episodes to look at: the states that a policy came to, step by step, clean and under conditions of a suite.

The batch that has the episode is played once more, with the random numbers of a run; nothing is stored.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from robench.core.containment import Contained
from robench.core.errors import UsageError
from robench.core.shard import Measurement
from robench.core.suite import View
from robench.evaluation.arithmetic import arithmetic_for
from robench.evaluation.evaluate import padded, prediction_seeds
from robench.evaluation.evaluator import Evaluator
from robench.executors import IN_PROCESS
from robench.runs.devices import choose_workers
from robench.runs.pictured import beside_clean
from robench.runs.request import RunRequest
from robench.tasks import TASKS
from robench.tasks.base import Played


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """Episode of T steps by one policy under one condition.

    Attributes:
        states: (T, D) observations of the environment; ``seen``: (T, D) as the policy was given them.
        returns: (T + 1,) sums of the rewards before each step and at the end.
    """

    condition: str
    states: NDArray[np.float64]
    seen: NDArray[np.float64]
    returns: NDArray[np.float64]


def watched(
    request: RunRequest,
    views: Sequence[View],
    number: int = 0,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Watched]:
    """Return the episode of an example by its number from 0, clean and under the conditions of some views.

    The request has one suite and one model. ``on_progress`` is called with the number of conditions done, and of all.

    Raises:
        UsageError: the suite is of a task without episodes, its conditions are of different datasets, or there is no
            such example.
        RobenchError: see ``prepare``; or the environment or the policy fails.
    """
    (suite,) = request.suites
    if not TASKS[suite.task].is_played:
        raise UsageError(f"suite {suite.name!r} is of {suite.task}, which has no episodes; take one of control")
    conditions = [replace(view.condition, num_examples=None) for view in views if not view.attack.is_clean]
    declared = (conditions or [suite.conditions[0]])[0].dataset
    if others := {each.dataset.name for each in conditions} - {declared.name}:
        raise UsageError(f"conditions are of different environments, {declared.name} and {', '.join(sorted(others))}")
    measurements = beside_clean(request, declared, [*dict.fromkeys(conditions)])
    device = choose_workers(request.device, None, IN_PROCESS).devices[0]
    evaluator = Evaluator(device=device, data_root=request.data_root, modules=request.modules)
    found = []
    for place, each in enumerate(measurements):
        on_progress(place, len(measurements))
        found.append(_watched(each, number, evaluator))
    on_progress(len(measurements), len(measurements))
    return found


def _watched(measurement: Measurement, number: int, evaluator: Evaluator) -> Watched:
    size, condition, rows = measurement.batch_size, measurement.condition, []
    if number >= measurement.num_examples:
        name = condition.dataset.name
        raise UsageError(f"{name} has {measurement.num_examples} episodes, numbered from 0; there is no {number}")
    start = number // size * size

    def watch(states: Tensor, seen: Tensor, returns: NDArray[np.float64], active: NDArray[np.bool_]) -> None:
        row = number - start
        if active[row]:
            rows.append((states[row].tolist(), seen[row].tolist(), float(returns[row])))

    with Contained():
        model, dataset = evaluator.opened(measurement)
        batch = padded(dataset.batch(start, min(start + size, measurement.num_examples)), size, model.device)
        seeds = prediction_seeds(measurement, batch.ids)[0]
        disturbance = condition.perturbation.disturbance(seeds, condition.dataset)
        rules = cast("Played", TASKS[measurement.checkpoint.task].rules)
        name = measurement.checkpoint.name
        with arithmetic_for(model):
            columns = rules.play(
                model, batch.inputs, batch.targets, seeds, condition.dataset, disturbance, name, watch=watch
            )
    states, seen, returns = (np.array(each) for each in zip(*rows, strict=True))
    total = columns["total_return"].array[number - start]
    return Watched(condition=condition.name, states=states, seen=seen, returns=np.append(returns, total))
