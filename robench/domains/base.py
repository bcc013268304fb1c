"""Declaration of a domain, and the rules that its implementation must have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from robench.declarations.base import imported

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch

    from robench.core.declared import PerturbationDeclaration
    from robench.core.protocols import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """Domain of datasets and models: what inputs are.

    Attributes:
        name: name in registries and declarations; ``title``: name for readers.
        is_real_valued: inputs are real numbers, so that they can be moved by small distances in a norm.
        implementation: ``module:name`` of its ``DomainRules``, imported on first use.
    """

    name: str
    title: str
    implementation: str
    is_real_valued: bool = False

    @property
    def rules(self) -> DomainRules:
        """The rules, imported now."""
        rules: DomainRules = imported(self.implementation)
        return rules


class DomainRules(Protocol):
    """Rules of a domain, on batches of inputs (B, ...)."""

    @property
    def limits(self) -> tuple[float, float]:
        """Least and greatest value of real-valued inputs, which attacks with ``clip: box`` stay between."""

    def collate(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return examples (...) as one batch (B, ...).

        Raises:
            ContractError: they have different shapes, and the domain has no rule for that.
        """

    def check_clean(self, inputs: torch.Tensor, dataset: str) -> None:
        """Refuse clean inputs (B, ...) with values that the domain does not have; ``dataset`` is the name in messages.

        Raises:
            ContractError: the message says what was found.
        """

    def check_perturbed(
        self, perturbed: torch.Tensor, clean: torch.Tensor, declaration: PerturbationDeclaration, model: Model
    ) -> Mapping[str, torch.Tensor]:
        """Return the distances (B,) between clean and perturbed inputs (B, ...), by their columns in records.

        Raises:
            ContractError: the perturbed inputs are not what the domain or the declaration allows.
            BudgetExceededError: an input was moved by more than the threat model allows.
        """
