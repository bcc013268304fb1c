"""Sets of trajectories: three layouts of one set, what broken files say, and the pendulum that is generated."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from conftest import Robench

from robench.core.errors import MissingDataError, UsageError
from robench.datasets import trajectories_impl
from robench.datasets.pendulum_offline_impl import controlled, pendulum_trajectories, stepped
from robench.datasets.trajectories import OFFLINE_SETS, Quality
from robench.datasets.trajectories_impl import (
    Trajectory,
    open_trajectories,
    read_trajectories,
    returns_to_go,
    statistics,
)
from robench.environments.base import REFERENCE_RETURNS

Arrays = dict[str, Any]
# Lengths of episodes, and whether the environment ended each; the last of them is cut.
LENGTHS, ENDS = (3, 1, 5, 12, 2), (True, False, True, False, False)
STOPS = np.cumsum(LENGTHS)
GENERATOR = np.random.default_rng(0)
OBSERVATIONS = [GENERATOR.standard_normal((length + 1, 11)) for length in LENGTHS]
ACTIONS = [GENERATOR.standard_normal((length, 3)).astype(np.float32) for length in LENGTHS]
REWARDS = [GENERATOR.standard_normal(length) for length in LENGTHS]


def flat() -> Arrays:
    """Arrays as in D4RL: the last episode has neither a terminal nor a timeout, and one episode both."""
    terminals, timeouts = np.zeros((2, sum(LENGTHS)), bool)
    terminals[STOPS[[0, 2]] - 1] = True
    timeouts[STOPS[[1, 2, 3]] - 1] = True
    steps = {
        "observations": np.concatenate([each[:-1] for each in OBSERVATIONS]),
        "actions": np.concatenate(ACTIONS),
        "rewards": np.concatenate(REWARDS),
    }
    return {**steps, "terminals": terminals, "timeouts": timeouts}


def write_hdf5(path: Path, arrays: Mapping[str, Any]) -> Path:
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array
    return path


def write_npz(path: Path, arrays: Mapping[str, Any]) -> Path:
    # By an open file, so that numpy adds no suffix.
    with path.open("wb") as file:
        np.savez(file, **arrays)
    return path


def d4rl(path: Path) -> Path:
    others = {"infos/qpos": np.zeros((sum(LENGTHS), 6)), "metadata/algorithm": "SAC", "next_observations": np.zeros(3)}
    return write_hdf5(path, {**flat(), **others})


def episodes() -> Arrays:
    arrays: Arrays = {}
    for number, length in enumerate(LENGTHS):
        last = np.arange(length) == length - 1
        arrays |= {
            f"episode_{number}/observations": OBSERVATIONS[number],
            f"episode_{number}/actions": ACTIONS[number],
            f"episode_{number}/rewards": REWARDS[number],
            f"episode_{number}/terminations": last & ENDS[number],
            f"episode_{number}/truncations": last & (number in (1, 2, 3)),
            f"episode_{number}/infos/qpos": np.zeros((length + 1, 6)),
        }
    return arrays


def with_starts() -> Arrays:
    arrays = flat()
    del arrays["timeouts"]
    return {**arrays, "starts": np.array([0, *STOPS[:-1]])}


WRITERS: Mapping[str, Callable[[Path], Path]] = {
    "d4rl": d4rl,
    "minari": lambda path: write_hdf5(path, episodes()),
    "npz": lambda path: write_npz(path, flat()),
    "npz with starts": lambda path: write_npz(path, with_starts()),
}


class TestLayouts:
    @pytest.mark.parametrize("layout", WRITERS)
    def test_each_gives_the_same_episodes(self, layout: str, tmp_path: Path) -> None:
        found = read_trajectories(WRITERS[layout](tmp_path / "set"))
        assert [each.ends for each in found] == list(ENDS)
        for each, observations, actions, rewards in zip(found, OBSERVATIONS, ACTIONS, REWARDS, strict=True):
            np.testing.assert_array_equal(each.observations, observations[:-1].astype(np.float32))
            np.testing.assert_array_equal(each.actions, actions)
            np.testing.assert_array_equal(each.rewards, rewards)
            assert (each.observations.dtype, each.rewards.dtype) == (np.float32, np.float64)

    def test_episodes_of_minari_follow_their_numbers(self, tmp_path: Path) -> None:
        first = {name.partition("/")[2]: array for name, array in episodes().items() if name.startswith("episode_1/")}
        arrays = {f"episode_{i}/{name}": array + 0.0 for i in range(11) for name, array in first.items()}
        for number in range(11):
            arrays[f"episode_{number}/rewards"] = np.array([float(number)])
        found = read_trajectories(write_hdf5(tmp_path / "set", arrays))
        assert [each.rewards.tolist() for each in found] == [[number] for number in range(11)]

    def test_without_timeouts_an_episode_has_at_most_1000_steps(self, tmp_path: Path) -> None:
        terminals = np.arange(2105) == 99
        arrays = {"observations": np.ones((2105, 2)), "actions": np.ones((2105, 1)), "rewards": np.arange(2105)}
        found = read_trajectories(write_hdf5(tmp_path / "set", {**arrays, "terminals": terminals}))
        assert [len(each.rewards) for each in found] == [100, 1000, 1000, 5]
        assert [each.ends for each in found] == [True, False, False, False]
        assert [each.rewards[0] for each in found] == [0, 100, 1100, 2100]


def changed(**arrays: Any) -> Callable[[Path], Path]:
    """Writer of the flat arrays as npz with some replaced; None leaves one out."""
    given = {**flat(), **arrays}
    return lambda path: write_npz(path, {name: array for name, array in given.items() if array is not None})


def changed_episode(number: int = 2, **arrays: Any) -> Callable[[Path], Path]:
    given = {**episodes(), **{f"episode_{number}/{name}": array for name, array in arrays.items()}}
    return lambda path: write_hdf5(path, {name: array for name, array in given.items() if array is not None})


def replaced(array: Any, place: Any, value: object) -> Any:
    copy = array.copy()
    copy[place] = value
    return copy


def content(data: bytes) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        path.write_bytes(data)
        return path

    return write


def cut(writer: Callable[[Path], Path], share: float) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        data = writer(path).read_bytes()
        path.write_bytes(data[: int(share * len(data))])
        return path

    return write


F = flat()
NOTHING = {name: array[:0] for name, array in F.items()}
BROKEN: Mapping[str, tuple[Callable[[Path], Path], str]] = {
    "no actions": (changed(actions=None), "has no array actions, only these: observations, rewards, terminals, timeou"),
    "no timeouts": (changed(timeouts=None), "has no array timeouts, only these"),
    "no arrays": (
        lambda path: write_hdf5(path, {}),
        "no array observations, actions, rewards, terminals, only these: no",
    ),
    "lengths": (
        changed(rewards=F["rewards"][1:]),
        "has 23 observations, 23 actions, 22 rewards, 23 terminals, 23 timeo",
    ),
    "NaN": (
        changed(actions=replaced(F["actions"], (7, 1), np.nan)),
        "actions has nan in row 7, wanted finite float32",
    ),
    "inf": (changed(rewards=replaced(F["rewards"], 4, -np.inf)), "rewards has -inf in row 4, wanted finite float64"),
    "above float32": (
        changed(observations=replaced(F["observations"], (5, 0), 1e39)),
        "observations has inf in row 5",
    ),
    "empty": (changed(**NOTHING), "has no steps, wanted at least one"),
    "flat actions": (
        changed(actions=F["actions"][:, 0]),
        "actions is float32 of the shape \\(23,\\), wanted numbers of",
    ),
    "no values": (changed(actions=F["actions"][:, :0]), "actions is float32 of the shape \\(23, 0\\), wanted numbers"),
    "flags": (changed(terminals=np.arange(23)), "terminals has 2.0 in row 2, wanted 0 or 1"),
    "pickle": (changed(actions=np.array([None] * 23)), "cannot be read, or is cut .*allow_pickle.*without pickle"),
    "text": (changed(actions=np.array([["a"]] * 23)), "actions is <U1 of the shape \\(23, 1\\), wanted numbers"),
    "starts twice": (
        changed(starts=np.array([0, 3, 3])),
        "starts has 3 in row 2, wanted whole numbers that ascend from",
    ),
    "starts late": (changed(starts=np.array([1, 3])), "starts has 1 in row 0, wanted whole numbers"),
    "starts after": (changed(starts=np.array([0, 23])), "starts has 23 in row 1, .* below the 23 steps"),
    "starts floats": (changed(starts=np.array([0.0, 3.0])), "starts has float64 of the shape \\(2,\\), wanted whole"),
    "starts nothing": (changed(starts=np.array([], int)), "starts has int64 of the shape \\(0,\\), wanted whole"),
    "starts differ": (changed(starts=np.array([0, 3])), "ends an episode in row 3, before its last step"),
    "goes on": (changed_episode(terminations=np.arange(5) == 1), "episode_2 ends an episode in row 1, before its last"),
    "no last observation": (
        changed_episode(observations=OBSERVATIONS[2][:-1]),
        "episode_2 has 5 observations, 5 actions, .* equal numbers but 1 more of observations",
    ),
    "no steps": (
        changed_episode(
            1,
            **{
                name: array[1:]
                for name, array in (
                    ("observations", OBSERVATIONS[1]),
                    ("actions", ACTIONS[1]),
                    ("rewards", REWARDS[1]),
                    ("terminations", np.zeros(1, bool)),
                    ("truncations", np.zeros(1, bool)),
                )
            },
        ),
        "episode_1 has no steps, wanted at least one",
    ),
    "dictionary": (
        changed_episode(observations=None, **{"observations/image": np.zeros((6, 2))}),
        "episode_2: observations is a group, such as of a dictionary",
    ),
    "no truncations": (
        changed_episode(truncations=None),
        "episode_2 has no array truncations, only these: actions, in",
    ),
    "other width": (
        changed_episode(actions=np.ones((5, 4))),
        "episode_2 has observations of 11 and actions of 4 values",
    ),
    "cut HDF5": (cut(d4rl, 0.7), "cannot be read, or is cut .*truncated file.*Download it again"),
    "cut npz": (cut(changed(), 0.7), "cannot be read, or is cut .*zip.*Download it again"),
    "page": (
        content(b"\n<!DOCTYPE html><p>404"),
        "is a web page .*, wanted HDF5 of D4RL or Minari, or npz",
    ),
    "pointer": (content(b"version https://git-lfs.github.com/spec/v1\noid"), "is a Git LFS pointer .*git lfs pull"),
    "nothing": (content(b""), "is empty, wanted HDF5"),
    "other": (content(b"obs,act\n1,2"), "is a file that begins with b'obs,act\\\\n', wanted HDF5"),
}


class TestBroken:
    @pytest.mark.parametrize("case", BROKEN)
    def test_the_message_names_place_and_remedy(self, case: str, tmp_path: Path) -> None:
        writer, message = BROKEN[case]
        path = writer(tmp_path / "set")
        with pytest.raises(MissingDataError, match=message) as raised:
            read_trajectories(path)
        assert str(raised.value).startswith(str(path))
        assert str(raised.value).count(". ") <= 1

    def test_an_absent_file(self, tmp_path: Path) -> None:
        with pytest.raises(MissingDataError, match="none cannot be read, or is cut \\(No such file or directory\\)"):
            read_trajectories(tmp_path / "none")

    def test_without_h5py(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(trajectories_impl, "find_spec", lambda name: None)
        with pytest.raises(UsageError, match=r"needs the package h5py, which is not installed: pip install .*control"):
            read_trajectories(d4rl(tmp_path / "set"))


class TestDeclared:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"num_steps": 24}, "has the number of steps 23, wanted 24 for dataset 'hopper-medium' of Hopper-v4"),
            ({"observation_width": 17}, "has the observation width 11, wanted 17"),
            ({"action_width": 6}, "has the action width 3, wanted 6"),
            ({"form": "minari"}, "has the layout d4rl, wanted minari"),
            ({"sha256": "0" * 64}, "has the SHA-256 [0-9a-f]{64}, wanted 0{64}"),
        ],
    )
    def test_a_file_of_another_set_is_refused(self, change: Arrays, message: str, tmp_path: Path) -> None:
        declared = replace(OFFLINE_SETS["hopper-medium"], num_steps=None)
        (tmp_path / "d4rl").mkdir()
        d4rl(tmp_path / "d4rl" / "hopper_medium-v2.hdf5")
        assert len(open_trajectories(declared, data_root=tmp_path)) == len(LENGTHS)
        with pytest.raises(MissingDataError, match=message):
            open_trajectories(replace(declared, **change), data_root=tmp_path)

    def test_they_are_verified_by_the_command(self, robench: Robench, tmp_path: Path) -> None:
        verify = ("data", "verify", "hopper-medium-expert", "--data-root", tmp_path)
        absent = robench(*verify)
        assert absent.code == 4
        assert "Download http://rail" in absent.stdout
        (tmp_path / "d4rl").mkdir()
        path = d4rl(tmp_path / "d4rl" / "hopper_medium_expert-v2.hdf5")
        whole = robench(*verify)
        assert whole.code == 0
        assert whole.stdout.startswith("whole  hopper-medium-expert: 5 trajectories of 23 steps together; every val")
        path.write_bytes(b"<html>")
        wrong = robench(*verify, "--json")
        assert wrong.code == 4
        assert [each["kind"] for each in json.loads(wrong.stdout)[0]["findings"]] == ["wrong-file"]


def test_returns_to_go_are_sums_of_later_rewards() -> None:
    for rewards in REWARDS:
        wanted = [sum(rewards[index:].tolist()) for index in range(len(rewards))]
        np.testing.assert_allclose(returns_to_go(rewards), wanted, rtol=1e-12)


def test_statistics_are_over_all_steps_and_never_zero() -> None:
    steps = [[1.0, 7.0], [3.0, 7.0], [8.0, 7.0]]
    pieces = [np.array(steps[:1], np.float32), np.array(steps[1:], np.float32)]
    mean, std = statistics([Trajectory(each, each, np.zeros(len(each)), ends=False) for each in pieces])
    np.testing.assert_allclose(mean, [4.0, 7.0])
    # The deviation of the population: the squares are 9, 1 and 16.
    np.testing.assert_allclose(std, [(26 / 3) ** 0.5 + 1e-6, 1e-6], rtol=1e-12)


def digest(quality: Quality) -> str:
    arrays = [a for e in pendulum_trajectories(quality) for a in (e.observations, e.actions, e.rewards)]
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


class TestPendulum:
    def test_physics_are_those_of_gymnasium(self) -> None:
        gymnasium = pytest.importorskip("gymnasium")
        environment = gymnasium.make("Pendulum-v1").unwrapped
        for seed in range(3):
            observation, _ = environment.reset(seed=seed)
            angle, speed = (np.array([each]) for each in environment.state)
            # Beyond the largest torque, which both clip, and turned on so that the pendulum goes round.
            for index in range(200):
                torque = controlled(angle, speed, np.ones(1)) + 2.5 * np.sin(seed + 0.3 * index)
                observation, reward, *_ = environment.step(torque)
                angle, speed, rewards = stepped(angle, speed, torque)
                np.testing.assert_allclose([angle[0], speed[0]], environment.state, rtol=0, atol=1e-9)
                assert abs(rewards[0] - reward) < 1e-9
            np.testing.assert_allclose([np.cos(angle[0]), np.sin(angle[0]), speed[0]], observation, rtol=0, atol=1e-6)

    def test_qualities_have_the_stated_returns_in_order(self) -> None:
        qualities: tuple[Quality, ...] = ("random", "medium-replay", "medium", "medium-expert", "expert")
        means = {}
        for quality in qualities:
            found = pendulum_trajectories(quality)
            assert {each.observations.shape for each in found} == {(200, 3)}
            assert len(found) == 500
            assert not any(each.ends for each in found)
            means[quality] = float(np.mean([each.rewards.sum() for each in found]))
        assert list(means.values()) == sorted(means.values())
        assert (round(means["random"], 1), round(means["expert"], 1)) == REFERENCE_RETURNS["Pendulum-v1"]

    def test_episodes_follow_from_their_stored_actions(self) -> None:
        for each in pendulum_trajectories("medium-replay")[::100]:
            cos, sin, speed = each.observations[0].astype(float)
            angles, speeds = np.array([np.arctan2(sin, cos)]), np.array([speed])
            for index in range(20):
                assert abs(np.cos(angles[0]) - each.observations[index, 0]) < 1e-3
                angles, speeds, rewards = stepped(angles, speeds, each.actions[index].astype(float))
                assert abs(rewards[0] - each.rewards[index]) < 1e-2

    def test_another_process_makes_the_same_bytes(self) -> None:
        code = (
            "import hashlib, sys\nfrom robench.datasets.pendulum_offline_impl import pendulum_trajectories\n"
            "made = pendulum_trajectories('medium-replay')\n"
            "arrays = [a for e in made for a in (e.observations, e.actions, e.rewards)]\n"
            "print(hashlib.sha256(b''.join(a.tobytes() for a in arrays)).hexdigest(), 'torch' in sys.modules)"
        )
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert ended.stdout.split() == [digest("medium-replay"), "False"]
        assert digest("medium") != digest("medium-replay")
