"""Weight functions psi(h) = rho'(h) / h of robust losses, as logarithms of psi at h^2; a is the threshold.

======  ==================================================================================================
huber   1 up to a, then a / h (Han et al. 2023, equation 24)
hampel  1 up to a, a / h up to b = 2a, a (c - h) / ((c - b) h) up to c = 3a, then nothing (Kim & Scott 2012)
welsch  exp(-(h / a)^2) (Holland & Welsch 1977)
tukey   (1 - (h / a)^2)^2 up to a, then nothing (Beaton & Tukey 1974)
======  ==================================================================================================

Han et al. print that of Huber alone, and b and c of Hampel; for the others the classic form is taken, without a factor
of 1/2 in Welsch's exponent. Logarithms, so that no psi is too small for the number format; of h^2, because the root of
it has no gradient where points coincide.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor


def log_huber(squared: Tensor, threshold: float, tail: float) -> Tensor:
    """Return ln psi; it never vanishes, so that ``tail`` is unused."""
    return -0.5 * (squared / threshold**2).clamp(min=1).log()


def log_hampel(squared: Tensor, threshold: float, tail: float) -> Tensor:
    """Return ln psi, and ln ``tail`` from 3a on."""
    remaining = 3 - (squared / threshold**2).clamp(min=1).sqrt()
    descent = _log_where(remaining > 0, remaining.clamp(max=1))
    return (log_huber(squared, threshold, tail) + descent).masked_fill(remaining <= 0, _log(tail))


def log_welsch(squared: Tensor, threshold: float, tail: float) -> Tensor:
    """Return ln psi; it never vanishes, so that ``tail`` is unused."""
    return -squared / threshold**2


def log_tukey(squared: Tensor, threshold: float, tail: float) -> Tensor:
    """Return ln psi, and ln ``tail`` from a on."""
    remaining = 1 - squared / threshold**2
    return (2 * _log_where(remaining > 0, remaining)).masked_fill(remaining <= 0, _log(tail))


def _log_where(positive: Tensor, x: Tensor) -> Tensor:
    # 1 elsewhere, since an unused logarithm would still corrupt the gradient.
    return torch.where(positive, x, 1.0).log()


def _log(tail: float) -> float:
    return math.log(tail) if tail else -math.inf


LOG_WEIGHTS: Mapping[str, Callable[[Tensor, float, float], Tensor]] = {
    "huber": log_huber,
    "hampel": log_hampel,
    "welsch": log_welsch,
    "tukey": log_tukey,
}
