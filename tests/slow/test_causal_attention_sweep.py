"""Every law of causal attention at every setting that has a reference."""

import pytest
from test_causal_attention import (
    DECLARATIONS,
    SPREADS,
    test_a_later_token_changes_nothing_before_it,
    test_a_later_token_has_no_gradient,
    test_a_shorter_text_gives_the_same_outputs,
    test_far_larger_later_tokens_change_nothing_in_float32,
    test_it_equals_the_slow_reference,
    test_it_keeps_what_every_attention_promises,
    test_parameters_are_those_of_the_other_form,
    title,
)

from robench.attention.base import AttentionBase

__all__ = [
    "test_a_later_token_changes_nothing_before_it",
    "test_a_later_token_has_no_gradient",
    "test_a_shorter_text_gives_the_same_outputs",
    "test_far_larger_later_tokens_change_nothing_in_float32",
    "test_it_equals_the_slow_reference",
    "test_it_keeps_what_every_attention_promises",
    "test_parameters_are_those_of_the_other_form",
]
# Of mechanisms with many settings those that go through all code of theirs.
CHOSEN = {
    "rpc": lambda each: each.num_iterations == 4,
    "rpc-asymmetric": lambda each: each.num_iterations == 4,
    "rkde": lambda each: each.num_iterations == 3,
    "spkde": lambda each: each.beta == 2,
}
REPRESENTATIVES: list[AttentionBase] = [each for each in DECLARATIONS if CHOSEN.get(each.kind, lambda _: True)(each)]
# Laws that are as cheap at every setting.
EVERYWHERE = {
    "test_a_later_token_changes_nothing_before_it",
    "test_it_equals_the_slow_reference",
    "test_parameters_are_those_of_the_other_form",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    is_everywhere = metafunc.function.__name__ in EVERYWHERE
    metafunc.parametrize("declaration", DECLARATIONS if is_everywhere else REPRESENTATIVES, ids=title)
    if "spread" in metafunc.fixturenames:
        metafunc.parametrize("spread", SPREADS)
