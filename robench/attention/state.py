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
        positions_NC: vectors of the tokens' places, as the backbone has learned them, class token included; None where
            it has none, or the layer stands alone.
        losses_B: what layers ask to be added to the loss of training, (B,) each, in the order of the layers; None where
            nobody wants them, so that none are computed.
    """

    seeds: tuple[int, ...] | None = None
    values_BHND: dict[int, Tensor] = field(default_factory=dict)
    positions_NC: Tensor | None = None
    losses_B: list[Tensor] | None = None

    def values_of(self, layer: int) -> Tensor:
        """Return the values (B, H, N, D) that ``layer`` published.

        Raises:
            ContractError: it has not been passed, or does not publish its values.
        """
        if layer not in self.values_BHND:
            have = ", ".join(str(passed) for passed in sorted(self.values_BHND)) or "none"
            raise ContractError(
                f"layer {layer} has handed on no values (layers that have: {have}); a layer that reads earlier values "
                f"must be called with the state of a forward pass in which layer {layer} came first and publishes them"
            )
        return self.values_BHND[layer]
