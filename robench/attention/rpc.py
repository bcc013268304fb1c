"""Declaration of robust principal component attention."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from robench.attention.base import AttentionBase, Formula, Layers
from robench.declarations.base import LARGEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Rpc(AttentionBase):
    """Robust principal component attention: keys cleaned of sparse corruption by principal attention pursuit.

    Attributes:
        num_iterations: number of iterations of principal attention pursuit, including the last softmax.
        sparsity: lambda in the paper, the weight of the sparse term.
        layers: 0-based layers that clean their keys, or ``all``.
        elsewhere: mechanism of the other layers.
        formula: threshold lambda / mu per head (``paper``), or lambda * mu with the full width (``released``).
    """

    kind: ClassVar[str] = "rpc"
    implementation: ClassVar[str] = "robench.attention.rpc_impl:RpcAttention"
    has_causal_form: ClassVar[bool] = True

    num_iterations: Annotated[int, Ge(1), Le(1000)] = 4
    sparsity: Annotated[float, Ge(0), Le(LARGEST)] = 4.0
    layers: Layers = (0,)
    elsewhere: Literal["softmax", "symmetric"] = "symmetric"
    formula: Formula = "paper"
