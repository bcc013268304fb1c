"""The exact paired test, against scipy's binomial test and by its symmetries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from robench.core.errors import ContractError
from robench.metrics.paired import exact_p_value

VERDICTS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60)


@given(VERDICTS)
def test_it_is_scipys_binomial_test_of_the_examples_that_differ(pairs: list[tuple[bool, bool]]) -> None:
    first, second = zip(*pairs, strict=True)
    different = [a for a, b in pairs if a != b]
    wanted = binomtest(sum(different), len(different)).pvalue if different else 1.0
    assert exact_p_value(first, second) == pytest.approx(wanted)


def test_examples_on_which_both_agree_say_nothing() -> None:
    alike = [True] * 50 + [False] * 50
    assert exact_p_value([True] * 7 + alike, [False] * 7 + alike) == exact_p_value([True] * 7, [False] * 7)


def test_verdicts_of_different_examples_are_refused() -> None:
    with pytest.raises(ContractError, match="got 2 and 3"):
        exact_p_value([True] * 2, [True] * 3)
