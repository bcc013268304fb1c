"""Returns of a policy over episodes: their mean, the mean of normalised scores, the worst tenth, and early ends.

Intervals are bootstraps over episodes, that is, over the states in which they begin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.core.errors import InapplicableError
from robench.core.ids import order_of
from robench.core.report import Estimate
from robench.metrics.accuracy import only_condition, proportion, verdicts_of
from robench.metrics.contributions import Contributions, Sample, ids_of
from robench.metrics.intervals import NUM_RESAMPLES, percentile_interval, resample_counts
from robench.metrics.metric import Metric

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from robench.metrics.metric import Readings

    Floats = NDArray[np.float64]

BOOTSTRAP = f"percentile bootstrap 95 %, {NUM_RESAMPLES} resamples of episodes"


def _metric(name: str, title: str, unit: str, reads: str) -> Metric:
    return Metric(
        name=name,
        title=title,
        unit=unit,
        task="control",
        scope="condition",
        reads=(reads,),
        interval=BOOTSTRAP,
        may_be_negative=True,
        implementation=f"robench.metrics.control:{name}",
        contributions=f"robench.metrics.control:{name}_contributions",
    )


EARLY_ENDS = Metric(
    name="early_ends",
    title="early ends",
    unit="share",
    task="control",
    scope="condition",
    reads=("ended_early",),
    implementation="robench.metrics.control:early_ends",
    contributions="robench.metrics.control:early_ends_contributions",
    lower_is_better=True,
)
CONTROL_METRICS = (
    _metric("mean_return", "mean return", "return", "total_return"),
    _metric("mean_score", "normalised score", "score", "score"),
    _metric("worst_decile", "mean return of the worst tenth", "return", "total_return"),
    EARLY_ENDS,
)


def mean_return(readings: Readings) -> Estimate:
    """Return the mean return of all episodes."""
    return _estimate(mean_return_contributions(readings))


def mean_score(readings: Readings) -> Estimate:
    """Return the mean normalised score, 0 of a random and 100 of an expert policy.

    Raises:
        InapplicableError: the environment has no published returns of the two.
    """
    return _estimate(mean_score_contributions(readings), "score")


def worst_decile(readings: Readings) -> Estimate:
    """Return the mean return of the tenth of all episodes with the lowest returns, rounded up."""
    return _estimate(worst_decile_contributions(readings))


def early_ends(readings: Readings) -> Estimate:
    """Return the proportion of episodes that the environment ended before their limit of steps."""
    return proportion(only_condition(readings).column("ended_early"))


def mean_return_contributions(readings: Readings) -> Contributions:
    """Return the return of each episode."""
    outcomes = only_condition(readings)
    return Contributions((Sample(ids_of(outcomes, "the condition"), outcomes.column("total_return")),))


def mean_score_contributions(readings: Readings) -> Contributions:
    """Return the normalised score of each episode."""
    outcomes = only_condition(readings)
    if not outcomes.known("score").all():
        raise InapplicableError("the environment has no published returns of a random and an expert policy")
    return Contributions((Sample(ids_of(outcomes, "the condition"), outcomes.filled("score", 0.0)),))


def worst_decile_contributions(readings: Readings) -> Contributions:
    """Return the return of each episode, of whose lowest tenth the mean is taken."""
    outcomes = only_condition(readings)
    sample = Sample(ids_of(outcomes, "the condition"), outcomes.column("total_return"))
    return Contributions((sample,), _lowest_tenth)


def early_ends_contributions(readings: Readings) -> Contributions:
    """Return whether each episode ended early."""
    outcomes = only_condition(readings)
    return verdicts_of(outcomes, outcomes.column("ended_early"))


def _lowest_tenth(samples: Sequence[Floats]) -> Floats:
    import numpy as np

    (values,) = samples
    means: Floats = np.sort(values, axis=-1)[..., : -(-values.shape[-1] // 10)].mean(-1)
    return means


def _estimate(contributions: Contributions, unit: str = "return") -> Estimate:
    import numpy as np

    (sample,) = contributions.samples
    values = np.asarray(sample.values, np.float64)
    order = order_of(sample.ids)
    # All resamples have as many episodes as there are.
    places = np.arange(len(values))
    rows = [np.repeat(places, row) for counts in resample_counts(sample.ids[order]) for row in counts.astype(np.int64)]
    drawn = contributions.statistic([values[order][np.stack(rows)]])
    low, high = percentile_interval(drawn)
    # In the order of the ids, so that the last bit does not depend on that of the outcomes.
    value = float(contributions.statistic([values[order][None]])[0])
    return Estimate(value=value, low=min(low, value), high=max(high, value), num_examples=len(values), unit=unit)
