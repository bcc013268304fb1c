"""The digits: the split, the pixels and their golden fingerprints."""

from collections import Counter

import pytest
import torch
from sklearn.datasets import load_digits  # type: ignore[import-untyped]  # ships no types

from robench.core.errors import UsageError
from robench.datasets.digits import DIGITS
from robench.datasets.digits_impl import Digits

TEST, TRAIN = Digits("test"), Digits("train")
SOURCE = load_digits()


def position(example_id: str) -> int:
    return int(example_id.removeprefix("digits/"))


def test_there_are_1197_to_train_and_600_to_test_and_each_scan_is_in_one() -> None:
    assert (len(TRAIN), len(TEST)) == (1197, 600)
    assert len(TEST) == DIGITS.num_examples
    assert {position(example_id) for example_id in TRAIN.ids + TEST.ids} == set(range(1797))


def test_the_test_split_is_stratified() -> None:
    # Of 178, 182, 177, 183, 181, 182, 181, 179, 174, 180 scans: 600/1797 of each, by largest remainder.
    counts = Counter(TEST[index][1] for index in range(600))
    assert [counts[label] for label in range(10)] == [59, 61, 59, 61, 61, 61, 60, 60, 58, 60]


@pytest.mark.parametrize("dataset", [TEST, TRAIN], ids=["test", "train"])
def test_labels_are_the_source_s_and_pixels_equal_torch_interpolate_bit_by_bit(dataset: Digits) -> None:
    batch, places = dataset.batch(0, len(dataset)), [position(example_id) for example_id in dataset.ids]
    assert batch.targets.tolist() == SOURCE.target[places].tolist()
    small = torch.tensor(SOURCE.images[places] / 16, dtype=torch.float32)
    expected = torch.nn.functional.interpolate(small[:, None], scale_factor=4, mode="bilinear", align_corners=False)
    assert torch.equal(batch.inputs, expected.expand(-1, 3, -1, -1))


def test_the_fingerprints_are_those_that_published_results_were_measured_on() -> None:
    # Golden: where one of these changes, every published record on digits is of other data.
    assert TEST.identity.fingerprint == "8afc82e4bb017c7cb30b7c81a045f5d1bd7cb657e2cca3220c0170c7872eea31"
    assert TRAIN.identity.fingerprint == "17808ce2cd8d264c2acc218e1fc003334e435fb8ec41c7fb56a645a6f0ca95f4"


@pytest.mark.parametrize("split", ["val", "", "Test"])
def test_an_unknown_split_is_a_usage_error(split: str) -> None:
    with pytest.raises(UsageError, match="only train and test"):
        Digits(split)
