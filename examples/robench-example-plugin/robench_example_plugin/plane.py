"""Declaration of a domain: points (2,) of the unit square, float32."""

from __future__ import annotations

from robench.domains import Domain

PLANE = Domain(
    name="plane",
    title="Points (2,) of the unit square, float32",
    implementation="robench.domains.real_valued:UNIT_INTERVAL",
    is_real_valued=True,
)
