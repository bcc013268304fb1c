"""Tests of a column's numbers against its best.

Rows of one checkpoint are paired with the best on the same examples (``comparison.evidence``), means over training
seeds are tested over the seeds (``comparison.seeds``). Holm's method corrects the p-values of a column's models: the
chance of one wrong distinction in a column is at most 5 %. The best is chosen on the same examples, so that the test
against it is slightly too ready to distinguish.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import isfinite

from robench.comparison.evidence import difference_over_seeds, evidence_of_pair, holm
from robench.comparison.permutation import pair
from robench.core.errors import IncomparableError
from robench.core.report import Rank
from robench.metrics.contributions import Contributions

# Of a checkpoint the contributions of its examples, of a mean the number of each training seed.
Testable = Contributions | tuple[float, ...]


LEVEL = 0.05
TEST = (
    "two-sided, on the same examples: exact McNemar, or a permutation of 9,999 draws for numbers other than means of "
    "binary outcomes; Welch's t test for means over seeds; Holm's correction over the models of a column"
)
# Above so many rows, models are compared with the best of each column alone, and permutations, which take time, are not
# drawn.
MOST_PAIRED_ROWS = 24


def p_value(first: Testable, second: Testable, *, may_permute: bool = True) -> float | None:
    """Return the two-sided p-value that two models differ by chance alone; None where there is no test.

    None exists for other examples, of a checkpoint against a mean over seeds, and where a permutation would be needed
    that may not be drawn.
    """
    if isinstance(first, tuple) or isinstance(second, tuple):
        if not (isinstance(first, tuple) and isinstance(second, tuple) and all(map(isfinite, (*first, *second)))):
            return None
        return difference_over_seeds(first, second)[1]
    if not (may_permute or (first.is_binary and second.is_binary)):
        return None
    try:
        paired = pair(first, second, "")
    except IncomparableError:
        return None
    # The test is two-sided, so that it does not matter which direction is the better one.
    return evidence_of_pair(paired, lower_is_better=False).p_value


def ranks(values: Mapping[str, float], testable: Mapping[str, Testable], *, lower_is_better: bool) -> dict[str, Rank]:
    """Return the rank of each model that has a number; of equal numbers the first is the best.

    ``testable`` has what tests are about, of the models whose number can be tested.
    """
    if not values:
        return {}
    best = (min if lower_is_better else max)(values, key=lambda model: values[model])
    may_permute = len(values) <= MOST_PAIRED_ROWS
    tested = {
        model: p
        for model in values
        if model != best and model in testable and best in testable
        if (p := p_value(testable[best], testable[model], may_permute=may_permute)) is not None
    }
    adjusted = dict(zip(tested, holm([*tested.values()]), strict=True))
    return {
        model: Rank(
            is_best=model == best,
            p=tested.get(model),
            adjusted=adjusted.get(model),
            is_close=bool(tested) if model == best else adjusted.get(model, 0.0) > LEVEL,
        )
        for model in values
    }


def pairs_of(models: Sequence[str], testable: Mapping[str, Testable]) -> dict[tuple[int, int], float]:
    """Return the p-values of all pairs of models that can be tested without a permutation, by their places.

    There are none above ``MOST_PAIRED_ROWS`` models.
    """
    if len(models) > MOST_PAIRED_ROWS:
        return {}
    pairs = combinations([(place, testable[model]) for place, model in enumerate(models) if model in testable], 2)
    return {
        (a, b): p for (a, first), (b, second) in pairs if (p := p_value(first, second, may_permute=False)) is not None
    }
