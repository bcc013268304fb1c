"""From an architecture's declaration to a module, its initial weights taken from torch's global generator."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from robench.core.errors import DeclarationError, RobenchError, UnknownNameError
from robench.declarations import architectures
from robench.declarations.architectures import Python, Timm, Vit
from robench.declarations.fan import Fan
from robench.models.batch_norm import guard_batch_norms
from robench.models.fan_impl import build_fan
from robench.models.python_backbone_impl import build_python
from robench.models.timm_backbone_impl import build_timm
from robench.models.vit_impl import build_vit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import nn

    from robench.core.protocols import Declaration

# Any: each builder takes its own declaration, which the key beside it names.
BACKBONES: Mapping[type, Callable[[Any], nn.Module]] = {
    Vit: build_vit,
    Fan: build_fan,
    Timm: build_timm,
    Python: build_python,
}
DROPPING: Mapping[type, Callable[[Any, float], nn.Module]] = {Vit: build_vit, Fan: build_fan}


def build(architecture: Declaration, drop_path_rate: float = 0.0) -> nn.Module:
    """Return the declared model on the CPU, in float32 and training mode, with initial weights.

    ``drop_path_rate`` is no part of a model but of its training: the probability, in [0, 1), with which a branch of an
    example is left out (Huang et al. 2016, arXiv:1603.09382). At 0 no module, draw or output differs.

    Raises:
        UnknownNameError: no builder belongs to the declaration, or it names a model that nobody declared.
        DeclarationError: what it names cannot be built as asked.
    """
    if type(architecture) not in BACKBONES:
        raise UnknownNameError("backbone", architecture.kind, architectures.BACKBONES)
    try:
        model = _built(architecture, drop_path_rate)
    except RobenchError:
        raise
    # Broad because torch and the layers of a model refuse sizes, or run out of memory, by errors of any class.
    except Exception as error:
        reason = str(error).partition("\n")[0][:200]
        raise DeclarationError(
            f"backbone {architecture.kind!r} cannot be built with {_shown(architecture)} ({type(error).__name__}:"
            f" {reason}). Correct the architecture of the checkpoint"
        ) from error
    guard_batch_norms(model)
    return model


def _shown(architecture: Declaration) -> str:
    """Return the sizes of a backbone, which are what it cannot be built with."""
    values = {field.name: getattr(architecture, field.name) for field in fields(architecture)}  # type: ignore[arg-type]  # all declarations are dataclasses
    return ", ".join(f"{name} {value}" for name, value in values.items() if isinstance(value, (int, float, str)))


def _built(architecture: Declaration, drop_path_rate: float) -> nn.Module:
    if not drop_path_rate:
        return BACKBONES[type(architecture)](architecture)
    if isinstance(architecture, Timm):
        return build_timm(replace(architecture, arguments={"drop_path_rate": drop_path_rate, **architecture.arguments}))
    if type(architecture) not in DROPPING:
        raise DeclarationError(
            f"backbone {architecture.kind!r} takes no drop path, got drop_path_rate {drop_path_rate}: build it into the"
            " model, and set drop_path_rate: 0 in its training"
        )
    return DROPPING[type(architecture)](architecture, drop_path_rate)
