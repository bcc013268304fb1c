"""Declaration of a domain: points (2,) between -1 and 1, float32."""

from __future__ import annotations

from robench.domains import Domain

PLANE = Domain(
    name="plane",
    title="Points (2,) between -1 and 1, float32",
    implementation="robench.domains.real_valued:RealValued",
    axes=("coordinates",),
    is_real_valued=True,
    limits=(-1.0, 1.0),
)
