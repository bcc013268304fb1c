"""Classifiers with scikit-learn's interface, and functions from strings to logits, as modules that robench measures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from robench.core.errors import ContractError, UsageError, described
from robench.domains.code_points import decoded
from robench.domains.series import SERIES
from robench.domains.texts import TEXTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
        return _log_probabilities(self.estimator, given, self.columns).to(inputs)


class TextFunction(nn.Module):
    """Module of a function from a list of strings to logits (B, K), without gradients.

    Such are the model wrappers of TextAttack. The function may be an object with ``__call__``; the logits may be a
    tensor, an array or a list.
    """

    def __init__(self, function: Callable[[list[str]], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, points_BT: Tensor) -> Tensor:
        """Return logits (B, K) of texts, code points (B, T).

        Raises:
            ContractError: the function failed, or returned something else than a row of numbers for each text.
        """
        texts = decoded(points_BT)
        try:
            found = self.function(texts)
            logits = torch.as_tensor(found, dtype=torch.float32, device=points_BT.device)
        # Broad because the function is any code.
        except Exception as error:
            raise ContractError(f"the function of texts failed: {described(error)}") from error
        if logits.ndim != 2 or len(logits) != len(texts):
            wanted = f"({len(texts)}, classes)"
            raise ContractError(f"the function of texts returned the shape {tuple(logits.shape)}, wanted {wanted}")
        return logits


class _TextEstimator:
    def __init__(self, estimator: Estimator, columns: list[int]) -> None:
        self.estimator = estimator
        self.columns = columns

    def __call__(self, texts: list[str]) -> Tensor:
        return _log_probabilities(self.estimator, texts, self.columns)


def _log_probabilities(estimator: Estimator, given: Any, columns: list[int]) -> Tensor:
    """Return the log-probabilities (B, K) of a classifier, with its columns in the order of the dataset's classes."""
    try:
        found = np.asarray(estimator.predict_proba(given), dtype=np.float64)
    # Broad because an estimator is any code.
    except Exception as error:
        raise ContractError(f"predict_proba of the estimator failed: {described(error)}") from error
    if found.ndim != 2 or len(found) != len(given) or found.shape[1] != len(columns):
        wanted = (len(given), len(columns))
        raise ContractError(f"predict_proba of the estimator returned the shape {found.shape}, wanted {wanted}")
    return torch.from_numpy(np.log(np.clip(found[:, columns], SMALLEST_PROBABILITY, 1)))


def wrap(estimator: Estimator, classes: Sequence[Any] | None = None, *, inputs: str = SERIES.name) -> nn.Module:
    """Return a module of a fitted classifier of time series or texts, for ``robench.run`` and ``robench.transfer``.

    A classifier of series gets arrays (B, C, T) as those of aeon do, or a list of arrays (C, T) where series differ in
    length, standardised as the dataset is; one of texts gets a list of strings. It has no gradients: take corruptions
    and attacks without them.

    Args:
        estimator: fitted classifier with ``classes_`` and ``predict_proba``.
        classes: labels of the classes, in the order of the dataset; None where the labels are the numbers 0 to K - 1.
        inputs: ``series`` or ``texts``.

    Raises:
        UsageError: it is not fitted, gives no probabilities, or has other labels or inputs.
    """
    if inputs not in (SERIES.name, TEXTS.name):
        raise UsageError(f"inputs is {inputs!r}, expected {SERIES.name} or {TEXTS.name}")
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
    columns = [own.index(label) for label in wanted]
    if inputs == TEXTS.name:
        return TextFunction(_TextEstimator(estimator, columns))
    return EstimatorModule(estimator, columns)
