"""Environments of Gymnasium in lockstep: independence of rows, changes of physics, and the message of every defect."""

import math
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiBinary

from robench.core.errors import ContractError, RobenchError, UsageError
from robench.environments.base import Spaces, World, normalised_score, release
from robench.environments.gym_impl import Episodes, check_environment

ACTIONS = np.random.default_rng(7).uniform(-3, 3, (30, 5, 3))


class Walk(gym.Env[Any, Any]):
    """Position that its own generator and the action move; ``defect`` names what it does wrong."""

    def __init__(self, defect: str = "", render_mode: str | None = None) -> None:
        if defect == "constructor":
            raise RuntimeError("no licence")
        self.defect, self.render_mode, self.count = defect, render_mode, 0
        self.observation_space: Any = Box(-np.inf, np.inf, (3, 3, 3) if defect == "image" else (2,))
        self.action_space: Any = MultiBinary(2) if defect == "binary" else Box(-1, 2, (1,))
        if defect == "offset":
            self.action_space = Discrete(3, start=5)

    def draw(self) -> float:
        return float(np.random.random() if self.defect == "unseeded" else self.np_random.random())

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count, self.taken = 0 if self.defect != "kept" else self.count, []
        self.at = self.draw() + self.count
        return self.observed(), {}

    def observed(self) -> Any:
        size = 3 if self.defect == "shape" else 2
        return np.full(size, {"nan": math.nan, "infinite": math.inf}.get(self.defect, self.at))

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        warnings.warn("noise", DeprecationWarning, stacklevel=1)
        self.count += 1
        self.taken.append(action)
        if self.defect == "crash" and self.count == 2:
            raise ZeroDivisionError("boom")
        self.at += self.draw() + float(np.sum(action))
        return self.observed(), math.inf if self.defect == "reward" else self.at, self.defect == "short", False, {}


DEFECTS = ("constructor", "image", "binary", "shape", "nan", "infinite", "reward", "crash", "short", "unseeded", "kept")


@pytest.fixture(autouse=True)
def walks() -> Iterator[None]:
    names = {each: {"defect": each} for each in (*DEFECTS, "offset")} | {
        "sound": {},
        "window": {"render_mode": "human"},
    }
    for name, arguments in names.items():
        gym.register(f"robench-{name}-v0", entry_point=Walk, kwargs=arguments, max_episode_steps=4)
    yield
    for name in names:
        del gym.registry[f"robench-{name}-v0"]


def trajectory(environment: str, seeds: tuple[int, ...], rows: slice, world: World | None = None) -> list[Any]:
    """Return what the episodes of some rows of ACTIONS see, each until its end."""
    with Episodes(environment, seeds, 20, world) as episodes:
        found, active = [episodes.reset()], np.ones(len(seeds), dtype=bool)
        for actions in ACTIONS:
            stepped = episodes.step(actions[rows, : episodes.spaces.num_actions], active)
            found += [stepped.observations, stepped.rewards, stepped.terminated, stepped.truncated]
            active &= ~(stepped.terminated | stepped.truncated)
        assert not active.any()
    return found


def is_same(first: list[Any], second: list[Any]) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(first, second, strict=True))


@pytest.mark.parametrize("environment", ["Pendulum-v1", "CartPole-v1", "robench-sound-v0"])
def test_rows_in_lockstep_equal_each_alone(environment: str) -> None:
    seeds = (3, 1, 4, 1, 5)
    together = trajectory(environment, seeds, slice(0, 5))
    for row, seed in enumerate(seeds):
        alone = trajectory(environment, (seed,), slice(row, row + 1))
        assert is_same([each[row : row + 1] for each in together], alone)
    assert not np.array_equal(together[0][0], together[0][1])
    assert np.array_equal(together[0][1], together[0][3])


def test_steps_equal_those_of_gymnasium_and_rows_that_are_not_active_stay() -> None:
    alone = gym.make("Pendulum-v1")
    start, _ = alone.reset(seed=9)
    with Episodes("Pendulum-v1", (8, 9)) as episodes:
        assert np.array_equal(episodes.reset()[1], np.float64(start))
        for action in (0.5, -9.0):
            stepped = episodes.step(np.array([[math.nan], [action]]), np.array([False, True]))
            seen, reward, *_ = alone.step(np.float32([max(action, -2)]))
            assert np.array_equal(stepped.observations, [[0, 0, 0], np.float64(seen)])
            assert stepped.rewards.tolist() == [0, reward]
        again = episodes.reset()
        assert np.array_equal(again[1], np.float64(start))


def test_actions_are_clipped_or_the_first_of_the_largest_logits() -> None:
    with Episodes("robench-sound-v0", (0,)) as episodes:
        episodes.reset()
        for action in (-3.0, 0.3, math.inf):
            episodes.step(np.array([[action]]), np.array([True]))
        taken = episodes._envs[0].unwrapped.taken
    assert [each.tolist() for each in taken] == [[-1.0], [float(np.float32(0.3))], [2.0]]
    assert {each.dtype for each in taken} == {np.dtype(np.float32)}
    with Episodes("robench-offset-v0", (0,)) as episodes:
        episodes.reset()
        episodes.step(np.array([[-math.inf, 1.0, 1.0]]), np.array([True]))
        assert episodes._envs[0].unwrapped.taken == [6]


def test_max_steps_overrides_the_registered_limit() -> None:
    for max_steps, last in ((None, 4), (2, 2), (6, 6)):
        with Episodes("robench-sound-v0", (0,), max_steps) as episodes:
            episodes.reset()
            ends = [episodes.step(np.zeros((1, 1)), np.array([True])).truncated[0] for _ in range(last)]
            assert ends == [False] * (last - 1) + [True]
            with pytest.raises(ValueError, match="row 0 has ended"):
                episodes.step(np.zeros((1, 1)), np.array([True]))


@pytest.mark.parametrize(
    ("environment", "kinds"),
    [("Pendulum-v1", "gravity, mass"), ("CartPole-v1", "gravity, mass"), ("Acrobot-v1", "mass")],
)
def test_worlds_change_trajectories_unless_their_factor_is_one(environment: str, kinds: str) -> None:
    plain = trajectory(environment, (1, 2), slice(0, 2))
    for kind in kinds.split(", "):
        assert is_same(trajectory(environment, (1, 2), slice(0, 2), World(kind, 1)), plain)  # type: ignore[arg-type]
        assert not is_same(trajectory(environment, (1, 2), slice(0, 2), World(kind, 2)), plain)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=f"'{environment}' has no wind that can be changed; it supports {kinds}$"):
        Episodes(environment, (1,), world=World("wind", 1))


def test_worlds_of_a_pendulum_follow_its_equation() -> None:
    """Angular velocity after a step of 0.05 s: + (3 g / 2 sin(angle) + 3 torque / m) 0.05, by Gymnasium's page."""
    for world, gravity, mass in ((World("gravity", 0.5), 5, 1), (World("mass", 3), 10, 3)):
        with Episodes("Pendulum-v1", (2,), world=world) as episodes:
            _, sine, velocity = episodes.reset()[0]
            after = episodes.step(np.array([[1.0]]), np.array([True])).observations[0, 2]
        assert after == pytest.approx(velocity + 0.05 * (1.5 * gravity * sine + 3 / mass), rel=1e-5)


def test_sound_environments_have_spaces() -> None:
    assert check_environment("Pendulum-v1", 0) == Spaces(3, 1, (-2.0,), (2.0,), False)
    assert check_environment("CartPole-v1", 0) == Spaces(4, 2, (), (), True)
    assert check_environment("robench-sound-v0", 0) == Spaces(2, 1, (-1.0,), (2.0,), False)


@pytest.mark.parametrize(
    ("defect", "kind", "message"),
    [
        ("constructor", ContractError, "cannot be made: RuntimeError: no licence"),
        ("window", UsageError, "needs a display for render_mode .human."),
        (
            "image",
            ContractError,
            r"observation space Box\(-inf, inf, \(3, 3, 3\), float32\), expected a Box of one axis",
        ),
        ("binary", ContractError, r"action space MultiBinary\(2\), expected a Box of one axis or Discrete"),
        ("shape", ContractError, r"seed 11 in reset returns an observation of shape \(3,\), expected \(2,\)"),
        ("nan", ContractError, "seed 11 in reset returns an observation that is NaN or infinite"),
        ("infinite", ContractError, "seed 11 in reset returns an observation that is NaN or infinite"),
        ("reward", ContractError, "seed 11 in step 1 returns the reward inf, expected a finite number"),
        ("crash", ContractError, "seed 11 in step 2 fails: ZeroDivisionError: boom"),
        ("short", ContractError, "with seed 11 ends in step 1"),
        ("unseeded", ContractError, "ignores seed 11"),
        ("kept", ContractError, "ignores seed 11"),
    ],
)
def test_every_defect_has_its_message(defect: str, kind: type[RobenchError], message: str) -> None:
    with pytest.raises(kind, match=f"environment 'robench-{defect}-v0'.*{message}") as caught:
        check_environment(f"robench-{defect}-v0", 11)
    assert len(caught.value.lines) == 1


def test_impossible_requests_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"unknown environment 'Pendulum-v2'\. Did you mean 'Pendulum-v1'"):
        check_environment("Pendulum-v2", 0)
    with pytest.raises(UsageError, match="max_steps must be >= 1"):
        Episodes("Pendulum-v1", (0,), 0)
    with pytest.raises(UsageError, match=r"factor of world mass must be in \[1e-06, 1e\+06\], got 0"):
        World("mass", 0)
    with Episodes("Pendulum-v1", (6,)) as episodes:
        episodes.reset()
        with pytest.raises(
            ContractError, match="policy's action is NaN: environment 'Pendulum-v1' with seed 6 in step 1"
        ):
            episodes.step(np.array([[math.nan]]), np.array([True]))
    for name in [each for each in sys.modules if each.startswith("gymnasium.envs.mujoco")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(UsageError, match=r"'Hopper-v4' needs the package mujoco of robench\[control\].*: pip install"):
        check_environment("Hopper-v4", 0)
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(UsageError, match=r"need the package gymnasium of robench\[control\].*: pip install"):
        check_environment("Pendulum-v1", 0)


def test_nothing_of_an_environment_is_shown(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        check_environment("robench-sound-v0", 0)
        check_environment("HalfCheetah-v4", 0)
    assert (seen, *capfd.readouterr(), list(tmp_path.iterdir())) == ([], "", "", [])


def test_releases_and_scores_of_d4rl() -> None:
    assert release("Pendulum-v1").keys() == {"gymnasium"}
    assert release("Hopper-v4").keys() == {"gymnasium", "mujoco"}
    references = (-20.272305, 3234.3), (-280.178953, 12135.0), (1.629008, 4592.3), (-1234.7, -185.7)
    names = "Hopper-v4", "HalfCheetah-v4", "Walker2d-v4", "Pendulum-v1"
    for name, (random, expert) in zip(names, references, strict=True):
        assert (normalised_score(name, random), normalised_score(name, expert)) == (0, 100)
        assert normalised_score(name, random + 0.25 * (expert - random)) == pytest.approx(25)
    assert normalised_score("CartPole-v1", 0) is normalised_score("Walker2d-v5", 0) is None
