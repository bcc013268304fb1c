"""Disturbances of episodes; see ``tasks.base.Disturbance``. Draws belong to an example and a step."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robench.core.protocols import Batch, Draws, Model, Perturbed
from robench.core.seeds import Stream
from robench.domains.episodes import NUM_BEFORE
from robench.draws import ExampleDraws
from robench.environments.base import World
from robench.perturbations.episode_shift import WORLDS, EpisodeShift, ObservationAttack
from robench.tasks.base import Scales

Array = NDArray[np.float64]


def unchanged(declaration: EpisodeShift | ObservationAttack, batch: Batch, model: Model, draws: Draws) -> Perturbed:
    """Return the inputs, from which episodes begin, as they are."""
    del declaration, model, draws
    return Perturbed(inputs=batch.inputs)


class Shift:
    """Disturbance by an ``EpisodeShift``."""

    epsilon = None

    def __init__(self, declaration: EpisodeShift, seeds: Sequence[int]) -> None:
        self._type, self._strength = declaration.type, declaration.strength
        self._draws = ExampleDraws(seeds)
        self._observations: list[Tensor] = []
        self._actions: list[Array] = []

    @property
    def world(self) -> World | None:
        """Return the change of the environment, if that is the type."""
        return World(self._type, self._strength) if self._type in WORLDS and self._strength is not None else None

    def observed(self, step: int, window: Tensor, act: Callable[[Tensor], Tensor], scales: Scales) -> Tensor:
        """Return the window with another observation in its last row."""
        del act
        if self._strength is None or not self._type.startswith("observation"):
            return window
        place = slice(NUM_BEFORE, NUM_BEFORE + len(scales.observations))
        # Not a view: the window is written to.
        present = window[:, -1, place].cpu().clone()
        self._observations.append(present)
        shown = self._shown(step, present, torch.from_numpy(scales.observations).float())
        window[:, -1, place] = shown.to(window)
        return window

    def acted(self, step: int, actions: Array, scales: Scales) -> Array:
        """Return the actions that reach the environments."""
        if self._strength is None or not self._type.startswith("action"):
            return actions
        stream, shape = Stream(purpose=self._type, step=step), actions.shape[1:]
        if self._type == "action-noise":
            noise: Array = self._draws.normal(stream, shape).double().numpy()
            return actions + self._strength * scales.actions * noise
        self._actions.append(actions)
        if self._type == "action-delay":
            place = len(self._actions) - 1 - int(self._strength)
            return self._actions[place] if place >= 0 else np.zeros_like(actions)
        is_lost = self._draws.uniform(stream, (1,)).numpy() < self._strength
        before = self._actions[-2] if len(self._actions) > 1 else np.zeros_like(actions)
        # The last command that was carried out is repeated.
        self._actions[-1] = np.where(is_lost, before, actions)
        return self._actions[-1]

    def _shown(self, step: int, present: Tensor, scale: Tensor) -> Tensor:
        assert self._strength is not None
        stream, shape, strength = Stream(purpose=self._type, step=step), present.shape[1:], self._strength
        match self._type:
            case "observation-noise":
                return present + strength * scale * self._draws.normal(stream, shape)
            case "observation-uniform":
                return present + strength * scale * (2 * self._draws.uniform(stream, shape) - 1)
            case "observation-quantisation":
                return (present / (strength * scale)).round() * (strength * scale)
            case "observation-delay":
                return self._observations[max(0, len(self._observations) - 1 - int(strength))]
            case "observation-bias":
                sensor = (self._draws.uniform(Stream(purpose=self._type), (1,)) * len(scale)).long()
                return present + strength * scale * (torch.arange(len(scale)) == sensor)
        is_lost = self._draws.uniform(stream, shape) < strength
        before = self._observations[-2] if len(self._observations) > 1 else present
        self._observations[-1] = torch.where(is_lost, before, present)
        return self._observations[-1]


class Attack:
    """Disturbance by an ``ObservationAttack``; the harness checks its budget ``epsilon``."""

    world = None

    def __init__(self, declaration: ObservationAttack, seeds: Sequence[int]) -> None:
        self._declaration, self._draws = declaration, ExampleDraws(seeds)
        self.epsilon = float(declaration.epsilon)
        self._given: list[Tensor] = []

    def observed(self, step: int, window: Tensor, act: Callable[[Tensor], Tensor], scales: Scales) -> Tensor:
        """Return the window with an observation within the ball in its last row."""
        place = slice(NUM_BEFORE, NUM_BEFORE + len(scales.observations))
        radius = self.epsilon * torch.from_numpy(scales.observations).float().to(window)
        clean = window[:, -1, place].clone()
        start = 2 * self._draws.uniform(Stream(purpose="observation", step=step), clean.shape[1:]).to(window) - 1
        change = start * radius
        if self._declaration.method != "random" and self.epsilon > 0:
            with torch.no_grad():
                wanted = act(self._undisturbed(window, place) if self._declaration.method == "context" else window)
            for _ in range(self._declaration.num_steps):
                change = self._climbed(window, clean, change, radius, act, wanted)
        found = window.clone()
        # Rounding must not leave the ball.
        found[:, -1, place] = torch.minimum(torch.maximum(clean + change, clean - radius), clean + radius)
        return found

    def acted(self, step: int, actions: Array, scales: Scales) -> Array:
        """Return the actions as they are."""
        del step, scales
        return actions

    def _climbed(
        self,
        window: Tensor,
        clean: Tensor,
        change: Tensor,
        radius: Tensor,
        act: Callable[[Tensor], Tensor],
        wanted: Tensor,
    ) -> Tensor:
        moved = change.clone().requires_grad_()
        place = slice(NUM_BEFORE, NUM_BEFORE + clean.shape[1])
        with torch.enable_grad():
            seen = window.clone()
            seen[:, -1, place] = clean + moved
            difference = (act(seen) - wanted).square().sum()
            (gradient,) = torch.autograd.grad(difference, moved)
        step = float(self._declaration.relative_step) * radius * gradient.sign()
        return torch.minimum(torch.maximum(change + step, -radius), radius)

    def _undisturbed(self, window: Tensor, place: slice) -> Tensor:
        """Return the window with the observations that the environment gave in all its steps."""
        self._given.append(window[:, -1, place].clone())
        clean = window.clone()
        known = self._given[-window.shape[1] :]
        clean[:, -len(known) :, place] = torch.stack(known, dim=1)
        return clean
