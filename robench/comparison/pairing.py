"""Test of two models in a column, and its corrections, for every command and page.

Rows of one checkpoint are paired on the same examples, means over training seeds are tested over the seeds
(``comparison.evidence``). A p-value is multiplied by the number of columns of its suite, shown or not, so that a
comparison of two models that do not differ finds a difference with a probability of at most 5 %. The best of a table is
chosen by the same data: tests against it are multiplied by the number of other models as well (Bonferroni).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isfinite

from robench.comparison.evidence import WELCH, difference_over_seeds, evidence_of_pair
from robench.comparison.permutation import pair
from robench.core.errors import IncomparableError
from robench.core.report import Rank
from robench.metrics.contributions import Contributions

# Of a checkpoint the contributions of its examples, of a mean the number of each training seed.
Testable = Contributions | tuple[float, ...]

LEVEL = 0.05
# Above so many rows, models are compared with the best of each column alone, and permutations, which take time, are not
# drawn.
MOST_PAIRED_ROWS = 24


@dataclass(frozen=True, slots=True)
class PairTest:
    """Two-sided test of two models in one column.

    Attributes:
        p_value: probability of such a difference by chance alone, in (0, 1]; not corrected.
        test: name of the test.
    """

    p_value: float
    test: str


def corrected(p_value: float, num_tests: int) -> float:
    """Return a p-value corrected for so many tests, by Bonferroni."""
    return min(1.0, p_value * num_tests)


def pair_test(first: Testable, second: Testable, *, may_permute: bool = True) -> PairTest | None:
    """Return the test of two models; None if they cannot be tested.

    That is so for other examples, of a checkpoint against a mean over seeds, and where a permutation would be needed
    that may not be drawn.
    """
    if isinstance(first, tuple) or isinstance(second, tuple):
        if not (isinstance(first, tuple) and isinstance(second, tuple) and all(map(isfinite, (*first, *second)))):
            return None
        return PairTest(difference_over_seeds(first, second)[1], WELCH)
    if not (may_permute or (first.is_binary and second.is_binary)):
        return None
    try:
        paired = pair(first, second, "")
    except IncomparableError:
        return None
    # The test is two-sided, so that it does not matter which direction is the better one.
    evidence = evidence_of_pair(paired, lower_is_better=False)
    return PairTest(evidence.p_value, evidence.test)


def ranks(
    values: Mapping[str, float],
    testable: Mapping[str, Testable],
    *,
    lower_is_better: bool,
    num_columns: int,
    num_models: int,
) -> dict[str, Rank]:
    """Return the rank of each model that has a number; of equal numbers the first is the best.

    ``testable`` has what tests are about, of the models whose number can be tested. ``num_columns`` are those of the
    suite, ``num_models`` those of the table.
    """
    if not values:
        return {}
    best = (min if lower_is_better else max)(values, key=lambda model: values[model])
    may_permute = num_models <= MOST_PAIRED_ROWS
    found = {
        model: test
        for model in values
        if model != best and model in testable and best in testable
        if (test := pair_test(testable[best], testable[model], may_permute=may_permute)) is not None
    }
    num_tests = num_columns * (num_models - 1)
    adjusted = {model: corrected(test.p_value, num_tests) for model, test in found.items()}
    return {
        model: Rank(
            is_best=model == best,
            p=found[model].p_value if model in found else None,
            adjusted=adjusted.get(model),
            is_close=bool(found) if model == best else adjusted.get(model, 0.0) > LEVEL,
            test=found[model].test if model in found else None,
        )
        for model in values
    }


def pairs_of(models: Sequence[str], testable: Mapping[str, Testable]) -> dict[tuple[int, int], PairTest]:
    """Return the tests of all pairs of models that need no permutation, by their places.

    There are none above ``MOST_PAIRED_ROWS`` models.
    """
    if len(models) > MOST_PAIRED_ROWS:
        return {}
    pairs = combinations([(place, testable[model]) for place, model in enumerate(models) if model in testable], 2)
    return {(a, b): test for (a, first), (b, second) in pairs if (test := pair_test(first, second, may_permute=False))}


def tests_text(tests: Sequence[str], num_columns: Sequence[int], num_models: int) -> str:
    """Return the names of tests and what their p-values are multiplied by, for notes on marks of the best.

    ``num_columns`` are the numbers of columns of the suites of a table.
    """
    columns = " or ".join(map(str, dict.fromkeys(num_columns)))
    others = f"{num_models - 1} other model{'s' if num_models > 2 else ''}"
    return f"two-sided {', '.join(dict.fromkeys(tests))}; p times {columns} columns of the suite and {others}"
