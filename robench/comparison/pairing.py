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


def ordinals(
    values: Mapping[str, float],
    testable: Mapping[str, Testable],
    *,
    lower_is_better: bool,
    num_columns: int,
    num_models: int,
) -> dict[str, int | str]:
    """Return the rank of each model in a column, or the reason why it has none; arguments as in ``ranks``.

    The rank is 1 + the number of models whose number is better and distinguishable at ``LEVEL``, by the corrected
    p-value that ``ranks`` has of the best. Ranked are the most models that can be tested against each other; of equally
    many, those with the best number.
    """
    may_permute = num_models <= MOST_PAIRED_ROWS
    best_first = sorted(values, key=lambda model: values[model], reverse=not lower_is_better)
    tests: dict[tuple[str, str], PairTest | None] = {}

    def test(better: str, worse: str) -> PairTest | None:
        if (better, worse) not in tests:
            tests[better, worse] = pair_test(testable[better], testable[worse], may_permute=may_permute)
        return tests[better, worse]

    groups: list[list[str]] = []
    for model in (each for each in best_first if each in testable):
        home = next((group for group in groups if test(group[0], model) is not None), None)
        groups.append([model]) if home is None else home.append(model)
    ranked = max(groups, key=len, default=[])
    ranked = ranked if len(ranked) > 1 else []
    num_tests = num_columns * (num_models - 1)

    def is_better(better: str, worse: str) -> bool:
        found = test(better, worse) if values[better] != values[worse] else None
        return found is not None and corrected(found.p_value, num_tests) <= LEVEL

    ahead = {model: ranked[:place] for place, model in enumerate(ranked)}
    return {
        model: 1 + sum(is_better(other, model) for other in ahead[model])
        if model in ahead
        else _why_unranked(testable.get(model), [testable[each] for each in ranked], may_permute=may_permute)
        for model in values
    }


def _why_unranked(own: Testable | None, ranked: Sequence[Testable], *, may_permute: bool) -> str:
    if own is None:
        return "its number cannot be tested"
    if not may_permute and not isinstance(own, tuple) and not own.is_binary:
        return f"numbers that need a permutation are tested for at most {MOST_PAIRED_ROWS} models"
    if not ranked:
        return "no other model can be tested against it, on the same examples or over training seeds"
    if isinstance(own, tuple) != isinstance(ranked[0], tuple):
        kinds = ("a mean over training seeds", "a single checkpoint")
        one, other = kinds if isinstance(own, tuple) else kinds[::-1]
        return f"it is {one}, and {other} is ranked"
    if isinstance(own, tuple):
        return "a training seed's number is infinite or undefined"
    return "it was measured on other examples than the ranked models"


def pairs_of(models: Sequence[str], testable: Mapping[str, Testable]) -> dict[tuple[int, int], PairTest]:
    """Return the tests of all pairs of models that need no permutation, by their places.

    There are none above ``MOST_PAIRED_ROWS`` models.
    """
    if len(models) > MOST_PAIRED_ROWS:
        return {}
    pairs = combinations([(place, testable[model]) for place, model in enumerate(models) if model in testable], 2)
    return {(a, b): test for (a, first), (b, second) in pairs if (test := pair_test(first, second, may_permute=False))}


def others_text(*num_models: int) -> str:
    """Return the number of other models in each group of a table as text.

    >>> others_text(3, 7), others_text(2)
    ('2 or 6 other models', '1 other model')
    """
    others = dict.fromkeys(count - 1 for count in num_models)
    return f"{' or '.join(map(str, others))} other model{'s' if max(others) > 1 else ''}"


def tests_text(tests: Sequence[str], num_columns: Sequence[int], *num_models: int) -> str:
    """Return the names of tests and what their p-values are multiplied by, for notes on marks of the best.

    ``num_columns`` are the numbers of columns of the suites of a table, ``num_models`` those of models of its groups.
    """
    columns = " or ".join(map(str, dict.fromkeys(num_columns)))
    test = f"two-sided {', '.join(dict.fromkeys(tests))}"
    return f"{test}; p times {columns} columns of the suite and {others_text(*num_models)}"
