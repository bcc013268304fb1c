"""Predictions from per-example seeds, beside the draws that perturbations are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch

from robench.core.errors import ContractError
from robench.core.protocols import Model, ScoresTargets
from robench.draws import ExampleDraws

__all__ = ["ExampleDraws", "predict"]


@torch.no_grad()
def predict(
    model: Model, inputs: torch.Tensor, seeds: Sequence[int], batch_size: int, targets: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the outputs (B, ...) of one prediction of inputs (B, ...), in passes of ``batch_size`` rows.

    A ``ScoresTargets`` scores ``targets`` (B, ...) in place of the targets that the inputs contain.

    Raises:
        ContractError: targets are given, and the model takes none.
    """
    rows = [slice(at, at + batch_size) for at in range(0, len(seeds), batch_size)]
    if targets is None:
        passes = [model.outputs(inputs[each], seeds[each]) for each in rows]
    elif getattr(model, "takes_targets", False):
        scores = cast("ScoresTargets", model)
        passes = [scores.outputs(inputs[each], seeds[each], targets[each]) for each in rows]
    else:
        raise ContractError("the model takes no targets, so that it cannot be scored on the clean ones")
    # One pass is not copied: its outputs may be large.
    return passes[0] if len(passes) == 1 else torch.cat(passes)
