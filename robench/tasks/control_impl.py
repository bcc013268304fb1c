"""Rules of control, and episodes that a policy plays: one step of all environments of a batch after the other.

Outputs are actions (B, A), targets the seeds (B,) of the environments. Every environment has random numbers of its own,
and a batch keeps its rows to the end, so that no outcome depends on what else is measured. An action of a discrete
environment is the largest of A scores, ties going to the lower.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robench.core.columns import Values
from robench.core.declared import DatasetDeclaration
from robench.core.errors import BudgetExceededError, ContractError, UsageError
from robench.core.protocols import Model
from robench.domains.episodes import NUM_BEFORE
from robench.environments.gym_impl import Episodes
from robench.tasks.base import Disturbance, Loss, Scales, Scoring, Watch

# Of float32, in which policies see observations.
ROUNDING = 1e-5


class ControlRules:
    """Rules of control; see ``tasks.base.TaskRules`` and ``tasks.base.Played``."""

    losses: Mapping[str, Loss] = {}

    @staticmethod
    def objective(outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the squared distance (B,) of actions (B, A) from other ones."""
        return (outputs - labels).square().sum(1)

    def outputs_of(self, output: object, num_rows: int) -> Tensor:
        """Return the actions (B, A) that a module returned.

        Raises:
            ContractError: it returned something else.
        """
        if isinstance(output, Tensor) and output.is_floating_point() and output.ndim == 2 and len(output) == num_rows:
            return output
        found = str(tuple(output.shape)) if isinstance(output, Tensor) else type(output).__name__
        raise ContractError(f"the policy returned {found} for {num_rows} windows, wanted actions ({num_rows}, A)")

    def check_outputs(self, outputs: Tensor, num_rows: int, model: str) -> None:
        """Refuse actions that are not finite.

        Raises:
            ContractError: the message says how many.
        """
        if wrong := int((~outputs.isfinite()).any(1).sum()):
            raise ContractError(f"actions of {wrong} of {num_rows} episodes by model {model!r} are NaN or infinite")

    def columns(self, outputs: Sequence[Tensor], targets: Tensor, scoring: Scoring) -> Mapping[str, Values]:
        """Refuse: an action has no outcome without its environment. Raises ContractError: always."""
        raise ContractError("actions alone have no outcome; episodes are played")

    def check_fit(self, outputs: Tensor, num_classes: int | None, model: str, dataset: str, inputs: Tensor) -> None:
        """Refuse a policy whose actions are not finite; the number of actions is compared when an episode begins.

        Raises:
            UsageError: the message names model and dataset.
        """
        if not bool(outputs.isfinite().all()):
            raise UsageError(f"model {model!r} returned actions that are not finite on the first states of {dataset!r}")

    def labels_of(self, outputs: Tensor) -> Any:
        """Return the actions themselves."""
        return outputs

    def is_fooled(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return (B,) false: no action is wrong by itself."""
        return torch.zeros(len(outputs), dtype=torch.bool, device=outputs.device)

    def play(
        self,
        model: Model,
        inputs: Tensor,
        targets: Tensor,
        seeds: Sequence[int],
        dataset: DatasetDeclaration,
        disturbance: Disturbance | None,
        name: str,
        watch: Watch | None = None,
    ) -> Mapping[str, Values]:
        """Return the columns (B,) of episodes that begin with windows (B, 1, F); see ``tasks.base.Played``."""
        fields: Any = dataset  # Of the declaration of environments.
        world = None if disturbance is None else disturbance.world
        module = getattr(model, "module", None)
        with Episodes(fields.environment, targets.tolist(), fields.max_steps, world) as episodes:
            game = _Game(inputs, episodes, getattr(module, "context", 1), _scales_of(module, episodes))
            while game.active.any():
                window = state = game.window(model.device)
                if disturbance is not None:
                    window = game.disturbed(disturbance, state, lambda windows: model.outputs(windows, seeds))
                if watch is not None:
                    shown = (each[:, -1, game.observation] for each in (state, window))
                    watch(*shown, game.returns.copy(), game.active)
                with torch.no_grad():
                    actions = model.outputs(window, seeds)
                self.check_outputs(actions, len(actions), name)
                game.step(actions.cpu().double().numpy(), disturbance)
        scores = [fields.score_of(each) for each in game.returns.tolist()]
        unknown = np.array([each is None for each in scores])
        return {
            "total_return": Values(game.returns),
            "num_steps": Values(game.num_steps),
            "ended_early": Values(game.ended_early),
            "score": Values(np.array([each or 0.0 for each in scores]), unknown),
        }


class _Game:
    """Episodes (B,) in progress, with what the policy has seen.

    Attributes:
        observation: features that are the observation.
        active: (B,) episodes that have not ended; ``returns``, ``num_steps``, ``ended_early``: (B,) what they came to.
    """

    def __init__(self, first: Tensor, episodes: Episodes, context: int, scales: Scales) -> None:
        self._episodes, self._context, self._scales = episodes, context, scales
        self.observation = slice(NUM_BEFORE, NUM_BEFORE + episodes.spaces.num_observations)
        observations = episodes.reset()
        self._history = first.cpu().numpy().astype(np.float64)
        if not np.array_equal(first.cpu().numpy()[:, -1, self.observation], observations.astype(np.float32)):
            raise ContractError(
                "an environment began with another observation than its example: it ignores its seed, or a "
                "perturbation changed the example"
            )
        self._history[:, -1, self.observation] = observations
        size = len(first)
        self.active, self.ended_early = np.ones(size, np.bool_), np.zeros(size, np.bool_)
        self.returns, self.num_steps = np.zeros(size), np.zeros(size, np.int64)
        self._step = 0

    def window(self, device: torch.device) -> Tensor:
        """Return the last steps (B, K, F), K at most the context."""
        return torch.from_numpy(self._history[:, -self._context :].astype(np.float32)).to(device)

    def disturbed(self, disturbance: Disturbance, window: Tensor, act: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the window that the policy sees, and remember it.

        Raises:
            ContractError: more than the present observation changed, or it is not finite.
            BudgetExceededError: it changed by more than the disturbance states.
        """
        found = disturbance.observed(self._step, window.clone(), act, self._scales)
        rest, change = found.clone(), (found - window)[:, -1, self.observation].abs()
        rest[:, -1, self.observation] = window[:, -1, self.observation]
        if not torch.equal(rest, window) or not bool(found.isfinite().all()):
            raise ContractError("a disturbance changed more than the present observation, or gave NaN or infinity")
        if disturbance.epsilon is not None:
            moved = float((change.cpu() / torch.from_numpy(self._scales.observations)).max())
            if moved > disturbance.epsilon * (1 + ROUNDING) + ROUNDING:
                raise BudgetExceededError(
                    f"an observation was moved by {moved:.6g} deviations, more than epsilon {disturbance.epsilon:.6g}"
                )
        self._history[:, -1] = found[:, -1].cpu().numpy()
        return found

    def step(self, actions: NDArray[np.float64], disturbance: Disturbance | None) -> None:
        """Take actions (B, A); episodes that have ended stay as they are."""
        given = actions if disturbance is None else disturbance.acted(self._step, actions, self._scales)
        stepped = self._episodes.step(given, self.active)
        self.returns += stepped.rewards
        self.num_steps += self.active
        self.ended_early |= stepped.terminated
        present = self._history[:, -1]
        present[:, self.observation.stop :] = actions
        following = np.zeros_like(present)
        following[:, 0] = present[:, 0] + 1
        following[:, 1] = present[:, 1] - stepped.rewards
        following[:, self.observation] = stepped.observations
        # What has left the context is never seen again.
        self._history = np.concatenate([self._history[:, -self._context :], following[:, None]], axis=1)
        self.active &= ~(stepped.terminated | stepped.truncated)
        self._step += 1


def _scales_of(module: object, episodes: Episodes) -> Scales:
    def stated(name: str, size: int) -> NDArray[np.float64]:
        found = getattr(module, name, None)
        return np.ones(size) if found is None else np.asarray(found.detach().cpu(), np.float64)

    spaces = episodes.spaces
    return Scales(stated("observation_std", spaces.num_observations), stated("action_scale", spaces.num_actions))


RULES = ControlRules()
