"""Attention mechanisms: ``x.py`` declares a mechanism without torch, ``x_impl.py`` computes it.

An implementation is a module over tokens (B, N, C) and the state of the forward pass that replaces timm's
``block.attn``. It is built from its declaration and the sizes of its layer, and may have any parameters. A layer used
on its own may be called without a state.
"""

from robench.attention.base import AttentionBase
from robench.core.plugins import Plugins

__all__ = ["ATTENTIONS"]

_BUILTIN: dict[str, str] = {
    "softmax": "robench.attention.softmax:Softmax",
    "symmetric": "robench.attention.symmetric:Symmetric",
    "rpc": "robench.attention.rpc:Rpc",
    "rpc-asymmetric": "robench.attention.rpc_asymmetric:RpcAsymmetric",
    "scaled": "robench.attention.scaled:Scaled",
    "bilateral": "robench.attention.bilateral:Bilateral",
    "alibi": "robench.attention.alibi:Alibi",
    "twicing": "robench.attention.twicing:Twicing",
    "linear": "robench.attention.linear:Linear",
    "linear-twicing": "robench.attention.linear_twicing:LinearTwicing",
    "neutreno": "robench.attention.neutreno:Neutreno",
    "attnscale": "robench.attention.attnscale:AttnScale",
    "kde": "robench.attention.kde:Kde",
    "rkde": "robench.attention.rkde:Rkde",
    "spkde": "robench.attention.spkde:Spkde",
    "pro": "robench.attention.pro:Pro",
    "mom": "robench.attention.mom:Mom",
    "fourier-mom": "robench.attention.fourier_mom:FourierMom",
    "fourier": "robench.attention.fourier:Fourier",
    "mgk": "robench.attention.mgk:Mgk",
    "performer": "robench.attention.performer:Performer",
    "primal": "robench.attention.primal:Primal",
    "elliptical": "robench.attention.elliptical:Elliptical",
    "rvt": "robench.attention.rvt:Rvt",
    "linformer": "robench.attention.linformer:Linformer",
    "nystrom": "robench.attention.nystrom:Nystrom",
}
ATTENTIONS: Plugins[type[AttentionBase]] = Plugins("attention", _BUILTIN, base=AttentionBase)
