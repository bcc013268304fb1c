"""Corruption errors by hand, in the RPC paper's table, and the laws of their intervals."""

import random
from collections.abc import Mapping
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from refusals import Refusal, check
from torchvision.models import AlexNet_Weights

from examples import outcome_columns, outcome_of
from robench.core.columns import Outcomes, Values
from robench.core.errors import ContractError, DeclarationError, IncompleteError, UnknownNameError
from robench.core.report import Estimate
from robench.corruptions import COMMON_CORRUPTIONS, EXTRA_CORRUPTIONS
from robench.metrics import METRICS, Readings
from robench.metrics.corruptions import (
    among_five,
    errors_of,
    mean_terms,
    relative_terms,
    right,
    type_terms,
    verdict_terms,
    wrong,
)
from robench.metrics.reference_errors import ALEXNET, ReferenceErrors

# RPC-Attention (papers/rpc-attention.txt), appendix E.3, table 4: per type, top-1 accuracy (%) over the five severities
# and what the table calls mCE (%), for each of the models of its head.
RPC_MODELS = ("SymViT", "2iter/all-layer", "4iter/layer1", "5iter/layer1", "6iter/layer1")
RPC_TABLE_4 = """
brightness         63.21 62.97 63.74 64.19 64.31   65.16 65.69 64.22 63.43 63.22
contrast           50.25 49.59 49.30 49.84 50.18   58.53 59.08 59.42 58.79 58.39
defocus_blur       35.47 35.61 35.54 35.26 36.38   78.71 78.53 78.62 78.96 77.59
elastic_transform  44.26 44.52 44.68 44.84 44.72   86.28 85.87 85.63 85.38 85.56
fog                42.72 45.49 46.03 46.59 46.40   69.91 66.53 65.87 65.19 65.42
frost              44.55 45.06 45.93 46.24 46.27   67.08 66.46 65.41 65.04 65.01
gaussian_noise     40.97 41.64 42.22 41.67 42.51   66.59 65.84 65.19 65.80 64.85
glass_blur         27.79 28.12 28.48 27.87 28.05   87.39 87.00 86.56 87.30 87.07
impulse_noise      38.56 38.98 40.24 39.46 40.33   66.59 66.14 64.77 65.61 64.67
jpeg_compression   46.28 46.23 47.92 48.41 48.63   88.58 88.65 85.87 85.06 84.70
motion_blur        40.47 40.00 41.72 41.81 42.22   75.75 76.43 74.16 74.04 73.51
pixelate           39.36 39.81 41.13 41.86 42.25   84.47 83.84 82.01 81.00 80.45
shot_noise         38.83 39.20 39.52 39.03 39.71   68.38 67.98 67.61 68.16 67.40
snow               38.27 37.87 38.75 39.12 38.90   71.22 71.67 70.66 70.23 70.48
zoom_blur          30.69 29.49 29.97 30.20 30.48   86.82 88.32 87.72 87.43 87.08
"""
# The same paper, table 1, columns IN-C: top-1 accuracy and mCE (%).
RPC_TABLE_1 = {
    "SymViT": (41.45, 74.75),
    "2iter/all-layer": (41.64, 74.52),
    "4iter/layer1": (42.35, 73.58),
    "5iter/layer1": (42.43, 73.43),
    "6iter/layer1": (42.76, 73.03),
}
# Cells of table 4 that do not follow from the accuracy above them, and what does.
RPC_MISPRINTS = {
    ("SymViT", "contrast"): 58.31,
    ("2iter/all-layer", "brightness"): 65.59,
    ("2iter/all-layer", "motion_blur"): 76.34,
}
# Accuracies are rounded by up to 0.005, over AlexNet's smallest error 0.009, and corruption errors by 0.005 again.
RPC_ROUNDING = 0.014
# AlexNet's errors at each severity, as the ImageNet-C evaluation of facebookresearch/dinov3 has them.
ALEXNET_BY_SEVERITY = """
gaussian_noise     0.69528 0.82542 0.93554 0.98138 0.99452
shot_noise         0.71224 0.85108 0.93574 0.98182 0.99146
impulse_noise      0.78374 0.89808 0.94870 0.98720 0.99548
defocus_blur       0.65624 0.73202 0.85036 0.91364 0.94714
glass_blur         0.64308 0.75054 0.88806 0.91622 0.93344
motion_blur        0.58430 0.70048 0.82108 0.89750 0.92638
zoom_blur          0.70008 0.76992 0.80784 0.84198 0.87198
snow               0.71726 0.88392 0.86468 0.91870 0.94952
frost              0.61390 0.79734 0.88790 0.89942 0.93430
fog                0.67474 0.76050 0.84378 0.87260 0.94500
brightness         0.45140 0.48502 0.54048 0.62166 0.72440
contrast           0.64548 0.76150 0.88874 0.97760 0.99270
elastic_transform  0.52596 0.70116 0.55686 0.64076 0.80554
pixelate           0.52218 0.54620 0.73728 0.87092 0.91262
jpeg_compression   0.51002 0.54718 0.57294 0.65458 0.74778
"""
# The extra four, as the README of hendrycks/robustness had them from 76d9393 to ac836a5.
ALEXNET_EXTRA_BY_SEVERITY = """
speckle_noise      0.66192 0.74440 0.90246 0.94548 0.97268
gaussian_blur      0.54732 0.70444 0.82574 0.89864 0.95940
spatter            0.47196 0.62194 0.75052 0.84132 0.90182
saturate           0.59342 0.65514 0.51174 0.70834 0.82260
"""
COMMON = ALEXNET.over(COMMON_CORRUPTIONS)

Severities = dict[int, Outcomes]
MEAN_CORRUPTION_ERROR = METRICS["mean_corruption_error"]
REFERENCE = ReferenceErrors(model="weak", clean=0.25, corrupted={"snow": 0.5, "fog": 0.75})


def mean_corruption_error(corrupted: Mapping[str, Severities], reference: ReferenceErrors) -> Estimate:
    return mean_terms(corrupted, reference).estimate()


def mean_error(corrupted: Mapping[str, Severities]) -> Estimate:
    return verdict_terms(corrupted, wrong).estimate("share")


def mean_top1_accuracy(corrupted: Mapping[str, Severities]) -> Estimate:
    return verdict_terms(corrupted, right).estimate("share")


def rows_of(table: str) -> dict[str, list[float]]:
    return {name: [float(cell) for cell in cells] for name, *cells in map(str.split, table.strip().splitlines())}


RPC_ROWS = rows_of(RPC_TABLE_4)


def verdicts(*correct: bool) -> Outcomes:
    return outcome_columns(outcome_of(f"val/{index:03d}", each) for index, each in enumerate(correct))


def severities_of(correct: list[bool], num_images: int) -> Severities:
    """Return five severities of the same images, filled with the verdicts one after the other."""
    return {
        severity: verdicts(*correct[(severity - 1) * num_images : severity * num_images]) for severity in range(1, 6)
    }


def severities_with(num_wrong: int, num_images: int = 20) -> Severities:
    return severities_of([False] * num_wrong + [True] * (5 * num_images - num_wrong), num_images)


def random_corruptions(seed: int, names: list[str], num_images: int = 30) -> dict[str, Severities]:
    draw = random.Random(seed)
    hard = [draw.random() for _ in range(num_images)]
    return {
        name: severities_of([draw.random() > hard[index % num_images] for index in range(5 * num_images)], num_images)
        for name in names
    }


def published(column: int) -> dict[str, Severities]:
    """Return the outcomes of 2,000 images whose accuracies are those of a column of table 4, to the last digit."""
    num_images = 2000
    images = outcome_columns(outcome_of(f"val/{index}", True) for index in range(num_images))
    corrupted = {}
    for corruption, row in RPC_ROWS.items():
        num_right = round(row[column] * 100)
        is_right = np.arange(5 * num_images).reshape(5, num_images) < num_right
        corrupted[corruption] = {
            severity: images.replaced(correct_top1=Values(each)) for severity, each in enumerate(is_right, 1)
        }
    return corrupted


def width(estimate: Estimate) -> float:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.high - estimate.low


class TestAlexNet:
    def test_each_error_is_the_mean_of_those_at_the_five_severities(self) -> None:
        by_severity = rows_of(ALEXNET_BY_SEVERITY) | rows_of(ALEXNET_EXTRA_BY_SEVERITY)
        assert {name: sum(errors) / 5 for name, errors in by_severity.items()} == pytest.approx(ALEXNET.corrupted)

    def test_its_clean_error_is_torchvisions_and_rounds_to_the_papers(self) -> None:
        metrics = AlexNet_Weights.IMAGENET1K_V1.meta["_metrics"]["ImageNet-1K"]
        assert pytest.approx(1 - metrics["acc@1"] / 100) == ALEXNET.clean
        assert round(100 * ALEXNET.clean, 1) == 43.5


class TestExtraCorruptions:
    def test_their_mean_is_over_the_four_in_units_of_alexnets_errors_of_the_four(self) -> None:
        corrupted = {name: severities_with(10 * number) for number, name in enumerate(EXTRA_CORRUPTIONS, start=1)}
        measured = Readings(family="imagenet-c", corrupted=corrupted)
        by_hand = (0.1 / 0.845388 + 0.2 / 0.787108 + 0.3 / 0.717512 + 0.4 / 0.658248) / 4
        assert MEAN_CORRUPTION_ERROR.compute(measured).value == pytest.approx(by_hand)

    def test_beside_any_of_the_fifteen_they_are_no_part_of_the_mean(self) -> None:
        extra = {name: severities_with(100) for name in EXTRA_CORRUPTIONS}
        common = {name: severities_with(10) for name in COMMON_CORRUPTIONS}
        alone = Readings(family="imagenet-c", corrupted=common)
        both = Readings(family="imagenet-c", corrupted=common | extra)
        assert MEAN_CORRUPTION_ERROR.compute(both) == MEAN_CORRUPTION_ERROR.compute(alone)


class TestRpcPaper:
    @pytest.mark.parametrize("column", range(5), ids=RPC_MODELS)
    def test_the_printed_mce_follows_from_the_printed_accuracies(self, column: int) -> None:
        _, printed = RPC_TABLE_1[RPC_MODELS[column]]
        assert round(100 * mean_corruption_error(published(column), COMMON).value, 2) == printed

    @pytest.mark.parametrize("column", range(5), ids=RPC_MODELS)
    def test_the_printed_mean_accuracy_follows_but_for_rounding(self, column: int) -> None:
        printed, _ = RPC_TABLE_1[RPC_MODELS[column]]
        assert 100 * mean_top1_accuracy(published(column)).value == pytest.approx(printed, abs=0.0101)

    def test_three_printed_cells_do_not_follow_and_all_others_do(self) -> None:
        wrong = {
            (model, corruption): round((100 - row[column]) / ALEXNET.corrupted[corruption], 2)
            for corruption, row in RPC_ROWS.items()
            for column, model in enumerate(RPC_MODELS)
            if abs((100 - row[column]) / ALEXNET.corrupted[corruption] - row[5 + column]) > RPC_ROUNDING
        }
        assert wrong == RPC_MISPRINTS


class TestByHand:
    def test_a_corruption_error_is_the_mean_error_over_the_references(self) -> None:
        # 30 of 100 wrong, over 0.5.
        estimate = type_terms("snow", severities_with(30), REFERENCE).estimate()
        assert (estimate.value, estimate.num_examples, estimate.unit) == (0.6, 20, "ratio")

    def test_mce_is_the_mean_of_corruption_errors_and_not_the_ratio_of_means(self) -> None:
        corrupted = {"snow": severities_with(30), "fog": severities_with(60)}
        # (0.3 / 0.5 + 0.6 / 0.75) / 2, and not (0.3 + 0.6) / (0.5 + 0.75).
        assert mean_corruption_error(corrupted, REFERENCE).value == pytest.approx(0.7, abs=1e-15)

    def test_relative_mce_takes_the_clean_errors_off_at_every_severity(self) -> None:
        corrupted = {"snow": severities_with(30), "fog": severities_with(60)}
        clean = verdicts(*[False] * 4, *[True] * 16)
        # ((0.3 - 0.2) / (0.5 - 0.25) + (0.6 - 0.2) / (0.75 - 0.25)) / 2
        estimate = relative_terms(clean, corrupted, REFERENCE).estimate()
        assert (estimate.value, estimate.unit) == (pytest.approx(0.6, abs=1e-15), "ratio")

    def test_mean_accuracy_is_what_is_left_of_the_mean_error(self) -> None:
        corrupted = random_corruptions(1, ["snow", "fog"])
        error, accuracy = mean_error(corrupted), mean_top1_accuracy(corrupted)
        expected = (1 - error.value, 1 - error.high, 1 - error.low)
        assert (accuracy.value, accuracy.low, accuracy.high) == pytest.approx(expected)

    def test_mean_top5_accuracy_reads_the_first_five(self) -> None:
        images = outcome_columns([outcome_of("a", False), outcome_of("b", False, correct_top5=False)])
        assert verdict_terms({"snow": dict.fromkeys(range(1, 6), images)}, among_five).estimate("share").value == 0.5


class TestReference:
    @pytest.mark.parametrize("seed", range(5))
    def test_in_units_of_itself_a_model_has_1(self, seed: int) -> None:
        corrupted = random_corruptions(seed, ["snow", "fog", "contrast"])
        clean = verdicts(*[False] * 3, *[True] * 27)
        own = errors_of("itself", clean, corrupted)
        assert own.clean == 0.1
        assert mean_corruption_error(corrupted, own).value == pytest.approx(1, abs=1e-12)
        assert relative_terms(clean, corrupted, own).estimate().value == pytest.approx(1, abs=1e-12)


class TestInterval:
    @pytest.mark.parametrize("seed", range(3))
    def test_it_has_the_width_of_the_closed_form_over_images(self, seed: int) -> None:
        corrupted = random_corruptions(seed, ["snow", "fog"], num_images=200)
        # Per image, its errors over the reference's: the mean over images is mCE, and its error s / sqrt(n).
        wrong = {
            name: np.mean([[not each.correct_top1 for each in outcomes] for outcomes in severities.values()], axis=0)
            for name, severities in corrupted.items()
        }
        by_image = (wrong["snow"] / 0.5 + wrong["fog"] / 0.75) / 2
        estimate = mean_corruption_error(corrupted, REFERENCE)
        assert estimate.value == pytest.approx(by_image.mean(), abs=1e-12)
        assert width(estimate) == pytest.approx(2 * 1.96 * by_image.std() / sqrt(200), rel=0.12)

    def test_images_are_drawn_together_with_all_their_corruptions(self) -> None:
        # An image is wrong under either snow or fog, so that however images are drawn the mean error stays; drawing
        # anew for each corruption would make it vary.
        first_half = [index < 25 for index in range(50)]
        snow = severities_of(first_half * 5, 50)
        fog = severities_of([not each for each in first_half] * 5, 50)
        joint, alone = mean_error({"snow": snow, "fog": fog}), mean_error({"snow": snow})
        assert (joint.low, joint.high) == (0.5, 0.5)
        assert width(alone) > 0.2

    @pytest.mark.parametrize("num_images", [3, 7, 11, 13])
    def test_it_encloses_the_value_where_no_two_images_differ(self, num_images: int) -> None:
        corrupted = {name: severities_with(2 * num_images, num_images) for name in COMMON.corrupted}
        estimate = mean_corruption_error(corrupted, COMMON)
        assert width(estimate) < 1e-12
        assert (estimate.low or 0) <= estimate.value <= (estimate.high or 0)

    @pytest.mark.parametrize("seed", range(5))
    def test_no_order_matters_to_the_last_bit(self, seed: int) -> None:
        corrupted = random_corruptions(seed, list(COMMON.corrupted))
        draw = random.Random(seed)
        shuffled = {
            name: {each: outcome_columns(draw.sample(corrupted[name][each], 30)) for each in (3, 1, 5, 2, 4)}
            for name in draw.sample(list(corrupted), len(corrupted))
        }
        assert mean_corruption_error(shuffled, COMMON) == mean_corruption_error(corrupted, COMMON)


def of_mean(message: str, error: type[Exception] = IncompleteError, **corrupted: Severities) -> Refusal:
    return Refusal(lambda _: mean_corruption_error(corrupted, REFERENCE), error, message)


def of_error(message: str, **corrupted: Severities) -> Refusal:
    return Refusal(lambda _: mean_error(corrupted), IncompleteError, message)


def relative(message: str, num_clean: int, reference: ReferenceErrors, error: type[Exception]) -> Refusal:
    clean, corrupted = verdicts(*[True] * num_clean), dict.fromkeys(reference.corrupted, THREE)
    return Refusal(lambda _: relative_terms(clean, corrupted, reference), error, message)


def clean_error(clean: float) -> Refusal:
    message = rf"proportion in \[0, 1\], got {clean}"
    return Refusal(lambda _: ReferenceErrors(model="AlexNet", clean=clean, corrupted={}), DeclarationError, message)


THREE = severities_with(3)
FOUR = {severity: outcomes for severity, outcomes in THREE.items() if severity != 4}
STRANGE = THREE | {4: outcome_columns([outcome_of("stranger", True), *THREE[4][1:]])}
SILENT = dict.fromkeys(range(1, 6), outcome_columns([outcome_of("a", True, correct_top5=None)]))
UNHURT = ReferenceErrors(model="odd", clean=0.5, corrupted={"snow": 0.5})
REFUSALS = {
    "missing type": of_mean("1 of 2 corruptions are in, without fog", snow=THREE),
    "one of the extra four": of_mean("'saturate'", UnknownNameError, snow=THREE, fog=THREE, saturate=THREE),
    "missing severity": of_error(r"snow wants the severities 1 to 5, got \[1, 2, 3, 5\]", snow=FOUR),
    "other images": of_error(r"2 examples are in snow at severity 4 .* \(first 'stranger'\)", snow=STRANGE),
    "none": of_error("no corruptions"),
    "clean images": relative(r"1 examples are in the clean .* \(first 'val/019'\)", 19, REFERENCE, IncompleteError),
    "no relative error": relative("odd errs no more under snow", 20, UNHURT, DeclarationError),
    "percent": clean_error(43.5),
    "more than one": clean_error(1.5),
    "negative": clean_error(-0.1),
    "no reference error": Refusal(
        lambda _: type_terms("spatter", THREE, COMMON),
        UnknownNameError,
        r"unknown corruption 'spatter'.*Without AlexNet's error",
    ),
    "a reference that is never wrong": Refusal(
        lambda _: errors_of("perfect", verdicts(True), {"snow": severities_with(0, num_images=1)}),
        DeclarationError,
        r"perfect's error under snow must be in \(0, 1\]",
    ),
    "a reference that is wrong more than always": Refusal(
        lambda _: ReferenceErrors(model="odd", clean=0.1, corrupted={"fog": 1.5}),
        DeclarationError,
        r"odd's error under fog must be in \(0, 1\] to be a unit, got 1\.5",
    ),
    "no top 5": Refusal(
        lambda _: verdict_terms({"snow": SILENT}, among_five), ContractError, "example 'a' has no correct_top5"
    ),
    "missing one of the extra four": Refusal(
        lambda _: MEAN_CORRUPTION_ERROR.compute(
            Readings(family="imagenet-c", corrupted=dict.fromkeys(EXTRA_CORRUPTIONS[:-1], THREE))
        ),
        IncompleteError,
        "3 of 4 corruptions are in, without saturate",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_has_no_corruption_error_is_refused(name: str, tmp_path: Path) -> None:
    check(REFUSALS[name], tmp_path)
