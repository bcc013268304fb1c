"""Noise within a budget; no defaults of strength: suites state it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from robench.attacks.base import BoundedAttack, Norm


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformNoise(BoundedAttack):
    """Uniform noise of the budget's full width, blind to the victim: what any attack must beat."""

    kind: ClassVar[str] = "uniform-noise"
    implementation: ClassVar[str] = "robench.attacks.noise_impl:uniform_noise"
    is_gradient_free: ClassVar[bool] = True
    reads_outputs: ClassVar[bool] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianNoise(BoundedAttack):
    """Gaussian noise of the budget's full length (l2), or of deviation epsilon cut to the ball (linf)."""

    kind: ClassVar[str] = "gaussian-noise"
    implementation: ClassVar[str] = "robench.attacks.noise_impl:gaussian_noise"
    is_gradient_free: ClassVar[bool] = True
    reads_outputs: ClassVar[bool] = False
    norms: ClassVar[tuple[Norm, ...]] = ("linf", "l2")

    norm: Norm = "l2"
