"""Declaration of attention as kernel regression."""

from dataclasses import dataclass
from typing import ClassVar

from robench.attention.base import AttentionBase, Formula


@dataclass(frozen=True, slots=True, kw_only=True)
class Kde(AttentionBase):
    """Attention as kernel regression: Gaussian kernels on normalised keys. Han et al. 2023, arXiv:2210.05794.

    Attributes:
        formula: kernel exp(-|q - k|^2 / (2 sqrt(d))) (``paper``), or exp(-|q - k|^2 / sqrt(d)) (``released``).
    """

    kind: ClassVar[str] = "kde"
    implementation: ClassVar[str] = "robench.attention.kde_impl:KdeAttention"
    has_causal_form: ClassVar[bool] = True

    formula: Formula = "paper"
