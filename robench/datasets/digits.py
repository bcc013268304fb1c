"""Declarations of the embedded digits and of their natural shifts, which need no downloads."""

from dataclasses import replace

from robench.datasets.base import TEST_SPLIT, EmbeddedImages

DIGITS = EmbeddedImages(
    name="digits",
    title="Handwritten digits, 8x8 scans shown at 32x32 RGB",
    task="classification",
    num_classes=10,
    num_examples=600,
    num_training_examples=1_197,
    source="scikit-learn load_digits: UCI Optical Recognition of Handwritten Digits, Alpaydin & Kaynak 1998",
    licence="CC BY 4.0",
    image_size=32,
    splits=("train", TEST_SPLIT),
    maker="robench.datasets.digits_impl:Digits",
)
_SHIFT = replace(DIGITS, splits=(TEST_SPLIT,), num_training_examples=None)
DIGITS_A = replace(
    _SHIFT,
    name="digits-a",
    title="Test digits that weak classifiers get wrong, as ImageNet-A to ImageNet",
    num_examples=74,
    maker="robench.datasets.digit_shifts_impl:hard_digits",
)
DIGITS_SKETCH = replace(
    _SHIFT,
    name="digits-sketch",
    title="Edges of the test digits, as ImageNet-Sketch to ImageNet",
    maker="robench.datasets.digit_shifts_impl:sketched_digits",
)
DIGITS_R = replace(
    _SHIFT,
    name="digits-r",
    title="Digits rendered from fonts: rotation, weight, colour; as ImageNet-R to ImageNet",
    source="rendered by robench from the fonts that Pillow ships",
    licence="Apache-2.0; the fonts are Pillow's",
    maker="robench.datasets.digit_shifts_impl:rendered_digits",
)
DIGITS_O = replace(
    DIGITS_R,
    name="digits-o",
    title="Letters as scans of digits look, of no class of the digits; as ImageNet-O to ImageNet",
    num_examples=440,
    is_out_of_distribution=True,
    maker="robench.datasets.digit_shifts_impl:rendered_letters",
)
DIGIT_SETS = (DIGITS, DIGITS_A, DIGITS_R, DIGITS_SKETCH, DIGITS_O)
