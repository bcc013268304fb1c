"""Rules of real-valued inputs of one shape: checks of what plug-ins return, and distances.

The harness does not trust plug-ins: a broken contract stops the shard.
"""

from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from math import inf
from typing import ClassVar

import numpy as np
import torch

from robench.core.budgets import Spelled, Support, ThreatModel
from robench.core.declared import PerturbationDeclaration
from robench.core.errors import BudgetExceededError, ContractError
from robench.core.protocols import Model
from robench.core.providers import title_of
from robench.declarations.base import LARGEST
from robench.declarations.supports import box_of
from robench.domains.base import Domain

# Rounding of a third party's float32 arithmetic, and on the way into normalised space and back; robench's own attacks
# stay within the exact budget.
BUDGET_TOLERANCE = 1e-6
# Half ranges of data are rounded up to so many digits.
NUM_DIGITS = 2


class RealValued:
    """Rules of a domain whose inputs are tensors with its axes and values within its limits; see ``domains.base``."""

    dtype: ClassVar[torch.dtype] = torch.float32

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self.limits = domain.limits or (-inf, inf)

    def collate(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Stack examples (...) into one batch (B, ...). Raises ContractError: they have different shapes."""
        if len(shapes := sorted({tuple(each.shape) for each in inputs})) > 1:
            raise ContractError(f"examples of one batch must have one shape, got {shapes[0]} and {shapes[1]}")
        return torch.stack(list(inputs))

    def excerpt(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the whole example."""
        return inputs

    def valid(self, inputs: torch.Tensor) -> torch.Tensor | None:
        """Return None: nothing is padding."""
        return None

    def half_range(self, inputs: torch.Tensor) -> Fraction:
        """Return half the distance of the limits; without them, of the smallest and the largest value in inputs.

        The latter is rounded up to two digits, so that every budget in l-infinity from it on includes it, and at most
        half of the largest budget.
        """
        if self._domain.half_range is not None:
            return self._domain.half_range
        valid = self.valid(inputs)
        values = (inputs if valid is None else inputs[valid]).double()
        half = min(float(values.max() - values.min()) / 2, LARGEST / 2)
        return Spelled(f"{Context(prec=NUM_DIGITS, rounding=ROUND_CEILING).create_decimal(Decimal(half)):f}")

    def check_clean(self, inputs: torch.Tensor, dataset: str) -> None:
        """Refuse inputs (B, ...) with other axes than the domain's, or values that are not finite or beyond its limits.

        Raises:
            ContractError: they are not; the message says what was found.
        """
        axes = self._domain.axes
        if axes and inputs.ndim != 1 + len(axes):
            wanted = f"{self._domain.name} ({', '.join(('batch', *axes))})"
            raise ContractError(f"dataset {dataset!r} gave inputs of shape {tuple(inputs.shape)}, wanted {wanted}")
        self._check_range(inputs, f"dataset {dataset!r} gave inputs")

    def check_perturbed(
        self, perturbed: torch.Tensor, clean: torch.Tensor, declaration: PerturbationDeclaration, model: Model
    ) -> Mapping[str, torch.Tensor]:
        """Measure distances between perturbed and clean inputs (B, ...), and refuse broken contracts.

        Distances are in units of the inputs regardless of the attack's space; its budget is checked in its own space.
        Inputs of an attack without ``clip`` may lie outside the interval, but must be finite. Those of an attack that
        clips to [0, 1] after normalisation must lie there; clipping alone does not count towards the budget.

        Returns:
            (B,) float64 each: ``linf``, ``l2``, ``l1``. Where changed places are counted, also ``num_changed``, (B,)
            int64, and of pixels ``changed_box``, (B, 4) int64.

        Raises:
            ContractError: another shape, NaN, or values outside the limits of ``clip``.
            BudgetExceededError: an input was moved by more than the threat model allows, or in other places.
        """
        title, threat_model = title_of("perturbation", declaration, declaration.kind), declaration.threat_model
        if perturbed.shape != clean.shape:
            raise ContractError(f"{title} returned shape {tuple(perturbed.shape)}, wanted {tuple(clean.shape)}")
        if declaration.clip == "box":
            self._check_range(perturbed, f"{title} returned inputs")
        elif not bool(torch.isfinite(perturbed).all()):
            raise ContractError(f"{title} returned NaN or infinite inputs")
        change = within = perturbed.double() - clean.double()
        if declaration.clip == "unit":
            within = _change_but_cut(perturbed, clean, declaration, model)
        if threat_model is not None:
            _check_budget(within, title, threat_model, model)
        if declaration.counted is None:
            return _distances(change)
        return _distances(change) | _places(perturbed != clean, title, declaration.counted)

    def _check_range(self, inputs: torch.Tensor, subject: str) -> None:
        lower, upper = self.limits
        lowest, highest = inputs.min(), inputs.max()
        # A NaN makes all comparisons false.
        is_finite = (lowest > -inf) & (highest < inf)
        if not bool(is_finite & (lowest >= lower) & (highest <= upper)):
            wanted = "finite numbers" if self._domain.limits is None else f"[{lower:g}, {upper:g}]"
            raise ContractError(f"{subject} from {float(lowest):.6g} to {float(highest):.6g}, wanted {wanted}")


def _change_but_cut(
    perturbed: torch.Tensor, clean: torch.Tensor, declaration: PerturbationDeclaration, model: Model
) -> torch.Tensor:
    """Return the changes (B, ...), with 0 for values that were only clipped to [0, 1] after normalisation.

    An attack that returns the same point as its published code leaves some inputs unclipped.
    """
    mean, std = (channels.double() for channels in model.normalisation)
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


def _distances(change: torch.Tensor) -> dict[str, torch.Tensor]:
    rows = change.flatten(1).abs()
    return {"linf": rows.amax(1), "l2": rows.square().sum(1).sqrt(), "l1": rows.sum(1)}


def _places(changed: torch.Tensor, title: str, support: Support) -> dict[str, torch.Tensor]:
    """Return the number of changed places, and of images the box around them; refuse others than the support has."""
    mask = changed.cpu().numpy()
    if violation := support.violation(mask):
        raise BudgetExceededError(f"{title} changed {violation} ({support})")
    places = support.places(mask)
    columns = {"num_changed": torch.from_numpy(places.reshape(len(places), -1).sum(1).astype(np.int64))}
    if places.ndim == 3:
        columns["changed_box"] = torch.tensor([box_of(each) for each in places], dtype=torch.int64)
    return columns


def _check_budget(change: torch.Tensor, title: str, threat_model: ThreatModel, model: Model) -> None:
    if threat_model.space == "normalised":
        change = change / model.normalisation[1].double()
    found = float(_distances(change)[threat_model.norm].max())
    if found > float(threat_model.epsilon) + BUDGET_TOLERANCE * max(1.0, float(threat_model.epsilon)):
        raise BudgetExceededError(
            f"{title} moved an input by {found:.6g} in {threat_model.norm}, "
            f"more than its budget {float(threat_model.epsilon):.6g} ({threat_model.epsilon_text})"
        )
