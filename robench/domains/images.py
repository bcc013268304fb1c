"""Declaration of the image domain: (C, H, W) float32 in [0, 1]."""

from fractions import Fraction

from robench.domains.base import CHANNELS, Domain

IMAGES = Domain(
    name="images",
    title="Images (C, H, W), float32 in [0, 1]",
    implementation="robench.domains.real_valued:RealValued",
    axes=(CHANNELS, "height", "width"),
    is_real_valued=True,
    limits=(0.0, 1.0),
    levels=255,
    unit="pixel",
    shown_as="image",
    audit_epsilon=Fraction(8, 255),
)
