"""Cost of measuring a suite: inputs and passes, seconds of what is missing, and the command."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from robench.core.suite import Suite
from robench.reports import Holding
from robench.scheduling.pace import Paces, passes_of, weighted_passes


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


def seconds_left(suite: Suite, holding: Holding) -> dict[str, float | None]:
    """Return the seconds that one worker needs for the missing examples of a model, by condition.

    They are those of the examples that the condition has, or else those of the model's other conditions by the number
    of passes; on the kind of device of the model's latest result. None where either is unknown.
    """
    conditions = {each.name: each for each in suite.conditions}
    records = [record for coverage in holding.coverages.values() for record in coverage.records]
    latest = max(records, key=lambda each: each.provenance.finished_at, default=None)
    device = None if latest is None else latest.provenance.device
    paces = Paces()
    for name, coverage in holding.coverages.items():
        same = [each for each in coverage.records if each.provenance.device == device]
        if same:
            seconds = sum(each.provenance.seconds for each in same)
            num_examples = sum(each.shard.stop - each.shard.start for each in same)
            paces.add(name, holding.model, seconds / num_examples, weighted_passes(conditions[name]))
    left: dict[str, float | None] = {}
    for name, coverage in holding.coverages.items():
        pace = paces.of(name, holding.model, weighted_passes(conditions[name]))
        left[name] = 0.0 if coverage.missing == 0 else None
        if coverage.missing and pace is not None:
            left[name] = coverage.missing * pace.seconds
    return left


def command_of(suite: str, model: str, *, all_seeds: bool = False, registries: Sequence[Path] = ()) -> str:
    """Return the command that measures a model under a suite; it finds datasets by ``ROBENCH_DATA``."""
    words = ["robench", "run", "--suite", suite, "--model", model]
    words += ["--all-seeds"] * all_seeds
    words += [word for path in registries for word in ("--registry", str(path))]
    return shlex.join(words)
