"""Counts of parameters and multiply-adds, by a trace of the operations of a real forward pass.

Models are built and traced on torch's meta device, so that neither weights nor arithmetic are needed. A model whose
operations depend on values, such as one that sends tokens to experts, is traced on the CPU, with random weights and
inputs from a fixed seed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from robench.core.containment import Contained
from robench.core.declared import Architecture, Preprocessing
from robench.core.errors import DeclarationError, described
from robench.costs.rules import Counts
from robench.declarations.base import DeclarationBase
from robench.domains import DOMAINS
from robench.models.base import ArchitectureBase
from robench.models.build import build

_aten = torch.ops.aten
META, CPU = torch.device("meta"), torch.device("cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Model with random weights, and the shape of one example, which may be of ids of words."""

    name: str
    module: nn.Module
    forward: Callable[..., Tensor]
    shape: tuple[int, ...]
    has_ids: bool
    device: torch.device

    def batch(self, size: int) -> tuple[Any, ...]:
        """Return the arguments of a pass of a batch: inputs, and the seeds of a model that takes some."""
        shape = (size, *self.shape)
        inputs = torch.zeros(shape, dtype=torch.int64) if self.has_ids else torch.rand(shape)
        seeds = [tuple(range(size))] if getattr(self.module, "takes_seeds", False) else []
        return inputs.to(self.device), *seeds


def subject_of(
    name: str,
    architecture: Architecture,
    preprocessing: Preprocessing | None,
    device: torch.device,
    input_shape: Sequence[int] | None = None,
) -> Subject:
    """Build a model with random weights of seed 0, in evaluation mode.

    ``input_shape`` replaces the declared shape of an example. A layer of tokens has no preprocessing.

    Raises:
        DeclarationError: the model cannot be built, or nothing says what shape its inputs have.
    """
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(0)
        # Elsewhere initial weights are drawn on the CPU, so that they are the same on every device.
        with META if device.type == "meta" and _imported(architecture) else CPU:
            module = build(architecture)
    module.to(device).eval()
    of_ids = getattr(module, "outputs_of_ids", None)
    shape = tuple(input_shape or _declared_shape(architecture, preprocessing) or ())
    domain = None if preprocessing is None else preprocessing.domain
    if not shape or (of_ids is None and domain is not None and not DOMAINS[domain].rules.dtype.is_floating_point):
        raise DeclarationError(
            f"nothing declares the size of the inputs of {name}, of the domain {domain}, that its cost"
            " depends on: give --input-shape, such as 3,32,32; a model of texts needs a method outputs_of_ids"
        )
    return Subject(
        name=name, module=module, forward=of_ids or module, shape=shape, has_ids=of_ids is not None, device=device
    )


def _imported(architecture: Architecture) -> bool:
    """Import the implementations of a model's parts; return whether the user's code, which may import more, has none.

    Modules that were first imported on the meta device would have tensors without values ever after.
    """
    for each in (architecture, *(getattr(architecture, field.name) for field in fields(architecture))):  # type: ignore[arg-type]  # all declarations are dataclasses
        if isinstance(each, DeclarationBase):
            each.implemented()
    return isinstance(architecture, ArchitectureBase) and not architecture.runs_user_code


def _declared_shape(architecture: Architecture, preprocessing: Preprocessing | None) -> tuple[int, ...] | None:
    declared = architecture.input_shape if isinstance(architecture, ArchitectureBase) else None
    crop, num_channels = (getattr(preprocessing, name, None) for name in ("crop", "num_channels"))
    return declared or (None if crop is None or num_channels is None else (num_channels, crop, crop))


def counts_of(
    name: str,
    architecture: Architecture,
    preprocessing: Preprocessing | None,
    input_shape: Sequence[int] | None = None,
    *,
    is_training: bool = False,
    batch_size: int = 1,
) -> Counts:
    """Count parameters, and the operations of a forward pass of ``batch_size`` examples; see ``subject_of``.

    ``is_training`` counts the pass that training makes, without its backward pass.

    Raises:
        DeclarationError: the model cannot be built, or fails on inputs of the shape.
    """
    with Contained(keeps_environment=True):
        counted = partial(_counted, name, architecture, preprocessing, input_shape, is_training, batch_size)
        try:
            return counted(META)
        # Broad because operations that depend on values, and code that reads them, fail there in many ways.
        except Exception:
            return counted(CPU)


def _counted(
    name: str,
    architecture: Architecture,
    preprocessing: Preprocessing | None,
    input_shape: Sequence[int] | None,
    is_training: bool,
    batch_size: int,
    device: torch.device,
) -> Counts:
    subject = subject_of(name, architecture, preprocessing, device, input_shape)
    module = subject.module.train(is_training).requires_grad_(is_training)
    parameters = list(module.parameters())
    trace = _Trace(parameters)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        arguments = subject.batch(batch_size)
        try:
            with torch.no_grad():
                # What does not depend on the input, a frozen model computes once and keeps.
                subject.forward(*arguments)
                with trace:
                    subject.forward(*arguments)
        # Broad because it is the model's own code.
        except Exception as error:
            raise DeclarationError(
                f"{name} fails on one example of the shape {subject.shape} ({described(error)}): give the shape of its"
                " inputs by --input-shape"
            ) from error
    return Counts(
        parameters=sum(each.numel() for each in parameters),
        linear=trace.linear,
        products=trace.products,
        biases=trace.biases,
        norm_elements=trace.norm_elements,
    )


class _Trace(TorchDispatchMode):
    """Trace that adds up the operations of a pass."""

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        self.linear = self.products = self.biases = self.norm_elements = 0
        self._weights = {_storage(each) for each in parameters}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run an operation, and count it."""
        output = func(*args, **(kwargs or {}))
        packet = getattr(func, "overloadpacket", None)
        if packet in _PRODUCTS:
            left, right = operands = args[_PRODUCTS[packet] : _PRODUCTS[packet] + 2]
            count = left.numel() * (right.shape[-1] if right.dim() > 1 else 1)
            if packet in (_aten.mm, _aten.addmm) or any(_storage(each) in self._weights for each in operands):
                self.linear += count
            else:
                self.products += count
            # The bias of ``addmm`` is its first argument.
            self.biases += output.numel() if packet is _aten.addmm else 0
        elif packet is _aten.convolution:
            inputs, weight, bias, is_transposed = (args[place] for place in (0, 1, 2, 6))
            # Each weight of a kernel meets one position of the smaller side for each of its places.
            places = (inputs if is_transposed else output).shape[2:].numel()
            self.linear += len(inputs) * weight.numel() * places
            self.biases += 0 if bias is None else output.numel()
        elif packet in _FUSED_ATTENTION:
            # Both products, of queries (B, H, N, D), keys (B, H, M, D) and values.
            queries, keys, values = args[:3]
            rows = queries.shape[:-1].numel() * keys.shape[-2]
            self.products += rows * (queries.shape[-1] + values.shape[-1])
        elif packet is _aten.native_layer_norm:
            self.norm_elements += args[0].numel()
        return output


def _storage(tensor: Tensor) -> int:
    # Addresses of meta tensors are all 0.
    return int(tensor.untyped_storage()._cdata)


# Products of matrices or vectors, with the place of the left operand; those of ``addbmm`` are summed over the batch.
_PRODUCTS: Mapping[Any, int] = {
    **dict.fromkeys((_aten.mm, _aten.mv, _aten.dot, _aten.bmm), 0),
    **dict.fromkeys((_aten.addmm, _aten.addmv, _aten.baddbmm, _aten.addbmm), 1),
}
_FUSED_ATTENTION = [
    getattr(_aten, f"_scaled_dot_product_{name}")
    for name in (
        "flash_attention_for_cpu",
        "flash_attention",
        "efficient_attention",
        "cudnn_attention",
        "fused_attention_overrideable",
    )
]
