"""Filter weights as short binary fractions, so that sums of products are exact in any order.

A sum of 8-bit levels with weights that are multiples of 2**-15 and add to about one has 24 bits: float32 holds it, and
every partial sum of it. In float64 there is room for weights of 18 bits along both axes. What is exact does not depend
on how a library splits it between threads, blocks or devices. The cost is an error of less than 2**-15 a weight, far
below a level.
"""

from __future__ import annotations

from math import exp

import torch

FLOAT32_BITS = 15
FLOAT64_BITS = 18
# Fields of noise are rounded to this many bits behind the point before they are filtered.
FIELD_BITS = 14


def rounded_weights(weights: torch.Tensor, bits: int) -> torch.Tensor:
    """Round ``weights`` (..., N), float64, to multiples of 2**-bits with the nearest running sums along N."""
    unit = 2.0**bits
    sums = (weights.double().cumsum(-1) * unit).round() / unit
    return sums.diff(dim=-1, prepend=torch.zeros_like(sums[..., :1]))


def rounded_field(field: torch.Tensor) -> torch.Tensor:
    """Return float64 values of a noise field, at most 4 in size, that two line filters sum exactly."""
    unit = 2.0**FIELD_BITS
    return (field.double() * unit).round() / unit


def gaussian_weights(sigma: float, radius: int) -> torch.Tensor:
    """Return (2 * radius + 1,) float64 values of a Gaussian at whole distances, which sum to one."""
    values = torch.tensor([exp(-0.5 * (x / sigma) ** 2) for x in range(-radius, radius + 1)], dtype=torch.float64)
    return values / values.sum()


def mirrored(places: torch.Tensor, size: int) -> torch.Tensor:
    """Return the indices of whole ``places`` in a mirrored line (d c b a | a b c d | d c b a)."""
    return _folded(places, 2 * size, 2 * size - 1)


def mirrored_at_ends(places: torch.Tensor, size: int) -> torch.Tensor:
    """Return the indices of whole ``places`` in a line (d c b | a b c d | c b a): end values are not repeated."""
    return _folded(places, max(1, 2 * size - 2), 2 * size - 2)


def _folded(places: torch.Tensor, period: int, far_end: int) -> torch.Tensor:
    # Not as whole numbers, whose remainders take ten times as long.
    exact = places if places.is_floating_point() else places.double()
    within = exact - (exact / period).floor() * period
    return torch.minimum(within, far_end - within).long()
