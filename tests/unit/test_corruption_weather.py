"""Plasma, fog, frost and snow, and changes of colour: what must hold of them whatever was drawn."""

from __future__ import annotations

import colorsys

import pytest
import torch

from robench.core.seeds import Stream
from robench.corruptions.colours_impl import brightness, contrast, saturate
from robench.corruptions.corruption import Corruption
from robench.corruptions.fog_impl import fog
from robench.corruptions.frost_impl import PANES, frost, needles, pane_relief, standardised
from robench.corruptions.motion_blur_impl import trailed
from robench.corruptions.plasma import plasma, refined
from robench.corruptions.snow_impl import SNOW, Flakes, snow, snow_layer, whitened
from robench.perturbations.draws import ExampleDraws

SHAPE = torch.Size((3, 3, 40, 50))
THREE = ExampleDraws([0, 1, 2])


def colours(seed: int = 0) -> torch.Tensor:
    images = torch.randint(0, 256, (2, 3, 12, 12), generator=torch.Generator().manual_seed(seed)).float()
    images[0, :, 0], images[0, :, 1], images[0, :, 2] = 0.0, 255.0, 128.0
    return images


@pytest.mark.parametrize("decay", [1.4, 2.0, 3.0])
def test_plasma_fills_the_range_of_its_map(decay: float) -> None:
    whole = plasma(THREE, "fog", 3, torch.Size((64, 64)), decay)
    assert whole.amin((1, 2)).tolist() == [0.0, 0.0, 0.0]
    assert whole.amax((1, 2)).tolist() == [1.0, 1.0, 1.0]
    assert torch.equal(plasma(THREE, "fog", 3, SHAPE, decay), whole[:, :40, :50])


def test_plasma_without_noise_is_the_mean_of_its_neighbours() -> None:
    corners = torch.tensor([[[0.0, 8.0], [4.0, 4.0]]])
    fine = refined(corners, torch.zeros(1, 3, 2, 2))[0]
    assert fine[::2, ::2].tolist() == corners[0].tolist()
    assert fine[1, 1].item() == 4.0
    assert fine[0, 1].item() == pytest.approx((0 + 8 + fine[1, 1].item() + fine[3, 1].item()) / 4)
    assert fine[1, 0].item() == pytest.approx((0 + 4 + fine[1, 1].item() + fine[1, 3].item()) / 4)


def test_plasma_that_decays_faster_is_smoother() -> None:
    rough, smooth = (plasma(THREE, "fog", 3, torch.Size((64, 64)), decay) for decay in (1.4, 3.0))
    assert float(smooth.diff(dim=2).abs().mean()) < 0.5 * float(rough.diff(dim=2).abs().mean())


@pytest.mark.parametrize("severity", range(1, 6))
def test_fog_keeps_black_images_black_and_whites_within_white(severity: int) -> None:
    declaration = Corruption(type="fog", severity=severity)
    assert float(fog(torch.zeros(SHAPE), declaration, THREE).abs().max()) == 0.0
    assert float(fog(torch.full(SHAPE, 255.0), declaration, THREE).max()) <= 255.0 + 1e-3


def test_fog_is_the_same_in_all_channels() -> None:
    veiled = fog(torch.full(SHAPE, 90.0), Corruption(type="fog", severity=3), THREE)
    assert torch.equal(veiled[:, 0], veiled[:, 2])


def test_reliefs_have_no_mean_and_deviation_one() -> None:
    relief = pane_relief(THREE, SHAPE, 16).double()
    assert relief.shape == (3, 1, 40, 50)
    torch.testing.assert_close(relief.mean((1, 2, 3)), torch.zeros(3, dtype=torch.float64), atol=1e-6, rtol=0)
    torch.testing.assert_close(relief.std((1, 2, 3)), torch.ones(3, dtype=torch.float64), atol=1e-3, rtol=0)


def test_needles_are_motion_blurred_points_whatever_their_neighbours() -> None:
    begins = ExampleDraws([0, 1]).uniform(Stream(purpose="needles"), (30, 34)) * 40.0
    directions = [[10.0, 200.0], [95.0, 301.0]]
    drawn = needles(begins, directions, 5)
    for i, angles in enumerate(directions):
        for j, angle in enumerate(angles):
            points = torch.where((begins[i] >= j) & (begins[i] < j + 1), ((begins[i] - j) * 255.0).floor(), 0.0)
            margin = torch.nn.functional.pad(points[None, None], (1, 1, 1, 1))
            assert torch.equal(drawn[i, j], trailed(margin, [angle], 5, 2.5)[0, 0, 1:-1, 1:-1])


def test_a_flat_relief_is_zero() -> None:
    assert float(standardised(torch.full((1, 1, 8, 8), 3.3)).abs().max()) == 0.0


def test_panes_have_the_means_of_their_photographs_and_all_are_met() -> None:
    draws = ExampleDraws(range(60))
    black = torch.zeros(60, 3, 32, 32)
    panes = frost(black, Corruption(type="frost", severity=1), draws) / 0.4
    met = [
        min(range(5), key=lambda i: float((torch.tensor(PANES[i][0]) - pane.mean((1, 2))).abs().max()))
        for pane in panes
    ]
    assert set(met) == {0, 1, 3, 4}
    for i, pane in zip(met, panes, strict=True):
        torch.testing.assert_close(pane.mean((1, 2)), torch.tensor(PANES[i][0]), atol=6.0, rtol=0)
        torch.testing.assert_close(pane.std((1, 2)), torch.tensor(PANES[i][1]), atol=6.0, rtol=0)


@pytest.mark.parametrize("flakes", SNOW["imagenet"] + SNOW["cifar"])
def test_a_layer_of_snow_is_whole_levels_and_falls_steeply(flakes: object) -> None:
    noise = torch.randn(2, 1, 64, 64, generator=torch.Generator().manual_seed(0))
    layer = snow_layer(noise, [-90.0, -90.0], flakes)  # type: ignore[arg-type]  # of the table above
    assert torch.equal(layer, layer.round())
    assert 0.0 <= float(layer.min()) < float(layer.max()) <= 255.0
    assert float(layer.diff(dim=2).abs().mean()) < float(layer.diff(dim=3).abs().mean())


def test_snow_before_it_is_blurred_is_rounded_down() -> None:
    noise = torch.tensor([[[[-9.0, 0.0, 0.1], [0.01, 0.3, 9.0]]]])
    layer = snow_layer(noise, [-90.0], Flakes(0.5, 1.0, 1.0, 0.5, 0, 1.0, 0.8))
    assert layer.flatten().tolist() == [0.0, 127.0, 153.0, 130.0, 204.0, 255.0]


def test_whitening_never_darkens_and_leaves_white_alone() -> None:
    images = colours()
    assert bool((whitened(images, 0.7) >= images - 1e-3).all())
    torch.testing.assert_close(whitened(torch.full(SHAPE, 255.0), 0.7)[:, 0].max(), torch.tensor(0.7 * 255 + 0.3 * 510))


def test_snow_is_added_twice_once_upside_down() -> None:
    black = torch.zeros(3, 3, 32, 32)
    fallen = snow(black, Corruption(type="snow", severity=2), THREE) - whitened(black, 0.7)
    assert torch.equal(fallen, fallen.rot90(2, (2, 3)))
    assert float(fallen.max()) > 0.0


@pytest.mark.parametrize("severity", range(1, 6))
@pytest.mark.parametrize("constants", ["imagenet", "cifar"])
def test_brightness_changes_the_value_alone(severity: int, constants: str) -> None:
    images = colours()
    raised = brightness(images, Corruption(type="brightness", severity=severity, constants=constants), THREE)  # type: ignore[arg-type]
    for clean, bright in zip(
        images.permute(0, 2, 3, 1).reshape(-1, 3), raised.permute(0, 2, 3, 1).reshape(-1, 3), strict=True
    ):
        before, after = (colorsys.rgb_to_hsv(*(pixel / 255.0).tolist()) for pixel in (clean, bright))
        assert after[:2] == pytest.approx(before[:2], abs=1e-5)
        assert after[2] >= before[2] - 1e-6


def test_saturation_keeps_the_value_and_turns_grey_red_where_it_is_added() -> None:
    images = colours()
    for severity in range(1, 6):
        result = saturate(images, Corruption(type="saturate", severity=severity), THREE)
        torch.testing.assert_close(result.amax(1), images.amax(1))
    grey = result[0, :, 2, 0]
    assert grey[0].item() == 128.0
    assert grey[1:].tolist() == pytest.approx([128.0 * 0.8] * 2)


def test_saturation_leaves_grey_alone_where_it_is_only_multiplied() -> None:
    images = colours()[:, :1].expand(-1, 3, -1, -1)
    assert torch.equal(saturate(images, Corruption(type="saturate", severity=2), THREE), images)


@pytest.mark.parametrize("severity", range(1, 6))
def test_contrast_keeps_the_mean_of_each_channel(severity: int) -> None:
    images = colours()
    result = contrast(images, Corruption(type="contrast", severity=severity), THREE)
    torch.testing.assert_close(result.mean((2, 3)), images.mean((2, 3)), atol=1e-3, rtol=0)
    assert bool((result.std((2, 3)) < images.std((2, 3))).all())
