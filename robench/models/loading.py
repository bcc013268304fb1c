"""Loading of models from registry entries: locate the weights, build the architecture, load, freeze."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from robench.core.containment import Contained
from robench.core.errors import DeclarationError, UsageError, WeightsError
from robench.declarations.preprocessing import PREPROCESSINGS, PreprocessingBase
from robench.models.build import build
from robench.models.layouts_impl import layouts_for
from robench.models.loaded import LoadedModel
from robench.models.state_files import load_state
from robench.models.weights import resolve
from robench.tasks import TASKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torch import Tensor, nn

    from robench.core.checkpoint import Checkpoint

SHOWN = 3


def load_model(checkpoint: Checkpoint, device: torch.device | str = "cpu") -> LoadedModel:
    """Return the checkpoint's classifier on a device, frozen; torch's generators are unchanged.

    Raises:
        WeightsError: the weights are missing, unsafe, different from the registry's, or do not fit the architecture.
        DeclarationError: the architecture cannot be built, or the preprocessing is not of images.
        UsageError: this machine has no such device.
        ContractError: the model's own code tried to end the process.
    """
    preprocessing = checkpoint.preprocessing
    if not isinstance(preprocessing, PreprocessingBase):
        kinds = " or ".join(PREPROCESSINGS)
        raise DeclarationError(f"preprocessing of {checkpoint.name} must be of kind {kinds}, got {preprocessing.kind}")
    usable = _usable(device)
    path, _ = resolve(checkpoint)
    state = load_state(path, checkpoint.weights.layout)
    with Contained(keeps_environment=True):
        with _own_generator(usable):
            module = build(checkpoint.architecture)
        load_strictly(module, state, f"{path} (weights of {checkpoint.name})")
        return LoadedModel(module, preprocessing, usable, TASKS[checkpoint.task])


def load_strictly(module: nn.Module, state: Mapping[str, Tensor], title: str) -> None:
    """Copy a state into a module if every key, shape and kind of number matches; ``title`` names it in messages.

    Raises:
        WeightsError: it does not match; the message lists missing, unexpected and different keys. Nothing was copied.
    """
    wanted: dict[str, Tensor] = module.state_dict()
    missing, unexpected = [key for key in wanted if key not in state], [key for key in state if key not in wanted]
    pairs = [(key, wanted[key], state[key]) for key in wanted if key in state]
    shapes = [(key, tuple(found.shape), tuple(ours.shape)) for key, ours, found in pairs if ours.shape != found.shape]
    # Only across the two kinds: float16 weights become float32 without loss, integers are not weights.
    types = [
        (key, found.dtype, ours.dtype)
        for key, ours, found in pairs
        if ours.is_floating_point() != found.is_floating_point()
    ]
    problems = [
        *_listed("missing", missing),
        *_listed("unexpected", unexpected),
        *_listed("of another shape", [f"{key} {found} where {ours} is wanted" for key, found, ours in shapes]),
        *_listed("of another type", [f"{key} {found} where {ours} is wanted" for key, found, ours in types]),
    ]
    if problems:
        raise WeightsError(
            f"{title} does not fit the architecture: {'; '.join(problems)}. {_advice(module, missing, unexpected)}"
        )
    try:
        module.load_state_dict(dict(state), strict=True)
    except RuntimeError as error:
        raise WeightsError(f"{title} does not fit the architecture: {error}") from error


def _advice(module: nn.Module, missing: Sequence[str], unexpected: Sequence[str]) -> str:
    """Return advice on names that differ: the backbone's own if it has some."""
    own_advice: Callable[[Sequence[str], Sequence[str]], str | None] | None = getattr(module, "mismatch_advice", None)
    own = None if own_advice is None else own_advice(missing, unexpected)
    if own is not None:
        return own
    renaming = layouts_for(unexpected)
    hint = f", or name a weights.layout that renames the unexpected ones ({', '.join(renaming)})" if renaming else ""
    return f"Correct the architecture in the registry, or get the weights that were trained with it{hint}"


def _usable(device: torch.device | str) -> torch.device:
    try:
        return torch.empty(0, device=device).device
    # A build of torch without CUDA raises AssertionError.
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise UsageError(
            f"device {str(device)!r} cannot be used here ({reason}): ask for another, such as cpu"
        ) from error


@contextmanager
def _own_generator(device: torch.device) -> Iterator[None]:
    # Only the device in use: asking another GPU for its generator would claim memory there.
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        # Random numbers outside the model's state must be the same in every process.
        torch.default_generator.manual_seed(0)
        yield


def _listed(problem: str, items: Sequence[str]) -> list[str]:
    if not items:
        return []
    shown = ", ".join(items[:SHOWN])
    more = f" and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return [f"{len(items)} {problem}: {shown}{more}"]
