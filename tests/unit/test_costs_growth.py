"""Growth of a layer's costs with its tokens: fits, predictions, and counts of single layers by hand."""

import math

import pytest

from robench.attention.linear import Linear
from robench.attention.linformer import Linformer
from robench.attention.softmax import Softmax
from robench.attention.spkde import Spkde
from robench.costs import Limits, fitted_exponent
from robench.costs.counting import counts_of
from robench.costs.growth import predicted
from robench.declarations.base import FieldsError
from robench.models.single_layer import SingleLayer


def test_the_exponent_is_of_the_larger_half_alone() -> None:
    measured = {64: 9.0, 128: 7.0, 256: 1.0, 512: 2.0, 1024: 4.5, 2048: 8.0}
    x, y = [0.0, 1.0, 2.0], [math.log2(each) for each in (2.0, 4.5, 8.0)]
    # Least squares of three points at equal distances: half the rise from the first to the last.
    assert fitted_exponent(measured) == pytest.approx((y[2] - y[0]) / (x[2] - x[0]))
    assert fitted_exponent({64: 3.0, 128: 3.0}) == pytest.approx(0)
    assert fitted_exponent({64: 3.0}) is None
    assert fitted_exponent({64: 0.0, 128: 0.0}) is None


def test_the_next_size_is_predicted_from_the_last_two_and_at_least_quadratic() -> None:
    assert predicted(64, {}) == 0
    assert predicted(128, {64: 2.0}) == 16.0
    assert predicted(256, {32: 5.0, 64: 2.0, 128: 16.0}) == pytest.approx(128)
    assert predicted(256, {64: 2.0, 128: 4.0}) == 16.0


def test_a_size_beyond_a_limit_is_named_with_what_was_predicted() -> None:
    limits = Limits(seconds=10, bytes=4e9)
    assert limits.problem(256, {128: 1.0}, {128: 5e8}) is None
    assert limits.problem(256, {128: 1.0}, {128: 6e8}) == "about 4.8 GB predicted, 4 GB allowed"
    assert limits.problem(256, {128: 2.0}, {128: 5e8}) == "about 16 s predicted, 10 s allowed"


@pytest.mark.parametrize("num_tokens", [5, 70])
def test_a_layer_is_counted_by_hand(num_tokens: int) -> None:
    counts = counts_of("mine", SingleLayer(attention=Softmax(), num_tokens=num_tokens), None)
    assert counts.parameters == 4 * 192**2 + 4 * 192
    assert counts.linear == num_tokens * 4 * 192**2
    assert counts.products == 2 * num_tokens**2 * 192
    counts = counts_of("mine", SingleLayer(attention=Linear(), num_tokens=num_tokens), None)
    # Keys and values to D x D of each head, and queries with it.
    assert counts.products - 2 * num_tokens * 192 * 64 in (0, num_tokens * 192, 2 * num_tokens * 192)


def test_a_layer_that_reads_values_is_counted_too() -> None:
    counts = counts_of("mine", SingleLayer(attention=Spkde(), num_tokens=5), None)
    assert counts.linear == 5 * 4 * 192**2


def test_too_few_tokens_for_a_mechanism_are_refused() -> None:
    with pytest.raises(FieldsError, match="projection_length must be at most the 32 tokens"):
        SingleLayer(attention=Linformer(projection_length=64), num_tokens=32)
    with pytest.raises(FieldsError, match="dim must be a multiple of num_heads 3, got 10"):
        SingleLayer(num_tokens=32, dim=10)
