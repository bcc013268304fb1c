"""Calibration of a classifier: expected calibration error, Brier score, log loss, and confidence where it is wrong.

Example i of N has softmax probabilities p_ik (after the class mask of its set), class y_i and confidence c_i = max_k
p_ik; a_i is 1 where class y_i ranks first, else 0. Lower is better throughout.

    ece                sum_b |sum_{i in b} (a_i - c_i)| / N, in [0, 1], over 15 bins ((b - 1) / 15, b / 15] of the
                       confidence. Naeini et al. 2015, "Obtaining well calibrated probabilities using Bayesian
                       binning", AAAI; of the largest of several probabilities: Guo et al. 2017, "On calibration of
                       modern neural networks", arXiv:1706.04599
    ece_equal_mass     the same over bins between the quantiles k / 15 of the confidences (linearly interpolated; a bin
                       has its upper end), so that bins have equal numbers of examples; equal confidences share one.
                       Nguyen and O'Connor 2015, arXiv:1508.05154
    brier_score        sum_i sum_k (p_ik - [k = y_i])^2 / N, in [0, 2]. Brier 1950, "Verification of forecasts
                       expressed in terms of probability", Monthly Weather Review 78(1); some code halves it
    nll                - sum_i log p_iy / N in nats, at least 0: the log loss, also in Guo et al. 2017
    wrong_confidence   mean of c_i over the examples with a_i = 0, in (0, 1]; none where no example is wrong

Errors of bins add up absolutely, so that chance alone makes an ECE positive: its value is too large, more so with few
examples. A bootstrap adds that bias once more, and its percentiles miss the truth. The interval of an ECE has all t
sum_b |m_b| for which the value is within those percentiles of sum_b |t m_b + d_b|, with m_b the observed mean of a bin
and d_b its change in a resample: a test of miscalibration t times as large, inverted.
"""

from __future__ import annotations

from functools import partial
from math import fsum
from typing import TYPE_CHECKING

from robench.core.errors import IncompleteError
from robench.core.report import Estimate
from robench.metrics.accuracy import known_column, only_condition
from robench.metrics.contributions import NUM_BINS, Contributions, Sample, bins_of, ids_of
from robench.metrics.intervals import NUM_RESAMPLES, percentile_interval, weighted_sums
from robench.metrics.metric import Metric

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from robench.core.columns import Outcomes
    from robench.metrics.metric import Readings

    Floats = NDArray[np.float64]
    # Parts (N, K) and weight (N,) of each example: the number is the sum of K absolute sums over the sum of weights.
    Parts = tuple[Floats, NDArray[np.bool_]]

WEIGHTED = f"Bayesian bootstrap 95 %, {NUM_RESAMPLES} Dirichlet weights of examples"
# tests/slow/test_calibration_coverage.py simulates the coverage.
INVERTED = f"inverted test 95 % by {NUM_RESAMPLES} Dirichlet weights of examples, which covers 88 to 98 %"
# Parts in whole units, so that weighted sums are exact in any order.
_UNIT = 2.0**-20


def _metric(name: str, title: str, unit: str, reads: str, interval: str = WEIGHTED) -> Metric:
    return Metric(
        name=name,
        title=title,
        unit=unit,
        task="classification",
        scope="condition",
        reads_scores=True,
        reads=(reads,),
        interval=interval,
        implementation=f"robench.metrics.calibration:{name}",
        contributions=f"robench.metrics.calibration:{name}_contributions",
        lower_is_better=True,
    )


CALIBRATION_METRICS = (
    _metric("ece", "ECE", "share", "confidence", INVERTED),
    _metric("ece_equal_mass", "ECE of equal mass", "share", "confidence", INVERTED),
    _metric("brier_score", "Brier score", "score", "brier"),
    _metric("nll", "NLL (nats)", "nats", "loss_nats"),
    _metric("wrong_confidence", "confidence when wrong", "share", "confidence"),
)


def _ece_of_rows(samples: Sequence[Floats]) -> Floats:
    """Return the ECE of equal mass of rows of confidences (rows, N), which are negative where the model is wrong."""
    import numpy as np

    (signed,) = samples
    confidences = np.abs(signed)
    gaps: Floats = (signed > 0) - confidences
    edges = np.percentile(confidences, np.linspace(0, 100, NUM_BINS + 1)[1:-1], axis=-1)
    above = [(gaps * (confidences > edge[:, None])).sum(-1) for edge in edges]
    errors: Floats = np.abs(np.diff([gaps.sum(-1), *above, np.zeros(len(gaps))], axis=0)).sum(0) / gaps.shape[-1]
    return errors


def _by_bin(outcomes: Outcomes, *, equal_mass: bool = False) -> Parts:
    import numpy as np

    confidences = known_column(outcomes, "confidence")
    is_in = bins_of(confidences, equal_mass=equal_mass)[:, None] == np.arange(NUM_BINS)
    return is_in * (outcomes.column("correct_top1") - confidences)[:, None], np.ones(len(outcomes), np.bool_)


def _mean_of(outcomes: Outcomes, name: str, *, where_wrong: bool = False) -> Parts:
    import numpy as np

    counted = ~outcomes.column("correct_top1") if where_wrong else np.ones(len(outcomes), np.bool_)
    return np.where(counted, known_column(outcomes, name), 0.0)[:, None], counted


def _ratio(samples: Sequence[Floats]) -> Floats:
    """Return the number of each row of sums (rows, K + 1), the last one that of weights; NaN without any."""
    import numpy as np

    (sums,) = samples
    with np.errstate(invalid="ignore"):
        found: Floats = np.abs(sums[..., :-1]).sum(-1) / sums[..., -1]
    return found


def _contributions(readings: Readings, parts_of: Callable[[Outcomes], Parts]) -> Contributions:
    import numpy as np

    outcomes = only_condition(readings)
    ids = ids_of(outcomes, "the condition")
    return Contributions((Sample(ids, np.column_stack(parts_of(outcomes))),), _ratio, is_of_sums=True)


def _estimate(readings: Readings, parts_of: Callable[[Outcomes], Parts], unit: str = "share") -> Estimate:
    import numpy as np

    (sample,) = _contributions(readings, parts_of).samples
    # Exact sums do not depend on the order of the examples.
    *sums, weight = map(fsum, sample.values.T)
    if not weight:
        raise IncompleteError("no example is wrong, so that there is no mean over wrong ones")
    means = np.array(sums) / weight
    value = float(np.abs(means).sum())
    drawn = weighted_sums(sample.ids, np.rint(sample.values / _UNIT))
    found, bias = _ratio([drawn]), None
    if len(means) == 1:
        low, high = percentile_interval(found)
    else:
        low, high = _inverted(means, drawn[:, :-1] / drawn[:, -1:])
        bias = float(found.mean()) - value
    return Estimate(
        value=value, low=min(low, value), high=max(high, value), num_examples=len(sample.ids), unit=unit, bias=bias
    )


def _inverted(means: Floats, drawn: Floats) -> tuple[float, float]:
    """Return the bounds, in [0, 1], of the sum of absolute means (K,), whose resamples are ``drawn`` (rows, K)."""
    import numpy as np

    value, factors = np.abs(means).sum(), np.linspace(0, 2, 81)
    found = np.abs(factors[:, None, None] * means + (drawn - means)).sum(-1)
    largest, smallest = np.maximum.accumulate(np.quantile(found, (0.975, 0.025), axis=1), axis=1)
    low, high = (float(value * np.interp(value, bounds, factors)) for bounds in (largest, smallest))
    return low, min(1.0, high)


_wrong = partial(_mean_of, name="confidence", where_wrong=True)
# Each number, and what single examples contribute to it.
ece = partial(_estimate, parts_of=_by_bin)
ece_equal_mass = partial(_estimate, parts_of=partial(_by_bin, equal_mass=True))
brier_score = partial(_estimate, parts_of=partial(_mean_of, name="brier"), unit="score")
nll = partial(_estimate, parts_of=partial(_mean_of, name="loss_nats"), unit="nats")
wrong_confidence = partial(_estimate, parts_of=_wrong)
ece_contributions = partial(_contributions, parts_of=_by_bin)
brier_score_contributions = partial(_contributions, parts_of=partial(_mean_of, name="brier"))
nll_contributions = partial(_contributions, parts_of=partial(_mean_of, name="loss_nats"))
wrong_confidence_contributions = partial(_contributions, parts_of=_wrong)


def ece_equal_mass_contributions(readings: Readings) -> Contributions:
    """Return each example's confidence, negative where the model is wrong: edges of bins depend on all of them."""
    import numpy as np

    outcomes = only_condition(readings)
    confidences = known_column(outcomes, "confidence")
    signed = np.where(outcomes.column("correct_top1"), confidences, -confidences)
    return Contributions((Sample(ids_of(outcomes, "the condition"), signed),), _ece_of_rows)
