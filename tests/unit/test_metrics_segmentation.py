"""Numbers of segmentation beside loops over pixels, worst cases over conditions, and tests of sums."""

import dataclasses
import random
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from swapped_outcomes import permuted_readings

from robench.comparison.evidence import evidence_of
from robench.comparison.permutation import pair, permuted, swaps
from robench.core.columns import Outcomes
from robench.core.errors import IncompleteError
from robench.declare import parse_suite
from robench.leaderboard.curves import profiles_of, severity_accuracies
from robench.metrics import METRICS, Readings
from robench.metrics.intervals import weighted_sums
from robench.metrics.segmentation import counts_of, mean_iou_contributions, worst_conditions
from robench.tasks.segmentation import IGNORED, SegmentationOutcome

Mask = list[int]


def outcome_of(example_id: str, targets: Mask, guesses: Mask) -> SegmentationOutcome:
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
    rows = [outcome_of(f"image-{place}", *each) for place, each in enumerate(images)]
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
    rows = [outcome_of("a", [0, 0, 1, IGNORED], [0, 1, 1, 1]), outcome_of("b", [1], [1])]
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
