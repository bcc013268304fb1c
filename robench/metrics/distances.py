"""Metrics of minimum-norm attacks: accuracy at a given distance, and the median distance.

The distance that an attack returns is an upper bound of the minimum, so both numbers are upper bounds as well. Both
count an example as fooled at the distance at which the harness's own new prediction misclassifies it, and rely on
guarantees of ``cw`` and ``fab``: misclassified examples are returned unchanged, at distance 0, and if nothing was found
the clean input is returned, which the model then classifies correctly. So an example is right when clean unless it is
wrong at distance 0. This holds for attacks on true labels, without a required confidence, limits narrower than the box,
or early stopping; others are refused when a suite is read (``declare.columns``).

The interval of the median is between order statistics, without any assumption on the distances: with n of them, the
l-th and the (n + 1 - l)-th smallest, for the largest l with P(B < l) <= 2.5 %, B binomial with n trials of 1/2 (Conover
1999, Practical Nonparametric Statistics, section 3.2). Below six no such l exists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.core.errors import ContractError, IncompleteError
from robench.core.report import Estimate
from robench.metrics.accuracy import only_condition, proportion, verdicts_of
from robench.metrics.contributions import Contributions, Sample, ids_of
from robench.metrics.metric import DISTANCE, Metric

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from robench.core.columns import Outcomes
    from robench.metrics.metric import Readings

# Half of the 5 % outside a 95 % interval is 1 in this many.
ONE_IN = 40
# Columns of outcomes with the length in a norm, where its name is another one.
LENGTHS = {"l0": "num_changed"}

ACCURACY_AT_DISTANCE = Metric(
    name="accuracy_at_distance",
    title="accuracy at distance",
    unit="share",
    task="classification",
    scope="distance",
    reads=("found", "linf", "l2", "l1", "num_changed"),
    implementation="robench.metrics.distances:accuracy_at_distance",
    contributions="robench.metrics.distances:accuracy_contributions",
)
MEDIAN_DISTANCE = Metric(
    name="median_distance",
    title="median distance",
    unit=DISTANCE,
    task="classification",
    scope="search",
    reads=("found", "linf", "l2", "l1", "num_changed"),
    implementation="robench.metrics.distances:median_distance",
    contributions="robench.metrics.distances:median_contributions",
)


def accuracy_at_distance(readings: Readings) -> Estimate:
    """Return the proportion of all examples that are right when clean and up to the distance, with its interval."""
    return proportion(_beyond(readings))


def median_distance(readings: Readings) -> Estimate:
    """Return the median distance over the examples that are right when clean, infinite for those never fooled.

    It is in units of the inputs. For an even number, it is the mean of the middle two. Bounds may be infinite, too.
    """
    import numpy as np

    found = _distances(readings)
    distances = np.sort(found[found > 0]).tolist()
    count = len(distances)
    if not count:
        raise IncompleteError("no example is right when clean, and a median of nothing is undefined")
    rank = _rank(count)
    low, high = (distances[rank - 1], distances[count - rank]) if rank else (None, None)
    value = (distances[(count - 1) // 2] + distances[count // 2]) / 2
    return Estimate(value=value, low=low, high=high, num_examples=count, unit=DISTANCE)


def accuracy_contributions(readings: Readings) -> Contributions:
    """Return whether each example is right up to the distance."""
    return verdicts_of(only_condition(readings), _beyond(readings))


def median_contributions(readings: Readings) -> Contributions:
    """Return the distance at which each example fell, whose median is taken."""
    sample = Sample(ids_of(only_condition(readings), "the condition"), _distances(readings))
    return Contributions((sample,), _median_of_rows)


def _median_of_rows(samples: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the median of each row's distances above 0; NaN of a row without any."""
    import numpy as np

    distances = np.sort(samples[0], axis=-1)
    first = (distances <= 0).sum(-1)
    count = distances.shape[-1] - first
    low = np.minimum(first + np.maximum(count - 1, 0) // 2, distances.shape[-1] - 1)
    high = np.minimum(first + count // 2, distances.shape[-1] - 1)
    ends = [np.take_along_axis(distances, place[:, None], -1)[:, 0] for place in (low, high)]
    return np.where(count > 0, (ends[0] + ends[1]) / 2, np.nan)


def _beyond(readings: Readings) -> NDArray[np.bool_]:
    if readings.within is None:
        raise ContractError("accuracy at a distance wants one to be stated; give the condition distances")
    return _distances(readings) > readings.within


def fallen_at(outcomes: Outcomes, norm: str) -> NDArray[np.float64]:
    """Return the distance at which each example is misclassified: 0 when clean, infinite if never.

    Raises:
        ContractError: the outcomes are not those of a minimum-norm attack on a classifier.
    """
    import numpy as np

    is_right, length = outcomes.column("correct_top1"), LENGTHS.get(norm, norm)
    known = outcomes.known("found") & outcomes.known(length)
    if not known.all():
        example_id = outcomes.ids[int(known.argmin())]
        raise ContractError(
            f"distances found an outcome that is not of a minimum-norm attack (example {example_id!r});"
            " give the column a condition with such an attack"
        )
    return np.where(is_right, np.inf, outcomes.column(length))


def _distances(readings: Readings) -> NDArray[np.float64]:
    if readings.norm is None:
        raise ContractError(
            "distances need a minimum-norm attack, such as cw or fab; the column's condition has another attack"
        )
    return fallen_at(only_condition(readings), readings.norm)


def _rank(count: int) -> int:
    """Return the largest l with P(B < l) <= 1/40, B binomial with ``count`` trials of 1/2."""
    rank, ways, fewer = 0, 1, 1
    while ONE_IN * fewer <= 2**count:
        rank += 1
        ways = ways * (count - rank + 1) // rank
        fewer += ways
    return rank
