"""Declaration of NeuTRENO."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from robench.attention.base import AttentionBase
from robench.declarations.base import LARGEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Neutreno(AttentionBase):
    """NeuTRENO: A V + alpha (V0 - V) with V0 the values of layer 0; softmax attention in layer 0 itself.

    Attributes:
        alpha: weight of the regularisation towards the values of layer 0; 0 is softmax attention.
    """

    kind: ClassVar[str] = "neutreno"
    implementation: ClassVar[str] = "robench.attention.neutreno_impl:NeutrenoAttention"
    has_causal_form: ClassVar[bool] = True

    alpha: Annotated[float, Ge(0), Le(LARGEST)] = 0.6
