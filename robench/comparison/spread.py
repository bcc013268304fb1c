"""Spread of a model's numbers over training seeds, and what follows from it: intervals, power, seeds needed.

No model's standard deviation is taken to be below that of one example's step, ``step / sqrt(12)``: seeds with equal
scores do not show that training has no variance. Sources: Student 1908; Welch 1947 (degrees of freedom of
Satterthwaite); power of Welch's test with equal variances by the noncentral t distribution, averaged over the ratio of
the two sample variances.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import hypot, sqrt
from statistics import NormalDist, fmean, stdev

import numpy as np
from numpy.typing import NDArray

PER_CENT = "%"
FEWEST_SEEDS = 3
MOST_SEEDS = 1000
POWER = 0.8
# Level of the interval of a standard deviation, and so of ranges of power and of seeds.
_LEVEL = 0.8
# Nodes of the average over the ratio of two sample variances; 32 and 64 agree to 1e-5 for three seeds or more.
_NODES = 64


@dataclass(frozen=True, slots=True)
class Seeds:
    """Numbers of a model, one for each training seed, in a printed unit.

    Attributes:
        step: change of a number by one example in that unit; 0 unless numbers are means of binary outcomes.
    """

    values: tuple[float, ...]
    step: float = 0.0

    @property
    def mean(self) -> float:
        """Mean over seeds."""
        return fmean(self.values)

    @property
    def std(self) -> float:
        """Standard deviation of single seeds, at least that of one example's step."""
        return max(stdev(self.values), self.step / sqrt(12))

    @property
    def is_floored(self) -> bool:
        """Return whether the seeds differ by less than the assumed standard deviation."""
        return self.std > stdev(self.values)

    def times(self, factor: float) -> Seeds:
        """Return all numbers, and the step, times a factor."""
        return Seeds(tuple(factor * value for value in self.values), abs(factor) * self.step)

    def __len__(self) -> int:
        return len(self.values)


NO_SEEDS = Seeds(())


def welch(first: Seeds, second: Seeds, runs: int | None = None) -> tuple[float, float]:
    """Return the standard error of a difference of means of two or more seeds each, and its degrees of freedom.

    ``runs`` are the training runs behind each of two printed means that the difference is compared with, whose standard
    deviations are taken to be the measured ones; None if it is compared with a constant.
    """
    variances = [seeds.std**2 * (1 / len(seeds) + (1 / runs if runs is not None else 0.0)) for seeds in (first, second)]
    total = sum(variances)
    if total == 0:
        return 0.0, float(len(first) + len(second) - 2)
    squares = (each**2 / (len(seeds) - 1) for each, seeds in zip(variances, (first, second), strict=True))
    return sqrt(total), total**2 / sum(squares)


def half_width(error: float, freedom: float, alpha: float, constant: float = 0.0) -> float:
    """Return half the width of the interval of a difference at level 1 - ``alpha``.

    ``constant`` is a known, independent standard error: the half-widths of both errors are added as squares (Zou and
    Donner 2008, Statistics in Medicine 27), of Student's t with ``freedom`` degrees of freedom and of the normal.
    """
    return hypot(student(freedom, 1 - alpha / 2) * error, NormalDist().inv_cdf(1 - alpha / 2) * constant)


def student(freedom: float, probability: float) -> float:
    """Return a quantile of Student's t distribution."""
    # Imported here: it takes a tenth of a second, and most tables have no seeds.
    from scipy.special import stdtrit  # type: ignore[import-untyped]  # scipy has no types

    return float(stdtrit(freedom, probability))


def std_range(std: float, freedom: int) -> tuple[float, float]:
    """Return the 80 % interval of a standard deviation that is estimated with so many degrees of freedom."""
    from scipy.special import chdtri

    tail = (1 - _LEVEL) / 2
    return std * sqrt(freedom / float(chdtri(freedom, tail))), std * sqrt(freedom / float(chdtri(freedom, 1 - tail)))


def power(gain: float, std: float, count: int, alpha: float, constant: float = 0.0) -> float:
    """Return the probability that Welch's two-sided test at level ``alpha`` finds a gain on its own side.

    ``gain`` is the true difference of two models' means, ``std`` the standard deviation of single seeds of both, and
    ``count`` the number of seeds of each, at least two. ``constant`` is a known standard error of the difference, over
    examples, that adds to the test's as in ``half_width``.
    """
    from scipy.special import chdtri, nctdtr, ndtr, ndtri, stdtrit

    if std == 0 and constant == 0:
        return float(gain != 0)
    ratios, weights = _ratios(count)
    critical = stdtrit((count - 1) / (ratios**2 + (1 - ratios) ** 2), 1 - alpha / 2)
    error, freedom = std * sqrt(2 / count), 2 * count - 2
    if constant:
        # The measured deviation by its quantiles; the difference is independent of it.
        errors = error * np.sqrt(chdtri(freedom, (np.arange(_NODES) + 0.5) / _NODES) / freedom)
        limits = np.hypot(critical[:, None] * errors, ndtri(1 - alpha / 2) * constant)
        return float(weights @ ndtr((abs(gain) - limits) / hypot(error, constant)).mean(axis=1))
    shift = abs(gain) / error
    below = nctdtr(freedom, shift, critical)
    # Far in the tails the series of the distribution function does not converge.
    below = np.where(np.isnan(below), critical > shift, below)
    return float(weights @ (1 - below))


def detectable(std: float, count: int, alpha: float) -> float:
    """Return the smallest gain that Welch's two-sided test finds in 80 % of cases; arguments as of ``power``."""
    low, high = 0.0, 1.0
    while power(high, 1.0, count, alpha) < POWER:
        low, high = high, 2 * high
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle, 1.0, count, alpha) >= POWER else (middle, high)
    return std * high


@cache
def _ratios(count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return ratios of one of two sample variances to their sum, with their probabilities."""
    from scipy.special import roots_sh_jacobi

    half = (count - 1) / 2
    # The ratio has the distribution Beta(half, half), the weight of shifted Jacobi polynomials.
    nodes, weights = roots_sh_jacobi(_NODES, 2 * half - 1, half)
    return nodes, weights / weights.sum()


def fewest(is_enough: Callable[[int], bool]) -> int | None:
    """Return the smallest number of seeds, from 2 to ``MOST_SEEDS``, that is enough; None if none is.

    If a number is enough, all larger ones must be.
    """
    if not is_enough(MOST_SEEDS):
        return None
    low, high = 1, MOST_SEEDS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def seeds_text(low: int | None, high: int | None) -> str:
    """Return a range of numbers of seeds as text.

    >>> seeds_text(4, 19), seeds_text(40, None), seeds_text(None, None)
    ('4 to 19 seeds', '40 to over 1,000 seeds', 'over 1,000 seeds')
    """
    if low is None:
        return f"over {MOST_SEEDS:,} seeds"
    if high is None:
        return f"{low} to over {MOST_SEEDS:,} seeds"
    return f"{low} to {high} seeds"
