"""The bootstrap against numpy, against closed forms, and for what belongs to the examples."""

from __future__ import annotations

import random
from itertools import islice
from math import sqrt

import numpy as np
import pytest

from robench.core.errors import IncompleteError
from robench.metrics.bootstrap import NUM_RESAMPLES, percentile_interval, resamples

IDS = [f"val/{index:05d}" for index in range(40)]
IDENTITY = {each: each for each in IDS}


def interval_of_mean(values: list[float]) -> tuple[float, float]:
    by_id = {f"val/{index:05d}": value for index, value in enumerate(values)}
    return percentile_interval([sum(drawn) / len(drawn) for drawn in resamples(by_id)])


@pytest.fixture(scope="module")
def drawn() -> list[list[str]]:
    return list(resamples(IDENTITY))


class TestResamples:
    def test_there_are_as_many_as_the_interval_says(self, drawn: list[list[str]]) -> None:
        assert len(drawn) == NUM_RESAMPLES == 1000

    def test_each_has_as_many_examples_as_there_are(self, drawn: list[list[str]]) -> None:
        assert {len(each) for each in drawn} == {len(IDS)}

    def test_examples_are_drawn_with_replacement(self, drawn: list[list[str]]) -> None:
        # An example stays out with probability (1 - 1/n)^n, so that a resample holds this share of the examples.
        shares = [len(set(each)) / len(IDS) for each in drawn]
        assert np.mean(shares) == pytest.approx(1 - (1 - 1 / len(IDS)) ** len(IDS), abs=0.01)

    def test_every_example_is_equally_likely(self, drawn: list[list[str]]) -> None:
        counts = np.array([[each.count(example_id) for example_id in IDS] for each in drawn])
        expected = counts.sum() / len(IDS)
        # 39 degrees of freedom: mean 39, standard deviation sqrt(78).
        assert ((counts.sum(0) - expected) ** 2 / expected).sum() < 39 + 4 * sqrt(78)

    def test_counts_vary_as_those_of_a_multinomial_distribution(self, drawn: list[list[str]]) -> None:
        counts = np.array([[each.count(example_id) for example_id in IDS] for each in drawn])
        assert counts.var(axis=0).mean() == pytest.approx(1 - 1 / len(IDS), rel=0.05)
        # What one example has more, the others have less: the covariance is -1/n, and 0 between Poisson weights.
        covariance = np.cov(counts.T)
        assert covariance[~np.eye(len(IDS), dtype=bool)].mean() == pytest.approx(-1 / len(IDS), rel=0.1)

    def test_no_two_resamples_are_alike(self, drawn: list[list[str]]) -> None:
        assert len({tuple(each) for each in drawn}) == NUM_RESAMPLES

    def test_the_order_of_the_examples_does_not_matter(self, drawn: list[list[str]]) -> None:
        shuffled = {each: each for each in random.Random(7).sample(IDS, len(IDS))}
        assert list(shuffled) != IDS
        assert list(resamples(shuffled)) == drawn

    def test_the_same_examples_are_drawn_whatever_is_known_of_them(self, drawn: list[list[str]]) -> None:
        position = {each: index for index, each in enumerate(IDS)}
        assert list(resamples(position)) == [[position[example_id] for example_id in each] for each in drawn]

    def test_other_ids_are_drawn_in_another_way(self, drawn: list[list[str]]) -> None:
        renamed = {f"other/{each}": each for each in IDS}
        assert next(resamples(renamed)) != drawn[0]

    def test_sets_of_another_purpose_are_drawn_independently(self, drawn: list[list[str]]) -> None:
        others = resamples(IDENTITY, purpose="bootstrap of negatives")
        # Two independent draws agree in one place of n.
        agreements = [a == b for one, other in zip(drawn, others, strict=True) for a, b in zip(one, other, strict=True)]
        assert np.mean(agreements) == pytest.approx(1 / len(IDS), rel=0.1)

    def test_the_global_generator_is_left_alone(self) -> None:
        random.seed(5)
        state = random.getstate()
        next(resamples(IDENTITY))
        assert random.getstate() == state

    def test_the_global_generator_is_not_read(self, drawn: list[list[str]]) -> None:
        random.seed(6)
        assert list(islice(resamples(IDENTITY), 3)) == drawn[:3]

    def test_nothing_to_resample_is_refused(self) -> None:
        with pytest.raises(IncompleteError, match="no outcomes to resample"):
            next(resamples({}))


class TestPercentileInterval:
    @pytest.mark.parametrize("number", [2, 3, 40, 999, 1000])
    def test_it_is_numpys_percentiles(self, number: int) -> None:
        statistics = [random.Random(number + index).gauss(0, 1) for index in range(number)]
        wanted = np.percentile(statistics, [2.5, 97.5])
        assert percentile_interval(statistics) == pytest.approx(tuple(wanted), abs=1e-12)

    def test_it_leaves_out_two_and_a_half_per_cent_on_each_side(self) -> None:
        low, high = percentile_interval(range(NUM_RESAMPLES))
        assert sum(value < low for value in range(NUM_RESAMPLES)) == 25
        assert sum(value > high for value in range(NUM_RESAMPLES)) == 25

    def test_one_resample_has_no_percentiles(self) -> None:
        with pytest.raises(ValueError, match="got 1"):
            percentile_interval([0.5])


class TestIntervalOfAMean:
    def test_it_is_the_closed_form_where_there_is_one(self) -> None:
        draw = random.Random(3)
        values = [draw.random() ** 2 for _ in range(2000)]
        low, high = interval_of_mean(values)
        mean, error = np.mean(values), np.std(values) / sqrt(len(values))
        # Each bound of 1,000 resamples has a standard error of 0.084 standard errors of the mean.
        assert (low - mean) / error == pytest.approx(-1.96, abs=0.25)
        assert (high - mean) / error == pytest.approx(1.96, abs=0.25)

    def test_it_covers_the_truth_in_about_95_of_100_samples(self) -> None:
        # Skewed on purpose, as errors under mild corruptions are; 3 standard deviations of a binomial share either way.
        num_samples, num_covered = 200, 0
        for number in range(num_samples):
            draw = random.Random(f"sample {number}")
            low, high = interval_of_mean([draw.expovariate(1) for _ in range(100)])
            num_covered += low <= 1 <= high
        assert abs(num_covered / num_samples - 0.95) < 3 * sqrt(0.95 * 0.05 / num_samples)

    def test_it_has_no_width_where_no_two_examples_differ(self) -> None:
        assert interval_of_mean([0.25] * 50) == (0.25, 0.25)
