"""Declarations of environments as datasets: an example is the state in which an episode begins."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from annotated_types import Ge, Le, MinLen

from robench.datasets.base import DatasetBase
from robench.datasets.user import FormatBase
from robench.declarations.base import LARGEST
from robench.domains.episodes import EPISODES
from robench.environments.base import normalised_score

NUM_EPISODES = 100
Return = Annotated[float, Ge(-LARGEST), Le(LARGEST)]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeSet(DatasetBase):
    """Environment of Gymnasium in which policies are measured, from the seeds 0, 1, 2, ...

    Attributes:
        environment: its id, such as ``Hopper-v4``.
        target_return: return that policies are asked for, if they read it.
        max_steps: number of steps after which an episode is cut; None for the environment's own limit.
    """

    implementation: ClassVar[str] = "robench.datasets.episodes_impl:open_episodes"

    environment: str
    target_return: Return = 0.0
    max_steps: Annotated[int | None, Ge(1), Le(LARGEST)] = None

    def score_of(self, total_return: float) -> float | None:
        """Return a return in per cent from a random to an expert policy; None where none are published."""
        return normalised_score(self.environment, total_return)


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment(FormatBase):
    """Environment of a user, registered with Gymnasium.

    Attributes:
        id: its id; ``package:Name-v0`` imports the package that registers it first.
        target_return: return that policies are asked for, if they read it.
        max_steps: number of steps after which an episode is cut; null for the environment's own limit.
        num_episodes: number of episodes, from the seeds 0, 1, 2, ...
    """

    kind: ClassVar[str] = "environment"
    implementation: ClassVar[str] = "robench.datasets.episodes_impl:open_episodes"

    id: Annotated[str, MinLen(1)]
    target_return: Return = 0.0
    max_steps: Annotated[int | None, Ge(1), Le(LARGEST)] = None
    num_episodes: Annotated[int, Ge(1), Le(LARGEST)] = NUM_EPISODES

    def declared(self, name: str, folder: Path) -> EpisodeSet:
        """Return the declaration of the dataset ``name``."""
        del folder
        return episode_set(name, self.id, self.target_return, self.max_steps, self.num_episodes)


def episode_set(
    name: str,
    environment: str,
    target_return: float,
    max_steps: int | None = None,
    num_examples: int = NUM_EPISODES,
) -> EpisodeSet:
    """Return the declaration of episodes of an environment with a target return."""
    return EpisodeSet(
        name=name,
        title=f"Episodes of {environment}, return {target_return:g} wanted",
        task="control",
        domain=EPISODES.name,
        num_examples=num_examples,
        source="Gymnasium",
        licence="MIT",
        environment=environment,
        target_return=target_return,
        max_steps=max_steps,
    )


# Target returns of the Decision Transformer, Chen et al. 2021, arXiv:2106.01345.
_TARGETS = (
    ("hopper", "Hopper", (3600, 1800)),
    ("halfcheetah", "HalfCheetah", (12_000, 6000)),
    ("walker2d", "Walker2d", (5000, 2500)),
)
EPISODE_SETS = (
    *(
        episode_set(f"{name}-{target}", f"{title}-v4", target)
        for name, title, targets in _TARGETS
        for target in targets
    ),
    episode_set("pendulum", "Pendulum-v1", -150),
)
