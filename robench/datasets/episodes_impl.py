"""First states of episodes: the first window of each seed, as environments give it."""

import hashlib
import json

import numpy as np
import torch

from robench.datasets.episodes import EpisodeSet
from robench.datasets.in_memory import OrderedExamples
from robench.domains.episodes import EPISODES, NUM_BEFORE
from robench.environments.base import release
from robench.environments.gym_impl import Episodes, check_environment
from robench.tasks.control import CONTROL


class FirstStates(OrderedExamples):
    """First windows (1, F) of the episodes of an environment; targets are their seeds.

    The fingerprint is a SHA-256 over environment, limit, target return, the releases of the libraries that decide
    trajectories, and the first windows.
    """

    domain, task = EPISODES.name, CONTROL.name

    def __init__(self, declared: EpisodeSet) -> None:
        spaces = check_environment(declared.environment, seed=0)
        seeds = range(declared.num_examples or 1)
        with Episodes(declared.environment, seeds, declared.max_steps, None) as episodes:
            observations = episodes.reset()
        windows = np.zeros((len(seeds), 1, NUM_BEFORE + spaces.num_observations + spaces.num_actions), np.float32)
        windows[:, 0, 1] = declared.target_return
        windows[:, 0, NUM_BEFORE : NUM_BEFORE + spaces.num_observations] = observations
        facts = [declared.environment, declared.max_steps, declared.target_return, release(declared.environment)]
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode() + windows.astype("<f4").tobytes())
        ids = [f"{declared.name}/{seed:04d}" for seed in seeds]
        super().__init__(declared.name, digest.hexdigest(), ids, np.arange(len(seeds), dtype=np.int64))
        self._windows = torch.from_numpy(windows[self._order])

    def _inputs(self, start: int, stop: int) -> torch.Tensor:
        return self._windows[start:stop].clone()


def open_episodes(declared: EpisodeSet, *, split: str, **unused: object) -> FirstStates:
    """Open the first states of an environment."""
    declared.check_split(split)
    return FirstStates(declared)
