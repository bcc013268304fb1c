"""Builder of models of the timm library, by their names there.

Weights are not loaded by timm but from the registry, after their checksum was verified. Fused attention is disabled,
module by module, because the gradients of some fused kernels differ between runs.
"""

from difflib import get_close_matches
from typing import Any

import timm
from torch import nn

from robench.core.errors import DeclarationError, UnknownNameError
from robench.models.build import without_fused_attention
from robench.models.foreign import Timm

REFUSED_ARGUMENTS = ("pretrained", "pretrained_cfg", "pretrained_cfg_overlay", "checkpoint_path", "cache_dir")


def build_timm(architecture: Timm, drop_path_rate: float = 0.0) -> nn.Module:
    """Return ``timm.create_model(name, **arguments)`` with initial weights.

    A ``drop_path_rate`` above 0 is passed on, unless the arguments name one.
    """
    name = architecture.name
    arguments: dict[str, Any] = {"drop_path_rate": drop_path_rate} if drop_path_rate else {}
    arguments |= architecture.arguments
    if not timm.is_model(name):
        known = timm.list_models()
        nearest = get_close_matches(name, known, n=8, cutoff=0.0)
        names = f"the {len(known)} names that timm.list_models() gives (timm {timm.__version__})"
        raise UnknownNameError("timm model", name, nearest, f"These are the nearest of {names}.")
    if refused := [argument for argument in arguments if argument in REFUSED_ARGUMENTS]:
        raise DeclarationError(
            f"timm model {name!r}: arguments must not name {', '.join(refused)}, because weights come from the"
            " checkpoint's `weights`; remove it there"
        )
    try:
        model: nn.Module = timm.create_model(name, pretrained=False, **arguments)
    # Broad because arguments go to any of a thousand models, which raise different errors.
    except Exception as error:
        raise DeclarationError(
            f"timm model {name!r} cannot be built with arguments {arguments}: {type(error).__name__}: {error}."
            " Check them against the model's documentation in timm"
        ) from error
    without_fused_attention(model)
    return model
