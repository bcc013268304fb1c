"""Attention mechanisms: ``x.py`` declares a mechanism without torch, ``x_impl.py`` computes it.

An implementation is a module over tokens (B, N, C) and the state of the forward pass that replaces timm's
``block.attn``. It is built from its declaration and the sizes of its layer, and may have any parameters. A layer used
on its own may be called without a state.
"""

from __future__ import annotations

from robench.attention.alibi import Alibi
from robench.attention.attnscale import AttnScale
from robench.attention.base import AttentionBase
from robench.attention.bilateral import Bilateral
from robench.attention.elliptical import Elliptical
from robench.attention.fourier import Fourier
from robench.attention.fourier_mom import FourierMom
from robench.attention.kde import Kde
from robench.attention.linear import Linear
from robench.attention.linear_twicing import LinearTwicing
from robench.attention.linformer import Linformer
from robench.attention.mgk import Mgk
from robench.attention.mom import Mom
from robench.attention.neutreno import Neutreno
from robench.attention.nystrom import Nystrom
from robench.attention.performer import Performer
from robench.attention.primal import Primal
from robench.attention.rkde import Rkde
from robench.attention.rpc import Rpc
from robench.attention.rpc_asymmetric import RpcAsymmetric
from robench.attention.rvt import Rvt
from robench.attention.scaled import Scaled
from robench.attention.softmax import Softmax
from robench.attention.spkde import Spkde
from robench.attention.symmetric import Symmetric
from robench.attention.twicing import Twicing
from robench.core.plugins import Plugins

__all__ = ["ATTENTIONS"]

_BUILTIN: dict[str, type[AttentionBase]] = {
    "softmax": Softmax,
    "symmetric": Symmetric,
    "rpc": Rpc,
    "rpc-asymmetric": RpcAsymmetric,
    "scaled": Scaled,
    "bilateral": Bilateral,
    "alibi": Alibi,
    "twicing": Twicing,
    "linear": Linear,
    "linear-twicing": LinearTwicing,
    "neutreno": Neutreno,
    "attnscale": AttnScale,
    "kde": Kde,
    "rkde": Rkde,
    "spkde": Spkde,
    "mom": Mom,
    "fourier-mom": FourierMom,
    "fourier": Fourier,
    "mgk": Mgk,
    "performer": Performer,
    "primal": Primal,
    "elliptical": Elliptical,
    "rvt": Rvt,
    "linformer": Linformer,
    "nystrom": Nystrom,
}
ATTENTIONS = Plugins("attention", _BUILTIN, base=AttentionBase)
