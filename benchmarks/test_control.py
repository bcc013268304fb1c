"""What the harness costs in control: 100 episodes of a policy through the task's rules, over a plain loop."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import torch

import robench
from robench.datasets import DATASETS, open_dataset
from robench.declarations.preprocessing import NoPreprocessing
from robench.tasks.control_impl import RULES

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

NUM_ROUNDS = 5
LARGEST_RATIO = 1.2


def seconds(function: Callable[[], object]) -> float:
    """Of the processor: on one thread that is what a machine without other work would take."""
    started = time.process_time()
    function()
    return time.process_time() - started


def plain_returns(policy: Any, seeds: list[int]) -> np.ndarray[Any, Any]:
    """Play the episodes of Pendulum-v1 together, with nothing checked."""
    envs = [gymnasium.make("Pendulum-v1") for _ in seeds]
    observations = np.stack([env.reset(seed=seed)[0] for env, seed in zip(envs, seeds, strict=True)])
    history, returns = torch.zeros(len(seeds), 0, 6), np.zeros(len(seeds))
    for step in range(200):
        wanted = torch.from_numpy(-150 - returns)[:, None]
        present = torch.cat([torch.full_like(wanted, step), wanted, torch.from_numpy(observations)], dim=1)
        history = torch.cat([history, torch.nn.functional.pad(present, (0, 1)).float()[:, None]], dim=1)[:, -10:]
        with torch.no_grad():
            actions = policy(history)
        history[:, -1, 5:] = actions
        stepped = [env.step(action) for env, action in zip(envs, actions.numpy(), strict=True)]
        observations = np.stack([each[0] for each in stepped])
        returns += np.array([float(each[1]) for each in stepped])
    return returns


def test_episodes_take_little_more_than_a_plain_loop(benchmark: BenchmarkFixture) -> None:
    torch.set_num_threads(1)
    declared: Any = DATASETS["pendulum"]
    batch = open_dataset(declared, data_root=None, preprocessing=NoPreprocessing(inputs="episodes")).batch(0, 100)
    model: Any = robench.load_checkpoint("pendulum-softmax")

    def own() -> Any:
        return RULES.play(model, batch.inputs, batch.targets, range(100), declared, None, "pendulum-softmax")

    def plain() -> np.ndarray[Any, Any]:
        return plain_returns(model.module, batch.targets.tolist())

    assert np.allclose(own()["total_return"].array, plain())
    pairs = [(seconds(own), seconds(plain)) for _ in range(NUM_ROUNDS)]
    ratio = median(ours / bare for ours, bare in pairs)
    benchmark.extra_info["ratio to a plain loop"] = round(ratio, 3)
    benchmark.pedantic(own, rounds=1)
    print(f"\n100 episodes take {pairs[0][0]:.1f} s, {ratio:.3f} of a plain loop")
    assert ratio <= LARGEST_RATIO
