"""Numbers of searches for the nearest adversarial example by counting, and of segmentation beside loops over pixels."""

import dataclasses
import random
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import inf
from statistics import median
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from swapped_outcomes import permuted_readings

from examples import MEASUREMENT, outcome_columns, outcome_of
from robench.attacks.cw import Cw
from robench.attacks.fab import Fab
from robench.comparison.evidence import evidence_of
from robench.comparison.permutation import pair, permuted, swaps
from robench.core.columns import Outcomes
from robench.core.errors import ContractError, IncompleteError
from robench.core.outcomes import Outcome
from robench.core.protocols import Batch
from robench.core.report import Estimate
from robench.core.shard import DatasetIdentity, Shard
from robench.core.suite import Condition
from robench.datasets.digits import DIGITS
from robench.declare import parse_suite
from robench.evaluation.evaluate import evaluate
from robench.leaderboard.curves import profiles_of, severity_accuracies
from robench.metrics import METRICS, Readings
from robench.metrics.distances import _median_of_rows, fallen_at
from robench.metrics.intervals import weighted_sums
from robench.metrics.segmentation import counts_of, mean_iou_contributions, worst_conditions
from robench.tasks.classification import ClassificationOutcome
from robench.tasks.segmentation import IGNORED, SegmentationOutcome

Asked = dict[str, Any]
L2: Asked = {"norm": "l2"}


def accuracy_at_distance(outcomes: Iterable[Outcome], asked: Asked) -> Estimate:
    return METRICS["accuracy_at_distance"].compute(Readings(measured=(outcome_columns(outcomes),), **asked))


def median_distance(outcomes: Iterable[Outcome], asked: Asked) -> Estimate:
    return METRICS["median_distance"].compute(Readings(measured=(outcome_columns(outcomes),), **asked))


def searched(*distances: float) -> list[ClassificationOutcome]:
    """What a search gives for examples that fall at these distances: 0 for wrong when clean, infinite for never."""
    return [
        outcome_of(str(i), correct=each == inf, l2=0.0 if each == inf else each, found=each < inf)
        for i, each in enumerate(distances)
    ]


def at(distance: float) -> Asked:
    return {"norm": "l2", "within": distance}


class TestAccuracyAtDistance:
    def test_it_counts_what_is_right_when_clean_and_falls_beyond_the_distance_or_never(self) -> None:
        outcomes = searched(0.0, 0.0, 0.4, 0.6, 2.0, inf)
        assert [accuracy_at_distance(outcomes, at(d)).value for d in (0.3, 0.5, 1.0, 5.0)] == [
            4 / 6,
            3 / 6,
            2 / 6,
            1 / 6,
        ]

    def test_the_norm_is_that_of_the_search(self) -> None:
        outcomes = [outcome_of("a", correct=False, linf=0.1, l2=0.5, l1=2.0, found=True)]
        asked = [{"norm": norm, "within": 0.7} for norm in ("linf", "l2", "l1")]
        assert [accuracy_at_distance(outcomes, each).value for each in asked] == [0.0, 0.0, 1.0]

    def test_no_distance_is_no_question(self) -> None:
        with pytest.raises(ContractError, match="wants one to be stated"):
            accuracy_at_distance(searched(0.1), L2)


class TestMedianDistance:
    @pytest.mark.parametrize(
        ("distances", "wanted"),
        [((0.3,), 0.3), ((0.3, 0.5), 0.4), ((0.9, 0.1, 0.4), 0.4), ((0.0, 0.0, 0.0, 0.2, 0.6, 0.7), 0.6)],
    )
    def test_it_is_the_middle_of_what_is_right_when_clean(self, distances: tuple[float, ...], wanted: float) -> None:
        assert median_distance(searched(*distances), L2).value == pytest.approx(wanted)

    @given(st.lists(st.floats(0.001, 10), min_size=1))
    def test_it_is_pythons(self, distances: list[float]) -> None:
        assert median_distance(searched(*distances), L2).value == pytest.approx(median(distances))

    def test_it_is_infinite_where_half_of_the_searches_found_nothing(self) -> None:
        estimate = median_distance(searched(0.0, 0.1, 0.2, inf, inf), L2)
        assert estimate.value == inf
        assert median_distance(searched(0.1, 0.2, inf), L2).value == 0.2

    @pytest.mark.parametrize("count", [*range(1, 40), 100, 601, 5000])
    def test_its_interval_is_the_shortest_between_order_statistics_that_holds_95_per_cent(self, count: int) -> None:
        distances = [float(i) for i in range(1, count + 1)]
        estimate = median_distance(searched(*distances), L2)
        if estimate.low is None:
            assert estimate.high is None
            assert 1 - 2 * binom.cdf(0, count, 0.5) < 0.95
            return
        rank = int(estimate.low)
        assert estimate.high == count + 1 - rank
        # P(l-th < median < (n + 1 - l)-th) = P(l <= B <= n - l).
        assert 1 - 2 * binom.cdf(rank - 1, count, 0.5) >= 0.95
        assert 1 - 2 * binom.cdf(rank, count, 0.5) < 0.95

    def test_where_nothing_is_right_when_clean_there_is_none(self) -> None:
        with pytest.raises(IncompleteError, match="no example is right when clean"):
            median_distance(searched(0.0, 0.0), L2)


COMPUTE = {"accuracy_at_distance": accuracy_at_distance, "median_distance": median_distance}


@pytest.mark.parametrize("metric", COMPUTE)
class TestWrongOutcomes:
    def test_outcomes_of_an_attack_with_a_budget_are_refused(self, metric: str) -> None:
        with pytest.raises(ContractError, match=r"not of a minimum-norm attack \(example 'a'\)"):
            COMPUTE[metric]([outcome_of("a", l2=0.3)], at(1.0))

    def test_outcomes_without_distances_are_refused(self, metric: str) -> None:
        with pytest.raises(ContractError, match="not of a minimum-norm attack"):
            COMPUTE[metric]([outcome_of("a", found=True)], at(1.0))


class Linear:
    """Two classes divided by a plane, far from the limits of the pixels: distances have a closed form."""

    device = torch.device("cpu")
    normalisation = torch.zeros(1, 1, 1), torch.ones(1, 1, 1)
    weight = torch.tensor([0.3, -0.5, 0.2, 0.4])

    def outputs(self, inputs: torch.Tensor, seeds: object = None) -> torch.Tensor:
        margins = (inputs - 0.5).flatten(1) @ self.weight
        return torch.stack([margins, -margins], dim=1)


class Points:
    """30 points, every fifth with the wrong class."""

    identity = DatasetIdentity(name="digits", fingerprint="p", num_examples=30)
    inputs = 0.5 + 0.2 * (torch.rand(30, 1, 2, 2, generator=torch.Generator().manual_seed(0)) - 0.5)

    def __init__(self) -> None:
        self.targets = Linear().outputs(self.inputs).argmax(1)
        self.targets[::5] = 1 - self.targets[::5]

    def batch(self, start: int, stop: int) -> Batch:
        ids = tuple(str(i) for i in range(start, stop))
        return Batch(ids=ids, inputs=self.inputs[start:stop], targets=self.targets[start:stop])


FAB = Fab(norm="l2", num_steps=20)
CW = Cw(num_steps=200, num_search_steps=6, initial_c=0.01, learning_rate=0.01)


@pytest.mark.parametrize("attack", [FAB, CW, replace(FAB, norm="linf")], ids=["fab", "cw", "fab-linf"])
def test_on_a_plane_numbers_are_those_of_the_closed_form(attack: Fab | Cw) -> None:
    norm = getattr(attack, "norm", "l2")
    condition = Condition(name="c", dataset=DIGITS, perturbation=attack)
    measurement = replace(MEASUREMENT, condition=condition, dataset=Points.identity, batch_size=30)
    outcomes = evaluate(Shard(measurement=measurement, start=0, stop=30), Linear(), Points()).outcomes
    dual = torch.linalg.vector_norm(Linear.weight.double(), 1 if norm == "linf" else 2)
    margins = ((Points.inputs.double() - 0.5).flatten(1) @ Linear.weight.double()).abs() / dual
    exact = [0.0 if i % 5 == 0 else float(margin) for i, margin in enumerate(margins)]
    assert fallen_at(outcomes, norm) == pytest.approx(exact, rel=0.02, abs=5e-4)
    right = [distance for distance in exact if distance]
    assert median_distance(outcomes, {"norm": norm}).value == pytest.approx(median(right), rel=0.02)
    within = float(Fraction(sorted(right)[8]) + Fraction(sorted(right)[9])) / 2
    assert accuracy_at_distance(outcomes, {"norm": norm, "within": within}).value == 15 / 30


Mask = list[int]


def outcome_of_masks(example_id: str, targets: Mask, guesses: Mask) -> SegmentationOutcome:
    kept = [(target, guess) for target, guess in zip(targets, guesses, strict=True) if target != IGNORED]
    classes = sorted({each for pair in kept for each in pair})
    return SegmentationOutcome(
        example_id=example_id,
        classes=tuple(classes),
        num_true=tuple(sum(target == each for target, _ in kept) for each in classes),
        num_predicted=tuple(sum(guess == each for _, guess in kept) for each in classes),
        num_both=tuple(sum(target == guess == each for target, guess in kept) for each in classes),
    )


def drawn(seed: int, num_images: int = 5, size: int = 12, num_classes: int = 4) -> list[tuple[Mask, Mask]]:
    draw = random.Random(seed)
    return [
        (
            [draw.choice([IGNORED, *range(num_classes - 1)]) for _ in range(size)],
            [draw.randrange(num_classes) for _ in range(size)],
        )
        for _ in range(num_images)
    ]


HAND_MADE = [
    [([0], [0])],
    [([0], [3])],
    [([IGNORED], [2]), ([1, 1], [1, 0])],
    # Class 2 is only predicted, class 3 nowhere.
    [([0, 0, 1, 1], [0, 2, 1, 1]), ([1, 1, 0, IGNORED], [0, 0, 0, 2])],
]


def readings(images: list[tuple[Mask, Mask]]) -> Readings:
    rows = [outcome_of_masks(f"image-{place}", *each) for place, each in enumerate(images)]
    return Readings(measured=(Outcomes.of(rows),), of_class=1)


@pytest.mark.parametrize("images", [*HAND_MADE, *(drawn(seed) for seed in range(20))])
def test_numbers_are_those_of_a_loop_over_pixels(images: list[tuple[Mask, Mask]]) -> None:
    """mmsegmentation's formulas, one pixel at a time."""
    kept = [(t, g) for targets, guesses in images for t, g in zip(targets, guesses, strict=True) if t != IGNORED]
    accuracy, ious = {}, {}
    for each in range(4):
        both = sum(t == g == each for t, g in kept)
        if any(t == each for t, _ in kept):
            accuracy[each] = both / sum(t == each for t, _ in kept)
        if any(each in pixel for pixel in kept):
            ious[each] = both / sum(each in pixel for pixel in kept)
    found = readings(images)
    assert METRICS["pixel_accuracy"].compute(found).value == pytest.approx(sum(t == g for t, g in kept) / len(kept))
    assert METRICS["class_accuracy"].compute(found).value == pytest.approx(np.mean([*accuracy.values()]))
    assert METRICS["mean_iou"].compute(found).value == pytest.approx(np.mean([*ious.values()]))
    if 1 in ious:
        assert METRICS["class_iou"].compute(found).value == pytest.approx(ious[1])
    else:
        with pytest.raises(IncompleteError, match="no pixel counts"):
            METRICS["class_iou"].compute(found)


def test_an_image_counts_as_much_as_any_other_in_numbers_of_images() -> None:
    images = [([0] * 8, [0] * 8), ([1, 0], [1, 1]), ([IGNORED] * 3, [0, 1, 2])]
    found = readings(images)
    assert METRICS["image_mean_iou"].compute(found).value == pytest.approx((1 + (0.5 + 0) / 2) / 2)
    assert METRICS["worst_image_accuracy"].compute(found).value == 0.5
    with pytest.raises(IncompleteError, match="all pixels of all images are ignored"):
        METRICS["image_mean_iou"].compute(readings(images[2:]))


def test_the_bootstrap_keeps_every_class_and_states_its_bias() -> None:
    images = [*drawn(0, num_images=110), ([3], [3])]
    estimate = METRICS["mean_iou"].compute(readings(images))
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low < estimate.value < estimate.high
    assert estimate.bias is not None
    assert 0 < abs(estimate.bias) < estimate.high - estimate.low
    few = METRICS["mean_iou"].compute(readings(images[:99]))
    assert (few.low, few.high, few.bias) == (None, None, None)


def test_weights_are_of_the_examples_and_exponential() -> None:
    ids = np.array([f"image-{place:03}" for place in range(300)])
    values = np.arange(600).reshape(300, 2)
    order = np.random.default_rng(0).permutation(300)
    sums = weighted_sums(ids, values)
    assert np.array_equal(sums, weighted_sums(ids[order], values[order]))
    single = weighted_sums(ids, np.eye(300, dtype=int)) / 4096
    assert single.min() > 0
    assert single.mean() == pytest.approx(1, abs=0.01)
    assert single.std() == pytest.approx(1, abs=0.01)
    assert np.median(single) == pytest.approx(np.log(2), abs=0.01)


def conditions(*of_attacks: list[tuple[Mask, Mask]]) -> Readings:
    clean, *attacks = (readings(images).measured[0] for images in of_attacks)
    return Readings(clean=clean, measured=tuple(attacks))


def test_the_worst_case_of_mean_iou_is_chosen_over_the_whole_set() -> None:
    """By image, the condition with the fewest right pixels leaves the rare class right, and a higher mean IoU."""
    truth = [[0] * 8 + [1] * 2, [0] * 8]
    common = [[1] * 6 + [0] * 2 + [1] * 2, [0] * 8]
    rare = [[0] * 10, [0] * 8]
    clean = conditions(*(list(zip(truth, guesses, strict=True)) for guesses in (truth, common, rare)))
    by_image = METRICS["robust_pixel_accuracy"].compute(clean)
    assert by_image.value == pytest.approx(12 / 18)
    # The condition that is worst for accuracy has 10 of 16 of class 0 and 2 of 8 of class 1.
    assert np.mean([10 / 16, 2 / 8]) < np.mean([16 / 18, 0])
    assert METRICS["robust_mean_iou"].compute(clean).value == pytest.approx(np.mean([10 / 16, 2 / 8]))
    other = [[1] * 3 + [0] * 5 + [1] * 2, [0] * 8]
    clean = conditions(*(list(zip(truth, guesses, strict=True)) for guesses in (truth, other, rare)))
    # Now the image loses more right pixels in one condition, and more of the mean IoU in the other.
    assert METRICS["robust_pixel_accuracy"].compute(clean).value == pytest.approx(15 / 18)
    assert METRICS["robust_mean_iou"].compute(clean).value == pytest.approx(np.mean([16 / 18, 0]))
    assert np.mean([16 / 18, 0]) < np.mean([13 / 16, 2 / 5])


@pytest.mark.parametrize("metric", ["robust_pixel_accuracy", "robust_mean_iou"])
def test_the_clean_condition_counts_among_those_of_the_worst_case(metric: str) -> None:
    truth, wrong = [[0] * 4, [0] * 4], [[1] * 4, [0] * 4]
    worse, better = (list(zip(truth, guesses, strict=True)) for guesses in (wrong, truth))
    of_clean, of_attack, of_neither = (
        METRICS[metric].compute(conditions(*each)).value
        for each in ((worse, better), (better, worse), (better, better))
    )
    assert of_clean == of_attack < of_neither == 1
    without = replace(conditions(worse, better), clean=None)
    assert METRICS[metric].compute(without).value == 1


@pytest.mark.parametrize("seed", range(5))
def test_no_single_change_lowers_the_chosen_worst_case(seed: int) -> None:
    truth = [targets for targets, _ in drawn(seed, 6)]
    sets = [list(zip(truth, [g for _, g in drawn(10 * seed + each, 6)], strict=True)) for each in range(3)]
    counts = np.stack([counts_of(readings(images).measured[0]) for images in sets])
    chosen = worst_conditions(counts)

    def mean_iou(choice: np.ndarray) -> float:
        true, guessed, both = counts[choice, np.arange(6)].sum(0).T
        union = true + guessed - both
        return float((both[union > 0] / union[union > 0]).mean())

    found = mean_iou(chosen)
    assert all(found <= mean_iou(np.full(6, each)) for each in range(3))
    for image in range(6):
        for each in range(3):
            changed = chosen.copy()
            changed[image] = each
            assert mean_iou(changed) >= found - 1e-12


def two_models(seed: int) -> tuple[Readings, Readings]:
    truth = [targets for targets, _ in drawn(seed, 6)]
    first, second = ([g for _, g in drawn(seed + each, 6)] for each in (100, 200))
    # The second model never predicts the highest class, so that it has counts of fewer.
    second = [[min(g, 2) for g in guesses] for guesses in second]
    one, other = (readings(list(zip(truth, each, strict=True))) for each in (first, second))
    rows = list(other.measured[0])
    random.Random(seed).shuffle(rows)
    return one, dataclasses.replace(other, measured=(Outcomes.of(rows),))


@pytest.mark.parametrize("metric", ["mean_iou", "pixel_accuracy", "class_accuracy"])
def test_swapping_counts_is_swapping_outcomes(metric: str) -> None:
    one, other = two_models(0)
    declared = METRICS[metric]
    paired = pair(declared.contributed(one), declared.contributed(other), metric)  # type: ignore[arg-type]  # not None
    fast, slow = permuted(paired, 200), permuted_readings(declared, one, other, 200)
    assert fast.observed == pytest.approx(slow.observed, abs=1e-12)
    assert np.allclose(fast.drawn, slow.drawn, atol=1e-12)
    assert fast.two_sided == slow.two_sided
    assert next(swaps([paired.samples[0].ids], 1))[0].shape == (1, 6)


def test_a_difference_has_an_interval_of_paired_weights() -> None:
    one, other = two_models(1)
    evidence = evidence_of(METRICS["mean_iou"], one, other, "mean_iou", 99)
    assert "Dirichlet" in evidence.difference.method
    wanted = METRICS["mean_iou"].compute(one).value - METRICS["mean_iou"].compute(other).value
    assert evidence.difference.value == pytest.approx(wanted)
    assert evidence.difference.low is not None
    assert evidence.difference.high is not None
    assert evidence.difference.low < wanted < evidence.difference.high
    same = evidence_of(METRICS["mean_iou"], one, one, "mean_iou", 99)
    assert (same.difference.low, same.difference.high, same.p_value) == (0, 0, 1)


def test_contributions_of_images_are_their_counts() -> None:
    (sample,) = mean_iou_contributions(readings(HAND_MADE[3])).samples
    assert sample.values.shape == (2, 3, 3)
    assert all(one < other for one, other in pairwise(sample.ids.tolist()))


def test_profiles_over_severities_are_means_of_images() -> None:
    fog = {"name": "fog-3", "perturbation": {"kind": "corruption", "type": "fog", "severity": 3, "constants": "cifar"}}
    suite = parse_suite(
        {
            **{"name": "s", "version": 1, "seed": 0, "dataset": "digit-scenes", "batch_size": 20},
            **{"conditions": [{"name": "clean"}, fog], "metrics": ["mean_iou", "corrupted_mean_iou"]},
        }
    )
    rows = [outcome_of_masks("a", [0, 0, 1, IGNORED], [0, 1, 1, 1]), outcome_of_masks("b", [1], [1])]
    coverage: Any = SimpleNamespace(outcomes_at=lambda epsilon: Outcomes.of(rows))
    found = severity_accuracies(suite, {"fog-3": coverage})
    assert found == {("digit-scenes-c", "fog", 3): pytest.approx((2 / 3 + 1) / 2)}
    (chart,) = profiles_of(suite, {"model": found})
    assert (chart.title, chart.y_label) == ("fog", "mean accuracy of an example")


def test_numbers_of_a_family_are_means_over_its_corruptions() -> None:
    truth = [targets for targets, _ in drawn(3, 6)]
    sets = [list(zip(truth, [g for _, g in drawn(40 + each, 6)], strict=True)) for each in range(3)]
    one, two, three = (readings(images) for images in sets)
    (first,), (second,), (third,) = (each.measured for each in (one, two, three))
    family = {"fog": {3: first, 5: second}, "snow": {5: third}}
    found = METRICS["corrupted_mean_iou"].compute(Readings(corrupted=family))
    wanted = np.mean([METRICS["mean_iou"].compute(each).value for each in (one, two, three)])
    assert found.value == pytest.approx(wanted)
    assert found.num_examples == 6


def test_medians_of_many_rows_are_those_of_each_without_its_zeros() -> None:
    rows = np.array([[0, 0, 0, 0], [0, 2, 4, 0], [5, 0, 1, 3], [4, 1, 3, 2], [0, 0, 0, 7]], dtype=np.float64)
    wanted = [median(found) if (found := [each for each in row if each]) else np.nan for row in rows.tolist()]
    np.testing.assert_array_equal(_median_of_rows([rows]), wanted)
