"""Errors of digits-vit on digits-c: the units of the digits' mCE, like AlexNet's for ImageNet.

Written by `make errors`, from 600 images a type and severity on a CPU.
"""

from __future__ import annotations

from robench.metrics.reference_errors import ReferenceErrors

DIGITS_VIT = ReferenceErrors(
    model="digits-vit",
    clean=0.011667,
    corrupted={
        "gaussian_noise": 0.017333,
        "shot_noise": 0.017667,
        "impulse_noise": 0.026333,
        "defocus_blur": 0.011333,
        "glass_blur": 0.032667,
        "motion_blur": 0.029000,
        "zoom_blur": 0.022667,
        "snow": 0.070333,
        "frost": 0.256333,
        "fog": 0.329000,
        "brightness": 0.142667,
        "contrast": 0.362667,
        "elastic_transform": 0.067333,
        "pixelate": 0.018667,
        "jpeg_compression": 0.013000,
        "speckle_noise": 0.021000,
        "gaussian_blur": 0.010667,
        "spatter": 0.027000,
        "saturate": 0.016667,
    },
)
