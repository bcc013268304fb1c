"""The harness distrusts plug-ins: what they promise is measured here, and a broken promise stops the shard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from robench.core.errors import BudgetExceededError, ContractError

if TYPE_CHECKING:
    from robench.core.protocols import Batch
    from robench.core.suite import ThreatModel

# Rounding of a third party's float32 arithmetic; robench's own attacks stay within the exact budget.
BUDGET_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Distances:
    """How far each input was moved, (B,) float64 each, in pixel units."""

    linf: torch.Tensor
    l2: torch.Tensor
    l1: torch.Tensor


def check_clean(batch: Batch, dataset: str) -> None:
    """Refuse a batch whose inputs are not finite values in [0, 1].

    Raises:
        ContractError: they are not; the message says what was met.
    """
    _check_range(batch.inputs, f"dataset {dataset!r} gave inputs")


def check_perturbed(
    perturbed: torch.Tensor, clean: torch.Tensor, kind: str, threat_model: ThreatModel | None
) -> Distances:
    """Measure what a perturbation returned against the clean inputs (B, ...), and refuse what breaks its promise.

    Raises:
        ContractError: another shape, NaN, or values outside [0, 1].
        BudgetExceededError: an input was moved by more than the threat model allows.
    """
    if perturbed.shape != clean.shape:
        raise ContractError(
            f"perturbation {kind!r} returned shape {tuple(perturbed.shape)}, wanted {tuple(clean.shape)}"
        )
    _check_range(perturbed, f"perturbation {kind!r} returned inputs")
    change = (perturbed.double() - clean.double()).flatten(1).abs()
    distances = Distances(linf=change.amax(1), l2=change.square().sum(1).sqrt(), l1=change.sum(1))
    if threat_model is not None:
        met = float(getattr(distances, threat_model.norm).max())
        if met > threat_model.epsilon + BUDGET_TOLERANCE:
            raise BudgetExceededError(
                f"perturbation {kind!r} moved an input by {met:.6g} in {threat_model.norm}, "
                f"more than its budget {float(threat_model.epsilon):.6g} ({threat_model.epsilon_text})"
            )
    return distances


def check_logits(logits: torch.Tensor, num_rows: int, checkpoint: str) -> None:
    """Refuse scores that are not (B, classes) finite numbers.

    Raises:
        ContractError: they are not; nothing is recorded as right or robust on such scores.
    """
    if logits.ndim != 2 or len(logits) != num_rows:
        raise ContractError(f"model {checkpoint!r} returned shape {tuple(logits.shape)}, wanted ({num_rows}, classes)")
    if not bool(torch.isfinite(logits).all()):
        rows = int((~torch.isfinite(logits)).any(1).sum())
        raise ContractError(f"model {checkpoint!r} returned NaN or infinite logits for {rows} of {num_rows} inputs")


def _check_range(inputs: torch.Tensor, subject: str) -> None:
    lowest, highest = inputs.min(), inputs.max()
    # A NaN makes both comparisons false.
    if not (bool(lowest >= 0) and bool(highest <= 1)):
        raise ContractError(f"{subject} from {float(lowest):.6g} to {float(highest):.6g}, wanted [0, 1]")
