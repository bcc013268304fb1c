"""Declaration of domains, and the protocol of their rules."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Literal, Protocol

from robench.declarations.base import FieldProblem, FieldsError, imported

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch

    from robench.core.declared import PerturbationDeclaration
    from robench.core.protocols import Model

# Name of the axis along which inputs are normalised.
CHANNELS = "channels"


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """Domain of the inputs of datasets and models.

    Attributes:
        name: name in registries and declarations; ``title``: name for readers.
        implementation: ``module:name`` of a function of the domain that returns its ``DomainRules``, imported on first
            use: ``robench.domains.real_valued:RealValued`` for arrays of real numbers.
        axes: names of the axes of one input, such as ``("channels", "height", "width")``; attacks and corruptions state
            the axes that they need.
        is_real_valued: inputs are real numbers, so that they can be moved by small distances in a norm.
        limits: smallest and largest valid value of real-valued inputs, the limits of attacks with ``clip: box``; None
            if every finite number is valid.
        levels: number of steps between the limits in which budgets are written, such as 255 in 8/255; None if they are
            written as plain numbers.
        unit: unit of distances in a norm, such as ``pixel``, for the headers of tables; empty if they have none.
        is_padded: real-valued inputs have places of padding (``DomainRules.valid``), which no perturbation may move;
            budgets are then in the space of the inputs alone.
        shown_as: how a page shows an input: ``image`` for (1 or 3, H, W) in [0, 1], ``text`` for code points, ``lines``
            for steps (T, C), a line a channel, or ``sequence`` for whole numbers; empty if it cannot be shown.
        audit_epsilon: budget in l-infinity at which classifiers of real-valued inputs are audited, in units of the
            inputs; None if they are not.
    """

    name: str
    title: str
    implementation: str
    axes: tuple[str, ...] = ()
    is_real_valued: bool = False
    limits: tuple[float, float] | None = None
    levels: int | None = None
    unit: str = ""
    is_padded: bool = False
    shown_as: Literal["image", "text", "lines", "sequence", ""] = ""
    audit_epsilon: Fraction | None = None

    def __post_init__(self) -> None:
        """Refuse limits that are not two ascending finite numbers, repeated axes, and audits that cannot be made."""
        problems: list[FieldProblem] = []
        if self.limits is not None and not (all(map(isfinite, self.limits)) and self.limits[0] < self.limits[1]):
            problems.append(("limits", f"must be two ascending finite numbers, or None, got {self.limits}"))
        if len(set(self.axes)) < len(self.axes):
            problems.append(("axes", f"must have different names, got {', '.join(self.axes)}"))
        if self.audit_epsilon is not None and not (self.is_real_valued and self.audit_epsilon > 0):
            problems.append(("audit_epsilon", f"must be above 0, of real-valued inputs, got {self.audit_epsilon}"))
        if problems:
            raise FieldsError(problems)

    @property
    def half_range(self) -> Fraction | None:
        """Return the distance in l-infinity from every input to the middle of the limits; None without limits."""
        return None if self.limits is None else (Fraction(self.limits[1]) - Fraction(self.limits[0])) / 2

    @property
    def rules(self) -> DomainRules:
        """Import and return the rules."""
        return _rules_of(self)

    @property
    def channel_shape(self) -> tuple[int, ...]:
        """Return the shape of a value per channel beside one input, such as (-1, 1, 1); () without such an axis."""
        if CHANNELS not in self.axes:
            return ()
        return -1, *(1 for _ in self.axes[self.axes.index(CHANNELS) + 1 :])

    def budget_problem(self, norm: str, epsilon: Fraction) -> str:
        """Return why a budget is too large to be meant, such as ``must be at most 1 ...``; empty if it is not.

        A budget in l-infinity beyond the distance of the limits allows every input.
        """
        if self.limits is None or norm != "linf":
            return ""
        lower, upper = self.limits
        if epsilon <= Fraction(upper) - Fraction(lower):
            return ""
        example = "" if self.levels is None else f"; such as 8/{self.levels}"
        return f"must be at most {upper - lower:g} for {self.name} in [{lower:g}, {upper:g}], got {epsilon}{example}"


@cache
def _rules_of(domain: Domain) -> DomainRules:
    make: Callable[[Domain], DomainRules] = imported(domain.implementation)
    return make(domain)


class DomainRules(Protocol):
    """Rules of a domain, on batches of inputs (B, ...)."""

    @property
    def dtype(self) -> torch.dtype:
        """Return the type of the numbers of inputs."""

    @property
    def limits(self) -> tuple[float, float]:
        """Return the minimum and maximum of real-valued inputs, infinite for none."""

    def collate(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Stack examples (...) into one batch (B, ...).

        Raises:
            ContractError: they have different shapes, and the domain has no rule for that.
        """

    def excerpt(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return as much of an example (...) as the checks before a run need, the whole example in most domains."""

    def valid(self, inputs: torch.Tensor) -> torch.Tensor | None:
        """Return the places of inputs (B, N, ...) that hold values, as (B, N) booleans; None without padding.

        Of pairs of sequences (B, 2, N) the booleans are (B, 2, N).
        Models get zeros in the places of padding, and the booleans if they take ``masks``.
        """

    def half_range(self, inputs: torch.Tensor) -> Fraction:
        """Return the distance in l-infinity within which all values of real-valued inputs (B, ...) can become equal.

        Within twice this distance each input reaches every other one. With limits it is that of the domain, without
        them that of these inputs. Padding, which cannot move, does not count.
        """

    def check_clean(self, inputs: torch.Tensor, dataset: str) -> None:
        """Refuse clean inputs (B, ...) with values outside the domain; ``dataset`` is the name in messages.

        Raises:
            ContractError: the message says what was found.
        """

    def check_perturbed(
        self, perturbed: torch.Tensor, clean: torch.Tensor, declaration: PerturbationDeclaration, model: Model
    ) -> Mapping[str, torch.Tensor]:
        """Return the distances (B,) between clean and perturbed inputs (B, ...), by column name.

        Raises:
            ContractError: the perturbed inputs violate the rules of the domain or the declaration.
            BudgetExceededError: an input was moved by more than the threat model allows.
        """
