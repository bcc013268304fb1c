"""Construction of models from their declarations, and corrections of modules whose gradients would be wrong."""

from dataclasses import fields

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from robench.attention.projected import ProjectedAttention
from robench.core.declared import Declaration
from robench.core.errors import DeclarationError, RobenchError, UnknownNameError
from robench.models import BACKBONES
from robench.models.base import ArchitectureBase
from robench.models.transformer import Transformer


def build(architecture: Declaration, drop_path_rate: float = 0.0) -> nn.Module:
    """Return the declared model on the CPU, in float32 and training mode, with initial weights.

    ``drop_path_rate`` is not part of a model but of its training: the probability, in [0, 1), with which a branch of an
    example is left out (Huang et al. 2016, arXiv:1603.09382). At 0 no module, draw or output differs.

    Raises:
        UnknownNameError: the declaration is not of a backbone, or it names an unknown model.
        DeclarationError: the model cannot be built as requested.
    """
    if not isinstance(architecture, ArchitectureBase):
        raise UnknownNameError("backbone", architecture.kind, BACKBONES)
    if drop_path_rate and not architecture.takes_drop_path:
        raise DeclarationError(
            f"backbone {architecture.kind!r} takes no drop path, got drop_path_rate {drop_path_rate}: build it into the"
            " model, and set drop_path_rate: 0 in its training"
        )
    if architecture.is_folder:
        raise DeclarationError(
            f"a model of backbone {architecture.kind!r} has its sizes in the files of its folder, so that it is neither"
            " built with initial weights nor trained: measure it with the weights of its entry"
        )
    try:
        model: nn.Module = architecture.implemented()(architecture, *((drop_path_rate,) if drop_path_rate else ()))
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
    if isinstance(architecture, Transformer):
        tie_shared(model)
    return model


def tie_shared(model: nn.Module) -> None:
    """Give parameters that attention modules list as ``shared`` from the first layer that has them to all others."""
    first: dict[str, nn.Parameter] = {}
    for module in model.modules():
        if isinstance(module, ProjectedAttention):
            for name in module.shared:
                setattr(module, name, first.setdefault(name, getattr(module, name)))


def _shown(architecture: Declaration) -> str:
    values = {field.name: getattr(architecture, field.name) for field in fields(architecture)}  # type: ignore[arg-type]  # all declarations are dataclasses
    return ", ".join(f"{name} {value}" for name, value in values.items() if isinstance(value, (int, float, str)))


def guard_batch_norms(model: nn.Module) -> None:
    """Correct the gradients of a model's batch norms for batches of one example, without changing outputs.

    torch (seen in 2.15, on CPUs) computes the gradient of a batch norm in evaluation mode wrongly, without an error, if
    the batch has one example and the gradient that arrives lies channel by channel in memory, but with an unusual
    stride of the batch, as it does below ``flatten(2).transpose(1, 2)``, the usual way from convolutions to tokens. An
    attack that follows such a gradient is weak, and its model looks robust. So gradients of single examples are copied
    into the usual order before they reach a batch norm.
    """
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.register_forward_hook(_order_gradient)


def is_guard(hook: object) -> bool:
    """Return whether a hook was registered by ``guard_batch_norms``, so that it changes no output."""
    return hook is _order_gradient


def _order_gradient(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    if output.requires_grad and len(output) == 1:
        output.register_hook(_in_order)


def _in_order(gradient: Tensor) -> Tensor:
    return gradient.contiguous()


def without_fused_attention(model: nn.Module) -> None:
    """Disable fused attention in modules of timm and transformers: gradients of some kernels differ between runs."""
    for module in model.modules():
        if hasattr(module, "set_attn_implementation"):
            module.set_attn_implementation("eager")  # type: ignore[operator]  # a method, which torch's stubs leave out
        if hasattr(module, "fused_attn"):
            module.fused_attn = False  # type: ignore[assignment]  # a plain attribute, which torch's stubs leave out
