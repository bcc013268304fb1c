"""``robench train``: make published checkpoints again, from the ``training`` fields of their entries."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from robench.cli.options import option, registry_option
from robench.core.errors import StoreUnwritableError, UnknownNameError, UsageError
from robench.core.files import write_whole
from robench.declarations.training import Training
from robench.declare import read_registry, set_weights, shipped_registry

if TYPE_CHECKING:
    from robench.core.checkpoint import Checkpoint


@click.command("train")
@click.argument("names", nargs=-1)
@option("--all", "train_all", is_flag=True, help="All checkpoints whose entries say how to train them.")
@registry_option
def command(names: tuple[str, ...], train_all: bool, registries: tuple[Path, ...]) -> int:
    """Train the checkpoints NAMES; write their weights, and their digest and clean accuracy into the registry file."""
    entries = {
        name: (path, checkpoint)
        for path in (shipped_registry(), *registries)
        for name, checkpoint in read_registry(path).items()
    }
    if train_all:
        names = tuple(name for name, (_, checkpoint) in entries.items() if checkpoint.training is not None)
    if not names:
        raise UsageError(
            "nothing to train: name checkpoints, or give --all ('robench list models' says which there are)"
        )
    for name in names:
        if name not in entries:
            raise UnknownNameError("model", name, entries)
        _check_trainable(entries[name][1])
    for name in dict.fromkeys(names):
        _train(*entries[name])
    return 0


def _check_trainable(checkpoint: Checkpoint) -> None:
    if checkpoint.training is None:
        raise UsageError(
            f"model {checkpoint.name!r} has no 'training' fields, so robench cannot train it. "
            f"{checkpoint.weights.how_to_get}".rstrip()
        )
    if checkpoint.weights.uri.startswith("hf-hub:"):
        raise UsageError(f"the weights of {checkpoint.name!r} have no path to be written to: {checkpoint.weights.uri}")


def _train(registry: Path, checkpoint: Checkpoint) -> None:
    # Imported here, so that help needs no torch.
    from safetensors.torch import save

    from robench.cli.progress import epochs_shown
    from robench.runs.clean_accuracy import clean_accuracy
    from robench.training import train

    assert isinstance(checkpoint.training, Training)
    with epochs_shown(checkpoint.name) as on_epoch:
        content = save(train(checkpoint, on_epoch))
    path = checkpoint.folder / checkpoint.weights.uri
    try:
        write_whole(path, content)
    except OSError as error:
        raise StoreUnwritableError(f"cannot write the weights to {path}: {error.strerror}") from error
    digest = hashlib.sha256(content).hexdigest()
    trained = replace(checkpoint, weights=replace(checkpoint.weights, sha256=digest))
    accuracy = clean_accuracy(trained, checkpoint.training.dataset)
    set_weights(registry, checkpoint.name, digest, {"top1_accuracy": round(accuracy.value, 4)})
    click.echo(f"{checkpoint.name}: {100 * accuracy.value:.1f} % clean, {len(content)} bytes, sha256 {digest}, {path}")
