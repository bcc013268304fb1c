"""Test digits of robench with left and right exchanged, some of which become hard to recognise (2, 3, 5)."""

from __future__ import annotations

import numpy as np
from robench.datasets.digits_impl import enlarge, split_scans
from robench.datasets.in_memory import InMemoryImages

from robench_example_plugin.mirrored_digits import MIRRORED_DIGITS


def mirrored_digits() -> InMemoryImages:
    """Return images (1, 32, 32) in [0, 1], in the order of the hashes of their ids."""
    scans = {f"mirrored/{scan.id}": scan for scan in split_scans("test")}
    mirrored = enlarge(np.stack([scan.pixels[:, ::-1] for scan in scans.values()]))
    return InMemoryImages(
        MIRRORED_DIGITS.name,
        {name: scan.target for name, scan in scans.items()},
        {name: image[None] for name, image in zip(scans, mirrored, strict=True)},
    )
