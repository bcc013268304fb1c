"""Slow references of the 19 corruptions: one image at a time, in float64, by scipy, OpenCV, Pillow and loops.

Written from the authors' description with the authors' constants for 32 pixels; ``FROST_224``, ``ELASTIC_224`` and
``SNOW_224`` are those for 224, where the library that the others are compared with does something else. Beside them are
ten photographs that scikit-learn and scikit-image ship.
"""

import colorsys
import math
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import skimage.data
import sklearn.datasets
from PIL import Image
from scipy import ndimage, stats

from robench.core.seeds import Stream
from robench.perturbations.draws import ExampleDraws

Array = np.ndarray[Any, Any]
SHIPPED_BY_SKLEARN = Path(sklearn.datasets.__file__).parent / "images"
SHIPPED_BY_SKIMAGE = Path(skimage.data.__file__).parent
PHOTOGRAPHS = (
    SHIPPED_BY_SKLEARN / "china.jpg", SHIPPED_BY_SKLEARN / "flower.jpg", SHIPPED_BY_SKIMAGE / "astronaut.png",
    SHIPPED_BY_SKIMAGE / "chelsea.png", SHIPPED_BY_SKIMAGE / "coffee.png", SHIPPED_BY_SKIMAGE / "rocket.jpg",
    SHIPPED_BY_SKIMAGE / "motorcycle_left.png", SHIPPED_BY_SKIMAGE / "camera.png", SHIPPED_BY_SKIMAGE / "retina.jpg",
    SHIPPED_BY_SKIMAGE / "hubble_deep_field.jpg",
)  # fmt: skip


@lru_cache(maxsize=4)
def photographs(size: int) -> Array:
    """Return the ten photographs, (10, size, size, 3) uint8: the middle, after resizing the shorter side to 8/7."""
    return np.stack([_middle(Image.open(path).convert("RGB"), size) for path in PHOTOGRAPHS])


def _middle(image: Image.Image, size: int) -> Array:
    scale = size * 8 / 7 / min(image.size)
    width, height = (round(side * scale) for side in image.size)
    left, top = (width - size) // 2, (height - size) // 2
    resized = image.resize((width, height), Image.Resampling.BICUBIC)
    return np.asarray(resized.crop((left, top, left + size, top + size)))


@dataclass(frozen=True)
class Numbers:
    """The draws of one example, in float64."""

    seed: int

    def uniform(self, purpose: str, shape: tuple[int, ...], step: int = 0) -> Array:
        return ExampleDraws([self.seed]).uniform(Stream(purpose=purpose, step=step), shape)[0].double().numpy()

    def normal(self, purpose: str, shape: tuple[int, ...]) -> Array:
        return ExampleDraws([self.seed]).normal(Stream(purpose=purpose), shape)[0].double().numpy()

    def signs(self, purpose: str, shape: tuple[int, ...]) -> Array:
        return ExampleDraws([self.seed]).signs(Stream(purpose=purpose), shape)[0].double().numpy()


def psnr(one: Array, other: Array) -> float:
    """Return the ratio of the range of levels to the root of the mean square difference, in dB; at most 90."""
    error = np.mean((np.asarray(one, np.float64) - np.asarray(other, np.float64)) ** 2)
    return float(10 * np.log10(255**2 / max(error, 255**2 * 1e-9)))


def as_saved(levels: Array) -> Array:
    return np.uint8(np.clip(levels, 0, 255))


def reference(kind: str, image: Array, severity: int, numbers: Numbers) -> Array:
    """Return what the authors' constants for 32 pixels make of an image (H, W, 3) uint8, likewise."""
    constant = CONSTANTS_32[kind][severity - 1]
    return as_saved(REFERENCES[kind](image.astype(np.float64), constant, numbers))


# By type, from severity 1 to 5; of make_cifar_c.py.
CONSTANTS_32: dict[str, tuple[Any, ...]] = {
    "gaussian_noise": (0.04, 0.06, 0.08, 0.09, 0.10),
    "shot_noise": (500, 250, 100, 75, 50),
    "impulse_noise": (0.01, 0.02, 0.03, 0.05, 0.07),
    "speckle_noise": (0.06, 0.1, 0.12, 0.16, 0.2),
    "gaussian_blur": (0.4, 0.6, 0.7, 0.8, 1),
    "glass_blur": ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    "defocus_blur": ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
    "motion_blur": ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
    "zoom_blur": tuple(np.arange(1, stop, 0.01) for stop in (1.06, 1.11, 1.16, 1.21, 1.26)),
    "fog": ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
    "frost": ((1, 0.2, 4), (1, 0.3, 4), (0.9, 0.4, 4), (0.85, 0.4, 4), (0.75, 0.45, 4)),
    "snow": (
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95), (0.1, 0.2, 1, 0.5, 10, 4, 0.9), (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85), (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
    "spatter": (
        (0.62, 0.1, 0.7, 0.7, 0.5, 0), (0.65, 0.1, 0.8, 0.7, 0.5, 0), (0.65, 0.3, 1, 0.69, 0.5, 0),
        (0.65, 0.1, 0.7, 0.69, 0.6, 1), (0.65, 0.1, 0.5, 0.68, 0.6, 1),
    ),
    "contrast": (0.75, 0.5, 0.4, 0.3, 0.15),
    "brightness": (0.05, 0.1, 0.15, 0.2, 0.3),
    "saturate": ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
    "jpeg_compression": (80, 65, 58, 50, 40),
    "pixelate": (0.95, 0.9, 0.85, 0.75, 0.65),
    "elastic_transform": (
        (0, 0, 32 * 0.08), (32 * 0.05, 32 * 0.2, 32 * 0.07), (32 * 0.08, 32 * 0.06, 32 * 0.06),
        (32 * 0.1, 32 * 0.04, 32 * 0.05), (32 * 0.1, 32 * 0.03, 32 * 0.03),
    ),
}  # fmt: skip
# Of make_imagenet_c.py; frost's third number is the length of a needle, which is robench's own.
FROST_224 = ((1, 0.4, 12), (0.8, 0.6, 12), (0.7, 0.7, 12), (0.65, 0.7, 12), (0.6, 0.75, 12))
ELASTIC_224 = tuple(
    tuple(244 * share for share in shares)
    for shares in ((2, 0.7, 0.1), (2, 0.08, 0.2), (0.05, 0.01, 0.02), (0.07, 0.01, 0.02), (0.12, 0.01, 0.02))
)
SNOW_224 = (
    (0.1, 0.3, 3, 0.5, 10, 4, 0.8), (0.2, 0.3, 2, 0.5, 12, 4, 0.7), (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
    (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65), (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
)  # fmt: skip


def channels_last(values: Array) -> Array:
    return values.transpose(1, 2, 0)


def gaussian_noise(x: Array, c: float, numbers: Numbers) -> Array:
    return x + 255 * c * channels_last(numbers.normal("gaussian_noise", (3, *x.shape[:2])))


def speckle_noise(x: Array, c: float, numbers: Numbers) -> Array:
    return x * (1 + c * channels_last(numbers.normal("speckle_noise", (3, *x.shape[:2]))))


def impulse_noise(x: Array, c: float, numbers: Numbers) -> Array:
    hit = channels_last(numbers.uniform("impulse_noise", (3, *x.shape[:2])))
    colour = channels_last(numbers.signs("impulse_noise_colour", (3, *x.shape[:2])))
    return np.where(hit < c, np.where(colour > 0, 255, 0), x)


def poisson_counts(means: Array, shares: Array) -> Array:
    """Return scipy's quantiles of the Poisson distributions with these means."""
    different, which = np.unique(means, return_inverse=True)
    counts, order = np.empty(means.size), np.argsort(which.ravel(), kind="stable")
    for mean, here in zip(different, np.split(order, np.cumsum(np.bincount(which.ravel()))[:-1]), strict=True):
        counts[here] = np.searchsorted(_poisson_shares(float(mean)), shares.ravel()[here])
    return counts.reshape(means.shape)


@lru_cache(maxsize=4096)
def _poisson_shares(mean: float) -> Array:
    return stats.poisson.cdf(np.arange(mean + 8 * math.sqrt(mean) + 12), mean)


def shot_noise(x: Array, c: float, numbers: Numbers) -> Array:
    shares = channels_last(numbers.uniform("shot_noise", (3, *x.shape[:2])))
    return poisson_counts(x / 255 * c, shares) / c * 255


def gaussian_blur(x: Array, c: float, numbers: Numbers) -> Array:
    return ndimage.gaussian_filter(x, (c, c, 0), mode="nearest", truncate=4.0)


def scattered(x: Array, reach: int, num_rounds: int, numbers: Numbers) -> Array:
    """Return pixels that took their neighbours' values one after the other."""
    height, width = x.shape[:2]
    sources = list(range(height * width))
    for step in range(num_rounds):
        shares = numbers.uniform("glass_blur", (2, height, width), step)
        right, down = (np.floor(shares * 2 * reach).astype(int) - reach).tolist()
        for h in range(height - reach, reach, -1):
            for w in range(width - reach, reach, -1):
                sources[h * width + w] = sources[(h + down[h][w]) * width + w + right[h][w]]
    return x.reshape(-1, 3)[sources].reshape(x.shape)


def glass_blur(x: Array, c: tuple[float, int, int], numbers: Numbers) -> Array:
    blurred = np.floor(gaussian_blur(x, c[0], numbers) + 1e-9)
    return gaussian_blur(scattered(blurred, c[1], c[2], numbers), c[0], numbers)


def defocus_blur(x: Array, c: tuple[float, float], numbers: Numbers) -> Array:
    reach, size = (8, 3) if c[0] <= 8 else (int(c[0]), 5)
    places = np.arange(-reach, reach + 1)
    disk = np.array(places[:, None] ** 2 + places**2 <= c[0] ** 2, dtype=np.float32)
    kernel = cv2.GaussianBlur(disk / disk.sum(), (size, size), c[1])
    return ndimage.correlate(x, kernel[..., None].astype(np.float64), mode="mirror")


def trail(x: Array, radius: int, sigma: float, angle: float) -> Array:
    """Return ImageMagick's motion blur of an image, not rounded: each pixel looks along the angle."""
    height, width = x.shape[:2]
    weights = [math.exp(-(i**2) / (2 * sigma**2)) for i in range(2 * radius + 1)]
    length = math.hypot(math.sin(math.radians(angle)), math.cos(math.radians(angle)))
    blurred = np.zeros(x.shape)
    for i, weight in enumerate(weights):
        down = math.ceil(i * math.sin(math.radians(angle)) / length - 0.5)
        right = math.ceil(i * math.cos(math.radians(angle)) / length - 0.5)
        rows = [min(max(h + down, 0), height - 1) for h in range(height)]
        columns = [min(max(w + right, 0), width - 1) for w in range(width)]
        blurred += weight / sum(weights) * x[np.ix_(rows, columns)]
    return blurred


def written_by_imagemagick(x: Array) -> Array:
    """Return values in [0, 255] rounded to 16 bits, of which the upper 8 are kept."""
    return np.floor(np.rint(x * 65535 / 255) * 255 / 65535 + 1e-9)


def motion_blur(x: Array, c: tuple[int, float], numbers: Numbers) -> Array:
    return written_by_imagemagick(trail(x, c[0], c[1], -45 + 90 * numbers.uniform("motion_blur", (1,))[0]))


def clipped_zoom(x: Array, factor: float) -> Array:
    """Return the middle of an image, enlarged by scipy and trimmed from both sides."""
    height, width = x.shape[:2]
    kept = [math.ceil(size / factor) for size in (height, width)]
    top, left = (height - kept[0]) // 2, (width - kept[1]) // 2
    factors = (factor, factor, 1)[: x.ndim]
    enlarged = ndimage.zoom(x[top : top + kept[0], left : left + kept[1]], factors, order=1)
    top, left = (enlarged.shape[0] - height) // 2, (enlarged.shape[1] - width) // 2
    return enlarged[top : top + height, left : left + width]


def zoom_blur(x: Array, c: Array, numbers: Numbers) -> Array:
    return (x + sum(clipped_zoom(x, factor) for factor in c)) / (len(c) + 1)


def plasma(size: int, decay: float, purpose: str, numbers: Numbers) -> Array:
    """Return a map in [0, 1] by the diamond-square algorithm, point by point."""
    heights = np.zeros((size, size))
    shares, step, wibble = numbers.uniform(purpose, (size * size - 1,)), size, 100.0
    while step >= 2:
        cells, half = size // step, step // 2
        noise, shares = np.split(shares, [3 * cells * cells])
        noise = (2 * noise.reshape(3, cells, cells) - 1) * wibble * wibble
        for i, (down, right) in enumerate(((half, half), (0, half), (half, 0))):
            ways = ((-half, -half), (-half, half), (half, -half), (half, half))
            ways = ways if down and right else ((-half, 0), (half, 0), (0, -half), (0, half))
            for row in range(cells):
                for column in range(cells):
                    h, w = row * step + down, column * step + right
                    around = sum(heights[(h + a) % size, (w + b) % size] for a, b in ways)
                    heights[h, w] = around / 4 + noise[i, row, column]
        step, wibble = half, wibble / decay
    heights -= heights.min()
    return heights / heights.max()


def fog(x: Array, c: tuple[float, float], numbers: Numbers) -> Array:
    size = 1 << (max(x.shape[:2]) - 1).bit_length()
    veil = plasma(size, c[1], "fog", numbers)[: x.shape[0], : x.shape[1], None]
    return (x + 255 * c[0] * veil) * x.max() / (x.max() + 255 * c[0])


def snow(x: Array, c: tuple[float, ...], numbers: Numbers) -> Array:
    layer = clipped_zoom(c[0] + c[1] * numbers.normal("snow", (1, *x.shape[:2]))[0], c[2])
    layer = np.where(layer < c[3], 0, layer)
    angle = -135 + 90 * numbers.uniform("snow_direction", (1,))[0]
    bright = np.floor(np.clip(layer, 0, 1) * 255)
    fallen = written_by_imagemagick(trail(bright, int(c[4]), c[5], angle))[..., None]
    grey = cv2.cvtColor((x / 255).astype(np.float32), cv2.COLOR_RGB2GRAY)[..., None] * 255.0
    return c[6] * x + (1 - c[6]) * np.maximum(x, grey * 1.5 + 127.5) + fallen + np.rot90(fallen, 2)


PANES = (
    ((78, 149, 166), (27, 16, 15)), ((201, 205, 214), (21, 22, 23)), ((201, 205, 214), (21, 22, 23)),
    ((138, 153, 165), (28, 28, 30)), ((112, 123, 135), (44, 43, 42)),
)  # fmt: skip


def standardised(relief: Array) -> Array:
    return (relief - relief.mean()) / relief.std()


def frost(x: Array, c: tuple[float, float, int], numbers: Numbers) -> Array:
    height, width = x.shape[:2]
    begins = numbers.uniform("frost", (height, width)) / 0.008
    angles = numbers.uniform("frost_directions", (6,)) * 360
    trails = []
    for i, angle in enumerate(angles):
        bright = np.where((begins >= i) & (begins < i + 1), np.floor((begins - i) * 255), 0.0)
        # With a dark margin, since the border's values go on for ever in motion blur.
        trails.append(trail(np.pad(bright, 1), c[2], c[2] / 2, angle)[1:-1, 1:-1])
    fine, broad = np.max(trails[:3], 0), np.max(trails[3:], 0)
    ground = plasma(1 << (max(height, width) - 1).bit_length(), 1.2, "frost_ground", numbers)[:height, :width] * 255
    relief = standardised(standardised(np.maximum(fine, clipped_zoom(broad, 2.5))) + standardised(ground))
    mean, deviation = PANES[int(numbers.uniform("frost_pane", (1,))[0] * 5)]
    pane = np.clip(np.array(mean) + relief[..., None] * np.array(deviation), 0, 255)
    return c[0] * x + c[1] * pane


def spatter(x: Array, c: tuple[float, ...], numbers: Numbers) -> Array:
    noise = c[0] + c[1] * numbers.normal("spatter", x.shape[:2])
    liquid = ndimage.gaussian_filter(noise, c[2], mode="nearest", truncate=4.0)
    liquid[liquid < c[3]] = 0
    if c[5]:
        covered = ndimage.gaussian_filter((liquid > c[3]).astype(np.float64), c[4], mode="nearest", truncate=4.0)
        covered = np.where(covered < 0.8, 0, covered)[..., None]
        return x * (1 - covered) + np.array([63, 42, 20]) * covered
    liquid = (liquid * 255).astype(np.uint8)
    distance = cv2.distanceTransform(255 - cv2.Canny(liquid, 50, 150), cv2.DIST_L2, 5)
    depth = cv2.equalizeHist(cv2.blur(np.minimum(distance, 20), (3, 3)).astype(np.uint8))
    relief = cv2.filter2D(depth, cv2.CV_8U, np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]]))
    water = liquid * cv2.blur(relief, (3, 3)).astype(np.float64)
    water = water / water.max() if water.max() else water
    return x + c[4] * water[..., None] * np.array([175, 238, 238])


def contrast(x: Array, c: float, numbers: Numbers) -> Array:
    mean = x.mean((0, 1), keepdims=True)
    return (x - mean) * c + mean


def by_pixel(x: Array, change: Any) -> Array:
    """Return an image each pixel of which went to hue, saturation and value, and back after ``change``."""
    pixels = [colorsys.hsv_to_rgb(*change(*colorsys.rgb_to_hsv(*pixel))) for pixel in x.reshape(-1, 3) / 255]
    return np.array(pixels).reshape(x.shape) * 255 + 1e-9


def brightness(x: Array, c: float, numbers: Numbers) -> Array:
    return by_pixel(x, lambda h, s, v: (h, s, min(v + c, 1)))


def saturate(x: Array, c: tuple[float, float], numbers: Numbers) -> Array:
    return by_pixel(x, lambda h, s, v: (h, min(s * c[0] + c[1], 1), v))


def jpeg_compression(x: Array, c: int, numbers: Numbers) -> Array:
    file = BytesIO()
    Image.fromarray(x.astype(np.uint8)).save(file, "JPEG", quality=c)
    return np.asarray(Image.open(file))


def pixelate(x: Array, c: float, numbers: Numbers) -> Array:
    height, width = x.shape[:2]
    small = Image.fromarray(x.astype(np.uint8)).resize((int(width * c), int(height * c)), Image.Resampling.BOX)
    return np.asarray(small.resize((width, height), Image.Resampling.BOX))


def elastic_transform(x: Array, c: tuple[float, float, float], numbers: Numbers) -> Array:
    shape = x.shape[:2]
    middle, side = np.float32(shape) // 2, min(shape) // 3
    before = np.float32([middle + side, [middle[0] + side, middle[1] - side], middle - side])
    corners = 2 * numbers.uniform("elastic_transform_corners", (3, 2)) - 1
    matrix = cv2.getAffineTransform(before, before + (c[2] * corners).astype(np.float32))
    x = cv2.warpAffine(x.astype(np.float32), matrix, shape[::-1], borderMode=cv2.BORDER_REFLECT_101).astype(np.float64)
    if not c[0]:
        return x
    noise = 2 * numbers.uniform("elastic_transform", (2, *shape)) - 1
    down, right = (ndimage.gaussian_filter(each, c[1], mode="reflect", truncate=3) * c[0] for each in noise)
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    places = (rows + down, columns + right)
    return np.stack([ndimage.map_coordinates(x[..., i], places, order=1, mode="reflect") for i in range(3)], -1)


REFERENCES: dict[str, Any] = {
    "gaussian_noise": gaussian_noise, "shot_noise": shot_noise, "impulse_noise": impulse_noise,
    "speckle_noise": speckle_noise, "gaussian_blur": gaussian_blur, "glass_blur": glass_blur,
    "defocus_blur": defocus_blur, "motion_blur": motion_blur, "zoom_blur": zoom_blur, "fog": fog, "frost": frost,
    "snow": snow, "spatter": spatter, "contrast": contrast, "brightness": brightness, "saturate": saturate,
    "jpeg_compression": jpeg_compression, "pixelate": pixelate, "elastic_transform": elastic_transform,
}  # fmt: skip
