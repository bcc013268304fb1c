"""Declaration of domains, and the protocol of their rules."""

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
    """Domain of the inputs of datasets and models.

    Attributes:
        name: name in registries and declarations; ``title``: name for readers.
        is_real_valued: inputs are real numbers, so that they can be moved by small distances in a norm.
        is_drawable: inputs (1 or 3, H, W) in [0, 1] are images, of which pictures can be made.
        implementation: ``module:name`` of its ``DomainRules``, imported on first use.
    """

    name: str
    title: str
    implementation: str
    is_real_valued: bool = False
    is_drawable: bool = False

    @property
    def rules(self) -> DomainRules:
        """Import and return the rules."""
        rules: DomainRules = imported(self.implementation)
        return rules


class DomainRules(Protocol):
    """Rules of a domain, on batches of inputs (B, ...)."""

    @property
    def dtype(self) -> torch.dtype:
        """Return the type of the numbers of inputs."""

    @property
    def limits(self) -> tuple[float, float]:
        """Return the minimum and maximum of real-valued inputs, the limits of attacks with ``clip: box``."""

    def collate(self, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Stack examples (...) into one batch (B, ...).

        Raises:
            ContractError: they have different shapes, and the domain has no rule for that.
        """

    def excerpt(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return as much of an example (...) as the checks before a run need, the whole example in most domains."""

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
