"""Evidence that two models' numbers differ: tests, intervals of the difference, and Holm's correction.

On the same examples, means of binary outcomes get McNemar's exact test and Newcombe's interval (``metrics.paired``),
all others a permutation (``permutation``) and a paired bootstrap. Over training seeds, Welch's t gives both.

Sources: Holm 1979, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6: the
k-th smallest of m p-values is multiplied by m + 1 - k. For any dependence of the tests, the probability that any
true null hypothesis is rejected at level alpha is at most alpha.

Welch 1947, "The generalization of 'Student's' problem when several different population variances are involved",
Biometrika 34: t = (mean - mean) / sqrt(s1^2 / n1 + s2^2 / n2), with Satterthwaite's degrees of freedom. Seeds of two
entries are independent draws, even those of the same number, so that they are not paired.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

import numpy as np
from numpy.typing import NDArray

from robench.comparison.permutation import NUM_DRAWS, Paired, Permuted, pair, permuted
from robench.core.errors import UsageError
from robench.metrics import Metric, Readings
from robench.metrics.intervals import (
    NUM_RESAMPLES,
    percentile_interval,
    resample_counts,
    resampled_sums,
    weighted_sums,
)
from robench.metrics.paired import NEWCOMBE, discordant, exact_p_value, newcombe_interval, tail_p_value

MCNEMAR = "exact McNemar"
PERMUTATION = "paired permutation"
PAIRED_BOOTSTRAP = f"paired percentile bootstrap 95 %, {NUM_RESAMPLES} resamples of examples"
PAIRED_WEIGHTS = f"paired Bayesian bootstrap 95 %, {NUM_RESAMPLES} Dirichlet weights of examples"
WELCH = "Welch's t over seeds"
WELCH_INTERVAL = "Welch's t 95 % over training seeds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Difference of two numbers, the first less the second, in their unit.

    Attributes:
        low, high: bounds of its 95 % interval; None where undefined.
    """

    value: float
    low: float | None
    high: float | None
    method: str


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Two models' numbers on the same examples, ready to be tested.

    Attributes:
        drawn: differences under random swaps; None of binary outcomes, whose test is exact.
    """

    lower_is_better: bool
    paired: Paired
    drawn: Permuted | None

    @property
    def test(self) -> str:
        """Name of the test."""
        return MCNEMAR if self.drawn is None else PERMUTATION

    @property
    def difference(self) -> Difference:
        """Difference of the first number and the second, with its interval."""
        return difference_of(self.paired)

    @property
    def p_value(self) -> float:
        """Two-sided p-value that the numbers differ by chance alone, in (0, 1]."""
        return exact_p_value(*self.paired.verdicts) if self.drawn is None else self.drawn.two_sided

    @property
    def worse_p_value(self) -> float:
        """One-sided p-value that the second model is worse than the first by chance alone, in (0, 1]."""
        if self.drawn is not None:
            return self.drawn.less if self.lower_is_better else self.drawn.greater
        only_first, only_second = self.flips
        return tail_p_value(only_first, only_first + only_second)

    @property
    def flips(self) -> tuple[int, int]:
        """Number of examples that only the first model is right about, and only the second; of binary outcomes."""
        return discordant(*self.paired.verdicts)

    @property
    def flipped_ids(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Ids of the same examples, sorted."""
        first, second = self.paired.verdicts
        ids = self.paired.samples[0].ids
        return tuple(ids[first & ~second].tolist()), tuple(ids[second & ~first].tolist())

    def probability_of_loss_above(self, loss: float) -> float:
        """Return the probability that chance alone makes the second model worse by more than ``loss``.

        Chance swaps both models on every example, which leaves the number of examples that changed as it is.
        """
        if self.drawn is not None:
            losses = -self.drawn.drawn if self.lower_is_better else self.drawn.drawn
            return float((~(losses <= loss + 1e-12)).mean())
        num_changed, num_examples = sum(self.flips), len(self.paired.samples[0].ids)
        # The fewest newly wrong examples w for which w - (changed - w) exceeds the loss.
        fewest = int((loss * num_examples + num_changed + 1e-9) // 2) + 1
        return tail_p_value(fewest, num_changed) if fewest <= num_changed else 0.0


def evidence_of(metric: Metric, first: Readings, second: Readings, where: str, num_draws: int = NUM_DRAWS) -> Evidence:
    """Return the evidence on one column, called ``where``, from the outcomes that it reads of both models.

    Raises:
        UsageError: the metric states no contributions of single examples.
        IncomparableError: the examples are not the same; further errors are those of the metric.
    """
    one, other = metric.contributed(first), metric.contributed(second)
    if one is None or other is None:
        raise UsageError(
            f"{where} cannot be tested: metric {metric.name!r} states no contributions of single examples; state them, "
            "or leave the column out"
        )
    return evidence_of_pair(pair(one, other, where), lower_is_better=metric.lower_is_better, num_draws=num_draws)


def evidence_of_pair(paired: Paired, *, lower_is_better: bool, num_draws: int = NUM_DRAWS) -> Evidence:
    """Return the evidence on a column whose contributions are paired; see ``evidence_of``."""
    return Evidence(lower_is_better, paired, None if paired.is_binary else permuted(paired, num_draws))


def difference_of(paired: Paired) -> Difference:
    """Return the difference with its interval: Newcombe's of binary outcomes, the bootstrap's of all others.

    A resample draws both models' values of an example together. It has no bounds where a resample's difference is
    infinite or undefined.
    """
    value = paired.difference
    if paired.is_binary:
        first, second = paired.verdicts
        only_first, only_second = discordant(first, second)
        both = int((first & second).sum())
        low, high = newcombe_interval(both, only_first, only_second, len(first) - both - only_first - only_second)
        return Difference(value=value, low=low, high=high, method=NEWCOMBE)
    drawn, method = _resampled(paired), PAIRED_WEIGHTS if paired.is_of_sums else PAIRED_BOOTSTRAP
    if not np.isfinite(drawn).all():
        return Difference(value=value, low=None, high=None, method=method)
    low, high = percentile_interval(drawn)
    # Where no two examples differ, rounding alone would leave the value outside.
    return Difference(value=value, low=min(low, value), high=max(high, value), method=method)


def _resampled(paired: Paired) -> NDArray[np.float64]:
    """Return the difference in each resample of the examples; samples are resampled separately."""
    if paired.is_mean:
        (sample,) = paired.samples
        return resampled_sums(sample.ids, (sample.first - sample.second) / len(sample.ids))
    if paired.is_of_sums:
        return paired.differences(
            [weighted_sums(sample.ids, sample.first) for sample in paired.samples],
            [weighted_sums(sample.ids, sample.second) for sample in paired.samples],
        )
    streams = [resample_counts(sample.ids, purpose=sample.purpose) for sample in paired.samples]
    found = []
    for counts in zip(*streams, strict=True):
        drawn = [_drawn(each) for each in counts]
        pairs = list(zip(paired.samples, drawn, strict=True))
        found.append(
            paired.differences(
                [sample.first[places] for sample, places in pairs], [sample.second[places] for sample, places in pairs]
            )
        )
    return np.concatenate(found)


def _drawn(counts: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the places of the examples (rows, N) that were drawn as often as ``counts`` (rows, N) says."""
    num_rows, num_examples = counts.shape
    places = np.tile(np.arange(num_examples), num_rows)
    return np.repeat(places, counts.ravel().astype(np.int64)).reshape(num_rows, num_examples)


def difference_over_seeds(first: Sequence[float], second: Sequence[float]) -> tuple[Difference, float]:
    """Return the first mean less the second with its 95 % interval, and the two-sided p-value in [0, 1].

    Both models have at least two finite numbers, one a seed. Where no two seeds of a model differ, the interval is the
    difference alone, and the p-value 0 or, of equal means, 1.

    >>> difference, p_value = difference_over_seeds([0.40, 0.44, 0.48], [0.31, 0.35, 0.36])
    >>> round(difference.value, 3), round(p_value, 3)
    (0.1, 0.029)
    """
    # Imported here: it takes a tenth of a second, and most comparisons are of one checkpoint each.
    from scipy.special import stdtr, stdtrit  # type: ignore[import-untyped]  # scipy has no types

    value = fmean(first) - fmean(second)
    one, other = variance(first) / len(first), variance(second) / len(second)
    spread = one + other
    if spread == 0:
        return _welch_interval(value, 0.0), float(value == 0)
    freedom = spread**2 / (one**2 / (len(first) - 1) + other**2 / (len(second) - 1))
    error = spread**0.5
    return _welch_interval(value, float(stdtrit(freedom, 0.975)) * error), 2 * float(
        stdtr(freedom, -abs(value) / error)
    )


def _welch_interval(value: float, half_width: float) -> Difference:
    return Difference(value=value, low=value - half_width, high=value + half_width, method=WELCH_INTERVAL)


def holm_of_known(p_values: Sequence[float | None]) -> list[float | None]:
    """Return the adjusted p-values; None stays None and does not count."""
    adjusted = iter(holm([p_value for p_value in p_values if p_value is not None]))
    return [None if p_value is None else next(adjusted) for p_value in p_values]


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the adjusted p-values, in the order given, in [0, 1].

    >>> holm([0.25, 0.0625, 0.5])
    [0.5, 0.1875, 0.5]
    """
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted
