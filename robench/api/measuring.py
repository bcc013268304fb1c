"""Functions of ``import robench`` that load and measure models."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from torch import nn

from robench.api.arguments import data_root_of, folder_store, registries_of, suite_of
from robench.api.progress import watch_of
from robench.core.errors import UnknownNameError
from robench.core.protocols import Dataset
from robench.core.report import Report
from robench.core.shard import EXACT_DTYPE, Precision
from robench.core.suite import Suite
from robench.datasets import open_dataset
from robench.declarations.preprocessing import ImagePreprocessing
from robench.declare import find_checkpoints, find_datasets, find_suite, parse_architecture
from robench.executors import IN_PROCESS, ExecutorBase
from robench.leaderboard import ranked
from robench.models.build import build
from robench.models.loaded import LoadedModel
from robench.models.loading import load_model
from robench.runs import (
    REHEARSALS,
    ChosenModels,
    PreparedRun,
    PreparedTransfer,
    RunRequest,
    choose_models,
    in_rounds,
    measure,
    prepare_transfer,
    rehearsal_request,
    smoke_request,
)
from robench.runs.chosen_models import Keys, Models, listed, names_of
from robench.runs.devices import AUTO
from robench.runs.request import BatchSize, KeptDtype
from robench.scheduling import Listener, Progress
from robench.store import FolderStore, MemoryStore


def build_model(architecture: Mapping[str, object]) -> nn.Module:
    """Return an untrained model of ``architecture``, the same mapping as in ``checkpoints.yaml``.

    Raises:
        DeclarationError: the mapping is invalid; all problems are listed.
    """
    return build(parse_architecture(architecture))


def load_checkpoint(name: str, *, registry: str | Path | Sequence[str | Path] = (), device: str = "cpu") -> LoadedModel:
    """Return the model ``name`` of the registry, ready to be attacked: pixels in [0, 1] in, logits out.

    It can be called with inputs on ``device``, and ``as_module()`` makes a module of it for other libraries.

    Raises:
        UnknownNameError: no registry file has it.
        WeightsError: its weights are missing, or differ from the registry's.
    """
    (checkpoint,) = find_checkpoints([name], registries_of(registry))
    return load_model(checkpoint, device)


def load_dataset(
    name: str,
    *,
    split: str | None = None,
    registry: str | Path | Sequence[str | Path] = (),
    data_root: str | Path | None = None,
    preprocessing: ImagePreprocessing | None = None,
    decode_workers: int = 0,
) -> Dataset:
    """Return a split in shard order; item i of a dataset of images is an image (3, H, W) in [0, 1] and its class.

    ``split`` is such as ``train``, None for the split that is measured. Datasets of texts have all strings in
    ``texts``, and those with classes their numbers in ``labels``; of series and tokens ``valid(inputs)`` is the mask of
    all places but padding. Without ``preprocessing`` ImageNet's images are resized to 256 (bicubic) and centre-cropped
    to 224 pixels. Your own datasets are declared in ``registry``; their images keep their size unless their entry or
    ``preprocessing`` resizes them.

    Raises:
        UnknownNameError: no such dataset.
        UsageError: it has no such split.
        MissingDataError: its files are not below ``data_root``, or not where its registry says.
        DeclarationError: a registry file is invalid, or a dataset contradicts its entry.
    """
    datasets = find_datasets(registries_of(registry))
    if name not in datasets:
        raise UnknownNameError("dataset", name, datasets)
    return open_dataset(
        datasets[name],
        data_root=data_root_of(data_root),
        preprocessing=preprocessing,
        decode_workers=decode_workers,
        split=split,
    )


def load_suite(
    name_or_path: str | Path, *, dataset: str | None = None, registry: str | Path | Sequence[str | Path] = ()
) -> Suite:
    """Return a shipped suite by its name, or the suite of a YAML file.

    ``dataset`` is the dataset for a suite that names none; without one, such a suite can be inspected but not measured.
    Names of datasets include those of ``registry``.

    Raises:
        UnknownNameError: no such suite is shipped, or there is no such dataset.
        DeclarationError: the file is invalid; all problems are listed.
        UsageError: there is no such file; or a dataset is given, and the suite names its own.
    """
    return find_suite(str(name_or_path), find_datasets(registries_of(registry)), dataset)


def run(
    suite: str | Path | Suite,
    models: Models,
    *,
    dataset: str | None = None,
    registry: str | Path | Sequence[str | Path] = (),
    results: str | Path | None = None,
    limit: int | None = None,
    all_examples: bool = False,
    seed: int | None = None,
    all_seeds: bool = False,
    device: str = "auto",
    workers: int | None = 1,
    executor: str | ExecutorBase = AUTO,
    shard_timeout: float | None = None,
    data_root: str | Path | None = None,
    audit: bool | Literal["full"] = True,
    keep_adversarial: KeptDtype | None = None,
    precision: Precision = EXACT_DTYPE,
    batch_size: BatchSize = "suite",
    part: tuple[int, int] | None = None,
    take_over: bool = False,
    key: Keys | None = None,
    smoke: bool = False,
    random_weights: bool = False,
    progress: bool = True,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Report:
    """Measure what ``results``, by default the folder ``results``, lacks of ``models``, and return their table.

    ``models`` is a name of the registry, a mapping from names to models in memory, or a sequence of both. A model in
    memory is a ``torch.nn.Module`` from images (B, C, H, W) to outputs of the suite's task, such as logits (B,
    classes), or a tuple of the module and its ``ImagePreprocessing`` or a mapping with its fields. Without
    preprocessing it receives pixels in [0, 1], of timm's models normalised as their ``pretrained_cfg`` says, and code
    points (B, T) of texts. A copy is measured, in this process. ``key``, a text or a mapping by name, identifies it in
    place of a digest of its state and source. A suite that names no dataset is measured on ``dataset``.

    ``all_examples`` measures whole datasets. With ``all_seeds`` a row is the mean over a model's training seeds, with a
    t interval. Models are audited for at most a quarter of the attacks' passes, not (``audit`` False) or in ``full``.
    ``keep_adversarial`` also stores adversarial examples, exactly (``float32``) or rounded toward the clean image
    (``float16``, ``uint8``). ``precision`` is that of the models' passes, of half as many rows if memory is short, or
    with ``batch_size`` auto as many as fit. ``part``, such as (2, 8), measures the second of eight parts, so that cells
    stay incomplete, and ``take_over`` then the rest. ``smoke`` measures 4 examples of each condition, without audits or
    keys, and stores nothing. ``random_weights`` rehearses models of the registry with random weights, with results in
    the folder ``rehearsal`` of ``results``. ``progress`` is shown on stderr, as a bar or off terminals and notebooks as
    a line a minute; ``on_progress`` is called with a ``scheduling.Progress`` at the start and after each shard.
    Several workers, a ``shard_timeout`` in seconds and decoding of image files start processes. They import the calling
    script only for objects of its classes in a suite or checkpoint; it then needs ``if __name__ == "__main__":``.

    Raises:
        RobenchError: see ``core.errors``; failed shards do not raise, but leave incomplete cells.
    """
    loaded = suite_of(suite, registries := registries_of(registry), dataset, all_examples=all_examples)
    chosen = choose_models(models, registries, key, loaded, all_seeds=all_seeds, keeps=not smoke)
    asked = _request(loaded, chosen, device, workers, executor, shard_timeout, data_root)
    asked = replace(asked, limit=limit, seed=seed, audit=audit, all_seeds=all_seeds, precision=precision)
    request = replace(asked, keep_adversarial=keep_adversarial, part=part, take_over=take_over, batch_size=batch_size)
    watch = watch_of(on_progress, progress, request.limit_note)
    request, folder = (rehearsal_request(request), REHEARSALS) if random_weights else (request, "")
    return _smoke(request, results, watch) if smoke else _reported(request, folder_store(results, folder), watch)


def transfer(
    suite: str | Path | Suite,
    condition: str,
    models: Models,
    targets: Models = (),
    *,
    dataset: str | None = None,
    registry: str | Path | Sequence[str | Path] = (),
    results: str | Path | None = None,
    limit: int | None = None,
    all_examples: bool = False,
    seed: int | None = None,
    device: str = "auto",
    workers: int | None = 1,
    executor: str | ExecutorBase = AUTO,
    shard_timeout: float | None = None,
    data_root: str | Path | None = None,
    key: Keys | None = None,
    progress: bool = True,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Report:
    """Score the adversarial examples of each of ``models`` on each of ``targets``, by default the same models.

    The report has a row per target and a column per attacked model. A sweep is used at its largest budget, or at the
    one after an ``@`` in ``condition``, such as ``pgd@4/255``. Models, keys, examples, workers and progress are as in
    ``run``.

    Raises:
        RobenchError: see ``core.errors``; failed shards do not raise, but leave incomplete cells.
    """
    registries = registries_of(registry)
    loaded = suite_of(suite, registries, dataset, all_examples=all_examples)
    everyone = choose_models([*listed(models), *listed(targets)], registries, key, loaded)
    by_name = {checkpoint.name: checkpoint for checkpoint in everyone.checkpoints}
    request = replace(
        _request(loaded, everyone, device, workers, executor, shard_timeout, data_root),
        checkpoints=tuple(by_name[name] for name in names_of(models)),
        limit=limit,
        seed=seed,
    )
    store = folder_store(results)
    prepared = prepare_transfer(request, condition, [by_name[name] for name in names_of(targets)])
    return in_rounds(prepared, store, PreparedTransfer.report, watch_of(on_progress, progress, request.limit_note))


def _request(
    suite: Suite,
    chosen: ChosenModels,
    device: str,
    workers: int | None,
    executor: str | ExecutorBase,
    shard_timeout: float | None,
    data_root: str | Path | None,
) -> RunRequest:
    """Return the request for the chosen models; those in memory can be measured only in this process."""
    return RunRequest(
        suites=(suite,),
        checkpoints=chosen.checkpoints,
        modules=chosen.modules,
        device=device,
        workers=workers,
        executor=IN_PROCESS if chosen.modules and executor == AUTO else executor,
        shard_timeout=shard_timeout,
        data_root=data_root_of(data_root),
    )


def _smoke(request: RunRequest, results: str | Path | None, watch: Listener) -> Report:
    options = {
        "results": results,
        "limit": request.limit,
        "all_examples": any(suite.all_examples for suite in request.suites) or None,
        "keep_adversarial": request.keep_adversarial,
    }
    given = [name for name, value in options.items() if value is not None]
    return _reported(smoke_request(request, given), MemoryStore(), watch)


def _reported(request: RunRequest, store: FolderStore | MemoryStore, watch: Listener) -> Report:
    (table,) = measure(request, store, PreparedRun.tables, watch)
    if request.smoke:
        return table.report
    return ranked(table.report, table.suite, store, limit=request.limit, measurements=table.measurements)
