"""Trajectories of a pendulum of five qualities: physics of Pendulum-v1 of Gymnasium, controllers and draws.

The pendulum is a rod of 1 m and 1 kg, with the angle 0 at the top, g = 10 m/s^2 and steps of 0.05 s. An episode starts
at an angle in [-pi, pi) and a speed in [-1, 1) rad/s, and is cut after 200 steps.

The ``expert`` has three rules. Below the pivot it applies the largest torque, 2 N m, in the direction of the speed.
Above, it applies 2 N m for each joule that is missing to rest at the top (Åström and Furuta 2000, Swinging up a
pendulum by energy control). Within 0.5 rad of the top it is a PD controller, with 10 N m/rad and 3 N m s/rad.
``medium`` has half of these gains, and Gaussian noise of standard deviation 1 N m. ``random`` draws torques uniformly
from [-2, 2). Actions of episode i of ``medium-replay`` are random ones with probability 1 - i / 499, and otherwise of
``medium``; ``medium-expert`` has 250 episodes of each. Draws are words of Philox with a key for each episode, as in
``robench.draws``, so that bytes are equal in each call; another machine's sine may round the last bit differently.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri  # type: ignore[import-untyped]  # scipy has no types

from robench.core.seeds import example_seed
from robench.datasets.trajectories import PendulumSet, Quality
from robench.datasets.trajectories_impl import Trajectory

Floats = NDArray[np.float64]

NUM_EPISODES, NUM_STEPS = 500, 200
_LARGEST_TORQUE, _NOISE = 2.0, 1.0
# Of the energy rule, in N m per J; of the PD controller, in N m/rad and N m s/rad, and where it acts, in rad.
_ENERGY_GAIN, _ANGLE_GAIN, _SPEED_GAIN, _TOP = 2.0, 10.0, 3.0, 0.5


def open_pendulum(declared: PendulumSet, **unused: object) -> list[Trajectory]:
    """Generate a set of trajectories."""
    return pendulum_trajectories(declared.quality)


def pendulum_trajectories(quality: Quality) -> list[Trajectory]:
    """Return 500 trajectories of 200 steps: observations (cos, sin, speed), actions in N m."""
    numbers = np.arange(NUM_EPISODES)
    is_expert = (numbers >= NUM_EPISODES // 2) & (quality == "medium-expert") | (quality == "expert")
    gains, deviations = np.where(is_expert, 1.0, 0.5), np.where(is_expert, 0.0, _NOISE)
    rate = 1.0 if quality == "random" else 0.0
    probabilities = 1 - numbers / (NUM_EPISODES - 1) if quality == "medium-replay" else np.full(NUM_EPISODES, rate)
    draws = np.stack([_words(quality, number) for number in range(NUM_EPISODES)])
    angles, speeds = np.pi * (2 * draws[:, 0] - 1), 2 * draws[:, 1] - 1
    observations = np.empty((NUM_EPISODES, NUM_STEPS, 3), np.float32)
    actions = np.empty((NUM_EPISODES, NUM_STEPS, 1), np.float32)
    rewards = np.empty((NUM_EPISODES, NUM_STEPS))
    for index in range(NUM_STEPS):
        noise, coin, uniform = draws[:, 2 + 3 * index : 5 + 3 * index].T
        torques = controlled(angles, speeds, gains) + deviations * ndtri(noise)
        torques = np.where(coin < probabilities, _LARGEST_TORQUE * (2 * uniform - 1), torques)
        # Rewards and the next state are those of the action as stored.
        actions[:, index, 0] = np.clip(torques, -_LARGEST_TORQUE, _LARGEST_TORQUE)
        observations[:, index] = np.stack([np.cos(angles), np.sin(angles), speeds], axis=1)
        angles, speeds, rewards[:, index] = stepped(angles, speeds, actions[:, index, 0].astype(np.float64))
    return [Trajectory(*each, ends=False) for each in zip(observations, actions, rewards, strict=True)]


def stepped(angles: Floats, speeds: Floats, torques: Floats) -> tuple[Floats, Floats, Floats]:
    """Return angles (B,) in rad and speeds (B,) in rad/s after one step, and its rewards; ``torques`` are in N m."""
    torques = np.clip(torques, -_LARGEST_TORQUE, _LARGEST_TORQUE)
    rewards = -(_wrapped(angles) ** 2 + 0.1 * speeds**2 + 0.001 * torques**2)
    speeds = np.clip(speeds + (15.0 * np.sin(angles) + 3.0 * torques) * 0.05, -8.0, 8.0)
    return angles + speeds * 0.05, speeds, rewards


def controlled(angles: Floats, speeds: Floats, gains: Floats) -> Floats:
    """Return the controller's torques (B,) in N m, within the largest one; see the module."""
    wrapped, directions = _wrapped(angles), np.where(speeds < 0, -1.0, 1.0)
    # Kinetic energy is v^2 / 6, potential energy 5 cos(angle), and 5 J at rest at the top.
    missing = 5.0 - (speeds**2 / 6 + 5.0 * np.cos(angles))
    torques = np.where(np.cos(angles) < 0, _LARGEST_TORQUE, _ENERGY_GAIN * missing) * directions
    torques = np.where(np.abs(wrapped) < _TOP, -_ANGLE_GAIN * wrapped - _SPEED_GAIN * speeds, torques)
    clipped: Floats = np.clip(gains * torques, -_LARGEST_TORQUE, _LARGEST_TORQUE)
    return clipped


def _wrapped(angles: Floats) -> Floats:
    return (angles + np.pi) % (2 * np.pi) - np.pi


def _words(quality: str, number: int) -> Floats:
    """Return the draws of an episode in (0, 1): two of its start, and three of each step."""
    seed = example_seed(0, "pendulum-offline", quality, str(number))
    words: NDArray[np.uint64] = np.random.Philox(key=seed).random_raw(2 + 3 * NUM_STEPS)
    # Midpoints of 2**53 equal intervals, so that no quantile is infinite.
    return ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
