"""Changes of an environment's physics, its spaces, and the reference returns of D4RL."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Literal

from robench.core.errors import UsageError
from robench.environments.installed import needs_mujoco

# Returns of a random policy and of an expert, by environment. Those of MuJoCo are REF_MIN_SCORE and REF_MAX_SCORE of
# d4rl/infos.py (github.com/Farama-Foundation/D4RL; Fu et al. 2020, arXiv:2004.07219). v5 has other rewards.
REFERENCE_RETURNS: Mapping[str, tuple[float, float]] = {
    "Hopper-v4": (-20.272305, 3234.3),
    "HalfCheetah-v4": (-280.178953, 12135.0),
    "Walker2d-v4": (1.629008, 4592.3),
    # Of 500 episodes of the qualities random and expert of ``datasets.pendulum_offline_impl``.
    "Pendulum-v1": (-1234.7, -185.7),
}


@dataclass(frozen=True, slots=True)
class World:
    """Change of an environment's physics: a factor, or of ``wind`` its speed along x in m/s.

    It is at most 1e6, and at least 1e-6 of mass, 0 of friction, and -1e6 of gravity and wind; else a UsageError.
    """

    kind: Literal["mass", "friction", "gravity", "wind"]
    factor: float

    def __post_init__(self) -> None:
        least = {"mass": 1e-6, "friction": 0.0}.get(self.kind, -1e6)
        if not least <= self.factor <= 1e6:
            raise UsageError(f"factor of world {self.kind} must be in [{least:g}, 1e+06], got {self.factor}")

    @property
    def changes_nothing(self) -> bool:
        """Return whether it is factor 1, or a wind of 0: trajectories are those without it, bit for bit."""
        return self.factor == (0 if self.kind == "wind" else 1)


@dataclass(frozen=True, slots=True)
class Spaces:
    """Numbers of an observation, and of a continuous action with its bounds, or of discrete actions without bounds."""

    num_observations: int
    num_actions: int
    low: tuple[float, ...]
    high: tuple[float, ...]
    is_discrete: bool


def release(environment: str) -> dict[str, str]:
    """Return the versions of Gymnasium, and of MuJoCo if used, on which trajectories depend. Raises UsageError."""
    packages = ("gymnasium", "mujoco") if needs_mujoco(environment) else ("gymnasium",)
    return {package: version(package) for package in packages}


def normalised_score(environment: str, total_reward: float) -> float | None:
    """Return 100 * (return - random) / (expert - random) with the reference returns; None where there are none.

    >>> normalised_score("Hopper-v4", 3234.3), normalised_score("Hopper-v5", 3234.3)
    (100.0, None)
    """
    if environment not in REFERENCE_RETURNS:
        return None
    random, expert = REFERENCE_RETURNS[environment]
    return 100 * (total_reward - random) / (expert - random)
