"""Episodes of one environment, stepped together."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robench.core.errors import ContractError, RobenchError, UsageError, described
from robench.environments.base import Spaces, World
from robench.environments.installed import failure, gymnasium, quiet, registered
from robench.environments.worlds_impl import change

Rows = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Stepped(NamedTuple):
    """Results of one step: (B, D) observations and (B,) others; zeros of rows that were not stepped."""

    observations: Rows
    rewards: Rows
    terminated: Flags
    truncated: Flags


class Episodes(AbstractContextManager["Episodes"]):
    """Environments, one for each seed, that are stepped together; no row depends on any other.

    A row's random numbers come from its seed alone, as ``env.reset(seed=seed)`` makes them. An unstable simulation is
    reset by MuJoCo itself, and the episode goes on, without the warning.

    Args:
        environment: Gymnasium's name, ``Hopper-v4`` or ``module:Name-v1`` of a module that registers it.
        seeds: at least one.
        max_steps: limit of an episode in place of the registered one, which None keeps.
        world: change of physics.

    Raises:
        UsageError: the environment, a library or a display is missing, or it has no such physics.
        ContractError: it cannot be made, or its spaces are neither flat nor, of actions, discrete.
    """

    def __init__(
        self, environment: str, seeds: Sequence[int], max_steps: int | None = None, world: World | None = None
    ) -> None:
        if (max_steps is not None and max_steps < 1) or min(seeds) < 0:
            raise UsageError(f"max_steps must be >= 1 and seeds >= 0, got {max_steps} and {min(seeds)}")
        self._environment = environment
        self._seeds = tuple(map(int, seeds))
        self._num_steps = [0] * len(self._seeds)
        self._has_ended = np.ones(len(self._seeds), dtype=np.bool_)
        self._envs: list[Any] = []
        spec, make = registered(environment), gymnasium().make
        try:
            for _ in self._seeds:
                with quiet():
                    self._envs.append(make(spec, max_episode_steps=max_steps, disable_env_checker=True))
                if world is not None:
                    change(self._envs[-1].unwrapped, world, environment)
            self.spaces = spaces_of(self._envs[0], environment)
        except Exception as error:  # of the environment, which may be anybody's
            self.close()
            if isinstance(error, RobenchError):
                raise
            raise failure(environment, error) from error
        self._low, self._high = np.array(self.spaces.low), np.array(self.spaces.high)

    def reset(self) -> Rows:
        """Return (B, D) initial observations; each row begins anew from its seed. Raises ContractError as ``step``."""
        observations = np.zeros((len(self._envs), self.spaces.num_observations))
        self._num_steps = [0] * len(self._seeds)
        with quiet():
            for row, (env, seed) in enumerate(zip(self._envs, self._seeds, strict=True)):
                with self._located_errors(row):
                    observation, _ = env.reset(seed=seed)
                    env.action_space.seed(seed)
                    observations[row] = self._checked(row, observation)
        self._has_ended[:] = False
        return observations

    def step(self, actions: Rows, active: Flags) -> Stepped:
        """Step the rows that are active, by (B, A) actions or logits of discrete ones.

        Discrete actions are those of the largest logit, of equal ones the first. Continuous ones are clipped to the
        bounds of their space, as by D4RL's wrapper of environments whose bounds are -1 and 1, and rounded to its type.

        Raises:
            ContractError: an action is NaN, an environment fails, or returns another shape or no finite number; the
                message names the row's seed and step.
            ValueError: an active row has ended or was not reset.
        """
        size = len(self._envs)
        observations, flags = np.zeros((size, self.spaces.num_observations)), np.zeros((2, size), dtype=np.bool_)
        stepped = Stepped(observations, np.zeros(size), *flags)
        if actions.shape != (expected := (size, self.spaces.num_actions)):
            raise ContractError(f"actions of {self._environment!r} have shape {actions.shape}, expected {expected}")
        if (wrong := np.flatnonzero(np.isnan(actions).any(axis=1) & active)).size:
            self._num_steps[row := int(wrong[0])] += 1
            raise ContractError(f"the policy's action is NaN: {self._place(row)}; expected numbers")
        rows, given = np.flatnonzero(active).tolist(), self._given(actions)
        with quiet():
            for row in rows:
                self._step_row(row, given[row], stepped)
        if not (np.isfinite(observations).all() and np.isfinite(stepped.rewards).all()):
            row = int(np.flatnonzero(~(np.isfinite(observations).all(1) & np.isfinite(stepped.rewards)))[0])
            self._checked(row, observations[row], float(stepped.rewards[row]))
        return stepped

    def close(self) -> None:
        """Close all environments."""
        with quiet():
            while self._envs:
                self._envs.pop().close()

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _step_row(self, row: int, action: Any, stepped: Stepped) -> None:
        if self._has_ended[row]:
            raise ValueError(f"row {row} has ended or was not reset, so that it cannot be stepped")
        self._num_steps[row] += 1
        with self._located_errors(row):
            observation, reward, terminated, truncated, _ = self._envs[row].step(action)
            found = np.asarray(observation, dtype=np.float64)
            is_whole = found.shape == stepped.observations.shape[1:]
            stepped.observations[row] = found if is_whole else self._checked(row, found)
            stepped.rewards[row], stepped.terminated[row], stepped.truncated[row] = reward, terminated, truncated
            self._has_ended[row] = terminated or truncated

    def _given(self, actions: Rows) -> Any:
        space = self._envs[0].action_space
        if self.spaces.is_discrete:
            return space.start + np.argmax(actions, axis=1)
        return np.clip(actions, self._low, self._high).astype(space.dtype)

    def _checked(self, row: int, observation: Any, reward: float = 0.0) -> Rows:
        found = np.asarray(observation, dtype=np.float64)
        if found.shape != (expected := (self.spaces.num_observations,)):
            wrong = f"an observation of shape {found.shape}, expected {expected} as its observation space says"
        elif not np.isfinite(found).all():
            wrong = "an observation that is NaN or infinite, expected finite numbers"
        elif not isfinite(reward):
            wrong = f"the reward {reward}, expected a finite number"
        else:
            return found
        raise ContractError(f"{self._place(row)} returns {wrong}; correct the environment")

    @contextmanager
    def _located_errors(self, row: int) -> Iterator[None]:
        try:
            yield
        except RobenchError:
            raise
        except Exception as error:  # of the environment, which may be anybody's
            message = f"{self._place(row)} fails: {described(error)}; it must accept every action of its space"
            raise ContractError(message) from error

    def _place(self, row: int) -> str:
        when = f"step {self._num_steps[row]}" if self._num_steps[row] else "reset"
        return f"environment {self._environment!r} with seed {self._seeds[row]} in {when}"


def spaces_of(env: Any, environment: str) -> Spaces:
    """Return the spaces of an environment. Raises ContractError: they are of another form."""
    spaces, seen, act = gymnasium().spaces, env.observation_space, env.action_space
    is_discrete = isinstance(act, spaces.Discrete)
    for space, noun, wanted in ((seen, "observation", ""), (act, "action", " or Discrete"))[: 2 - is_discrete]:
        if not (isinstance(space, spaces.Box) and len(space.shape) == 1):
            found = f"environment {environment!r} has the {noun} space {space}, expected a Box of one axis{wanted}"
            raise ContractError(f"{found}; change it by one of gymnasium.wrappers")
    if is_discrete:
        return Spaces(seen.shape[0], int(act.n), (), (), is_discrete=True)
    return Spaces(seen.shape[0], act.shape[0], tuple(act.low.tolist()), tuple(act.high.tolist()), is_discrete=False)


def check_environment(environment: str, seed: int) -> Spaces:
    """Return an environment's spaces, after two steps of two episodes from the seed, and of both after a reset.

    All four must be the same, bit for bit, and longer than a step. Raises UsageError and ContractError as ``Episodes``.
    """
    with Episodes(environment, (seed, seed)) as episodes:
        actions = np.random.default_rng(seed).uniform(-1, 1, (2, 1, episodes.spaces.num_actions)).repeat(2, axis=1)
        runs: list[Rows] = []
        for _ in range(2):
            start = episodes.reset()
            first = episodes.step(actions[0], np.ones(2, dtype=np.bool_))
            if (first.terminated | first.truncated).any():
                place = f"environment {environment!r} with seed {seed}"
                raise ContractError(f"{place} ends in step 1, expected episodes of several steps; leave it out")
            second = episodes.step(actions[1], np.ones(2, dtype=np.bool_))
            rewards = np.stack((first.rewards, second.rewards, second.terminated, second.truncated), axis=1)
            runs.extend(np.concatenate((start, first.observations, second.observations, rewards), axis=1))
        if any(run.tobytes() != runs[0].tobytes() for run in runs):
            found = f"environment {environment!r} ignores seed {seed}: the same actions differ in what they lead to"
            raise ContractError(f"{found}; it must draw from self.np_random, and keep nothing over a reset")
        return episodes.spaces
