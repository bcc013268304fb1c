"""Scattered pixels are what taking them one after the other gives."""

import imagecorruptions.corruptions as library
import numpy as np
import pytest
import torch

from robench.corruptions.glass_blur_impl import copied


def moves(num_examples: int, height: int, width: int, reach: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    down, right = torch.randint(-reach, reach, (2, num_examples, height, width), generator=generator)
    return down, right


def numbered(num_examples: int, height: int, width: int) -> torch.Tensor:
    return torch.arange(3.0 * height * width).view(1, 3, height, width).repeat(num_examples, 1, 1, 1)


@pytest.mark.parametrize("reach", [1, 2, 4])
@pytest.mark.parametrize("size", [(13, 13), (10, 17)])
def test_copies_are_those_of_one_pixel_after_the_other(reach: int, size: tuple[int, int]) -> None:
    height, width = size
    down, right = moves(3, height, width, reach, seed=reach)
    result = copied(numbered(3, height, width), down, right, reach)
    for i in range(3):
        image = numbered(1, height, width)[0]
        for h in range(height - reach, reach, -1):
            for w in range(width - reach, reach, -1):
                image[:, h, w] = image[:, h + down[i, h, w], w + right[i, h, w]].clone()
        assert torch.equal(result[i], image)


def test_copies_are_what_the_librarys_swaps_come_to(monkeypatch: pytest.MonkeyPatch) -> None:
    down, right = moves(1, 12, 12, 2, seed=5)
    asked = iter([(h, w) for h in range(10, 2, -1) for w in range(10, 2, -1)])

    def draw(low: int, high: int, size: tuple[int, ...]) -> tuple[int, int]:
        h, w = next(asked)
        return int(right[0, h, w]), int(down[0, h, w])

    monkeypatch.setattr("numpy.random.randint", draw)
    monkeypatch.setattr("numpy.random.seed", lambda seed: None)
    image = numbered(1, 12, 12)[0].permute(1, 2, 0).numpy().copy()
    wanted = library._shuffle_pixels_njit_glass_blur.py_func(12, 12, image, (0.0, 2, 1), 0)
    ours = copied(numbered(1, 12, 12), down, right, 2)[0].permute(1, 2, 0).numpy()
    assert np.array_equal(ours, wanted)


def test_a_chain_of_copies_is_followed_to_its_end() -> None:
    # From the right on, each pixel of a row takes what its right neighbour has by then: what the last one had.
    down, right = torch.zeros(1, 9, 12, dtype=torch.int64), torch.zeros(1, 9, 12, dtype=torch.int64)
    right[..., 3:11], right[..., 11] = 1, -1
    result = copied(numbered(1, 9, 12), down, right, 2)[0, 0, 5]
    clean = numbered(1, 9, 12)[0, 0, 5]
    assert result.tolist() == [*clean[:3].tolist(), *[clean[11].item()] * 8, clean[11].item()]
