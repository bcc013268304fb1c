"""The bootstrap against scipy's, numpy's percentiles and closed forms, and for what belongs to examples."""

import random
from math import sqrt

import numpy as np
import pytest
from scipy import stats

from robench.core.errors import IncompleteError
from robench.metrics import intervals
from robench.metrics.intervals import NUM_RESAMPLES, percentile_interval, resample_counts, resampled_sums

IDS = [f"val/{index:05d}" for index in range(40)]


def texts(ids: list[str]) -> np.ndarray:
    return np.array(ids, np.dtypes.StringDType())


def counts_of(ids: list[str], purpose: str = "bootstrap") -> np.ndarray:
    return np.concatenate(list(resample_counts(texts(ids), purpose=purpose)))


def interval_of_mean(values: list[float]) -> tuple[float, float]:
    ids = texts([f"val/{index:05d}" for index in range(len(values))])
    return percentile_interval(resampled_sums(ids, np.array(values)) / len(values))


@pytest.fixture(scope="module")
def counts() -> np.ndarray:
    return counts_of(IDS)


class TestResamples:
    @pytest.mark.parametrize("chunk", [1, 7, 64, NUM_RESAMPLES])
    def test_they_do_not_depend_on_how_many_are_drawn_at_once(
        self, counts: np.ndarray, chunk: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        values = np.arange(40.0) ** 0.5
        expected = percentile_interval(resampled_sums(texts(IDS), values))
        monkeypatch.setattr(intervals, "_CHUNK", chunk)
        intervals._counts.cache_clear()
        chunks = list(resample_counts(texts(IDS)))
        assert len(chunks[0]) == chunk
        assert (np.concatenate(chunks) == counts).all()
        assert percentile_interval(resampled_sums(texts(IDS), values)) == expected

    def test_there_are_as_many_as_the_interval_says_each_of_as_many_examples_as_there_are(
        self, counts: np.ndarray
    ) -> None:
        assert len(counts) == NUM_RESAMPLES == 1000
        assert set(counts.sum(1)) == {len(IDS)}

    def test_every_example_is_equally_likely(self, counts: np.ndarray) -> None:
        expected = counts.sum() / len(IDS)
        # 39 degrees of freedom: mean 39, standard deviation sqrt(78).
        assert ((counts.sum(0) - expected) ** 2 / expected).sum() < 39 + 4 * sqrt(78)

    def test_counts_vary_as_those_of_a_multinomial_distribution(self, counts: np.ndarray) -> None:
        assert counts.var(axis=0).mean() == pytest.approx(1 - 1 / len(IDS), rel=0.05)
        # What one example has more, the others have less: the covariance is -1/n, and 0 between Poisson weights.
        covariance = np.cov(counts.T)
        assert covariance[~np.eye(len(IDS), dtype=bool)].mean() == pytest.approx(-1 / len(IDS), rel=0.1)

    def test_the_order_of_the_examples_does_not_matter(self, counts: np.ndarray) -> None:
        order = random.Random(7).sample(range(len(IDS)), len(IDS))
        assert (counts_of([IDS[place] for place in order]) == counts[:, order]).all()

    def test_sets_of_another_purpose_are_drawn_independently(self, counts: np.ndarray) -> None:
        others = counts_of(IDS, purpose="bootstrap of negatives")
        correlation = np.corrcoef(counts.ravel(), others.ravel())[0, 1]
        assert abs(correlation) < 4 / sqrt(counts.size)

    def test_a_sum_is_that_of_the_examples_drawn(self, counts: np.ndarray) -> None:
        values = np.arange(40.0) ** 2
        assert resampled_sums(texts(IDS), values) == pytest.approx(counts @ values)

    def test_nothing_to_resample_is_refused(self) -> None:
        with pytest.raises(IncompleteError, match="no outcomes to resample"):
            counts_of([])


class TestPercentileInterval:
    @pytest.mark.parametrize("number", [2, 3, 40, 999, 1000])
    def test_it_is_numpys_percentiles(self, number: int) -> None:
        statistics = [random.Random(number + index).gauss(0, 1) for index in range(number)]
        wanted = np.percentile(statistics, [2.5, 97.5])
        assert percentile_interval(statistics) == pytest.approx(tuple(wanted), abs=1e-12)

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

    @pytest.mark.parametrize("seed", range(5))
    def test_it_is_scipys_within_the_error_of_1000_resamples(self, seed: int) -> None:
        values = np.random.default_rng(seed).exponential(size=200)
        found = interval_of_mean(values.tolist())
        expected = stats.bootstrap(
            (values,), np.mean, method="percentile", n_resamples=20_000, rng=np.random.default_rng(seed)
        )
        # The standard error of a percentile of 1,000 draws: sqrt(p (1 - p) / 1000) over the normal density there.
        error = sqrt(0.025 * 0.975 / NUM_RESAMPLES) / stats.norm.pdf(stats.norm.ppf(0.025)) * expected.standard_error
        assert found == pytest.approx(tuple(expected.confidence_interval), abs=4 * error)
        assert found != pytest.approx(tuple(expected.confidence_interval), abs=error / 100)

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
