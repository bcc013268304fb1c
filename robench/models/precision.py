"""Passes of a model in half precision, by ``torch.autocast``, in TF32, and compiled ones.

Autocast computes products of matrices and convolutions in bfloat16 or float16, and what it lists as sensitive, such as
softmax, norms and losses, in float32. Inputs, weights and what gradients arrive at stay float32.

In TF32, GPUs round the factors of products of float32 matrices and of convolutions to 10 bits after the point. It is
a setting of the process, which backward passes follow as well: ``evaluation.arithmetic`` sets it.

Compiled passes have fused attention where a mechanism allows it. Fused kernels round otherwise than the operations that
they replace, so that compiled passes are a precision of their own (``core.shard.Precision``). A graph is compiled for
each shape of a batch, always with gradients by the inputs, so that each pass at a point has the same outputs; nothing
falls back to passes that are not compiled.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_map_only

from robench.core.errors import ContractError, UsageError, described, shortened
from robench.core.seeds import LazySeeds
from robench.core.shard import TF32, Precision, is_compiled, number_format
from robench.devices import is_out_of_memory

LONGEST_REASON = 300
COMPILER = "inductor"
# NVIDIA GPUs that compute products in TF32.
LEAST_CAPABILITY = (8, 0)
# Graphs of a model: a batch size and its halvings, for each batch size and image size of the suites, through solvers or
# not. Compiling takes seconds.
MOST_GRAPHS = 64
ADVICE = "Measure the model in a precision that is not compiled"
# Of the fused kernels the one whose gradients are the same each time; the other is the formula itself.
_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Arithmetic of passes: the number format of its tensors, and of products of matrices and convolutions in it."""

    name: str
    dtype: torch.dtype
    is_compiled: bool
    uses_tf32: bool = False


def arithmetic_of(name: str) -> Arithmetic:
    """Return the arithmetic of a name."""
    if name not in get_args(Precision):
        raise ContractError(f"precision must be one of {', '.join(get_args(Precision))}, got {name!r}")
    of_products = number_format(name)
    uses_tf32 = of_products == TF32
    return Arithmetic(name, torch.float32 if uses_tf32 else getattr(torch, of_products), is_compiled(name), uses_tf32)


def check_device(precision: str, device: torch.device) -> None:
    """Refuse TF32 on a device without it, where passes would be of float32. Raises UsageError."""
    if number_format(precision) != TF32:
        return
    if device.type != "cuda" or torch.cuda.get_device_capability(device) < LEAST_CAPABILITY:
        found = f"{device} ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else str(device)
        raise UsageError(
            f"precision {precision} needs an NVIDIA GPU of compute capability "
            f"{'.'.join(map(str, LEAST_CAPABILITY))} or later (Ampere), and {found} has no TF32; measure in float32"
        )


@contextmanager
def running_in(arithmetic: Arithmetic | None, device: torch.device) -> Iterator[None]:
    """Run a pass in an arithmetic; None changes nothing."""
    if arithmetic is None:
        yield
        return
    is_exact = arithmetic.dtype == torch.float32
    try:
        with nullcontext() if is_exact else torch.autocast(device.type, dtype=arithmetic.dtype):
            yield
    # Missing kernels, two formats, and failed compilation raise one of these.
    except (RuntimeError, TypeError, ValueError) as error:
        if is_out_of_memory(error):
            raise
        where = _innermost_module(error.__traceback__)
        raise ContractError(
            f"{where} cannot run in {arithmetic.name}: {shortened(described(error), LONGEST_REASON)}. Measure the "
            "model in float32, or in another precision"
        ) from error


def _innermost_module(traceback: TracebackType | None) -> str:
    found = "the model"
    while traceback is not None:
        module = traceback.tb_frame.f_locals.get("self")
        # Layers of torch say less than the module that calls them.
        if isinstance(module, nn.Module) and not type(module).__module__.startswith("torch."):
            found = type(module).__name__
        traceback = traceback.tb_next
    return found


class CompiledPasses:
    """Passes of a module of images in evaluation mode, without gradients of parameters, compiled when first run."""

    def __init__(self, module: nn.Module, *, takes_seeds: bool) -> None:
        self._module, self._takes_seeds = module, takes_seeds
        self._compiled: Any = None  # torch.compile has no type for what it returns

    def __call__(self, images: Tensor, seeds: Sequence[int] | None) -> Any:
        """Return the output of the module for images (B, C, H, W)."""
        if self._compiled is None:
            self._check(images)
            # Compiled in this process: none of its own is left when a worker ends.
            options: dict[str, str | int | bool] = {"compile_threads": 1} if COMPILER == "inductor" else {}
            self._compiled = torch.compile(  # type: ignore[call-overload]  # its overloads lack the last two
                self._module,
                dynamic=False,
                backend=COMPILER,
                options=options or None,
                recompile_limit=MOST_GRAPHS,
                # Other models with the same code have graphs of their own.
                isolate_recompiles=True,
            )
        # Numbers in a tuple would be constants of the graph.
        if not isinstance(seeds, LazySeeds):
            seeds = LazySeeds(partial(tuple, seeds or (0,) * len(images)), len(images))
        given = (seeds,) if self._takes_seeds else ()
        is_differentiated = torch.is_grad_enabled() and images.requires_grad
        # Graphs are limited by model, and not in all, which is the sum over models with the same code.
        limits = {"fail_on_recompile_limit_hit": True, "accumulated_recompile_limit": sys.maxsize}
        # Attacks such as FAB take several gradients from one pass, so that its buffers must outlive the first. Set for
        # good, since each backward pass reads it too, after this call.
        torch._functorch.config.donated_buffer = False
        with torch._dynamo.config.patch(limits), sdpa_kernel(_KERNELS):
            try:
                if is_differentiated:
                    return self._compiled(images, *given)
                # One mode for all passes: without gradients and in inference mode there would be graphs of their own.
                with torch.inference_mode(False), torch.enable_grad():
                    output = self._compiled(images.detach().clone().requires_grad_(True), *given)
                return tree_map_only(Tensor, Tensor.detach, output)
            except (torch._dynamo.exc.FailOnRecompileLimitHit, torch._dynamo.exc.TorchDynamoException) as error:
                raise ContractError(f"{type(self._module).__name__} {_reason(error)}. {ADVICE}") from error

    def _check(self, images: Tensor) -> None:
        """Refuse a module that reads its seeds: their values are not part of a graph."""
        if not self._takes_seeds:
            return
        seeds = LazySeeds(lambda: [0] * len(images), len(images))
        with torch.no_grad():
            self._module(images.detach().clone(), seeds)
        if seeds.were_read:
            raise ContractError(
                f"{type(self._module).__name__} draws random numbers in its passes, which cannot be compiled. {ADVICE}"
            )


def _reason(error: Exception) -> str:
    if isinstance(error, torch._dynamo.exc.FailOnRecompileLimitHit):
        return (
            f"needs more than {MOST_GRAPHS} compiled graphs, for shapes of its inputs or values in its code that "
            "change from pass to pass"
        )
    # After a blank line follow torch's settings for its own developers.
    text = described(error).split("\n\n")[0]
    return f"cannot be compiled: {shortened(' '.join(text.split()), LONGEST_REASON)}"
