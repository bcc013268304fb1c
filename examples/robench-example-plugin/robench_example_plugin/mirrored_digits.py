"""Declaration of robench's test digits, mirrored."""

from __future__ import annotations

from dataclasses import replace

from robench.datasets.base import TEST_SPLIT
from robench.datasets.digits import DIGITS

MIRRORED_DIGITS = replace(
    DIGITS,
    name="digits-mirrored",
    title="Test digits seen in a mirror",
    splits=(TEST_SPLIT,),
    maker="robench_example_plugin.mirrored_digits_impl:mirrored_digits",
)
