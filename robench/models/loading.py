"""Loading of models from registry entries: locate and verify the weights, build the architecture, load, freeze."""

import hashlib
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from robench.core.checkpoint import HUB, PLAIN_LAYOUT, Checkpoint, Weights, is_rehearsal
from robench.core.containment import Contained
from robench.core.errors import DeclarationError, RobenchError, UsageError, WeightsError
from robench.core.files import open_regular
from robench.core.providers import install_command
from robench.declarations.preprocessing import PREPROCESSINGS, PreprocessingBase
from robench.models.base import ArchitectureBase
from robench.models.build import build
from robench.models.folders import resolve_folder
from robench.models.layouts import LAYOUTS, Layout, layout_of
from robench.models.layouts_impl import better_fields
from robench.models.loaded import LoadedModel
from robench.models.shards import is_index, shards_of
from robench.models.smoothed import as_declared
from robench.models.state_files import load_state, what_else_it_is
from robench.tasks import TASKS

SHOWN = 3
# Environment variable of the folder that is searched for weights that are not where their registry has them.
CHECKPOINTS = "ROBENCH_CHECKPOINTS"
SHA256 = re.compile(r"[0-9a-fA-F]{8,64}")


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
    architecture = checkpoint.architecture
    if path is not None and isinstance(architecture, ArchitectureBase) and architecture.is_folder:
        with Contained(keeps_environment=True), _own_generator(usable):
            module = architecture.implemented()(architecture, path, is_rehearsal(checkpoint.name))
            return as_declared(LoadedModel(module, preprocessing, usable, TASKS[checkpoint.task]), checkpoint)
    state = None if path is None else _state(path, checkpoint)
    with Contained(keeps_environment=True):
        with _own_generator(usable):
            module = build(checkpoint.architecture)
        if state is not None:
            title = f"{path} (weights of {checkpoint.name})"
            load_strictly(module, state, title, layout_of(checkpoint.weights))
        return as_declared(LoadedModel(module, preprocessing, usable, TASKS[checkpoint.task]), checkpoint)


def _state(path: Path, checkpoint: Checkpoint) -> dict[str, Tensor]:
    """Return the tensors of a checkpoint's file; a file in another form is refused, by the names of the model."""
    try:
        return load_state(path, checkpoint.weights)
    except WeightsError as error:
        refused = error
    names: Collection[str] = ()
    # A model that cannot be built has no names, and its file is refused first.
    with suppress(RobenchError), Contained(keeps_environment=True), _own_generator(torch.device("cpu")):
        names = build(checkpoint.architecture).state_dict().keys()
    if names:
        load_state(path, checkpoint.weights, names)
    raise refused


def load_strictly(
    module: nn.Module, state: Mapping[str, Tensor], title: str, layout: Layout = LAYOUTS[PLAIN_LAYOUT]
) -> None:
    """Copy a state into a module if every key, shape and kind of number matches; ``title`` names it in messages.

    ``layout`` is the one by which the state was read. As in torch, a missing ``num_batches_tracked`` is 0.

    Raises:
        WeightsError: it does not match; the message lists missing, unexpected and different keys. Nothing was copied.
    """
    wanted: dict[str, Tensor] = module.state_dict()
    counts = {name: torch.zeros_like(each) for name, each in wanted.items() if name.endswith("num_batches_tracked")}
    state = counts | dict(state)
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
        better = better_fields(layout, [layout.prefix + name for name in state if name not in counts], wanted)
        advice = "Correct the architecture in the registry, or get the weights that were trained with it"
        if better:
            advice = f"In `weights` of the registry entry write {better}; or correct its architecture"
        raise WeightsError(f"{title} does not fit the architecture: {'; '.join(problems)}. {advice}")
    try:
        module.load_state_dict(dict(state), strict=True)
    except RuntimeError as error:
        raise WeightsError(f"{title} does not fit the architecture: {error}") from error


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


@dataclass(frozen=True, slots=True)
class Named:
    """Names of weights in messages: entry, field that declares them, noun, and the command that trains them, if any."""

    entry: str
    field: str = "weights"
    noun: str = "weights"
    command: str = ""


def resolve(checkpoint: Checkpoint) -> tuple[Path | None, str]:
    """Return the file with the checkpoint's weights, and its SHA-256 in 64 hexadecimal digits.

    Of an architecture with ``is_folder`` it is a folder, with a SHA-256 of its files. Random weights of a rehearsal
    have no file; those of such a folder have the SHA-256 of its other files.

    Raises:
        WeightsError: the file is missing or unreadable, or its checksum differs from the registry's.
        DeclarationError: the registry's uri or checksum is malformed.
    """
    is_drawn = is_rehearsal(checkpoint.name)
    if isinstance(checkpoint.architecture, ArchitectureBase) and checkpoint.architecture.is_folder:
        return resolve_folder(checkpoint.weights, checkpoint.folder, checkpoint.name, random_weights=is_drawn)
    if is_drawn:
        return None, str(checkpoint.weights.sha256)
    named = Named(checkpoint.name, command=checkpoint.train_command)
    return resolve_file(checkpoint.weights, checkpoint.folder, named)


def resolve_file(weights: Weights, folder: Path, named: Named) -> tuple[Path, str]:
    """Return the file with weights and its SHA-256, as ``resolve``; relative uris are below ``folder``.

    A file that is not there is looked for by its name in the folder that ``CHECKPOINTS`` names.

    Raises:
        WeightsError: the file is missing or unreadable, or its checksum differs from the declared one.
        DeclarationError: the declared uri or checksum is malformed.
    """
    path = _locate(weights, folder, named)
    found, wanted = digest(path), weights.sha256
    if wanted is None:
        return path, found
    if not SHA256.fullmatch(wanted):
        raise DeclarationError(
            f"{named.field}.sha256 of {named.entry} must be 64 hexadecimal digits or the first 8 or more,"
            f" got {wanted!r}"
        )
    if not found.startswith(wanted.lower()):
        guess = what_else_it_is(path)
        raise WeightsError(
            f"the {named.noun} of {named.entry} at {path} have SHA-256 {found}, the registry wants {wanted}."
            f"{f' The file is {guess}.' if guess else ''} Get the file again, or, if"
            f" other weights are meant, change {named.field}.sha256 in the registry{_how(weights)}"
        )
    return path, found


def _locate(weights: Weights, folder: Path, named: Named) -> Path:
    uri = weights.uri
    if uri.startswith(HUB):
        return _download(weights, uri.removeprefix(HUB), named)
    path = (folder / uri).absolute()
    if (elsewhere := os.environ.get(CHECKPOINTS)) and not path.exists():
        other = Path(elsewhere).absolute() / path.name
        path = other if other.exists() else path
    try:
        with open_regular(path):
            return path
    except FileNotFoundError as error:
        trained = f", or train them with '{named.command}'" if named.command else ""
        raise WeightsError(
            f"the {named.noun} of {named.entry} are missing: put the file at {path}, or into a folder given by"
            f" --checkpoints{trained}{_how(weights)}"
        ) from error
    except OSError as error:
        raise WeightsError(
            f"the {named.noun} of {named.entry} at {path} cannot be read ({error.strerror}): a readable file is wanted"
            f" there{_how(weights)}"
        ) from error


def digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, of an index with those of its shards, 64 hexadecimal digits."""
    try:
        if is_index(path):
            parts = "".join(f"{each.name} {digest(each)}\n" for each in shards_of(path))
            return hashlib.sha256(parts.encode() + path.read_bytes()).hexdigest()
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise WeightsError(f"{path} cannot be read ({error.strerror}): check the file and the disk") from error


def _download(weights: Weights, address: str, named: Named) -> Path:
    owner, _, rest = address.partition("/")
    repository, _, file = rest.partition("/")
    if not (owner and repository and file):
        raise DeclarationError(
            f"{named.field}.uri of {named.entry} must be {HUB}owner/repository/file, got {weights.uri!r}"
        )
    try:
        # Here because it is heavy, and an optional dependency not needed for local weights.
        from huggingface_hub import hf_hub_download

        path = Path(hf_hub_download(f"{owner}/{repository}", file))
        for shard in shards_of(path) if is_index(path) else ():
            hf_hub_download(f"{owner}/{repository}", f"{file.removesuffix(path.name)}{shard.name}")
        return path
    except ImportError as error:
        raise WeightsError(
            f"the {named.noun} of {named.entry} lie at {weights.uri}, and huggingface_hub is not installed:"
            f" {install_command('hub')}, or download the file and write its path into {named.field}.uri"
        ) from error
    # Broad because the hub passes on the errors of its HTTP library, which have no common class.
    except Exception as error:
        raise WeightsError(
            f"the {named.noun} of {named.entry} could not be downloaded from {weights.uri}"
            f" ({type(error).__name__}: {error}). Check address and network, or download the file elsewhere and write"
            f" its path into {named.field}.uri{_how(weights)}"
        ) from error


def _how(weights: Weights) -> str:
    return f". How to get them: {weights.how_to_get}" if weights.how_to_get else ""
