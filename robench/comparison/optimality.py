"""Optimality of attacks: how near they come to the smallest perturbations that any attack of a set has found.

Cina et al. 2024, "AttackBench", arXiv:2404.19460. The distance of an attack on an image is the length of the smallest
perturbation with which it fooled the model: 0 for an image that is wrong when clean, infinite if it never did. The best
distance is the smallest of all attacks of the set. Robust accuracy at r is the proportion of images whose distance is
above r, and A the area under it for r from 0 to R, the largest finite best distance. Then the (local) optimality is

    (A(clean) - A(attack)) / (A(clean) - A(best)),  A(clean) = R * clean accuracy:

1 for an attack that finds the best distance of every image, 0 for one that finds nothing below R. Robust accuracy is a
step function, whose area is exactly the mean of min(distance, R) over the images. AttackBench's code applies the
trapezoidal rule to the knots of each curve, which differs from it by the order of 1 / n for n images.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from robench.core.errors import IncompleteError
from robench.core.report import Estimate
from robench.metrics.intervals import percentile_interval, resampled_sums


def radius_of(distances: NDArray[np.float64]) -> float:
    """Return the largest finite best distance R of distances (A, N) of A attacks on N images; 0 without one."""
    best = distances.min(0)
    return float(best[np.isfinite(best)].max(initial=0.0))


def optimality(distances: NDArray[np.float64], is_right: NDArray[np.bool_], ids: NDArray[Any]) -> tuple[Estimate, ...]:
    """Return the optimality, at most 1, of each attack with its interval, from distances (A, N).

    ``is_right`` (N,) says which images are right when clean. The interval is the percentile bootstrap over images, each
    drawn with all its distances, with R as it is: it concerns other images, and not other attacks in the set.

    Raises:
        IncompleteError: no attack fools an image that is right when clean at a distance below R.
    """
    # N times the area between the curve and the clean accuracy is a sum over the images.
    gains = np.where(is_right, np.maximum(radius_of(distances) - distances, 0.0), 0.0)
    largest = gains.max(0)
    if not largest.any():
        raise IncompleteError(
            "no image that is right when clean is fooled below the largest best distance, so that optimality is "
            "undefined; add attacks with other budgets, or minimum-norm attacks"
        )
    best = resampled_sums(ids, largest)
    is_defined = best > 0
    found = []
    for own in gains:
        ratios = resampled_sums(ids, own)[is_defined] / best[is_defined]
        low, high = percentile_interval(ratios)
        value = float(own.sum() / largest.sum())
        found.append(Estimate(value=value, low=low, high=high, num_examples=len(ids)))
    return tuple(found)
