"""Enlargements, trails and distortions, against scipy, OpenCV and their own symmetries."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import cv2
import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage

from robench.core.seeds import Stream
from robench.corruptions.corruption import Corruption
from robench.corruptions.elastic_transform_impl import Distortion, affine_sources, interpolated, smooth_sources
from robench.corruptions.filters import mirrored, mirrored_at_ends
from robench.corruptions.motion_blur_impl import motion_blur, trailed
from robench.corruptions.zoom_blur_impl import FACTORS, zoom_factors, zoomed
from robench.perturbations.draws import ExampleDraws

GOLDEN = Path(__file__).parents[1] / "golden" / "imagemagick"
SQUARE = (24, 24)


def levels(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(seed)).float()


@pytest.mark.parametrize(("stop", "step"), [*FACTORS["imagenet"], *FACTORS["cifar"]])
def test_factors_are_those_of_numpys_arange(stop: float, step: float) -> None:
    assert zoom_factors(stop, step) == np.arange(1, stop, step).tolist()


@pytest.mark.parametrize("factor", [1.01, 1.1, 1.24, 1.75, 2.5, 4.5])
@pytest.mark.parametrize("shape", [(32, 32), (224, 224), (40, 57)])
def test_enlargements_are_scipys_trimmed_from_both_sides(factor: float, shape: tuple[int, int]) -> None:
    image = levels(*shape)
    kept = [math.ceil(size / factor) for size in shape]
    top, left = ((size - part) // 2 for size, part in zip(shape, kept, strict=True))
    whole = ndimage.zoom(image.double().numpy()[top : top + kept[0], left : left + kept[1]], factor, order=1)
    top, left = ((large - size) // 2 for large, size in zip(whole.shape, shape, strict=True))
    # At the last place scipy may find itself outside, by rounding.
    ours = zoomed(image, factor)[:-1, :-1]
    np.testing.assert_allclose(ours, whole[top : top + shape[0] - 1, left : left + shape[1] - 1], atol=2e-3)


@pytest.mark.parametrize("angle", [-135.0, -45.0, 0.0, 31.7, 90.0])
def test_trails_leave_flat_images_exactly_as_they_are(angle: float) -> None:
    flat = torch.full((1, 3, 20, 26), 201.0)
    assert torch.equal(trailed(flat, [angle], 15, 8.0), flat)


def test_a_point_leaves_half_a_gaussian_against_the_direction() -> None:
    point = torch.zeros(1, 1, 1, 60)
    point[..., 40] = 255.0
    trail = trailed(point, [0.0], 10, 3.0)[0, 0, 0]
    weights = torch.tensor([math.exp(-0.5 * (i / 3.0) ** 2) for i in range(21)])
    torch.testing.assert_close(trail[20:41].flip(0), 255.0 * weights / weights.sum(), atol=0.01, rtol=0)
    assert float(trail[41:].abs().max()) == 0.0
    assert float(trail[:20].abs().max()) == 0.0


@pytest.mark.parametrize("seed", range(5))
def test_affine_maps_are_the_inverse_of_opencvs(seed: int) -> None:
    corners = 2 * torch.rand(1, 3, 2, generator=torch.Generator().manual_seed(seed)) - 1
    before = np.float32([[20, 20], [20, 4], [4, 4]])
    after = before + 3.0 * corners[0].numpy()
    inverse = cv2.invertAffineTransform(cv2.getAffineTransform(before, after.astype(np.float32)))
    rows, columns = np.mgrid[:24, :24].astype(np.float64)
    column, row = (line[0] * columns + line[1] * rows + line[2] for line in inverse)
    sources = affine_sources(corners, 3.0, *SQUARE)[0].numpy()
    np.testing.assert_allclose(sources, np.stack([row, column]), atol=1e-4)


@pytest.mark.parametrize(("bordered", "mode"), [(mirrored, "reflect"), (mirrored_at_ends, "mirror")])
def test_reading_between_pixels_is_scipys_however_far_outside(bordered: object, mode: str) -> None:
    image = levels(2, 3, 9, 13)
    sources = 60 * torch.rand(2, 2, 9, 13, dtype=torch.float64, generator=torch.Generator().manual_seed(3)) - 30
    read = interpolated(image, sources, bordered)  # type: ignore[arg-type]  # one of the two above
    for i, channel in np.ndindex(2, 3):
        plane = image[i, channel].double().numpy()
        wanted = ndimage.map_coordinates(plane, sources[i].numpy(), order=1, mode=mode)
        np.testing.assert_allclose(read[i, channel], wanted, atol=1e-3)


@pytest.mark.parametrize("distortion", [Distortion(10.0, 2.0, 0.0), Distortion(488.0, 170.8, 0.0)])
def test_smooth_distortions_are_scipys(distortion: Distortion) -> None:
    noise = 2 * torch.rand(1, 2, *SQUARE, generator=torch.Generator().manual_seed(4)) - 1
    moves = [
        ndimage.gaussian_filter(each, distortion.sigma, mode="reflect", truncate=3) * distortion.alpha
        for each in noise[0].double().numpy()
    ]
    wanted = np.stack(moves) + np.mgrid[:24, :24]
    np.testing.assert_allclose(smooth_sources(noise, distortion)[0], wanted, atol=1e-4 * distortion.alpha)


class FixedAngle(ExampleDraws):
    """Draws of one example whose angle of motion blur is known."""

    def __init__(self, angle: float) -> None:
        super().__init__([0])
        self._angle = angle

    def uniform(self, stream: Stream, shape: Sequence[int]) -> torch.Tensor:
        return torch.full((1, *shape), (self._angle + 45) / 90)


@pytest.mark.parametrize(
    ("constants", "severity", "radius", "sigma", "angle"),
    [("imagenet", 1, 10, "3", 17.3), ("imagenet", 3, 15, "8", -33.1), ("cifar", 5, 9, "2.5", 44.0)],
)
def test_motion_blur_is_what_imagemagick_writes(
    constants: Literal["imagenet", "cifar"], severity: int, radius: int, sigma: str, angle: float
) -> None:
    """Images written by ImageMagick 6.9.11 (Q16): convert input.png -motion-blur 10x3+17.3 -depth 8 output.png."""
    image = torch.from_numpy(np.array(Image.open(GOLDEN / "input.png"))).permute(2, 0, 1)[None].float()
    with Image.open(GOLDEN / f"motion-blur_{radius}x{sigma}{angle:+}.png") as written:
        wanted = torch.from_numpy(np.array(written)).permute(2, 0, 1)[None].float()
    declaration = Corruption(type="motion_blur", severity=severity, constants=constants)
    change = motion_blur(image, declaration, FixedAngle(angle)) - wanted
    assert float((change == 0).double().mean()) >= 0.995
    assert float(change.abs().max()) <= 1.0
