"""The digits: the split, the pixels and their golden fingerprints."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits  # type: ignore[import-untyped]  # ships no types

from robench.core.errors import UsageError
from robench.datasets.digits import DIGITS
from robench.datasets.digits_impl import IMAGE_SIZE, Digits, enlarge

TEST, TRAIN = Digits("test"), Digits("train")
SOURCE = load_digits()


def position(example_id: str) -> int:
    return int(example_id.removeprefix("digits/"))


def bilinear(image: np.ndarray, row: int, column: int) -> Fraction:
    """The textbook: interpolate between the four pixel centres around the target's centre, edges clamped."""

    def neighbours(target: int) -> list[tuple[int, Fraction]]:
        centre = Fraction(2 * target + 1, 2) / 4 - Fraction(1, 2)
        low = centre.__floor__()
        return [(min(max(at, 0), 7), 1 - abs(centre - at)) for at in (low, low + 1)]

    return sum(
        (
            weight_y * weight_x * Fraction(int(image[y, x]), 16)
            for y, weight_y in neighbours(row)
            for x, weight_x in neighbours(column)
        ),
        start=Fraction(0),
    )


def test_there_are_1197_to_train_and_600_to_test_and_each_scan_is_in_one() -> None:
    assert (len(TRAIN), len(TEST)) == (1197, 600)
    assert len(TEST) == DIGITS.num_examples
    assert {position(example_id) for example_id in TRAIN.ids + TEST.ids} == set(range(1797))


def test_the_test_split_is_stratified() -> None:
    # Of 178, 182, 177, 183, 181, 182, 181, 179, 174, 180 scans: 600/1797 of each, by largest remainder.
    counts = Counter(TEST[index][1] for index in range(600))
    assert [counts[label] for label in range(10)] == [59, 61, 59, 61, 61, 61, 60, 60, 58, 60]


@pytest.mark.parametrize("dataset", [TEST, TRAIN], ids=["test", "train"])
def test_every_label_is_the_source_s(dataset: Digits) -> None:
    targets = dataset.batch(0, len(dataset)).targets.tolist()
    assert targets == [SOURCE.target[position(example_id)] for example_id in dataset.ids]


def test_any_prefix_is_a_mixed_sample() -> None:
    for start in (0, 100, 500):
        assert len(set(TEST.batch(start, start + 50).targets.tolist())) == 10


@pytest.mark.parametrize("index", [0, 7, 311, 599])
def test_pixels_are_the_exact_bilinear_interpolation(index: int) -> None:
    image = SOURCE.images[position(TEST.ids[index])]
    pixels = TEST[index][0][0].tolist()
    for row in range(IMAGE_SIZE):
        for column in range(IMAGE_SIZE):
            assert Fraction(pixels[row][column]) == bilinear(image, row, column)


@pytest.mark.parametrize("dataset", [TEST, TRAIN], ids=["test", "train"])
def test_pixels_equal_torch_interpolate_bit_by_bit(dataset: Digits) -> None:
    small = torch.tensor(SOURCE.images[[position(example_id) for example_id in dataset.ids]] / 16, dtype=torch.float32)
    expected = torch.nn.functional.interpolate(small[:, None], scale_factor=4, mode="bilinear", align_corners=False)
    assert torch.equal(dataset.batch(0, len(dataset)).inputs, expected.expand(-1, 3, -1, -1))


def test_enlarging_keeps_constant_images_and_the_range() -> None:
    for value in (0, 5, 16):
        assert np.all(enlarge(np.full((1, 8, 8), float(value))) == value / 16)
    assert enlarge(SOURCE.images).min() == 0
    assert enlarge(SOURCE.images).max() <= 1


def test_enlarging_keeps_left_and_right_and_up_and_down() -> None:
    corner = np.zeros((1, 8, 8))
    corner[0, 0, 7] = 16
    enlarged = enlarge(corner)[0]
    assert enlarged[0, -1] == 1
    assert enlarged[8:].max() == enlarged[:, :-8].max() == 0


def test_the_three_channels_are_equal() -> None:
    inputs = TEST.batch(0, 600).inputs
    assert torch.equal(inputs[:, 0], inputs[:, 1])
    assert torch.equal(inputs[:, 0], inputs[:, 2])


def test_the_fingerprints_are_those_that_published_results_were_measured_on() -> None:
    # Golden: where one of these changes, every published record on digits is of other data.
    assert TEST.identity.fingerprint == "8afc82e4bb017c7cb30b7c81a045f5d1bd7cb657e2cca3220c0170c7872eea31"
    assert TRAIN.identity.fingerprint == "17808ce2cd8d264c2acc218e1fc003334e435fb8ec41c7fb56a645a6f0ca95f4"


def test_the_order_begins_as_ever() -> None:
    assert TEST.ids[:4] == ("digits/0099", "digits/0309", "digits/1254", "digits/0064")


@pytest.mark.parametrize("split", ["val", "", "Test"])
def test_an_unknown_split_is_a_usage_error(split: str) -> None:
    with pytest.raises(UsageError, match="only train and test"):
        Digits(split)
