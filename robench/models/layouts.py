"""Layouts of files of weights: location of the tensors in a file, and mapping of their names to a model's.

Nothing is guessed from a file: an entry of the registry names the layout (``weights.layout``), and a file in another
one is refused. Only files of torch.save have a path; safetensors are ``plain`` or ``plain-ddp``.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from robench.core.checkpoint import PLAIN_LAYOUT, Weights
from robench.core.errors import UnknownNameError


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Layout of a file of weights, as saved by a training script.

    Attributes:
        path: keys that lead from the top of the file to the tensors; everything else is ignored.
        prefix: common prefix of the names, absent in the model.
        leaves_others: whether names without the prefix are left out; they are refused otherwise.
        renames: beginnings of names, after the prefix, and their replacements in the model; the first match applies.
        dropped: beginnings of names, after the prefix, that are not part of the model, each with the reason.
        source: code that uses this layout.
    """

    path: tuple[str, ...] = ()
    prefix: str = ""
    renames: tuple[tuple[str, str], ...] = ()
    dropped: tuple[tuple[str, str], ...] = ()
    leaves_others: bool = False
    source: str


_DISTRIBUTED = "module."

LAYOUTS: Mapping[str, Layout] = {
    PLAIN_LAYOUT: Layout(source="torch.save(model.state_dict()), or safetensors.torch.save_file"),
    "plain-ddp": Layout(
        prefix=_DISTRIBUTED,
        source="torch.save(model.state_dict()) of a model that is wrapped in DistributedDataParallel",
    ),
    "deit": Layout(
        path=("model",),
        source=(
            "facebookresearch/deit, main.py, and the published files; so do KPCA_code, robust_transformer (imagenet),"
            " twicing_attention (vision), PrimalAttention_CV, NeuTRENO (DeiT), ViT-Anti-Oversmoothing, FourierFormer"
            " (imagenet) and Robust-Vision-Transformer"
        ),
    ),
    "deit-ema": Layout(path=("model_ema",), source="facebookresearch/deit, main.py: the moving average of the weights"),
    "deit-ddp": Layout(path=("model",), prefix=_DISTRIBUTED, source="as deit, the wrapper's state dict saved"),
    "segmenter": Layout(
        path=("model",),
        dropped=tuple((f"encoder.{head}.", "classes of ImageNet, unused") for head in ("head", "head_dist")),
        source="rstrudel/segmenter, segm/train.py, and the published files; so does rachtsy/segm",
    ),
    "timm": Layout(path=("state_dict",), source="timm, utils/checkpoint_saver.py"),
    "timm-ema": Layout(
        path=("state_dict_ema",), source="timm, utils/checkpoint_saver.py: the moving average of the weights"
    ),
    "timm-ddp": Layout(path=("state_dict",), prefix=_DISTRIBUTED, source="as timm, the wrapper's state dict saved"),
    "fan": Layout(
        path=("state_dict",),
        renames=(("pos_embeder.", "pos_embed."),),
        source="NVlabs/FAN, main.py (timm 0.5.4); checkpoint_filter_fn in models/fan.py takes the older name as well",
    ),
}


def layout_of(weights: Weights) -> Layout:
    """Return the layout of an entry's weights. Raises UnknownNameError: its name is unknown."""
    if weights.key or weights.prefix:
        path = (weights.key,) if weights.key else ()
        return Layout(path=path, prefix=weights.prefix, leaves_others=True, source="the entry")
    if weights.layout not in LAYOUTS:
        raise UnknownNameError("layout", weights.layout, LAYOUTS)
    return LAYOUTS[weights.layout]
