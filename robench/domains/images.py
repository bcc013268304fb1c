"""Declaration of the image domain: (C, H, W) float32 in [0, 1]."""

from __future__ import annotations

from robench.domains.base import Domain

IMAGES = Domain(
    name="images",
    title="Images (C, H, W), float32 in [0, 1]",
    implementation="robench.domains.real_valued:UNIT_INTERVAL",
    is_real_valued=True,
    is_drawable=True,
)
