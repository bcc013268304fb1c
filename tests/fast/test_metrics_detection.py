"""Detection against scikit-learn, by hand, and by what resampling within each set implies."""

import random
from functools import partial
from math import nan, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from presence import present
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from examples import outcome_columns, outcome_of, readings
from robench.core.errors import ContractError, IncompleteError
from robench.core.report import Estimate
from robench.metrics import detection
from robench.tasks.classification import ClassificationOutcome

Rows = list[ClassificationOutcome]


def compute(metric: str, conditions: list[Rows]) -> Estimate:
    """Of the positives, then the negatives."""
    *measured, negatives = conditions or [None]
    read = readings(*measured, negatives=None if negatives is None else outcome_columns(negatives))
    return getattr(detection, metric)(read)


METRICS = {name: partial(compute, name) for name in ("aupr", "auroc", "fpr95")}
auroc = METRICS["auroc"]
# Tenths, so that ties within and between the sets are common.
TIED = st.lists(st.integers(0, 10).map(lambda tenths: tenths / 10), min_size=1, max_size=40)


def outcomes(confidences: list[float], name: str = "val") -> list[ClassificationOutcome]:
    return [outcome_of(f"{name}/{index:05d}", confidence=each) for index, each in enumerate(confidences)]


def counts(positives: list[float], negatives: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return how many of each have each confidence, from the lowest confidence, the highest score."""
    scores = sorted({*positives, *negatives})
    return tuple(np.array([float(each.count(score)) for score in scores]) for each in (positives, negatives))


def values(positives: list[float], negatives: list[float]) -> dict[str, float]:
    """Return the three numbers without their intervals."""
    both = counts(positives, negatives)
    return {
        "aupr": detection.average_precision(*both),
        "auroc": detection.area_under_roc(*both),
        "fpr95": detection.false_positive_rate_at_95(*both),
    }


def wanted(positives: list[float], negatives: list[float]) -> dict[str, float]:
    """Return the same numbers by scikit-learn."""
    targets, scores = [1] * len(positives) + [0] * len(negatives), -np.array([*positives, *negatives])
    false_rates, true_rates, _ = roc_curve(targets, scores, drop_intermediate=False)
    return {
        "aupr": average_precision_score(targets, scores),
        "auroc": roc_auc_score(targets, scores),
        "fpr95": false_rates[np.argmax(true_rates >= 0.95)],
    }


def sets(seed: int, num_positives: int = 60, num_negatives: int = 90) -> tuple[list[float], list[float]]:
    draw = random.Random(seed)
    return (
        [draw.betavariate(4, 3) for _ in range(num_positives)],
        [draw.betavariate(6, 3) for _ in range(num_negatives)],
    )


def width(estimate: Estimate) -> float:
    return present(estimate.high) - present(estimate.low)


class TestAgainstScikitLearn:
    @pytest.mark.parametrize("seed", range(20))
    def test_scores_that_all_differ(self, seed: int) -> None:
        positives, negatives = sets(seed, num_positives=300, num_negatives=1500)
        assert values(positives, negatives) == pytest.approx(wanted(positives, negatives), abs=1e-12, rel=0)

    @given(TIED, TIED)
    def test_tied_scores(self, positives: list[float], negatives: list[float]) -> None:
        assert values(positives, negatives) == pytest.approx(wanted(positives, negatives), abs=1e-12, rel=0)

    @pytest.mark.parametrize("name", METRICS)
    def test_outcomes_are_scored_by_minus_their_confidence(self, name: str) -> None:
        positives, negatives = sets(1)
        estimate = METRICS[name]([outcomes(positives, "letters"), outcomes(negatives)])
        assert estimate.value == pytest.approx(wanted(positives, negatives)[name], abs=1e-12, rel=0)


class TestByHand:
    def test_average_precision_sums_the_precision_at_every_positive(self) -> None:
        # From the least confident up: positive, negative, positive, negative.
        assert values([0.1, 0.3], [0.2, 0.4])["aupr"] == pytest.approx((1 / 1 + 2 / 3) / 2, abs=1e-15)

    @pytest.mark.parametrize(
        ("positives", "negatives", "rate"),
        [
            ([0.1] * 19 + [0.9], [0.5] * 10, 0),
            ([0.1] * 18 + [0.9] * 2, [0.5] * 10, 1),
            ([0.1] * 18 + [0.6], [0.5, 0.7], 0.5),
            ([0.1, 0.3], [0.3, 0.4], 0.5),
        ],
        ids=["one of twenty goes", "no second one", "none of fewer than twenty", "negatives at the threshold count"],
    )
    def test_fpr95(self, positives: list[float], negatives: list[float], rate: float) -> None:
        assert values(positives, negatives)["fpr95"] == rate


class TestOrientation:
    @pytest.mark.parametrize(("name", "perfect"), [("aupr", 1), ("auroc", 1), ("fpr95", 0)])
    def test_it_is_perfect_where_every_positive_is_less_confident(self, name: str, perfect: int) -> None:
        estimate = METRICS[name]([outcomes([0.1, 0.2], "letters"), outcomes([0.3, 0.4, 0.5])])
        assert (estimate.value, estimate.low, estimate.high) == (perfect, perfect, perfect)

    @given(TIED, TIED)
    def test_only_the_order_of_confidences_counts(self, positives: list[float], negatives: list[float]) -> None:
        squared = values([each**2 for each in positives], [each**2 for each in negatives])
        assert squared == values(positives, negatives)


class TestInterval:
    def test_aurocs_has_the_width_of_delongs_variance(self) -> None:
        # DeLong et al. 1988: the variance over positives and over negatives of how often each is in the right order.
        positives, negatives = (np.array(each) for each in sets(2, num_positives=300, num_negatives=500))
        in_order = positives[:, None] < negatives[None, :]
        variance = in_order.mean(1).var(ddof=1) / 300 + in_order.mean(0).var(ddof=1) / 500
        estimate = auroc([outcomes(list(positives), "letters"), outcomes(list(negatives))])
        assert width(estimate) == pytest.approx(2 * 1.96 * sqrt(variance), rel=0.12)

    @pytest.mark.parametrize("name", METRICS)
    def test_it_encloses_the_value_and_stays_a_share(self, name: str) -> None:
        estimate = METRICS[name]([outcomes(each, str(index)) for index, each in enumerate(sets(3))])
        assert 0 <= present(estimate.low) < estimate.value < present(estimate.high) <= 1
        assert (estimate.num_examples, estimate.unit) == (150, "share")

    def test_positives_and_negatives_are_drawn_independently_even_with_the_same_ids(self) -> None:
        # Drawn alike, two copies of one set would keep their AUROC of 0.5 in every resample.
        confidences = [index / 50 for index in range(50)]
        estimate = auroc([outcomes(confidences), outcomes(confidences)])
        assert estimate.value == 0.5
        assert width(estimate) > 0.15

    @pytest.mark.parametrize("name", METRICS)
    def test_the_order_of_the_examples_does_not_matter(self, name: str) -> None:
        conditions = [outcomes(each, str(index)) for index, each in enumerate(sets(4))]
        shuffled = [random.Random(7).sample(each, len(each)) for each in conditions]
        assert METRICS[name](shuffled) == METRICS[name](conditions)

    def test_it_covers_the_truth_in_about_95_of_100_samples(self) -> None:
        # Uniform confidences, those of negatives the larger of two: a positive is below one with probability 2/3.
        num_samples, num_covered = 60, 0
        for number in range(num_samples):
            draw = random.Random(f"sample {number}")
            positives = [draw.random() for _ in range(60)]
            negatives = [max(draw.random(), draw.random()) for _ in range(60)]
            estimate = auroc([outcomes(positives, "letters"), outcomes(negatives)])
            num_covered += present(estimate.low) <= 2 / 3 <= present(estimate.high)
        assert abs(num_covered / num_samples - 0.95) < 3 * sqrt(0.95 * 0.05 / num_samples)


@pytest.mark.parametrize("compute", METRICS.values(), ids=METRICS)
class TestRefusals:
    @pytest.mark.parametrize("num_conditions", [0, 1, 3])
    def test_it_reads_exactly_two_conditions(self, compute, num_conditions: int) -> None:
        with pytest.raises(ContractError, match=f"two conditions, .* got {num_conditions}"):
            compute([outcomes([0.5])] * num_conditions)

    def test_a_set_without_outcomes_is_named(self, compute) -> None:
        with pytest.raises(IncompleteError, match="the condition of the negatives has no outcomes"):
            compute([outcomes([0.5]), []])

    @pytest.mark.parametrize("confidence", [None, nan, 1.5, -0.1])
    def test_an_outcome_without_a_confidence_is_named(self, compute, confidence: float | None) -> None:
        odd = [outcome_of("odd", confidence=confidence)]
        with pytest.raises(ContractError, match=rf"got {confidence} in the condition of the negatives \(example 'odd'"):
            compute([outcomes([0.5]), odd])
