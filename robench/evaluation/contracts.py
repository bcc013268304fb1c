"""The harness distrusts plug-ins: what they promise is measured here, and a broken promise stops the shard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from robench.core.errors import BudgetExceededError, ContractError
from robench.core.providers import title_of

if TYPE_CHECKING:
    from robench.core.protocols import Batch, PerturbationDeclaration, Victim
    from robench.core.suite import ThreatModel

# Rounding of a third party's float32 arithmetic, and on the way into normalised space and back; robench's own attacks
# stay within the exact budget.
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
    perturbed: torch.Tensor, clean: torch.Tensor, declaration: PerturbationDeclaration, victim: Victim
) -> Distances:
    """Measure what a perturbation returned against the clean inputs (B, ...), and refuse what breaks its promise.

    Distances are in pixel units whatever the attack's space; its budget is checked in its own space. Inputs of an
    attack without ``clip`` may lie outside [0, 1], but must be finite. Those of an attack that cuts to [0, 1] after
    normalisation must lie there; a value that only was cut has not moved, of its budget.

    Raises:
        ContractError: another shape, NaN, or values outside the limits of ``clip``.
        BudgetExceededError: an input was moved by more than the threat model allows.
    """
    title, threat_model = title_of("perturbation", declaration, declaration.kind), declaration.threat_model
    if perturbed.shape != clean.shape:
        raise ContractError(f"{title} returned shape {tuple(perturbed.shape)}, wanted {tuple(clean.shape)}")
    if declaration.clip == "box":
        _check_range(perturbed, f"{title} returned inputs")
    elif not bool(torch.isfinite(perturbed).all()):
        raise ContractError(f"{title} returned NaN or infinite inputs")
    change = within = perturbed.double() - clean.double()
    if declaration.clip == "unit":
        within = _change_but_cut(perturbed, clean, declaration, victim)
    if threat_model is not None:
        _check_budget(within, title, threat_model, victim)
    return _distances(change)


def _change_but_cut(
    perturbed: torch.Tensor, clean: torch.Tensor, declaration: PerturbationDeclaration, victim: Victim
) -> torch.Tensor:
    """Return the changes (B, ...), 0 of each value that was cut to [0, 1] after normalisation and no more.

    An attack that returns what its published code does leaves some inputs whole, before any cut.
    """
    mean, std = (channels.double() for channels in victim.normalisation)
    points = perturbed.double()
    whole = (perturbed == clean).flatten(1).all(1) & declaration.returns_published_point
    inside = torch.clamp(points, mean - BUDGET_TOLERANCE, mean + std + BUDGET_TOLERANCE)
    if not bool(((inside == points).flatten(1).all(1) | whole).all()):
        normalised = ((points - mean) / std)[~whole]
        title = title_of("perturbation", declaration, declaration.kind)
        raise ContractError(
            f"{title} returned inputs from {float(normalised.min()):.6g} to "
            f"{float(normalised.max()):.6g} after normalisation, wanted [0, 1]"
        )
    is_cut = (points - torch.clamp(clean.double(), mean, mean + std)).abs() <= BUDGET_TOLERANCE
    return torch.where(is_cut, 0.0, points - clean.double())


def _distances(change: torch.Tensor) -> Distances:
    rows = change.flatten(1).abs()
    return Distances(linf=rows.amax(1), l2=rows.square().sum(1).sqrt(), l1=rows.sum(1))


def _check_budget(change: torch.Tensor, title: str, threat_model: ThreatModel, victim: Victim) -> None:
    if threat_model.space == "normalised":
        change = change / victim.normalisation[1].double()
    met = float(getattr(_distances(change), threat_model.norm).max())
    if met > float(threat_model.epsilon) + BUDGET_TOLERANCE * max(1.0, float(threat_model.epsilon)):
        raise BudgetExceededError(
            f"{title} moved an input by {met:.6g} in {threat_model.norm}, "
            f"more than its budget {float(threat_model.epsilon):.6g} ({threat_model.epsilon_text})"
        )


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
