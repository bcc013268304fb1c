"""``robench train``: trains models of the registry, by the ``training`` fields of their entries."""

from __future__ import annotations

import hashlib
import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from robench.cli.names import complete_models, expanded
from robench.cli.options import data_root_option, number_option, option, path_option, registry_option, seed_numbers
from robench.cli.terminal import out, say
from robench.core.checkpoint import HUB, SEED_MARK, Weights, seed_name
from robench.core.errors import MissingDataError, UnknownNameError, UsageError, WeightsError
from robench.core.files import write_whole, writing
from robench.core.shard import EXACT_DTYPE
from robench.declare import add_seed, read_registry, set_weights, shipped_registry
from robench.tasks import TASKS
from robench.training.base import Host, TrainingPrecision

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from robench.core.checkpoint import Checkpoint
    from robench.core.report import Estimate
    from robench.runs.training_queue import Job
    from robench.training.epoch_files import EpochFiles

# File of the registry, and an entry in it.
Entry = tuple[Path, "Checkpoint"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Options of the command beside the models."""

    data_root: Path | None
    device: str
    workers: int | None
    micro_batch_size: int | None
    precision: TrainingPrecision
    num_epochs: int | None
    output: Path | None
    jobs: int | None
    state: Path
    keep_epochs: Path | None


@click.command("train")
@click.argument("names", nargs=-1, shell_complete=complete_models)
@option("--all", "train_all", is_flag=True, help="All models that need no dataset on disk.")
@registry_option
@data_root_option
@option(
    "--device",
    default="auto",
    show_default=True,
    help="auto, cpu, cuda or cuda:N; models of data in libraries are trained on the CPU.",
)
@number_option("--workers", "Processes that decode and augment images.")
@number_option("--micro-batch-size", "Examples per forward pass; gradients add up to a batch's. Default: all.")
@option(
    "--precision",
    type=click.Choice(get_args(TrainingPrecision)),
    default=EXACT_DTYPE,
    show_default=True,
    envvar="ROBENCH_TRAINING_PRECISION",  # That of measurements is another matter.
    help="Of matrix products and convolutions in training; bfloat16 is mixed precision.",
)
@number_option("--num-epochs", "Total number of epochs, replacing the entry's; needs --output.")
@option(
    "--seeds",
    type=seed_numbers,
    metavar="SEEDS",
    help="Train with these seeds, such as 0-4; seeds beside the entry's own are added to it.",
)
@path_option("--output", "FILE", "Write the weights there and leave the registry unchanged.")
@number_option(
    "--jobs", "Train N models side by side, at low priority; leave out models with a digest, and resume the others."
)
@path_option(
    "--state",
    "DIR",
    "With --jobs: state and history of unfinished trainings.",
    default="results/training",
    show_default=True,
)
@path_option(
    "--keep-epochs", "DIR", "Write initial weights and those after each epoch to DIR/NAME-epoch-NNN.safetensors."
)
def command(
    names: tuple[str, ...],
    train_all: bool,
    registries: tuple[Path, ...],
    seeds: tuple[int, ...] | None,
    # Further options have the names and types of the fields of ``Asked``.
    **further: Any,
) -> int:
    """Train the models NAMES; write their weights, and their digest and clean accuracy into the registry file.

    NAME@SEED is a training of an entry with another seed. Trainings follow the order of NAMES, with --seeds all models
    with the first seed, then all with the next.

    An interrupted training of images or texts on disk resumes when the command is repeated, with --jobs also from a
    copy of the --state folder: after its last complete epoch, or of texts where its last state was kept within one.
    Each epoch's loss, and its scores on the evaluation split, go to a .history.json beside the weights.
    """
    asked = Asked(**further)
    trainings = _chosen(names, registries, seeds, asked, train_all=train_all)
    if asked.jobs is not None:
        return _train_queue(trainings, asked, asked.jobs)
    for path, checkpoint in trainings:
        _train(path, checkpoint, asked)
    return 0


def _chosen(
    names: Sequence[str], registries: Sequence[Path], seeds: tuple[int, ...] | None, asked: Asked, *, train_all: bool
) -> list[Entry]:
    """Return the checkpoints to be trained, in order, after checking that they can be."""
    entries = {
        name: (path, checkpoint)
        for path in (shipped_registry(), *registries)
        for name, checkpoint in read_registry(path).items()
    }
    if train_all:
        chosen = {name: each for name, (_, each) in entries.items() if _is_embedded(each)}
        names = [name for name, each in chosen.items() if seeds is None or each.seed_of is None]
    if not names:
        raise UsageError("nothing to train: name checkpoints, or give --all (see 'robench list models')")
    names = expanded(names, lambda: entries)
    for name in names:
        if name not in entries and _entry_of(name, entries) is None:
            raise UnknownNameError("model", name, entries)
    if seeds is not None:
        _check_seeds(names, entries, asked.output)
    trainings = list({each[1].name: each for each in _trainings(names, seeds, entries)}.values())
    if asked.jobs is not None:
        trainings = _without_digest(trainings)
    for _, checkpoint in trainings:
        _check(checkpoint, asked)
    if asked.output is not None and (asked.jobs is not None or len(names) > 1):
        found = "--jobs was given" if asked.jobs is not None else f"{len(names)} are to be trained"
        raise UsageError(f"--output is the file of one model, but {found}")
    if asked.num_epochs is not None and asked.output is None:
        raise UsageError("--num-epochs trains another model than the entry describes; say with --output where it goes")
    return trainings


def _entry_of(name: str, entries: Mapping[str, Entry]) -> tuple[str, int] | None:
    """Return the entry and the seed of a name such as ``digits-vit@7``; None for other names."""
    entry, _, seed = name.rpartition(SEED_MARK)
    if entry in entries and entries[entry][1].training is not None and re.fullmatch(r"[0-9]{1,9}", seed):
        return entry, int(seed)
    return None


def _trainings(names: Sequence[str], seeds: tuple[int, ...] | None, entries: Mapping[str, Entry]) -> Iterator[Entry]:
    """Yield the checkpoints to be trained, with their registry files: seed by seed if seeds are given."""
    for seed in (None,) if seeds is None else seeds:
        for name in names:
            entry, stated = (name, seed) if name in entries else _entry_of(name, entries) or (name, None)
            yield _with_seed(entries[entry], stated, entries)


def _with_seed(entry: Entry, seed: int | None, entries: Mapping[str, Entry]) -> Entry:
    """Return an entry trained with a seed, None for its own; a new seed has its weights beside the entry's."""
    path, checkpoint = entry
    if seed is None or checkpoint.training is None or seed == checkpoint.training.seed:
        return entry
    own = Path(checkpoint.weights.uri)
    uri = str(own.with_name(f"{own.stem}-seed{seed}.safetensors"))
    new = path, checkpoint.retrained(seed, Weights(uri=uri, sha256=None), {})
    return entries.get(seed_name(checkpoint.name, seed), new)


def _without_digest(trainings: Sequence[Entry]) -> list[Entry]:
    done = [checkpoint.name for _, checkpoint in trainings if checkpoint.weights.sha256 is not None]
    if done:
        say(
            f"{len(done)} of {len(trainings)} models are left out, since the registry has the digest of their weights:"
            f" {', '.join(done)}. Leave --jobs out to make such weights again"
        )
    return [each for each in trainings if each[1].name not in done]


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
    if asked.precision != EXACT_DTYPE and (training.is_embedded or not training.takes_precision):
        raise UsageError(
            f"model {checkpoint.name!r} is trained in {EXACT_DTYPE}; leave out --precision {asked.precision}"
        )
    if (files := _epoch_files(checkpoint, asked)) is not None:
        if not training.keeps_epochs:
            raise UsageError(
                f"training of kind {training.kind!r}, by which {checkpoint.name!r} is trained, keeps no weights of"
                " epochs; leave out --keep-epochs"
            )
        files.check_up_to(training.total_epochs if asked.num_epochs is None else asked.num_epochs)
    if asked.output is not None:
        return
    if weights.uri.startswith(HUB):
        raise UsageError(f"the weights of {checkpoint.name!r} have no path to be written to: {weights.uri}")
    if not training.is_embedded and weights.sha256 is not None and not _is_remade(checkpoint, asked):
        raise UsageError(
            f"the registry vouches for weights of {checkpoint.name!r} already (sha256 {weights.sha256:.8}), and"
            " training does not overwrite them; give --output FILE to train it beside them"
        )
    has_state = asked.jobs is not None and _job(checkpoint, asked).history.exists()
    if not training.is_embedded and (path := _path(checkpoint, asked)).exists() and not has_state:
        raise UsageError(f"{path} is there already; remove it, or give --output FILE")


def _epoch_files(checkpoint: Checkpoint, asked: Asked) -> EpochFiles | None:
    from robench.training.epoch_files import EpochFiles

    return None if asked.keep_epochs is None else EpochFiles(folder=asked.keep_epochs, name=checkpoint.name)


def _check_seeds(names: Sequence[str], entries: Mapping[str, Entry], output: Path | None) -> None:
    if output is not None:
        raise UsageError("--seeds writes each seed's weights beside the entry's own; leave out --output")
    for name in names:
        entry = entries[name][1].seed_of if name in entries else name.rpartition(SEED_MARK)[0]
        if entry is not None:
            raise UsageError(f"{name!r} is one seed of {entry!r} already; give --seeds with the latter")


def _is_embedded(checkpoint: Checkpoint) -> bool:
    return checkpoint.training is not None and checkpoint.training.is_embedded


def _is_remade(checkpoint: Checkpoint, asked: Asked) -> bool:
    """Return whether a registered file is missing, which training makes again: its digest must come out."""
    sha256 = checkpoint.weights.sha256
    is_whole = sha256 is not None and len(sha256) == 2 * hashlib.sha256().digest_size
    return asked.output is None and not _is_embedded(checkpoint) and is_whole and not _path(checkpoint, asked).exists()


def _path(checkpoint: Checkpoint, asked: Asked) -> Path:
    if asked.output is not None:
        return asked.output
    return checkpoint.folder / _uri(checkpoint)


def _uri(checkpoint: Checkpoint) -> str:
    # Authors' files are of torch.save; robench writes another format, and names it accordingly.
    uri = checkpoint.weights.uri
    return uri if _is_embedded(checkpoint) else str(Path(uri).with_suffix(".safetensors"))


def _job(checkpoint: Checkpoint, asked: Asked) -> Job:
    """Return the training of a checkpoint; its state lies beside the weights, or in the folder of a queue."""
    from robench.executors import IN_PROCESS
    from robench.runs.devices import choose_workers
    from robench.runs.training_queue import Job
    from robench.training.epochs import state_path
    from robench.training.history import history_path

    path = _path(checkpoint, asked)
    kept = path if asked.jobs is None else asked.state / f"{checkpoint.name}{path.suffix}"
    found = choose_workers(asked.device, 1, IN_PROCESS)
    host = Host(
        data_root=asked.data_root,
        device=found.devices[0],
        micro_batch_size=asked.micro_batch_size,
        precision=asked.precision,
        decode_workers=asked.workers or found.decode_workers,
        state_path=state_path(kept),
        epoch_files=_epoch_files(checkpoint, asked),
    )
    return Job(checkpoint=checkpoint, host=host, history=history_path(kept))


def _train(registry: Path, checkpoint: Checkpoint, asked: Asked) -> None:
    from robench.cli.progress import training_shown
    from robench.runs.training_queue import weights_of

    if asked.num_epochs is not None and checkpoint.training is not None:
        try:
            checkpoint = replace(checkpoint, training=checkpoint.training.shortened(asked.num_epochs))
        # The entry is sound, and so it is the length that goes with none of its fields.
        except ValueError as error:
            raise UsageError(f"--num-epochs {asked.num_epochs} does not go with training.{error}") from error
    job = _job(checkpoint, asked)
    with _noted_state([job]), training_shown(checkpoint.name) as shown:
        content = weights_of(replace(job, host=replace(job.host, on_step=shown.on_step)), shown.on_epoch)
    _keep(registry, job, content, asked)


def _train_queue(trainings: Sequence[Entry], asked: Asked, num_processes: int) -> int:
    """Train all side by side; return 1 if some could not be trained, since the others are."""
    registries = {checkpoint.name: registry for registry, checkpoint in trainings}
    num_failed = 0
    jobs = [_job(each, asked) for _, each in trainings]
    for job, content in trained(jobs, num_processes):
        num_failed += content is None
        if content is not None:
            _keep(registries[job.checkpoint.name], job, content, asked)
    return 1 if num_failed else 0


def trained(jobs: Sequence[Job], num_processes: int) -> Iterator[tuple[Job, bytes | None]]:
    """Train side by side; yield each training with its weights, or None after a message on why it failed."""
    from robench.cli.progress import queue_shown
    from robench.runs.training_queue import run_queue

    with _noted_state(jobs), queue_shown() as shown:
        for job, ended in run_queue(jobs, num_processes, shown):
            if ended.error:
                say(f"failed: training {job.checkpoint.name}: {ended.error}")
            yield job, None if ended.error else ended.content


@contextmanager
def _noted_state(jobs: Sequence[Job]) -> Iterator[None]:
    """Add to an interruption what the same command does next, if the state of a training is kept."""
    try:
        yield
    except KeyboardInterrupt as error:
        if any(each.host.state_path is not None and each.host.state_path.exists() for each in jobs):
            error.add_note("The same command goes on where the last state was kept.")
        raise


def _keep(registry: Path, job: Job, content: bytes, asked: Asked) -> None:
    """Store finished weights, their history, digest and score; then remove the state of the training."""
    from robench.training.history import history_path

    checkpoint = job.checkpoint
    path, digest = _path(checkpoint, asked), hashlib.sha256(content).hexdigest()
    is_remade = _is_remade(checkpoint, asked)
    if is_remade and digest != checkpoint.weights.sha256:
        raise WeightsError(
            f"training {checkpoint.name!r} gave weights of the sha256 {digest}, wanted the"
            f" {checkpoint.weights.sha256} of the registry: another kind of CPU or release of torch rounds"
            " differently. Give --output FILE to keep them"
        )
    with writing(path):
        write_whole(path, content)
        if job.history != history_path(path):
            write_whole(history_path(path), job.history.read_bytes())
    score = _clean_score(replace(checkpoint, weights=Weights(uri=str(path), sha256=digest)), asked)
    if asked.output is None and not is_remade:
        # Expected scores from papers stay; those of robench's own weights are replaced by the measured ones.
        is_own = _is_embedded(checkpoint) or not checkpoint.expected
        expected = {str(TASKS[checkpoint.task].metric): round(score.value, 4)} if score is not None and is_own else {}
        _register(registry, checkpoint, digest, expected)
    assert job.host.state_path is not None  # of each training by this command
    job.host.state_path.unlink(missing_ok=True)
    if job.history != history_path(path):
        job.history.unlink()
    out(f"{checkpoint.name}: {_shown(score)}, {len(content)} bytes, sha256 {digest}, {path}")


def _register(registry: Path, checkpoint: Checkpoint, digest: str, expected: Mapping[str, float]) -> None:
    uri = _uri(checkpoint)
    if checkpoint.seed_of is not None and checkpoint.name not in read_registry(registry):
        assert checkpoint.training is not None  # _check has seen to it
        add_seed(registry, checkpoint.seed_of, checkpoint.training.seed, uri, digest, expected)
    else:
        set_weights(registry, checkpoint.name, digest, expected, uri=None if uri == checkpoint.weights.uri else uri)


def _shown(score: Estimate | None) -> str:
    from robench.reports.grid import number_text

    if score is None:
        return "clean accuracy not measured"
    number = number_text(score.value, score.unit)
    return f"{number} % clean" if score.unit == "share" else f"clean {score.unit} {number}"


def _clean_score(checkpoint: Checkpoint, asked: Asked) -> Estimate | None:
    from robench.runs.single_model import clean_score

    training = checkpoint.training
    assert training is not None  # _check has seen to it
    device = "cpu" if training.is_embedded else asked.device
    try:
        return clean_score(checkpoint, training.dataset, data_root=asked.data_root, device=device)
    except MissingDataError as error:
        first, *others = error.lines
        say(f"The weights are kept, but their accuracy is not measured: {first}", *others)
        return None
