"""Commands that measure a number, and their cost in inputs and passes."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from robench.scheduling.pace import weighted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from robench.core.suite import Condition, Suite


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost of measuring a suite.

    Attributes:
        inputs: number of inputs that are scored, over all conditions.
        noun: plural of an input, such as ``images``.
        forward, backward: largest number of passes of single inputs; see ``most_passes`` of perturbations.
        is_whole: whether the size and passes of every condition are known; the numbers omit unknown ones.
    """

    inputs: int
    noun: str
    forward: int
    backward: int
    is_whole: bool

    def __str__(self) -> str:
        if not self.inputs and not self.is_whole:
            return "cost known once the data are on disk"
        at_least = "" if self.is_whole else "at least "
        backward = f" and {self.backward:,} backward" if self.backward else ""
        return f"{at_least}{self.inputs:,} {self.noun}, {self.forward:,} forward{backward} passes"


def passes_of(condition: Condition) -> tuple[int, int, int, bool]:
    """Return the numbers of inputs, forward and backward passes of an example, and whether all passes are known."""
    passes = condition.perturbation.most_passes
    forward, backward = passes or (0, 0)
    inputs = max(1, len(condition.perturbation.at_budgets))
    # A sweep's passes are of all its budgets together.
    return inputs, inputs * condition.num_predictions + forward, backward, passes is not None


def weighted_passes(condition: Condition) -> float | None:
    """Return the passes of an example in pairs of a forward and a backward pass; None if they are unknown."""
    _, forward, backward, is_known = passes_of(condition)
    return weighted(forward, backward) if is_known else None


def cost_of(suite: Suite, num_checkpoints: int = 1) -> Cost:
    """Return the cost of a suite without its audits."""
    inputs = forward = backward = 0
    is_whole = True
    for condition in suite.conditions:
        bounds = [size for size in (condition.num_examples, condition.dataset.num_examples) if size is not None]
        size = min(bounds, default=0) * num_checkpoints
        inputs_each, forward_each, backward_each, is_known = passes_of(condition)
        is_whole = is_whole and bool(bounds) and is_known
        inputs += size * inputs_each
        forward += size * forward_each
        backward += size * backward_each
    domains = {condition.dataset.domain for condition in suite.conditions}
    noun = domains.pop() if len(domains) == 1 else "inputs"
    return Cost(inputs=inputs, noun=noun, forward=forward, backward=backward, is_whole=is_whole)


def command_of(suite: str, model: str, *, all_seeds: bool = False, registries: Sequence[Path] = ()) -> str:
    """Return the command that measures a model under a suite; it finds datasets by ``ROBENCH_DATA``."""
    words = ["robench", "run", "--suite", suite, "--model", model]
    words += ["--all-seeds"] * all_seeds
    words += [word for path in registries for word in ("--registry", str(path))]
    return shlex.join(words)
