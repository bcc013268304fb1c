"""State of one forward pass, the only path from one layer's values to another's.

The backbone makes a state for each pass and gives it to every layer in turn, so that nothing outlives the pass, and no
module holds another one's tensors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import pad

from robench.core.errors import ContractError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


@dataclass(frozen=True, slots=True)
class OfLength:
    """Examples of one length in a padded batch: rows (B',), number of valid tokens, and the state of their pass."""

    rows: Tensor
    length: int
    state: ForwardState


@dataclass(slots=True)
class Shown:
    """Projections of one layer in a forward pass, and its weights if the pass computes them."""

    heads: tuple[Tensor, ...] | None = None
    weights_BHNM: Tensor | None = None


@dataclass(slots=True)
class ForwardState:
    """State of one forward pass.

    Attributes:
        seeds: one seed per example, for mechanisms that draw random numbers; None if the caller gave none.
        values_BHND: values published by earlier layers, by 0-based layer.
        positions_NC: the backbone's learned position vectors, class token included; None if it has none, or for a layer
            used on its own.
        mask_BN: tokens that are attended to, (B, N) booleans; the others are padding. None for all.
        lengths: the examples of each length of ``mask_BN``, which mechanisms that do not take masks mix on their own,
            without their padding. Empty if all take masks, or if padding is to be seen.
        branch_BN: tokens at which the branch of a mechanism that does not take masks is kept, (B, N) booleans; at the
            others it is zero. None for all.
        losses_B: auxiliary training losses of the layers, (B,) each, in the order of the layers; None if not requested,
            so that none are computed.
        shown: where the layer that runs puts what it shows; None, and nothing is kept, while nobody looks.
    """

    seeds: tuple[int, ...] | None = None
    values_BHND: dict[int, Tensor] = field(default_factory=dict)
    positions_NC: Tensor | None = None
    losses_B: list[Tensor] | None = None
    mask_BN: Tensor | None = None
    lengths: tuple[OfLength, ...] = ()
    branch_BN: Tensor | None = None
    shown: Shown | None = None

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

    def split_by_length(self) -> None:
        """Set ``lengths`` from ``mask_BN``, whose valid tokens come first in each example."""
        assert self.mask_BN is not None
        lengths_B, parts = self.mask_BN.sum(1), []
        for length in lengths_B.unique().tolist():
            rows = (lengths_B == length).nonzero().flatten()
            state = ForwardState(
                seeds=None if self.seeds is None else tuple(self.seeds[row] for row in rows.tolist()),
                positions_NC=None if self.positions_NC is None else self.positions_NC[:length],
                losses_B=None if self.losses_B is None else [],
            )
            parts.append(OfLength(rows, length, state))
        self.lengths = tuple(parts)


def by_length(
    mix: Callable[[tuple[Tensor, ...], ForwardState | None], Tensor],
    tensors: tuple[Tensor, ...],
    state: ForwardState | None,
) -> Tensor:
    """Return the mixture (B, ..., N, D) of tensors (B, ..., N, C).

    Where the state has ``lengths``, the examples of each are mixed on their own, and the mixture is zero at padding.
    """
    if state is None or not state.lengths:
        return mix(tensors, state)
    counts, num_tokens = [len(part.rows) for part in state.lengths], tensors[0].shape[-2]
    rows = torch.cat([part.rows for part in state.lengths])
    # The gradient of a split is one tensor; those of as many selections would each be of the whole batch.
    split = zip(*(each[rows].split(counts) for each in tensors), strict=True)
    mixed = []
    for part, padded in zip(state.lengths, split, strict=True):
        own = tuple(each[..., : part.length, :] for each in padded)
        mixed.append(pad(mix(own, part.state), (0, 0, 0, num_tokens - part.length)))
    order = rows.argsort()
    if state.losses_B is not None:
        losses = [part.state.losses_B or [] for part in state.lengths]
        state.losses_B += [torch.cat(of_layer)[order] for of_layer in zip(*losses, strict=True)]
        for part in state.lengths:
            part.state.losses_B = []
    return torch.cat(mixed)[order]
