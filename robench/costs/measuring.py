"""Seconds and memory of inference and of training on one device, of models that are measured in turns.

Weights and inputs are random, from a fixed seed. A training step is a forward pass, the gradient of the mean square of
the outputs, and a step of AdamW.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import mean, quantiles
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from robench.core.containment import Contained
from robench.core.errors import RobenchError, described
from robench.costs.counting import Subject
from robench.costs.protocols import Protocol
from robench.devices import is_out_of_memory

LEARNING_RATE = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Distribution of repeated measurements: median, quartiles and mean."""

    median: float
    low: float
    high: float
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Seconds of a sample and memory of one kind of pass.

    Attributes:
        peak_bytes: largest sum of the sizes of all tensors of the model during a pass, its parameters included; on CUDA
            as its allocator reports it.
        ratio: seconds over those of the other model in the same turn; None without one.
    """

    seconds: Spread
    peak_bytes: int
    ratio: Spread | None = None


def measured(subjects: Sequence[Subject], protocol: Protocol) -> list[dict[str, Measured]]:
    """Measure models in turns; return for each the measurements of ``inference`` and, where asked for, ``training``.

    Ratios are to the last model.

    Raises:
        RobenchError: the device has too little memory for the batch.
    """
    kinds = {"inference": _inference, **({"training": _training} if protocol.trains else {})}
    found: list[dict[str, Measured]] = [{} for _ in subjects]
    with Contained(keeps_environment=True), _generators(subjects):
        for kind, pass_of in kinds.items():
            try:
                values = _in_turns(subjects, pass_of, protocol)
            # Broad because it is the models' own code.
            except Exception as error:
                raise _failed(error, kind, subjects, protocol) from error
            for of_model, value in zip(found, values, strict=True):
                of_model[kind] = value
    return found


def _failed(error: Exception, kind: str, subjects: Sequence[Subject], protocol: Protocol) -> RobenchError:
    names = " or ".join(each.name for each in subjects)
    what = f"{kind} of {names} with batches of {protocol.batch_size}"
    if is_out_of_memory(error):
        return RobenchError(
            f"{what} does not fit into the memory of {subjects[0].device}: measure with a smaller --batch-size"
        )
    return RobenchError(f"{what} fails ({described(error)}): correct the model's code; --counts-only runs no training")


@contextmanager
def _generators(subjects: Sequence[Subject]) -> Iterator[None]:
    devices = [each.device for each in subjects[:1] if each.device.type == "cuda"]
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(0)
        yield


@dataclass(frozen=True, slots=True)
class _Pass:
    """Repeatable pass; ``held`` are the tensors that stay between passes."""

    run: Callable[[], None]
    held: Callable[[], list[Tensor]]


def _in_turns(
    subjects: Sequence[Subject], pass_of: Callable[[Subject, int], _Pass], protocol: Protocol
) -> list[Measured]:
    passes = [pass_of(subject, protocol.batch_size) for subject in subjects]
    device = subjects[0].device
    for _ in range(protocol.warm_ups):
        for each in passes:
            each.run()
    seconds: list[list[float]] = [[] for _ in passes]
    for _ in range(protocol.repeats):
        for each, of_model in zip(passes, seconds, strict=True):
            _wait(device)
            started = time.perf_counter()
            each.run()
            _wait(device)
            of_model.append((time.perf_counter() - started) / protocol.batch_size)
    ratios = [[own / other for own, other in zip(of_model, seconds[-1], strict=True)] for of_model in seconds]
    spreads = [_spread(ratio) if passes[1:] else None for ratio in ratios]
    return [
        Measured(seconds=_spread(of_model), peak_bytes=_peak_bytes(each, device), ratio=ratio)
        for each, of_model, ratio in zip(passes, seconds, spreads, strict=True)
    ]


def _spread(values: Sequence[float]) -> Spread:
    low, median, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    return Spread(median=median, low=low, high=high, mean=mean(values))


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _inference(subject: Subject, batch_size: int) -> _Pass:
    module = subject.module.eval().requires_grad_(False)
    arguments = subject.batch(batch_size)

    def run() -> None:
        with torch.no_grad():
            subject.forward(*arguments)

    return _Pass(run, lambda: [*module.parameters(), *module.buffers(), arguments[0]])


def _training(subject: Subject, batch_size: int) -> _Pass:
    module = subject.module.train().requires_grad_(True)
    arguments = subject.batch(batch_size)
    optimizer = torch.optim.AdamW(module.parameters(), lr=LEARNING_RATE)

    def run() -> None:
        optimizer.zero_grad()
        subject.forward(*arguments).square().mean().backward()
        optimizer.step()

    def held() -> list[Tensor]:
        gradients = [each.grad for each in module.parameters() if each.grad is not None]
        state = [each for each in tree_leaves(dict(optimizer.state)) if isinstance(each, Tensor)]
        return [*module.parameters(), *module.buffers(), *gradients, *state, arguments[0]]

    return _Pass(run, held)


def _peak_bytes(measured_pass: _Pass, device: torch.device) -> int:
    """Return the peak memory of one more pass, without the tensors of other models."""
    trace = _Allocated(measured_pass.held())
    if device.type != "cuda":
        with trace:
            measured_pass.run()
        return trace.peak
    others = torch.cuda.memory_allocated(device) - trace.peak
    torch.cuda.reset_peak_memory_stats(device)
    measured_pass.run()
    _wait(device)
    return torch.cuda.max_memory_allocated(device) - others


class _Allocated(TorchDispatchMode):
    """Trace of the memory of all tensors that exist, after each operation."""

    def __init__(self, held: Sequence[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        self._storages: dict[int, tuple[StorageWeakRef, int]] = {}
        self.peak = 0
        self._add(held)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run an operation, and add the memory of what it returns."""
        output = func(*args, **(kwargs or {}))
        self._storages = {key: each for key, each in self._storages.items() if not each[0].expired()}
        self._add([each for each in tree_leaves(output) if isinstance(each, Tensor)])
        return output

    def _add(self, tensors: Sequence[Tensor]) -> None:
        for each in tensors:
            storage = each.untyped_storage()
            self._storages[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        self.peak = max(self.peak, sum(size for _, size in self._storages.values()))
