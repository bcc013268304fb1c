"""MuJoCo's environments: silent, without a display, the same alone, with physics that each kind of world changes."""

import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest
from gymnasium.envs.mujoco import mujoco_env

from robench.environments.base import World
from robench.environments.gym_impl import Episodes, check_environment

pytestmark = pytest.mark.slow
ENVIRONMENTS = ("Hopper-v4", "HalfCheetah-v4", "Walker2d-v4")


def trajectory(environment: str, seeds: tuple[int, ...], world: World | None = None) -> Any:
    """Return (20, B, D + 1) observations and rewards under actions that depend on the seed, while none has ended."""
    with Episodes(environment, seeds, world=world) as episodes:
        found, active = [], np.ones(len(seeds), dtype=bool)
        episodes.reset()
        size = episodes.spaces.num_actions
        actions = np.stack([np.random.default_rng(seed).uniform(-0.5, 0.5, (20, size)) for seed in seeds], axis=1)
        for each in actions:
            stepped = episodes.step(each, active)
            found.append(np.concatenate((stepped.observations, stepped.rewards[:, None]), axis=1))
            active &= ~(stepped.terminated | stepped.truncated)
    return np.stack(found)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_mujoco_is_silent_and_each_world_changes_it(
    environment: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        check_environment(environment, 0)
        plain = trajectory(environment, (1, 2, 3))
        assert np.array_equal(plain[:, 1:2], trajectory(environment, (2,)))
        changed = [World("mass", 2), World("friction", 0.1), World("gravity", 0.5), World("wind", 5), World("wind", -5)]
        found = [trajectory(environment, (1, 2, 3), world) for world in changed]
        # One that no float64 survives, so that MuJoCo resets the simulation with a warning.
        trajectory(environment, (1,), World("gravity", -1e6))
        for kind, factor in (("mass", 1), ("friction", 1), ("gravity", 1), ("wind", 0)):
            assert np.array_equal(trajectory(environment, (1, 2, 3), World(kind, factor)), plain)  # type: ignore[arg-type]
    distinct = {each.tobytes() for each in (plain, *found)}
    assert len(distinct) == 6
    assert (seen, *capfd.readouterr(), list(tmp_path.iterdir())) == ([], "", "", [])


def test_double_mass_is_the_model_of_double_density() -> None:
    """All that MuJoCo compiles from the file of Hopper with twice its density, invariant weights included."""
    text = (Path(mujoco_env.__file__).parent / "assets" / "hopper.xml").read_text()
    assert text.count("<default>") == 1
    assert "density" not in text  # of which 1000 is the default
    dense = text.replace("<geom ", '<geom density="2000" ', 1)
    assert dense.index("<default>") < dense.index("density") < dense.index("</default>")
    wanted = mujoco.MjModel.from_xml_string(dense)
    with Episodes("Hopper-v4", (0,), world=World("mass", 2)) as episodes:
        model = episodes._envs[0].unwrapped.model
    for name in ("body_mass", "body_inertia", "body_subtreemass", "body_invweight0", "dof_invweight0", "dof_M0"):
        np.testing.assert_allclose(getattr(model, name), getattr(wanted, name), rtol=1e-12, err_msg=name)


def test_clipped_steps_equal_those_of_gymnasium() -> None:
    alone = gym.make(gym.registry["Hopper-v4"])
    start, _ = alone.reset(seed=4)
    with Episodes("Hopper-v4", (4,)) as episodes:
        assert np.array_equal(episodes.reset()[0], start)
        for action in np.random.default_rng(0).uniform(-2, 2, (5, 3)):
            stepped = episodes.step(action[None], np.array([True]))
            seen, reward, *_ = alone.step(np.float32(np.clip(action, -1, 1)))
            assert np.array_equal(stepped.observations[0], seen)
            assert stepped.rewards[0] == reward
