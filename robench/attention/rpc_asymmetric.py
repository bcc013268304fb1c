"""Declaration of robust principal component attention with separate queries."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from robench.attention.rpc import Rpc


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcAsymmetric(Rpc):
    """RPC-Attention with separate queries: softmax(Q (K - S - Y/mu)^T / sqrt(d)) V, appendix E.10 of the RPC paper."""

    kind: ClassVar[str] = "rpc-asymmetric"
    implementation: ClassVar[str] = "robench.attention.rpc_asymmetric_impl:RpcAsymmetricAttention"

    elsewhere: Literal["softmax", "symmetric"] = "softmax"
