"""RPC-Attention with separate queries: principal attention pursuit that cleans the keys alone.

Source: Teo & Nguyen 2024, appendix E.10 (table 14, 4iter/layer1): Algorithm 1 with its second step replaced,

    L <- softmax(Q K'^T / sqrt(D)) V,  K' = K - S - Y / mu

and everything else, mu = N D / (4 |K|_1) and both formulas of the threshold included, as in ``rpc``. ``qkv`` is
[3C, C], order q, k, v, with bias. The row Sym/Asym of the same table is not this one: it is ``rpc`` with softmax
elsewhere.

The authors have released no code for it. ``formula`` is about the threshold alone: ``released`` is lambda * mu with the
width of all heads, as their code has it for symmetric attention. Where the appendix is silent: S and Y start from zero,
as in Algorithm 1, so the first iteration is softmax attention wherever no key passes the threshold.

Causal form: the keys alone are cleaned, masked in every iteration.

Source: Teo & Nguyen 2024, appendix E.10, as in ``rpc_asymmetric``, with one mu_j for each token and the masks of the
causal form of ``rpc``. The paper has no language model of it.

Cost: ``num_iterations`` causal softmax attentions.
"""

from torch import Tensor

from robench.attention.geometry import Geometry
from robench.attention.projected import DotAttention
from robench.attention.rpc_asymmetric import RpcAsymmetric
from robench.attention.rpc_impl import GRADIENT_MODES, cleaned_keys
from robench.attention.state import ForwardState


class RpcAsymmetricAttention(DotAttention):
    """Asymmetric RPC-Attention over tokens (B, N, C) -> (B, N, C); ``declaration.layers`` is read by the caller."""

    gradient_modes = GRADIENT_MODES

    def __init__(self, declaration: RpcAsymmetric, geometry: Geometry) -> None:
        super().__init__(declaration, geometry)
        self.declaration = declaration

    def compared(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> tuple[Tensor, Tensor]:
        """Return the queries, and the keys of the last iteration; these depend on the values if there are several."""
        return heads[0], self.cleaned(heads)

    def cleaned(self, heads: tuple[Tensor, ...]) -> Tensor:
        """Return the keys of the last iteration, (B, H, N, D)."""
        q_BHND, k_BHND, v_BHND = heads
        return cleaned_keys(self, self.declaration, k_BHND, v_BHND, q_BHND)
