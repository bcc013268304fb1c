"""What layers hand on to each other within one forward pass: the only way from one layer's values to another's.

The backbone makes a state for each pass and gives it to every layer in turn, so that nothing survives the pass, and no
module holds another one's tensors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from robench.core.errors import ContractError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(slots=True)
class ForwardState:
    """One forward pass.

    Attributes:
        seeds: one for each example, for mechanisms that draw random numbers; None where the caller gave none.
        values_BHND: values of the layers that were passed, by 0-based layer.
    """

    seeds: tuple[int, ...] | None = None
    values_BHND: dict[int, Tensor] = field(default_factory=dict)

    def values_of(self, layer: int) -> Tensor:
        """Return the values (B, H, N, D) that ``layer`` published.

        Raises:
            ContractError: it has not been passed, or does not publish its values.
        """
        if layer not in self.values_BHND:
            raise ContractError(f"layer {layer} has handed on no values, only {sorted(self.values_BHND)} have")
        return self.values_BHND[layer]
