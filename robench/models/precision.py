"""Passes of a model in half precision, by ``torch.autocast``, and compiled ones.

Autocast computes products of matrices and convolutions in bfloat16 or float16, and what it lists as sensitive, such as
softmax, norms and losses, in float32. Inputs, weights and what gradients arrive at stay float32.

Compiled passes have fused attention where a mechanism allows it. Fused kernels round otherwise than the operations that
they replace, so that compiled passes are a precision of their own (``core.shard.Precision``). A graph is compiled for
each shape of a batch, with and without gradients; nothing falls back to passes that are not compiled.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from robench.core.errors import ContractError, described, shortened
from robench.core.seeds import LazySeeds
from robench.core.shard import Precision, is_compiled, number_format
from robench.devices import is_out_of_memory

LONGEST_REASON = 300
COMPILER = "inductor"
# Graphs of a model: a few shapes, each with and without gradients, through solvers or not. Compiling takes seconds.
MOST_GRAPHS = 32
ADVICE = "Measure the model in a precision that is not compiled"
# Of the fused kernels the one whose gradients are the same each time; the other is the formula itself.
_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Arithmetic of passes, and the number format of products of matrices and convolutions in it."""

    name: str
    dtype: torch.dtype
    is_compiled: bool


def arithmetic_of(name: str) -> Arithmetic:
    """Return the arithmetic of a name."""
    if name not in get_args(Precision):
        raise ContractError(f"precision must be one of {', '.join(get_args(Precision))}, got {name!r}")
    return Arithmetic(name, getattr(torch, number_format(name)), is_compiled(name))


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
        if seeds is not None and not isinstance(seeds, LazySeeds):
            seeds = LazySeeds(partial(tuple, seeds), len(images))
        given = (seeds,) if self._takes_seeds else ()
        with torch._dynamo.config.patch(fail_on_recompile_limit_hit=True), sdpa_kernel(_KERNELS):
            try:
                return self._compiled(images, *given)
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
