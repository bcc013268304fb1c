"""Dunnett's test: several models beside one control, over training seeds, with a variance pooled over all of them.

Source: Dunnett 1955, "A multiple comparison procedure for comparing several treatments with a control", Journal of the
American Statistical Association 50. The largest |t| of the models has the distribution of the test, so that the
probability that any model which equals the control is called different is at most the level. Numbers of seeds may
differ between models. Deviations are assumed to be equal; the ratio of the largest variance to the smallest is compared
with its distribution under that assumption (Hartley 1950, with any numbers of seeds).

Where seed i of every model starts from the same draws, such as initial weights and order of examples, seeds may be
paired: the mean of each seed over models is taken out of the variance (a randomised block design), which leaves
(models - 1) (seeds - 1) degrees of freedom.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf, isnan, sqrt

import numpy as np
from numpy.typing import NDArray

from robench.comparison.spread import POWER, fewest

Numbers = Sequence[float] | NDArray[np.float64]

DUNNETT = "Dunnett's t over seeds"
# Nodes of each integral. With one model, p-values down to 1e-12 are Student's within 1e-5 of their value.
_NODES = 64
# Probability of a deviation below all nodes, and of one above.
_RARE = 1e-15
# Variances over seeds are called different from this ratio of the largest to the smallest on.
MOST_RATIO = 4.0


@dataclass(frozen=True, slots=True)
class Pooled:
    """Spread of single seeds in one column.

    Attributes:
        std: standard deviation of a single seed's number.
        freedom: its degrees of freedom.
        counts: number of seeds of each model, the control first.
        are_paired: whether the mean of each seed over models was taken out.
    """

    std: float
    freedom: int
    counts: tuple[int, ...]
    are_paired: bool = False

    def error(self, place: int) -> float:
        """Return the standard error of the difference of a model, by its place in ``counts``, and the control."""
        return self.std * sqrt(1 / self.counts[0] + 1 / self.counts[place])

    def p_value(self, difference: float, place: int) -> float:
        """Return the two-sided p-value of a model's difference from the control, corrected for all models."""
        error = self.error(place)
        statistic = abs(difference) / error if error else (inf if difference else 0.0)
        return _probability_above(statistic, self.counts, self.freedom)

    def critical(self, level: float) -> float:
        """Return the statistic that the largest |t| exceeds with probability ``level``."""
        return _critical(level, self.counts, self.freedom)

    def chance(self, difference: float, level: float, place: int = 1) -> float:
        """Return the probability that a true difference of this size is found at ``level``."""
        from scipy.special import nctdtr  # type: ignore[import-untyped]  # scipy has no types

        error, critical = self.error(place), self.critical(level)
        shift = abs(difference) / error if error else (inf if difference else 0.0)
        below = float(nctdtr(self.freedom, shift, critical))
        # Far in the tails the series of the distribution function does not converge.
        return float(shift > critical) if isnan(below) else 1 - below

    def detectable(self, level: float, place: int = 1) -> float:
        """Return the true difference that is found in 80 % of cases at ``level``."""
        from scipy.optimize import brentq  # type: ignore[import-untyped]

        unit, critical = replace(self, std=1 / sqrt(1 / self.counts[0] + 1 / self.counts[place])), self.critical(level)
        shift = brentq(lambda shift: unit.chance(shift, level, place) - POWER, critical / 10, critical + 5)
        return float(shift) * self.error(place)

    def seeds_needed(self, difference: float, level: float) -> int | None:
        """Return the fewest seeds of every model with which a true difference of this size is found in 80 % of cases.

        None if they are over 1,000.
        """

        def is_enough(count: int) -> bool:
            num_models = len(self.counts)
            freedom = (num_models - self.are_paired) * (count - 1)
            return Pooled(self.std, freedom, (count,) * num_models).chance(difference, level) >= POWER

        return fewest(is_enough)


def pooled(by_seed: Sequence[Numbers], *, are_paired: bool = False, least_std: float = 0.0) -> Pooled:
    """Return the spread of single seeds in a column.

    Args:
        by_seed: numbers of each model, the control first, one a seed and at least two.
        are_paired: take the mean of each seed over models out; all models then have the same seeds in the same order.
        least_std: no smaller standard deviation is returned.
    """
    counts = tuple(map(len, by_seed))
    residuals = [np.asarray(each, np.float64) - np.mean(each) for each in by_seed]
    freedom = sum(counts) - len(counts)
    if are_paired:
        of_seeds = np.mean(residuals, axis=0)
        residuals = [each - of_seeds for each in residuals]
        freedom -= counts[0] - 1
    variance = sum(float(each @ each) for each in residuals) / freedom
    return Pooled(max(sqrt(variance), least_std), freedom, counts, are_paired)


def variance_ratio(by_seed: Sequence[Numbers]) -> tuple[float, float]:
    """Return the ratio of the largest variance over seeds to the smallest, and how likely a larger one is by chance.

    Both as if all true variances were equal; numbers are as of ``pooled``.
    """
    from scipy.stats import chi2  # type: ignore[import-untyped]

    variances = [float(np.var(each, ddof=1)) for each in by_seed]
    ratio = max(variances) / min(variances) if min(variances) else inf
    if ratio == inf:
        return ratio, 0.0
    # The smallest variance is that of one model at a quantile, and all others lie between it and ``ratio`` times it.
    inside = 0.0
    for place, own in enumerate(by_seed):
        deviations, weights = _deviation_nodes(len(own) - 1)
        smallest = deviations**2
        others = [len(each) - 1 for other, each in enumerate(by_seed) if other != place]
        between = [chi2.cdf(ratio * smallest * count, count) - chi2.cdf(smallest * count, count) for count in others]
        inside += float(weights @ np.prod(between, axis=0))
    return ratio, min(1.0, max(0.0, 1 - inside))


def _probability_above(statistic: float, counts: tuple[int, ...], freedom: int) -> float:
    """Return the probability that the largest |t| of models that equal the control is above ``statistic``.

    Given the control's mean and the pooled deviation the models are independent, so that the probability is a product,
    averaged over these two.
    """
    from scipy.special import ndtr

    (normal, of_normal), (deviations, of_deviations) = _normal_nodes(), _deviation_nodes(freedom)
    bounds, of_none = statistic * deviations, np.zeros((len(normal), len(deviations)))
    for count, num_models in Counter(counts[1:]).items():
        loading, own = sqrt(count / (count + counts[0])), sqrt(counts[0] / (count + counts[0]))
        means = loading * normal[:, None]
        outside = ndtr((means - bounds) / own) + ndtr(-(means + bounds) / own)
        # Rounding may leave a little more than 1 of a statistic of 0.
        of_none += num_models * np.log1p(-np.minimum(outside, 1 - 1e-15))
    return float(of_normal @ -np.expm1(of_none) @ of_deviations)


@cache
def _normal_nodes() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes of a standard normal number with their probabilities."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    return nodes, weights / weights.sum()


@cache
def _deviation_nodes(freedom: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes of a standard deviation with so many degrees of freedom, of true value 1, with their probabilities.

    They are spaced by its logarithm, so that rare small deviations, which make small p-values, have their nodes.
    """
    from scipy.stats import chi2

    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    low, high = np.log(chi2.ppf(_RARE, freedom)), np.log(chi2.isf(_RARE, freedom))
    squares = np.exp((low + high) / 2 + (high - low) / 2 * nodes)
    found = weights * squares * chi2.pdf(squares, freedom)
    return np.sqrt(squares / freedom), found / found.sum()


@cache
def _critical(level: float, counts: tuple[int, ...], freedom: int) -> float:
    from scipy.optimize import brentq

    return float(brentq(lambda statistic: _probability_above(statistic, counts, freedom) - level, 0.5, 100.0))
