"""Training of policies: windows of trajectories, and the mean squared error of the actions in them.

An episode is drawn in proportion to its length, and the first step of a window uniformly, as in the Decision
Transformer's code. A window that reaches beyond the end of its episode is padded on the right, where a causal policy
does not look, or for a policy with ``padding: released`` on the left, by steps numbered -1 with observations of 0 and
actions of -10, as by that code. Padding is not learned. Draws of an epoch begin at a seed made of the recipe's seed and
the epoch.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robench.core.errors import DeclarationError
from robench.core.identity import key_of
from robench.datasets.trajectories import OFFLINE_SETS
from robench.datasets.trajectories_impl import returns_to_go, statistics
from robench.domains.episodes import NUM_BEFORE
from robench.models.build import build
from robench.training.decisions import DecisionTraining
from robench.training.epochs import Learner, run_epochs
from robench.training.optimization import check_auxiliary, reproducible, seed_for, set_learning_rate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from robench.core.checkpoint import Checkpoint
    from robench.datasets.trajectories_impl import Trajectory
    from robench.training.base import EpochReport, Host


def train(
    checkpoint: Checkpoint, host: Host, on_epoch: Callable[[EpochReport], None] = lambda report: None
) -> dict[str, Tensor]:
    """Train ``checkpoint`` from scratch or from its stored state, and return the state dict on the CPU.

    The caller's random generators and number of threads are restored.
    """
    training = checkpoint.training
    if not isinstance(training, DecisionTraining):
        raise DeclarationError(
            f"checkpoint {checkpoint.name!r} has no 'training' of kind 'decision-training'; add it to its entry"
        )
    declared = OFFLINE_SETS[training.trajectories]
    trajectories = declared.implemented()(declared, data_root=host.data_root)
    device = torch.device(host.device)
    with reproducible(training.seed, device):
        model = build(checkpoint.architecture)
        _check_widths(checkpoint, model, trajectories)
        _set_statistics(model, trajectories)
        learner = DecisionLearner(model.to(device), training, trajectories, host)
        key = key_of([checkpoint.architecture, training, learner.digest])
        return run_epochs(learner, host=host, key=key, score=None, on_epoch=on_epoch)


class DecisionLearner(Learner):
    """Policy in training with its optimiser and its windows."""

    # Any: policies have ``actions_of`` and the buffers of ``decision_impl.add_statistics``.
    def __init__(self, model: Any, training: DecisionTraining, trajectories: Sequence[Trajectory], host: Host) -> None:
        optimizer = torch.optim.AdamW(model.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay)
        super().__init__(model, training, optimizer, host)
        self._actions_of = model.actions_of
        self._context = int(getattr(model, "context", 1))
        has_padding = getattr(model.architecture, "padding", "none") == "released"
        self._windows = Windows(trajectories, self._context, is_padded_left=has_padding)
        self.num_examples = training.steps_per_epoch * training.batch_size
        self.digest = self._windows.digest
        check_auxiliary(model, self._windows.of(np.zeros(2, np.int64))[0].to(self._device), training.auxiliary_weight)

    def epoch(self, epoch: int) -> tuple[float, int]:
        """Train for an epoch (0-based); return the mean loss and the number of windows."""
        training = self.training
        torch.manual_seed(seed_for(training.seed, "model", epoch))
        generator = np.random.Generator(np.random.Philox(seed_for(training.seed, "windows", epoch)))
        total = torch.zeros((), device=self._device)
        for step in range(training.steps_per_epoch):
            number = epoch * training.steps_per_epoch + step + 1
            set_learning_rate(
                self._optimizer, training.learning_rate * min(1.0, number / max(1, training.warmup_steps))
            )
            rows = (generator.random(training.batch_size) * self._windows.num_steps).astype(np.int64)
            inputs, targets = (each.to(self._device) for each in self._windows.of(rows))
            total += self.step(self._actions_of, inputs, targets, squared_error)
        return float(total) / training.steps_per_epoch, self.num_examples or 0


class Windows:
    """Windows of up to ``context`` steps of trajectories, one for each step that they can begin at.

    Attributes:
        num_steps: number of steps of all episodes.
    """

    def __init__(self, trajectories: Sequence[Trajectory], context: int, *, is_padded_left: bool = False) -> None:
        self._context, self._is_padded_left = context, is_padded_left
        lengths = np.array([len(each.rewards) for each in trajectories])
        self.num_steps = int(lengths.sum())
        parts = [_features(each) for each in trajectories]
        # Steps beyond the last one are read and left out.
        self._features = np.concatenate([*parts, np.zeros((context, parts[0].shape[1]), np.float32)])
        ends = np.cumsum(lengths)
        self._left = np.repeat(ends, lengths) - np.arange(self.num_steps)
        self._num_actions = trajectories[0].actions.shape[1]

    @property
    def digest(self) -> str:
        """Return the SHA-256 of all that is learned."""
        return hashlib.sha256(self._features.tobytes() + self._left.tobytes()).hexdigest()

    def of(self, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Return windows (B, K, F) that begin at steps (B,), and targets (B, K, A + 1): actions, and 1 where valid."""
        places = rows[:, None] + np.arange(self._context)
        is_valid = np.arange(self._context) < self._left[rows][:, None]
        windows = self._features[places] * is_valid[..., None]
        if self._is_padded_left:
            padding = np.zeros_like(self._features[0])
            padding[0], padding[-self._num_actions :] = -1, -10
            order = np.argsort(is_valid, axis=1, kind="stable")
            is_valid = np.take_along_axis(is_valid, order, axis=1)
            windows = np.where(is_valid[..., None], np.take_along_axis(windows, order[..., None], axis=1), padding)
        targets = np.concatenate([windows[..., -self._num_actions :], is_valid[..., None].astype(np.float32)], axis=-1)
        return torch.from_numpy(windows), torch.from_numpy(targets)


def squared_error(actions: Tensor, targets: Tensor) -> Tensor:
    """Return the mean squared error of actions (B, K, A) over the valid steps of targets (B, K, A + 1)."""
    is_valid = targets[..., -1:]
    squares = (actions - targets[..., :-1]).square() * is_valid
    return squares.sum() / (is_valid.sum() * actions.shape[-1])


def _features(trajectory: Trajectory) -> NDArray[np.float32]:
    num_steps = len(trajectory.rewards)
    before = np.stack([np.arange(num_steps), returns_to_go(trajectory.rewards)], axis=1)
    assert before.shape[1] == NUM_BEFORE
    return np.concatenate([before, trajectory.observations, trajectory.actions], axis=1).astype(np.float32)


def _check_widths(checkpoint: Checkpoint, model: Any, trajectories: Sequence[Trajectory]) -> None:
    found = trajectories[0].observations.shape[1], trajectories[0].actions.shape[1]
    wanted = len(model.observation_mean), len(model.action_scale)
    if found != wanted:
        raise DeclarationError(
            f"checkpoint {checkpoint.name!r} takes observations of {wanted[0]} and actions of {wanted[1]} values, and "
            f"its trajectories have {found[0]} and {found[1]}; correct num_observations and num_actions"
        )


def _set_statistics(model: Any, trajectories: Sequence[Trajectory]) -> None:
    mean, std = statistics(trajectories)
    largest = np.max([np.abs(each.actions).max(axis=0) for each in trajectories], axis=0)
    for buffer, values in ((model.observation_mean, mean), (model.observation_std, std), (model.action_scale, largest)):
        buffer.copy_(torch.from_numpy(np.asarray(values)))
