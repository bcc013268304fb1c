"""Plasma, fog, frost and snow, and changes of colour: what must hold of them whatever was drawn."""

import pytest
import torch

from robench.corruptions.corruption import Corruption
from robench.corruptions.frost_impl import PANES, frost, pane_relief
from robench.corruptions.plasma import plasma, refined
from robench.corruptions.snow_impl import SNOW, snow_layer
from robench.perturbations.draws import ExampleDraws

SHAPE = torch.Size((3, 3, 40, 50))
THREE = ExampleDraws([0, 1, 2])


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


def test_reliefs_have_no_mean_and_deviation_one() -> None:
    relief = pane_relief(THREE, SHAPE, 16).double()
    assert relief.shape == (3, 1, 40, 50)
    torch.testing.assert_close(relief.mean((1, 2, 3)), torch.zeros(3, dtype=torch.float64), atol=1e-6, rtol=0)
    torch.testing.assert_close(relief.std((1, 2, 3)), torch.ones(3, dtype=torch.float64), atol=1e-3, rtol=0)


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
