"""Calibration of logits against scikit-learn and against loops over the probabilities, and its intervals."""

from itertools import pairwise
from math import log

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, log_loss

from examples import outcome_of, readings
from robench.core.columns import Outcomes, Values
from robench.core.errors import IncompleteError
from robench.datasets import DATASETS
from robench.metrics import METRICS, Readings
from robench.metrics.contributions import bins_of
from robench.metrics.intervals import percentile_interval, weighted_sums
from robench.tasks.base import Scoring
from robench.tasks.classification import ClassificationOutcome, inconsistencies
from robench.tasks.classification_impl import RULES

NAMES = ("ece", "ece_equal_mass", "brier_score", "nll", "wrong_confidence")


def scored(seed: int, count: int, num_classes: int = 10) -> tuple[Outcomes, NDArray[np.float64], NDArray[np.int64]]:
    """Return outcomes as the task's rules record them, with the probabilities (N, K) and classes (N,) behind them."""
    generator = np.random.default_rng(seed)
    logits = 3 * generator.standard_normal((count, num_classes))
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    # Overconfident: drawn at twice the temperature.
    flat = np.exp(logits / 2) / np.exp(logits / 2).sum(1, keepdims=True)
    classes = (generator.random((count, 1)) > flat.cumsum(1)).sum(1).clip(max=num_classes - 1)
    scoring = Scoring(dataset=DATASETS["digits"])
    columns = dict(RULES.columns([torch.from_numpy(logits)], torch.from_numpy(classes), scoring))
    columns["example_id"] = Values(np.array([f"digits/{place:05d}" for place in range(count)], np.dtypes.StringDType()))
    return Outcomes(ClassificationOutcome, columns, count), probabilities, classes


def in_loops(probabilities: NDArray[np.float64], classes: NDArray[np.int64]) -> dict[str, float]:
    """Return all five numbers, one example after another."""
    count, wrong, brier, nll = len(classes), [], 0.0, 0.0
    pairs = []
    for p, y in zip(probabilities.tolist(), classes.tolist(), strict=True):
        confidence = max(p)
        is_right = p.index(confidence) == y
        pairs.append((confidence, is_right))
        wrong += [] if is_right else [confidence]
        brier += sum((p_k - (k == y)) ** 2 for k, p_k in enumerate(p))
        nll -= log(p[y])
    ordered = sorted(confidence for confidence, _ in pairs)
    uniform = [b / 15 for b in range(16)]
    places = [b * (count - 1) / 15 for b in range(1, 15)]
    mass = [0.0, *(ordered[int(q)] + (q - int(q)) * (ordered[int(q) + 1] - ordered[int(q)]) for q in places), 1.0]

    def error(edges: list[float]) -> float:
        total = 0.0
        for low, high in pairwise(edges):
            total += abs(sum(is_right - confidence for confidence, is_right in pairs if low < confidence <= high))
        return total / count

    numbers = (error(uniform), error(mass), brier / count, nll / count, sum(wrong) / len(wrong))
    return dict(zip(NAMES, numbers, strict=True))


def by_scikit_learn(probabilities: NDArray[np.float64], classes: NDArray[np.int64]) -> dict[str, float]:
    """Return its numbers; those of bins are differences of its curve, with the numbers of examples of the bins."""
    confidences, right = probabilities.max(1), probabilities.argmax(1) == classes
    found = {}
    for name, strategy in (("ece", "uniform"), ("ece_equal_mass", "quantile")):
        accuracy, confidence = calibration_curve(right, confidences, n_bins=15, strategy=strategy)
        sizes = np.unique(bins_of(confidences, equal_mass=strategy == "quantile"), return_counts=True)[1]
        found[name] = float((sizes * np.abs(accuracy - confidence)).sum() / len(classes))
    labels = np.arange(probabilities.shape[1])
    found["brier_score"] = brier_score_loss(classes, probabilities, labels=labels, scale_by_half=False)
    return found | {"nll": log_loss(classes, probabilities, labels=labels)}


# With 61 examples some edges are confidences, up to rounding, which is scikit-learn's.
@pytest.mark.parametrize(("seed", "count", "num_classes"), [(0, 500, 10), (1, 138, 2), (2, 42, 5), (3, 61, 10)])
def test_numbers_are_those_of_loops_and_of_scikit_learn(seed: int, count: int, num_classes: int) -> None:
    outcomes, *drawn = scored(seed, count, num_classes)
    found = {name: METRICS[name].compute(Readings(measured=(outcomes,))).value for name in NAMES}
    if count != 61:
        assert found == pytest.approx(in_loops(*drawn), rel=0, abs=1e-9)
    theirs = by_scikit_learn(*drawn)
    assert {name: found[name] for name in theirs} == pytest.approx(theirs, rel=0, abs=1e-9)


def test_confidences_on_an_edge_are_in_the_bin_below_and_equal_ones_in_one() -> None:
    assert bins_of(np.array([1 / 15, 0.0667, 2 / 3, 1.0])).tolist() == [0, 1, 9, 14]
    assert bins_of(np.array([0.5, *[0.7] * 40, 0.9]), equal_mass=True).tolist() == [0, *[0] * 40, 14]


def test_of_a_model_that_is_never_wrong_there_is_no_wrong_confidence() -> None:
    read = readings([outcome_of(str(place)) for place in range(4)])
    with pytest.raises(IncompleteError, match="no example is wrong"):
        METRICS["wrong_confidence"].compute(read)


@pytest.mark.parametrize("name", NAMES)
def test_results_without_the_scores_say_so(name: str) -> None:
    read = readings([outcome_of("a", False, brier=None, confidence=None, loss_nats=None)])
    (field,) = METRICS[name].reads or ()
    with pytest.raises(IncompleteError, match=f"some outcomes have no {field} .*measure them in another folder"):
        METRICS[name].compute(read)


class TestIntervals:
    def test_those_of_means_are_percentiles_of_weighted_means(self) -> None:
        outcomes, *_ = scored(0, 300)
        found = METRICS["nll"].compute(Readings(measured=(outcomes,)))
        losses = np.column_stack([outcomes.column("loss_nats"), np.ones(300)])
        sums = weighted_sums(outcomes.ids, losses)
        assert (found.low, found.high) == pytest.approx(percentile_interval(sums[:, 0] / sums[:, 1]), abs=1e-5)

    def test_a_calibrated_model_can_have_no_miscalibration_and_an_overconfident_one_cannot(self) -> None:
        generator = np.random.default_rng(0)
        confidences = generator.uniform(0.2, 1, 400)
        bounds = []
        for accuracy in (confidences, confidences - 0.2):
            right = generator.random(400) < accuracy
            rows = [
                outcome_of(str(place), bool(is_right), confidence=float(confidence))
                for place, (is_right, confidence) in enumerate(zip(right, confidences, strict=True))
            ]
            estimate = METRICS["ece"].compute(readings(rows))
            assert estimate.low is not None
            assert estimate.high is not None
            assert estimate.bias is not None
            assert estimate.bias > 0
            bounds.append((estimate.low, estimate.high))
        assert bounds[0][0] == 0
        assert 0.1 < bounds[1][0] < 0.2 < bounds[1][1] < 0.3


def test_an_edited_brier_score_is_found() -> None:
    outcomes, *_ = scored(3, 200)
    assert not [each for each in inconsistencies(outcomes, None) if each.rows.any()]
    changed = outcomes.column("brier").copy()
    changed[[5, 7]] = 2.5, -0.1
    edited = outcomes.replaced(brier=Values(changed))
    (broken,) = [each for each in inconsistencies(edited, None) if each.rows.any()]
    assert np.flatnonzero(broken.rows).tolist() == [5, 7]
