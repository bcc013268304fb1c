"""Rules of regression: outputs (B,) or (B, 1), targets (B,) as float32."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from robench.core.columns import Values
from robench.core.errors import ContractError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from robench.tasks.base import Loss, Scoring
    from torch import Tensor

# An attack succeeds if the prediction is off by more.
TOLERANCE = 0.1


def absolute_error(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return |output - label|, (B,)."""
    return (outputs - labels).abs()


class RegressionRules:
    """Rules of regression; see ``robench.tasks.base.TaskRules``."""

    losses: Mapping[str, Loss] = {}
    objective: Loss = staticmethod(absolute_error)

    def outputs_of(self, output: object, num_rows: int) -> Tensor:
        """Extract the outputs (B,) from a module's return value.

        Raises:
            ContractError: it contains no such outputs.
        """
        if not isinstance(output, torch.Tensor) or output.numel() != num_rows or len(output) != num_rows:
            shape = tuple(output.shape) if isinstance(output, torch.Tensor) else type(output).__name__
            raise ContractError(f"the model returned {shape} for {num_rows} examples, wanted one number each")
        return output.reshape(num_rows)

    def check_outputs(self, outputs: Tensor, num_rows: int, model: str) -> None:
        """Refuse predictions that are not finite.

        Raises:
            ContractError: a prediction is not finite.
        """
        if outputs.shape != (num_rows,) or not bool(torch.isfinite(outputs).all()):
            raise ContractError(f"model {model!r} returned something other than {num_rows} finite numbers")

    def columns(self, outputs: Sequence[Tensor], targets: Tensor, scoring: Scoring) -> Mapping[str, Values]:
        """Return target, first prediction and its absolute error, in float64."""
        prediction, wanted = outputs[0].double().cpu(), targets.double().cpu()
        columns = {"target": wanted, "prediction": prediction, "absolute_error": absolute_error(prediction, wanted)}
        return {name: Values(column.numpy()) for name, column in columns.items()}

    def check_fit(self, outputs: Tensor, num_classes: int | None, model: str, dataset: str) -> None:
        """Refuse a model of a dataset of classes.

        Raises:
            UsageError: the dataset has classes.
        """
        if num_classes is not None:
            raise UsageError(f"dataset {dataset!r} has {num_classes} classes, but model {model!r} predicts numbers")

    def labels_of(self, outputs: Tensor) -> Tensor:
        """Return the predictions themselves, (B,)."""
        return outputs

    def is_fooled(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return (B,) whether a prediction is off by more than ``TOLERANCE``."""
        return absolute_error(outputs, labels) > TOLERANCE


RULES = RegressionRules()
