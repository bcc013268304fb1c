"""From an architecture's declaration to a module, its initial weights taken from torch's global generator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from robench.core.errors import UnknownNameError
from robench.declarations import architectures
from robench.declarations.architectures import Python, Timm, Vit
from robench.models.python_backbone import build_python
from robench.models.timm_backbone import build_timm
from robench.models.vit import build_vit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import nn

    from robench.core.protocols import Declaration

# Any: each builder takes its own declaration, which the key beside it names.
BACKBONES: Mapping[type, Callable[[Any], nn.Module]] = {
    Vit: build_vit,
    Timm: build_timm,
    Python: build_python,
}


def build(architecture: Declaration) -> nn.Module:
    """Return the declared model on the CPU, in float32 and training mode, with initial weights.

    Raises:
        UnknownNameError: no builder belongs to the declaration, or it names a model that nobody declared.
        DeclarationError: what it names cannot be built as asked.
    """
    if type(architecture) not in BACKBONES:
        raise UnknownNameError("backbone", architecture.kind, architectures.BACKBONES)
    return BACKBONES[type(architecture)](architecture)
