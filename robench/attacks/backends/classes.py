"""Number of classes passed to a library's attack; some fail on an index with fewer classes than targets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from robench.core.errors import DeclarationError

if TYPE_CHECKING:
    from torch import Tensor, nn


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
