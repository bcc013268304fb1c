"""Weights that a reproduction has trained: files below the results folder, and the registry file that declares them.

Each entry names the shipped one, so that tables count it as a training of that entry. Nothing that exists
is overwritten.
"""

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

from robench.core.checkpoint import HUB, Checkpoint, Weights
from robench.core.errors import WeightsError
from robench.core.files import write_whole, writing
from robench.declare import read_registry
from robench.training.history import history_path

REGISTRY_NAME = "reproduced.yaml"
PREFIX = "reproduced-"
# End of the names of files with one entry of the registry each.
_ENTRY = ".entry.yaml"


@dataclass(frozen=True, slots=True)
class Reproduced:
    """Reproduced weights of a results folder."""

    results: Path

    @property
    def registry(self) -> Path:
        """Return the registry file, which may not exist."""
        return self.results / REGISTRY_NAME

    @property
    def registries(self) -> tuple[Path, ...]:
        """Return the registry file if it exists."""
        # pathlib raises for a name that is too long.
        return (self.registry,) if os.path.exists(self.registry) else ()  # noqa: PTH110

    def trained(self, checkpoint: Checkpoint, seed: int) -> Checkpoint:
        """Return the checkpoint that a training of a shipped entry with a seed makes."""
        assert checkpoint.training is not None  # plans are of entries with a recipe
        training = checkpoint.training.seeded(seed)
        initial: Weights | None = getattr(training, "initial_weights", None)
        # Below the results folder too, where another training of the reproduction puts them, unless they are there.
        if initial is not None and (file := checkpoint.folder / initial.uri).is_file():
            training = replace(training, initial_weights=replace(initial, uri=str(file)))  # type: ignore[type-var]
        vocabulary: Weights | None = getattr(training, "vocabulary", None)
        if vocabulary is not None and not vocabulary.uri.startswith(HUB):
            placed = replace(vocabulary, uri=str(checkpoint.folder / vocabulary.uri))
            training = replace(training, vocabulary=placed)  # type: ignore[type-var]
        is_own = seed == checkpoint.training.seed
        name = f"{PREFIX}{checkpoint.name}" if is_own else f"{PREFIX}{checkpoint.name}-seed{seed}"
        return replace(
            checkpoint,
            name=name,
            weights=Weights(uri=f"weights/{name}.safetensors", sha256=None, by="robench"),
            training=training,
            belongs_to=checkpoint.name,
            folder=self.results,
            registry=self.registry,
            expected={},
        )

    def path(self, checkpoint: Checkpoint) -> Path:
        """Return the file of weights of a checkpoint of ``trained``."""
        return self.results / checkpoint.weights.uri

    def state_path(self, checkpoint: Checkpoint) -> Path:
        """Return a file beside which the state and history of an unfinished training are kept."""
        return self.results / "training" / f"{checkpoint.name}.safetensors"

    def keep(self, checkpoint: Checkpoint, content: bytes, sha256: str, history: bytes) -> None:
        """Write weights and their history, and declare them.

        Raises:
            WeightsError: there is a file of other weights in their place.
            StoreUnwritableError: a file cannot be written.
        """
        path = self.path(checkpoint)
        if path.exists() and path.read_bytes() != content:
            raise WeightsError(
                f"{path} has other weights than the training of {checkpoint.name!r} has just made, and is not"
                " overwritten; move it elsewhere, and repeat the command"
            )
        with writing(path):
            # Weights last: a file of weights without an entry beside it is then somebody else's.
            write_whole(self._entry_path(checkpoint), _entry(checkpoint, sha256).encode())
            write_whole(history_path(path), history)
            write_whole(path, content)
        self.refresh()

    def check_free(self, checkpoint: Checkpoint) -> None:
        """Refuse a training whose place has a file that no reproduction has made. Raises WeightsError: it has one."""
        path = self.path(checkpoint)
        if path.exists() and not self._entry_path(checkpoint).exists():
            raise WeightsError(
                f"{path} is in the place of the weights of {checkpoint.name!r}, which are to be trained, and is not"
                " overwritten; move it elsewhere, or declare it in a registry file with 'of'"
            )

    def refresh(self) -> None:
        """Write the registry file anew from the entries beside the weights, which other processes may have added."""
        # Again until nothing is new: a process that read the folder earlier may write its file later.
        while (text := self._text()) and (not self.registry.exists() or self.registry.read_text() != text):
            with writing(self.registry):
                write_whole(self.registry, text.encode())
            read_registry(self.registry)

    def _text(self) -> str:
        entries = [path.read_text() for path in sorted(self.results.glob(f"weights/*{_ENTRY}"))]
        return "".join(["checkpoints:\n", *entries]) if entries else ""

    def _entry_path(self, checkpoint: Checkpoint) -> Path:
        return self.path(checkpoint).with_name(f"{checkpoint.name}{_ENTRY}")


def _entry(checkpoint: Checkpoint, sha256: str) -> str:
    assert checkpoint.training is not None  # it was trained
    weights = f"{{uri: {checkpoint.weights.uri}, sha256: {json.dumps(sha256)}, by: robench}}"
    fields = {"of": checkpoint.belongs_to, "seed": checkpoint.training.seed, "weights": weights}
    return f"  {checkpoint.name}: {{{', '.join(f'{name}: {value}' for name, value in fields.items())}}}\n"
