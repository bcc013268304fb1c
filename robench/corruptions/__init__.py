"""Corruptions of ImageNet-C in batched torch, one algorithm per file.

Source: Hendrycks and Dietterich 2019, arXiv:1903.12261, and the code published with it: ``make_imagenet_c.py`` for 224
pixels, ``make_cifar_c.py`` for 32.

Every function takes images (B, C, H, W) in levels, which are whole numbers from 0 to 255 kept as float32, and returns
levels that may be fractions or lie outside; shared steps are in ``corruption_impl``. Types in ``COLOUR_TYPES`` take
three channels, which are equal for a grey image; all others take any number. Lengths are constants in pixels and do not
scale with the image: an image of another size is corrupted with the strengths chosen by the authors for 224 or 32
pixels.

No sum depends on its order: weights of filters are rounded to binary fractions so short that every partial sum is exact
(see ``filters``). All else is one rounded operation after another, element by element. So neither the batch nor the
number of threads changes a byte.

``corruption.py`` contains the declaration, without torch: algorithms are imported on first use. Those of time series
are in ``series.py`` and ``series_impl.py``, with constants of robench. Corruptions of other distributions
(``CORRUPTIONS``) are perturbations with their own declarations, which state kind and severity.
"""

from collections.abc import Mapping

from robench.core.plugins import Plugins
from robench.declarations.base import PerturbationBase

# Maps a type to its algorithm, (levels, declaration, draws) -> levels.
TYPES: Mapping[str, str] = {
    "gaussian_noise": "robench.corruptions.noise_impl:gaussian_noise",
    "shot_noise": "robench.corruptions.noise_impl:shot_noise",
    "impulse_noise": "robench.corruptions.noise_impl:impulse_noise",
    "defocus_blur": "robench.corruptions.defocus_blur_impl:defocus_blur",
    "glass_blur": "robench.corruptions.glass_blur_impl:glass_blur",
    "motion_blur": "robench.corruptions.motion_blur_impl:motion_blur",
    "zoom_blur": "robench.corruptions.zoom_blur_impl:zoom_blur",
    "snow": "robench.corruptions.snow_impl:snow",
    "frost": "robench.corruptions.frost_impl:frost",
    "fog": "robench.corruptions.fog_impl:fog",
    "brightness": "robench.corruptions.colours_impl:brightness",
    "contrast": "robench.corruptions.colours_impl:contrast",
    "elastic_transform": "robench.corruptions.elastic_transform_impl:elastic_transform",
    "pixelate": "robench.corruptions.pixelate_impl:pixelate",
    "jpeg_compression": "robench.corruptions.jpeg_compression_impl:jpeg_compression",
    "speckle_noise": "robench.corruptions.noise_impl:speckle_noise",
    "gaussian_blur": "robench.corruptions.gaussian_blur_impl:gaussian_blur",
    "spatter": "robench.corruptions.spatter_impl:spatter",
    "saturate": "robench.corruptions.colours_impl:saturate",
}
# Types that compute with red, green and blue together; all others treat each channel alike, of any number.
COLOUR_TYPES = frozenset({"snow", "frost", "spatter", "saturate", "jpeg_compression"})
# Types that displace whole objects, each with the function that displaces labels (B, H, W) with them.
MOVED_LABELS: Mapping[str, str] = {
    "elastic_transform": "robench.corruptions.elastic_transform_impl:moved_labels",
    "zoom_blur": "robench.corruptions.zoom_blur_impl:moved_labels",
}
_BUILTIN: dict[str, type[PerturbationBase]] = {}
CORRUPTIONS = Plugins("corruption", _BUILTIN, base=PerturbationBase, reserved=TYPES, overrides=("corruption",))
# The published ImageNet-C, 15 types and 4 extra ones, which a further type, listed after them, does not change.
COMMON_CORRUPTIONS, EXTRA_CORRUPTIONS = tuple(TYPES)[:15], tuple(TYPES)[15:19]
# At five severities.
SEVERITIES = (1, 2, 3, 4, 5)
# Maps a type of corruption of time series to its algorithm, (series, strength, draws) -> series.
SERIES_TYPES: Mapping[str, str] = {
    name: f"robench.corruptions.series_impl:{name}"
    for name in (
        "noise",
        "drift",
        "sample_dropout",
        "channel_dropout",
        "spikes",
        "time_warp",
        "time_shift",
        "gain",
        "quantisation",
    )
}
