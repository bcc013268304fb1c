"""Losses that attacks maximise, one value per example; none depends on a constant added to all logits.

Axes: B batch, K classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.functional import cross_entropy

from robench.core.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from robench.tasks.base import Loss


def cross_entropy_loss(logits_BK: Tensor, labels_B: Tensor) -> Tensor:
    """Return -log softmax(z)_y, (B,), in nats."""
    return cross_entropy(logits_BK, labels_B, reduction="none")


def margin_loss(logits_BK: Tensor, labels_B: Tensor) -> Tensor:
    """Return max_{i != y} z_i - z_y, (B,): positive if the model is fooled. Carlini & Wagner 2017, f_6."""
    return largest_other(logits_BK, labels_B) - of_class(logits_BK, labels_B)


def dlr_loss(logits_BK: Tensor, labels_B: Tensor) -> Tensor:
    """Return the difference of logits ratio, (B,): -(z_y - max_{i != y} z_i) / (z_1st - z_3rd).

    Source: Croce & Hein 2020, arXiv:2003.01690, equation 6. The code's 1e-12 in the denominator is here too.

    Raises:
        DeclarationError: there are fewer than three classes.
    """
    _wants_classes(logits_BK, 3, "loss dlr")
    sorted_BK = logits_BK.sort(dim=1, descending=True, stable=True).values
    return margin_loss(logits_BK, labels_B) / (sorted_BK[:, 0] - sorted_BK[:, 2] + 1e-12)


def targeted_dlr_loss(logits_BK: Tensor, labels_B: Tensor, targets_B: Tensor) -> Tensor:
    """Return the targeted ratio for the class t of each example, (B,): -(z_y - z_t) / (z_1st - (z_3rd + z_4th) / 2).

    Source: Croce & Hein 2020, equation 7.

    Raises:
        DeclarationError: there are fewer than four classes.
    """
    _wants_classes(logits_BK, 4, "targeted loss dlr")
    sorted_BK = logits_BK.sort(dim=1, descending=True, stable=True).values
    spread_B = sorted_BK[:, 0] - (sorted_BK[:, 2] + sorted_BK[:, 3]) / 2 + 1e-12
    return lead_loss(logits_BK, labels_B, targets_B) / spread_B


def lead_loss(logits_BK: Tensor, labels_B: Tensor, targets_B: Tensor) -> Tensor:
    """Return z_t - z_y for the class t of each example, (B,): positive if t ranks above the label."""
    return of_class(logits_BK, targets_B) - of_class(logits_BK, labels_B)


def of_class(logits_BK: Tensor, classes_B: Tensor) -> Tensor:
    """Return each row's logit of its class, (B,)."""
    return logits_BK.gather(1, classes_B[:, None])[:, 0]


def largest_other(logits_BK: Tensor, labels_B: Tensor) -> Tensor:
    """Return each row's largest logit among classes other than its label, (B,)."""
    return logits_BK.scatter(1, labels_B[:, None], -torch.inf).amax(dim=1)


def predicted(logits_BK: Tensor) -> Tensor:
    """Return each row's predicted class, (B,): the lowest of those with the highest logit, as in outcomes."""
    return (logits_BK == logits_BK.amax(dim=1, keepdim=True)).int().argmax(dim=1)


def _wants_classes(logits_BK: Tensor, wanted: int, subject: str) -> None:
    if logits_BK.shape[1] < wanted:
        raise DeclarationError(
            f"{subject} needs at least {wanted} classes, the model has {logits_BK.shape[1]}: take loss ce or margin"
        )


LOSSES: Mapping[str, Loss] = {"ce": cross_entropy_loss, "margin": margin_loss, "dlr": dlr_loss}
