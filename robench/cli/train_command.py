"""``robench train``: trains models of the registry, by the ``training`` fields of their entries."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from robench.cli.completion import complete_models
from robench.cli.options import AbsolutePath, data_root_option, option, registry_option
from robench.cli.patterns import expanded
from robench.cli.terminal import out, say
from robench.core.checkpoint import Weights, seed_name
from robench.core.errors import MissingDataError, StoreUnwritableError, UnknownNameError, UsageError
from robench.core.files import write_whole
from robench.declare import add_seed, read_registry, set_weights, shipped_registry
from robench.tasks import TASKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from robench.core.checkpoint import Checkpoint
    from robench.core.report import Estimate
    from robench.training.base import EpochReport

# A mistyped range is none of thousands of trainings.
MOST_SEEDS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Options of the command beside the models."""

    data_root: Path | None
    device: str
    workers: int | None
    micro_batch_size: int | None
    num_epochs: int | None
    output: Path | None


class SeedRange(click.ParamType):  # type: ignore[type-arg]  # as AbsolutePath
    """Seeds as ``3``, ``0-4`` or ``0-2,7``."""

    name = "seeds"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return the seeds, each once, in order."""
        seeds: list[int] = []
        for part in value.split(","):
            found = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part.strip())
            if found is None:
                self.fail(f"{value!r} is no list of seeds such as 0-4 or 0,3,7", param, ctx)
            first, last = int(found[1]), int(found[2] or found[1])
            if not first <= last < first + MOST_SEEDS:
                self.fail(f"{part.strip()!r} must be 1 to {MOST_SEEDS} seeds, the smallest first", param, ctx)
            seeds.extend(range(first, last + 1))
        return tuple(dict.fromkeys(seeds))


@click.command("train")
@click.argument("names", nargs=-1, shell_complete=complete_models)
@option("--all", "train_all", is_flag=True, help="All models that need no dataset on disk.")
@registry_option
@data_root_option
@option(
    "--device",
    default="auto",
    show_default=True,
    help="auto, cpu, cuda or cuda:N; digits are trained on the CPU.",
)
@option("--workers", type=click.IntRange(min=1), metavar="N", help="Processes that decode and augment images.")
@option(
    "--micro-batch-size",
    type=click.IntRange(min=1),
    metavar="N",
    help="Examples per forward pass; gradients add up to a batch's. Default: all.",
)
@option(
    "--num-epochs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Total number of epochs, replacing the entry's; needs --output.",
)
@option(
    "--seeds",
    type=SeedRange(),
    metavar="SEEDS",
    help="Train with these seeds, such as 0-4; seeds beside the entry's own are added to it.",
)
@option(
    "--output",
    type=AbsolutePath(),
    metavar="FILE",
    help="Write the weights there and leave the registry unchanged.",
)
def command(
    names: tuple[str, ...],
    train_all: bool,
    registries: tuple[Path, ...],
    data_root: Path | None,
    device: str,
    workers: int | None,
    micro_batch_size: int | None,
    num_epochs: int | None,
    seeds: tuple[int, ...] | None,
    output: Path | None,
) -> int:
    """Train the models NAMES; write their weights, and their digest and clean accuracy into the registry file.

    An interrupted training of images on disk resumes after its last complete epoch when the command is repeated.
    Each epoch's loss, and its scores on the evaluation split, go to a .history.json beside the weights.
    """
    asked = Asked(
        data_root=data_root,
        device=device,
        workers=workers,
        micro_batch_size=micro_batch_size,
        num_epochs=num_epochs,
        output=output,
    )
    entries = {
        name: (path, checkpoint)
        for path in (shipped_registry(), *registries)
        for name, checkpoint in read_registry(path).items()
    }
    if train_all:
        chosen = {name: each for name, (_, each) in entries.items() if _is_embedded(each)}
        names = tuple(name for name, each in chosen.items() if seeds is None or each.seed_of is None)
    if not names:
        raise UsageError("nothing to train: name checkpoints, or give --all (see 'robench list models')")
    names = tuple(expanded(names, lambda: entries))
    for name in names:
        if name not in entries:
            raise UnknownNameError("model", name, entries)
    if seeds is not None:
        _check_seeds([entries[name][1] for name in names], output)
    trainings = [each for name in names for each in _trainings(*entries[name], seeds, entries)]
    for _, checkpoint in trainings:
        _check(checkpoint, asked)
    if output is not None and len(names) > 1:
        raise UsageError(f"--output is the file of one model, but {len(names)} are to be trained")
    if num_epochs is not None and output is None:
        raise UsageError("--num-epochs trains another model than the entry describes; say with --output where it goes")
    for path, checkpoint in trainings:
        _train(path, checkpoint, asked)
    return 0


def _trainings(
    path: Path, entry: Checkpoint, seeds: tuple[int, ...] | None, entries: Mapping[str, tuple[Path, Checkpoint]]
) -> Iterator[tuple[Path, Checkpoint]]:
    """Yield the checkpoints to be trained for an entry of a registry; a new seed has its weights beside the entry's."""
    if seeds is None or entry.training is None:
        yield path, entry
        return
    for seed in seeds:
        if seed == entry.training.seed:
            yield path, entry
            continue
        own = Path(entry.weights.uri)
        uri = str(own.with_name(f"{own.stem}-seed{seed}.safetensors"))
        new = path, entry.retrained(seed, Weights(uri=uri, sha256=None), {})
        yield entries.get(seed_name(entry.name, seed), new)


def _check(checkpoint: Checkpoint, asked: Asked) -> None:
    training, weights = checkpoint.training, checkpoint.weights
    if training is None:
        raise UsageError(
            f"model {checkpoint.name!r} has no 'training' fields, so robench cannot train it. "
            f"{weights.how_to_get}".rstrip()
        )
    if training.is_embedded and (asked.device not in ("auto", "cpu") or asked.micro_batch_size):
        raise UsageError(
            f"model {checkpoint.name!r} is trained on the CPU in whole batches; leave out --device and"
            " --micro-batch-size"
        )
    if asked.output is not None:
        return
    if weights.uri.startswith("hf-hub:"):
        raise UsageError(f"the weights of {checkpoint.name!r} have no path to be written to: {weights.uri}")
    if not training.is_embedded and weights.sha256 is not None:
        raise UsageError(
            f"the registry vouches for weights of {checkpoint.name!r} already (sha256 {weights.sha256:.8}), and"
            " training does not overwrite them; give --output FILE to train it beside them"
        )
    if not training.is_embedded and (path := _path(checkpoint, asked)).exists():
        raise UsageError(f"{path} is there already; remove it, or give --output FILE")


def _check_seeds(checkpoints: Sequence[Checkpoint], output: Path | None) -> None:
    if output is not None:
        raise UsageError("--seeds writes each seed's weights beside the entry's own; leave out --output")
    for checkpoint in checkpoints:
        if checkpoint.seed_of is not None:
            raise UsageError(
                f"{checkpoint.name!r} is one seed of {checkpoint.seed_of!r} already; give --seeds with the latter"
            )


def _is_embedded(checkpoint: Checkpoint) -> bool:
    return checkpoint.training is not None and checkpoint.training.is_embedded


def _path(checkpoint: Checkpoint, asked: Asked) -> Path:
    if asked.output is not None:
        return asked.output
    return checkpoint.folder / _uri(checkpoint)


def _uri(checkpoint: Checkpoint) -> str:
    # Authors' files are of torch.save; robench writes another format, and names it accordingly.
    uri = checkpoint.weights.uri
    return uri if _is_embedded(checkpoint) else str(Path(uri).with_suffix(".safetensors"))


def _train(registry: Path, checkpoint: Checkpoint, asked: Asked) -> None:
    # Imported here, so that help needs no torch.
    from robench.training.state_file import state_path

    assert checkpoint.training is not None  # _check has seen to it
    if asked.num_epochs is not None:
        checkpoint = replace(checkpoint, training=checkpoint.training.shortened(asked.num_epochs))
    path = _path(checkpoint, asked)
    content = _content(checkpoint, asked, path)
    try:
        write_whole(path, content)
    except OSError as error:
        raise StoreUnwritableError(f"cannot write the weights to {path}: {error.strerror}") from error
    digest = hashlib.sha256(content).hexdigest()
    trained = replace(checkpoint, weights=Weights(uri=str(path), sha256=digest))
    score = _clean_score(trained, asked)
    shown = _shown(score)
    if asked.output is None:
        # Expected scores from papers stay; those of robench's own weights are replaced by the measured ones.
        metric = TASKS[checkpoint.task].metric
        expected = {str(metric): round(score.value, 4)} if score is not None and _is_embedded(checkpoint) else {}
        _register(registry, checkpoint, digest, expected)
    state_path(path).unlink(missing_ok=True)
    out(f"{checkpoint.name}: {shown}, {len(content)} bytes, sha256 {digest}, {path}")


def _register(registry: Path, checkpoint: Checkpoint, digest: str, expected: Mapping[str, float]) -> None:
    uri = _uri(checkpoint)
    if checkpoint.seed_of is not None and checkpoint.name not in read_registry(registry):
        assert checkpoint.training is not None  # _check has seen to it
        add_seed(registry, checkpoint.seed_of, checkpoint.training.seed, uri, digest, expected)
    else:
        set_weights(registry, checkpoint.name, digest, expected, uri=None if uri == checkpoint.weights.uri else uri)


def _content(checkpoint: Checkpoint, asked: Asked, path: Path) -> bytes:
    """Return the content of the weights file of a finished training."""
    from safetensors.torch import save

    from robench.cli.progress import epochs_shown
    from robench.core.containment import Contained, blamed
    from robench.core.providers import foreign_in
    from robench.executors import IN_PROCESS
    from robench.runs.devices import choose_workers
    from robench.training.base import Host
    from robench.training.history import History, history_path
    from robench.training.state_file import state_path

    training = checkpoint.training
    assert training is not None  # _check has seen to it
    architecture = checkpoint.architecture
    is_users = architecture.runs_user_code or foreign_in((architecture, training)) is not None
    containment = blamed(f"model {checkpoint.name!r} cannot be trained") if is_users else Contained()
    history = History(history_path(path), checkpoint=checkpoint.name, dataset=training.dataset)
    with epochs_shown(checkpoint.name) as shown, containment:

        def on_epoch(report: EpochReport) -> None:
            history.add(report)
            shown(report)

        found = choose_workers(asked.device, 1, IN_PROCESS)
        host = Host(
            data_root=asked.data_root,
            device=found.devices[0],
            micro_batch_size=asked.micro_batch_size,
            decode_workers=asked.workers or found.decode_workers,
            state_path=state_path(path),
        )
        return save(training.implemented()(checkpoint, host, on_epoch))


def _shown(score: Estimate | None) -> str:
    # Imported here, so that help needs no numpy.
    from robench.reports.grid import number_text

    if score is None:
        return "clean accuracy not measured"
    number = number_text(score.value, score.unit)
    return f"{number} % clean" if score.unit == "share" else f"clean {score.unit} {number}"


def _clean_score(checkpoint: Checkpoint, asked: Asked) -> Estimate | None:
    from robench.runs.clean_score import clean_score

    training = checkpoint.training
    assert training is not None  # _check has seen to it
    device = "cpu" if training.is_embedded else asked.device
    try:
        return clean_score(checkpoint, training.dataset, data_root=asked.data_root, device=device)
    except MissingDataError as error:
        first, *others = error.lines
        say(f"The weights are kept, but their accuracy is not measured: {first}", *others)
        return None
