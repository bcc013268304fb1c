"""Views that other libraries have of a run: the victim as a module, its number of classes, and global state.

Some libraries fail on an index with fewer classes than targets, hence the check before they start.
"""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from robench.attacks.problem import Problem
from robench.core.errors import ContractError, DeclarationError


class ShownVictim(nn.Module):
    """Victim as seen by a library.

    The victim's own module is not a submodule, so that no library can change its mode, its weights or its gradient
    flags. Passes have robench's own sizes. A victim that draws random numbers does so anew in each pass, from the
    global generator, because a library does not report the example of a row.

    Attributes:
        num_rows, num_differentiated: number of rows passed forward, and differentiated.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        # Libraries find the device by a model's first parameter.
        self.device_marker = nn.Parameter(torch.zeros((), device=problem.inputs.device), requires_grad=False)
        self.num_rows = self.num_differentiated = 0
        self._problem = problem
        self.eval()

    def forward(self, points: Tensor) -> Tensor:
        """Return the logits (N, classes) of any number of points (N, ...) of the attack's space.

        Raises:
            ContractError: some are not finite.
        """
        size = self._problem.batch_size
        pieces = [self._piece(points[start : start + size]) for start in range(0, len(points), size)]
        logits = torch.cat(pieces) if len(pieces) > 1 else pieces[0]
        if not bool(torch.isfinite(logits).all()):
            raise ContractError("the model returned NaN or infinite logits for inputs of an attack")
        self.num_rows += len(points)
        if logits.requires_grad:
            logits.register_hook(self._count_gradient)
        return logits

    def _count_gradient(self, gradient: Tensor) -> None:
        self.num_differentiated += len(gradient)

    def _piece(self, points: Tensor) -> Tensor:
        shown = self._problem.pixels(self._problem.padded(points))
        return self._problem.victim.outputs(shown)[: len(points)]


@contextmanager
def undisturbed(device: torch.device, seed: int) -> Iterator[None]:
    """Seed the generators of torch, numpy and Python for the block; restore them and torch's settings afterwards.

    AutoAttack also removes any trace function, which would stop a debugger or a coverage measurement.
    """
    of_numpy, of_python, trace = np.random.get_state(), random.getstate(), sys.gettrace()
    has_gradients, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        try:
            torch.manual_seed(seed)
            np.random.seed(seed % 2**32)
            random.seed(seed)
            # Some rely on their caller.
            torch.set_grad_enabled(True)
            yield
        finally:
            np.random.set_state(of_numpy)
            random.setstate(of_python)
            sys.settrace(trace)
            torch.set_grad_enabled(has_gradients)
            torch.set_default_dtype(dtype)


def num_classes_of(model: nn.Module, inputs: Tensor) -> int:
    """Return the model's number of classes, from its output on one of the inputs."""
    with torch.no_grad():
        return int(model(inputs[:1]).shape[1])


# Any: a declaration of apgd or fab, the attacks with targets.
def check_targets(declaration: Any, model: nn.Module, inputs: Tensor) -> None:
    """Check that there is another class for each target.

    Raises:
        DeclarationError: there are fewer classes than targets and the label.
    """
    field = "num_restarts" if declaration.kind == "apgd" else "num_targets"
    num_targets, num_classes = getattr(declaration, field), num_classes_of(model, inputs)
    if num_targets >= num_classes:
        raise DeclarationError(
            f"{field} must be at most {num_classes - 1} with backend {declaration.backend}, "
            f"since the model has {num_classes} classes, got {num_targets}"
        )
