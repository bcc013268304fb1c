"""Classifiers with scikit-learn's interface, such as those of aeon and sktime, as modules that robench measures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from robench.core.errors import ContractError, UsageError, described

if TYPE_CHECKING:
    from collections.abc import Sequence

# Logits of classes with the probability 0, and of all that round to it.
SMALLEST_PROBABILITY = 1e-12


class Estimator(Protocol):
    """Fitted classifier with scikit-learn's interface.

    Attributes:
        classes_: labels of the columns of ``predict_proba``.
    """

    classes_: Any

    def predict_proba(self, X: Any) -> Any:  # scikit-learn's name
        """Return the probabilities of the classes, (B, K)."""


class EstimatorModule(nn.Module):
    """Module of a fitted classifier of time series, without gradients; see ``wrap``."""

    takes_masks = True

    def __init__(self, estimator: Estimator, columns: list[int]) -> None:
        super().__init__()
        self.estimator = estimator
        self.columns = columns

    def forward(self, inputs: Tensor, mask_BN: Tensor | None = None) -> Tensor:  # the name of masks
        """Return log-probabilities (B, K) of series (B, T, C), without the steps outside the mask.

        Raises:
            ContractError: the classifier failed, or returned something else than probabilities.
        """
        values = inputs.detach().cpu().double().numpy().swapaxes(1, 2)
        lengths = [values.shape[2]] * len(values) if mask_BN is None else mask_BN.sum(1).tolist()
        series = [each[:, :length] for each, length in zip(values, lengths, strict=True)]
        given = np.stack(series) if len(set(lengths)) == 1 else series
        try:
            found = np.asarray(self.estimator.predict_proba(given), dtype=np.float64)
        # Broad because an estimator is any code.
        except Exception as error:
            raise ContractError(f"predict_proba of the estimator failed: {described(error)}") from error
        if found.ndim != 2 or len(found) != len(values) or found.shape[1] != len(self.columns):
            wanted = (len(values), len(self.columns))
            raise ContractError(f"predict_proba of the estimator returned the shape {found.shape}, wanted {wanted}")
        logits = np.log(np.clip(found[:, self.columns], SMALLEST_PROBABILITY, 1))
        return torch.from_numpy(logits).to(inputs)


def wrap(estimator: Estimator, classes: Sequence[Any] | None = None) -> EstimatorModule:
    """Return a module of a fitted classifier of time series, for ``robench.run`` and ``robench.transfer``.

    The classifier gets arrays (B, C, T) as those of aeon do, or a list of arrays (C, T) where series differ in length,
    standardised as the dataset is. It has no gradients: take corruptions and attacks without them.

    Args:
        estimator: fitted classifier with ``classes_`` and ``predict_proba``.
        classes: labels of the classes, in the order of the dataset; None where the labels are the numbers 0 to K - 1.

    Raises:
        UsageError: it is not fitted, gives no probabilities, or has other labels.
    """
    labels = getattr(estimator, "classes_", None)
    if labels is None or not callable(getattr(estimator, "predict_proba", None)):
        lacks = "classes_" if labels is None else "predict_proba"
        raise UsageError(f"estimator {type(estimator).__name__} has no {lacks}; give a fitted classifier with both")
    own = [str(label) for label in labels]
    wanted = [str(label) for label in (range(len(own)) if classes is None else classes)]
    if sorted(own) != sorted(wanted):
        raise UsageError(
            f"estimator {type(estimator).__name__} has the labels {', '.join(own[:10])}, wanted"
            f" {', '.join(wanted[:10])}: give classes, its labels in the order of the dataset's classes"
        )
    return EstimatorModule(estimator, [own.index(label) for label in wanted])
