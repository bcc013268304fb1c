"""Declaration of attention by a scaled and projected kernel density estimate."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from robench.attention.base import AttentionBase, Formula
from robench.declarations.base import LARGEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Spkde(AttentionBase):
    """Scaled and projected kernel density attention: less weight for outlying keys, by a quadratic program.

    Han et al. 2023, arXiv:2210.05794, equations 6, 7 and 9.

    Attributes:
        beta: scale of the projected density, 1 / (1 - proportion of outliers); 1 weighs all keys equally, as in
            ``kde``.
        formula: kernel as in ``kde``; gradients through the weights (``paper``), or not (``released``).
    """

    kind: ClassVar[str] = "spkde"
    implementation: ClassVar[str] = "robench.attention.spkde_impl:SpkdeAttention"
    has_causal_form: ClassVar[bool] = True

    beta: Annotated[float, Ge(1), Le(LARGEST)] = 1.4
    formula: Formula = "paper"
