"""Errors of AlexNet on ImageNet and ImageNet-C: the units of the mCE in papers.

Source of the fifteen: Hendrycks and Dietterich 2019, "Benchmarking neural network robustness to common corruptions and
perturbations", arXiv:1903.12261, whose authors published them beside their code (github.com/hendrycks/robustness, the
spreadsheet that shows how to calculate the mCE); the repositories of RPC, RVT, FAN and easyrobust have the same digits.
Each is the mean over five severities of 50,000 JPEG files, centre-cropped to 224 without resizing.

Source of the clean error: the same model (the authors' ImageNet-C/test.py loads torchvision's AlexNet), by the figure
of torchvision's ``AlexNet_Weights.IMAGENET1K_V1``: 56.522 % top-1 accuracy. The paper prints it rounded, 43.5 %
(table 1).

Source of the extra four: the same authors' README from commit 76d9393 of 10 October 2019 (pull request 20, "Add AlexNet
errors on ImageNet-C") to ac836a5 of 27 February 2020, in one table with the fifteen, whose digits are those above; a
link to the spreadsheet has taken its place since. They are not part of the mCE over the fifteen; papers print a
separate mean over the four.
"""

from __future__ import annotations

from robench.metrics.reference_errors import ReferenceErrors

ALEXNET = ReferenceErrors(
    model="AlexNet",
    clean=0.43478,
    corrupted={
        "gaussian_noise": 0.886428,
        "shot_noise": 0.894468,
        "impulse_noise": 0.922640,
        "defocus_blur": 0.819880,
        "glass_blur": 0.826268,
        "motion_blur": 0.785948,
        "zoom_blur": 0.798360,
        "snow": 0.866816,
        "frost": 0.826572,
        "fog": 0.819324,
        "brightness": 0.564592,
        "contrast": 0.853204,
        "elastic_transform": 0.646056,
        "pixelate": 0.717840,
        "jpeg_compression": 0.606500,
        "speckle_noise": 0.845388,
        "gaussian_blur": 0.787108,
        "spatter": 0.717512,
        "saturate": 0.658248,
    },
)
