"""NeuTRENO: softmax attention with outputs regularised towards the values of the first layer against over-smoothing.

Source: Nguyen, Nguyen & Baraniuk 2023 (Mitigating Over-smoothing in Transformers via Regularized Nonlocal
Functionals), arXiv:2312.00751. In layer 0, and in each later one,

    H = A V,    H = A V + alpha (V0 - V),  A = softmax(Q K^T / sqrt(D))

with V0 the values of layer 0, after their projection and before that of its output. ``qkv`` is [3C, C], order q, k, v.

Paper and released code (NeuTRENO_NeurIPS2024, DeiT/neutreno.py) agree: alpha is 0.6 for images (0.4 in their language
models), the same for all layers and not learned. Gradients flow to V0 as well, as they do in the code.

Causal form: causal softmax attention with outputs regularised towards the values of the first layer.

Source: Nguyen, Nguyen & Baraniuk 2023, arXiv:2312.00751, as in ``neutreno``; alpha is 0.4 in the authors' language
models.

Cost: that of softmax attention.
"""

from torch import Tensor

from robench.attention.geometry import Geometry
from robench.attention.neutreno import Neutreno
from robench.attention.projected import DotAttention
from robench.attention.state import ForwardState


class NeutrenoAttention(DotAttention):
    """NeuTRENO over tokens (B, N, C) -> (B, N, C); its layer 0 hands its values on to the later ones."""

    def __init__(self, declaration: Neutreno, geometry: Geometry) -> None:
        super().__init__(declaration, geometry)
        self.alpha = declaration.alpha
        self.layer = geometry.layer

    def mix(self, heads: tuple[Tensor, ...], state: ForwardState | None) -> Tensor:
        """Return (B, H, N, D).

        Raises:
            ContractError: this is a later layer, and the state holds no values of layer 0.
        """
        output_BHND = super().mix(heads, state)
        rest_BHND = self.rest(heads[2], state)
        return output_BHND if rest_BHND is None else output_BHND + rest_BHND

    def rest(self, values_BHMD: Tensor, state: ForwardState | None) -> Tensor | None:
        """Return alpha (V0 - V), (B, H, N, D); layer 0 has none, and publishes its values to the later ones."""
        state = ForwardState() if state is None else state
        if self.layer == 0:
            state.values_BHND[0] = values_BHMD
            return None
        return self.alpha * (state.values_of(0) - values_BHMD)
