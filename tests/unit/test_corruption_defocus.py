"""Defocus blur by additions of shifted planes and by products of matrices, which make the same exact sums."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from robench.corruptions import defocus_blur_impl as module
from robench.corruptions.corruption import Corruption
from robench.corruptions.defocus_blur_impl import DISK, MANY_WEIGHTS, defocus_blur, disk, weights_of
from robench.corruptions.filters import FLOAT32_BITS, mirrored_at_ends, rounded_weights
from robench.perturbations.draws import ExampleDraws

# Of one pixel, smaller than a disk, as wide as a block of columns and one more, and of ImageNet.
SIZES = [(1, 1), (7, 5), (16, 16), (33, 17), (224, 224)]


@pytest.fixture(autouse=True)
def the_usual_precision() -> Iterator[None]:
    yield
    torch.set_float32_matmul_precision("highest")


def levels(height: int, width: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(height * 300 + width)
    return torch.randint(0, 256, (2, 3, height, width), generator=generator).float()


def blurred(image: torch.Tensor, severity: int) -> torch.Tensor:
    declaration = Corruption(type="defocus_blur", severity=severity)
    return defocus_blur(image, declaration, ExampleDraws(range(len(image))))


@pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("size", SIZES)
def test_products_have_the_bits_of_additions(size: tuple[int, int], severity: int, monkeypatch: Any) -> None:
    image, found = levels(*size), []
    for most in (0, 10**6):
        monkeypatch.setattr(module, "MANY_WEIGHTS", most)
        found.append(blurred(image, severity))
    assert torch.equal(*found)


@pytest.mark.parametrize("severity", [1, 3, 5])
@pytest.mark.parametrize("size", [(7, 5), (40, 50)])
def test_each_pixel_is_the_sum_over_its_disk(size: tuple[int, int], severity: int) -> None:
    kernel = rounded_weights(disk(*DISK["imagenet"][severity - 1]), FLOAT32_BITS)
    reach = len(kernel) // 2
    rows, columns = (mirrored_at_ends(torch.arange(-reach, length + reach), length) for length in size)
    image = levels(*size)
    windows = image.double()[:, :, rows][..., columns].unfold(2, 2 * reach + 1, 1).unfold(3, 2 * reach + 1, 1)
    assert torch.equal(blurred(image, severity).double(), (windows * kernel).sum((-2, -1)))


def test_large_disks_are_multiplied_unless_a_program_allows_fewer_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def watched(name: str, real: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def called(*given: object) -> torch.Tensor:
            calls.append(name)
            return real(*given)

        return called

    for name in ("_added", "_multiplied"):
        monkeypatch.setattr(module, name, watched(name, getattr(module, name)))
    image = levels(20, 20)
    results = [blurred(image, severity) for severity in (1, 5)]
    torch.set_float32_matmul_precision("medium")
    assert torch.equal(blurred(image, 5), results[1])
    assert calls == ["_added", "_multiplied", "_added"]


@pytest.mark.parametrize("setting", DISK["imagenet"] + DISK["cifar"])
def test_empty_rims_are_left_out_and_nothing_else(setting: tuple[float, float]) -> None:
    kernel, bands = weights_of(*setting)
    whole = rounded_weights(disk(*setting), FLOAT32_BITS)
    assert kernel.sum() == whole.sum()
    assert kernel.count_nonzero() == whole.count_nonzero()
    reach = len(kernel) // 2
    assert reach == 0 or kernel[[0, -1]].any() or kernel[:, [0, -1]].any()
    assert bands.shape == (reach + 1, 16 + 2 * reach, 16)
    assert torch.equal(bands.sum((1, 2)).double(), 16 * kernel[reach:].sum(1))


def test_disks_of_imagenet_need_both_ways() -> None:
    counts = [int(weights_of(*setting)[0].count_nonzero()) for setting in DISK["imagenet"]]
    assert counts == sorted(counts)
    assert counts[2] < MANY_WEIGHTS <= counts[3]
