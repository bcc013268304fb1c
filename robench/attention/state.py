"""State of one forward pass, the only path from one layer's values to another's.

The backbone makes a state for each pass and gives it to every layer in turn, so that nothing outlives the pass, and no
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
    """State of one forward pass.

    Attributes:
        seeds: one seed per example, for mechanisms that draw random numbers; None if the caller gave none.
        values_BHND: values published by earlier layers, by 0-based layer.
        positions_NC: the backbone's learned position vectors, class token included; None if it has none, or for a layer
            used on its own.
        mask_BN: tokens that are attended to, (B, N) booleans; the others are padding. None for all.
        branch_BN: tokens at which the branch of a mechanism that does not take masks is kept, (B, N) booleans; at the
            others it is zero. None for all.
        losses_B: auxiliary training losses of the layers, (B,) each, in the order of the layers; None if not requested,
            so that none are computed.
    """

    seeds: tuple[int, ...] | None = None
    values_BHND: dict[int, Tensor] = field(default_factory=dict)
    positions_NC: Tensor | None = None
    losses_B: list[Tensor] | None = None
    mask_BN: Tensor | None = None
    branch_BN: Tensor | None = None

    def values_of(self, layer: int) -> Tensor:
        """Return the values (B, H, N, D) that ``layer`` published.

        Raises:
            ContractError: the layer has not run yet, or does not publish its values.
        """
        if layer not in self.values_BHND:
            have = ", ".join(str(passed) for passed in sorted(self.values_BHND)) or "none"
            raise ContractError(
                f"layer {layer} has published no values (layers that have: {have}); a layer that reads earlier values "
                f"must be called with the state of a forward pass in which layer {layer} came first and publishes them"
            )
        return self.values_BHND[layer]
