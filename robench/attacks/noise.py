"""Declarations of noise within a budget; suites state its strength."""

from dataclasses import dataclass
from typing import ClassVar

from robench.attacks.base import BoundedAttack, Norm


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformNoise(BoundedAttack):
    """Uniform noise over the full budget, independent of the victim: a baseline that any attack must beat."""

    kind: ClassVar[str] = "uniform-noise"
    implementation: ClassVar[str] = "robench.attacks.noise_impl:uniform_noise"
    is_gradient_free: ClassVar[bool] = True
    reads_outputs: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianNoise(BoundedAttack):
    """Gaussian noise of length epsilon (l2), or of standard deviation epsilon clipped to the ball (linf)."""

    kind: ClassVar[str] = "gaussian-noise"
    implementation: ClassVar[str] = "robench.attacks.noise_impl:gaussian_noise"
    is_gradient_free: ClassVar[bool] = True
    reads_outputs: ClassVar[bool] = False
    norms: ClassVar[tuple[Norm, ...]] = ("linf", "l2")

    norm: Norm = "l2"
