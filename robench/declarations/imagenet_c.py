"""ImageNet-C as published: 15 types of corruption and 4 extra ones, at five severities.

Source: Hendrycks and Dietterich 2019, arXiv:1903.12261. Types generated on the fly are listed separately
(``robench.corruptions``): a new one adds nothing to a published set.
"""

COMMON_CORRUPTIONS = (
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "defocus_blur",
    "glass_blur",
    "motion_blur",
    "zoom_blur",
    "snow",
    "frost",
    "fog",
    "brightness",
    "contrast",
    "elastic_transform",
    "pixelate",
    "jpeg_compression",
)
EXTRA_CORRUPTIONS = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
SEVERITIES = (1, 2, 3, 4, 5)
