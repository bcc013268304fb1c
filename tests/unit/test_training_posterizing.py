"""Posterising keeps the highest bits, of none of which a black image is left, whatever Pillow thinks of that."""

import numpy as np
import pytest
from PIL import Image
from timm.data import auto_augment
from training_examples import PREPROCESSING, recipe

from robench.training.folder_images import posterize, posterizing_to_black, transform_of
from robench.training.optimization import seeded

PIXELS = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)


@pytest.mark.parametrize("bits", range(9))
def test_so_many_of_the_highest_bits_are_kept(bits: int) -> None:
    kept = np.asarray(posterize(Image.fromarray(PIXELS), bits, fillcolor=(1, 2, 3)))
    assert np.array_equal(kept, PIXELS >> (8 - bits) << (8 - bits))


def test_policies_have_it_and_timm_is_as_before_afterwards() -> None:
    before = dict(auto_augment.NAME_TO_OP)
    with posterizing_to_black():
        operation = auto_augment.AugmentOp("PosterizeIncreasing", prob=1.0, magnitude=10)  # type: ignore[no-untyped-call]  # timm's
    assert before == auto_augment.NAME_TO_OP
    assert not np.asarray(operation(Image.fromarray(PIXELS))).any()


@pytest.mark.parametrize(("policy", "num_black"), [("rand-m9-mstd0.5-inc1", 0), ("rand-m10-inc1", 2)])
def test_policies_augment_whatever_they_draw(policy: str, num_black: int) -> None:
    transform = transform_of(recipe(auto_augment=policy, random_erasing=0.0), PREPROCESSING)
    spreads = []
    for seed in range(120):
        with seeded(seed):
            spreads.append(float(transform(Image.fromarray(PIXELS)).std(dim=(1, 2)).max()))
    assert sum(spread == 0 for spread in spreads) >= num_black
    assert len(set(spreads)) > 100
