"""A classifier under test: pixels in [0, 1] in, logits out; normalisation is inside, so that budgets are in pixels."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

import torch

from robench.core.containment import KeptSettings
from robench.core.errors import ContractError
from robench.core.seeds import LazySeeds
from robench.tasks.classification import CLASSIFICATION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor, nn

    from robench.declarations.preprocessing import PreprocessingBase
    from robench.tasks.base import Task


IS_TRAINING = attrgetter("training")


class LoadedModel:
    """A frozen classifier in float32 and evaluation mode; takes the place of ``core.protocols.Model``.

    The module is taken over: it is moved to the device, its parameters need no gradient any more.
    """

    def __init__(
        self,
        module: nn.Module,
        preprocessing: PreprocessingBase,
        device: torch.device | str = "cpu",
        task: Task = CLASSIFICATION,
    ) -> None:
        self._module = module.to(device=device, dtype=torch.float32)
        self._module.eval()
        self._module.requires_grad_(False)
        # A module says so by an attribute; what it computes for a row may then depend on that row's seed.
        self._takes_seeds = bool(getattr(module, "takes_seeds", False))
        self._submodules = tuple(self._module.modules())
        self._is_of_images = preprocessing.normalisation is not None
        self._mean_C11, self._std_C11 = (
            torch.tensor(values, device=device, dtype=torch.float32).reshape(-1, 1, 1)
            for values in preprocessing.normalisation or ((0.0,), (1.0,))
        )
        self._rules = task.rules

    @property
    def takes_seeds(self) -> bool:
        """Whether the model says that its random numbers, if any, come from seeds alone."""
        return self._takes_seeds

    @property
    def device(self) -> torch.device:
        """Where inputs must be."""
        return self._mean_C11.device

    @property
    def normalisation(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation that the inputs are brought to, (C, 1, 1) each."""
        return self._mean_C11, self._std_C11

    def outputs(self, inputs: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        """Return (B, classes) logits of images (B, C, H, W), float32 in [0, 1]; differentiable in ``inputs``.

        ``seeds``, one an example, decide the random numbers of a model that draws any; without them it draws anew.

        Raises:
            ContractError: the inputs are no such images, or the model gave no such logits.
        """
        self._check_inputs(inputs)
        if any(map(IS_TRAINING, self._submodules)):
            raise ContractError("the model went into training mode, wanted evaluation: it must not call train() itself")
        # The model's own copy: what it writes into its input reaches nobody else.
        normalised = (inputs - self._mean_C11) / self._std_C11 if self._is_of_images else inputs.clone()
        with KeptSettings():
            if self._takes_seeds:
                # Lazy ones are not read here: a model without random numbers does without them.
                given = seeds if seeds is None or isinstance(seeds, LazySeeds) else tuple(seeds)
                output = self._module(normalised, given)
            else:
                output = self._module(normalised)
        return self._rules.outputs_of(output, len(inputs))

    def through_solvers(self) -> LoadedModel:
        """Return the same model with gradients through what its mechanisms solve apart from the graph.

        Those are the modules with a true attribute ``stops_gradients``; what they compute stays the same.
        """
        return _Differentiable(self)

    def _check_inputs(self, inputs: Tensor) -> None:
        channels = len(self._mean_C11)
        if self._is_of_images and (inputs.ndim != 4 or inputs.shape[1] != channels):
            raise ContractError(f"inputs must be images (batch, {channels}, height, width), got {tuple(inputs.shape)}")
        if inputs.dtype != torch.float32:
            raise ContractError(f"inputs must be float32 in [0, 1], got {inputs.dtype}: convert them (bytes over 255)")
        if inputs.device != self.device:
            raise ContractError(f"inputs must be on {self.device}, where the model is, got {inputs.device}")


class _Differentiable(LoadedModel):
    """A model whose solvers are differentiated; shares the other's module, and leaves it as it is between passes."""

    def __init__(self, model: LoadedModel) -> None:
        vars(self).update(vars(model))
        self._solvers = [module for module in self._submodules if getattr(module, "stops_gradients", False)]

    def outputs(self, inputs: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        """Return the same logits, differentiable through the solvers too."""
        try:
            self._set(False)
            return super().outputs(inputs, seeds)
        finally:
            self._set(True)

    def _set(self, stops: bool) -> None:
        for solver in self._solvers:
            solver.stops_gradients = stops  # type: ignore[assignment]  # an attribute of whoever has it
