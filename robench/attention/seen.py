"""Tensors of one layer's forward pass, for analyses of attention inside a model.

A module of a mechanism shows it by a method ``seen(x_BNC, state) -> Seen``, which computes it beside the forward pass,
from the same arguments. No forward pass collects anything, so that nothing is slower and no output changes while
nobody looks.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from robench.attention.state import ForwardState
from robench.core.errors import ContractError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Tensors of one layer's forward pass; what the mechanism does not have is None.

    Where there are weights, ``heads_BHND = weights_BHNM @ values_BHMD``, plus ``rest_BHND`` if there is one.

    Attributes:
        heads_BHND: output of each head, before the output projection.
        queries_BHND: queries; in a symmetric mechanism the keys.
        keys_BHMD, values_BHMD: keys and values as projected, before the mechanism changes them.
        weights_BHNM: what each token takes of each value. Its rows need not sum to one, nor be positive. Mechanisms
            that never form this matrix have it all the same.
        rest_BHND: part of the heads' output that is not from this layer's values.
    """

    heads_BHND: Tensor
    queries_BHND: Tensor | None = None
    keys_BHMD: Tensor | None = None
    values_BHMD: Tensor | None = None
    weights_BHNM: Tensor | None = None
    rest_BHND: Tensor | None = None


@runtime_checkable
class ShowsInside(Protocol):
    """Module of a mechanism whose forward pass can be seen."""

    def seen(self, x_BNC: Tensor, state: ForwardState | None = None) -> Seen:
        """Return the tensors that a forward pass with the same arguments computes; the state stays as it is."""


def aside(state: ForwardState | None) -> ForwardState | None:
    """Return a copy of a state that a layer may publish its values to, and that requests no losses."""
    return None if state is None else replace(state, values_BHND=dict(state.values_BHND), losses_B=None, shown=None)


def valid_length(state: object, num_rows: int | None) -> int | None:
    """Return the number of valid tokens of each of the first ``num_rows`` examples; None if none is padding.

    Raises:
        ContractError: the examples have several lengths.
    """
    if not isinstance(state, ForwardState) or state.mask_BN is None:
        return None
    lengths = state.mask_BN[:num_rows].sum(1).unique().tolist()
    if len(lengths) > 1:
        raise ContractError(f"examples of {lengths} tokens are seen together; pass those of each length on their own")
    return int(lengths[0])


def seen_of(attention: ShowsInside, given: tuple[Any, ...], num_rows: int | None) -> Seen:
    """Return the tensors that a layer shows, of the valid tokens of the first ``num_rows`` examples, None for all.

    ``given`` are the arguments of the layer's forward pass: tokens (B, N, C), and the state if it takes one.
    """
    length = valid_length(given[-1], num_rows)
    if length is not None and given[-1].lengths and not getattr(attention, "takes_masks", False):
        own = next(each for each in given[-1].lengths if each.length == length)
        given = given[0][own.rows, :length], own.state
    shown = attention.seen(*given)
    tensors = {each.name: getattr(shown, each.name) for each in fields(shown)}
    cut: dict[str, Any] = {
        name: None if each is None else each[:num_rows, :, :length] for name, each in tensors.items()
    }
    if cut["weights_BHNM"] is not None:
        cut["weights_BHNM"] = cut["weights_BHNM"][..., :length]
    return Seen(**cut)
