"""Declaration of control: a policy acts in an environment, and what it does decides what it sees next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from robench.core.outcomes import Outcome
from robench.tasks.base import Broken, Task

if TYPE_CHECKING:
    from collections.abc import Iterator

    from robench.core.columns import Outcomes
    from robench.tasks.base import Scoring


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeOutcome(Outcome):
    """Outcome of a policy in one episode.

    Attributes:
        total_return: sum of all rewards.
        num_steps: number of steps until the episode ended.
        ended_early: whether the environment ended it, such as by a fall, before its limit of steps.
        score: return in per cent from a random to an expert policy; None where the dataset states no such returns.
    """

    total_return: float
    num_steps: int
    ended_early: bool
    score: float | None = None


CONTROL = Task(
    name="control",
    title="Actions of a policy in an environment, and the rewards that follow",
    outcome=EpisodeOutcome,
    implementation="robench.tasks.control_impl:RULES",
    metric="mean_return",
    is_played=True,
    consistency="robench.tasks.control:inconsistencies",
)


def inconsistencies(outcomes: Outcomes, scoring: Scoring | None) -> Iterator[Broken]:
    """Yield contradictions in the outcomes of a policy; see ``tasks.base.Consistency``."""
    import numpy as np

    del scoring  # Neither data nor perturbation bound a return.
    yield Broken("total_return", ~np.isfinite(outcomes.column("total_return")), "is not finite")
    yield Broken("num_steps", outcomes.column("num_steps") < 1, "is below 1")
    yield Broken("score", ~np.isfinite(outcomes.filled("score", 0.0)), "is not finite")
