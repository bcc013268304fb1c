"""Analyses of models: passes over examples, clean or perturbed, seen from inside; results beside the records."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from robench.analyses.base import AnalysisBase, Pass, Statistic
from robench.analyses.observing import check_shown, layout_of, observe
from robench.analyses.results import FOLDER, Analysed, Numbers, axes_of, write_analysis
from robench.core.checkpoint import Checkpoint
from robench.core.containment import Contained
from robench.core.declared import DatasetDeclaration
from robench.core.errors import ContractError, RobenchError, UnknownNameError, UsageError
from robench.core.identity import key_of, to_plain
from robench.core.seeds import Stream, example_seed, stream_seed
from robench.core.suite import Suite, View
from robench.datasets import open_dataset
from robench.declare import find_datasets
from robench.devices import is_out_of_memory, to_device
from robench.domains import DOMAINS
from robench.evaluation.arithmetic import device_kind, fixed_arithmetic, library_versions
from robench.models.in_memory_impl import model_of
from robench.models.loaded import LoadedModel
from robench.models.loading import load_model, resolve
from robench.models.transformer import Transformer
from robench.runs.devices import devices_of
from robench.runs.pictured import CLEAN, pictured, views_named
from robench.runs.request import RunRequest

ROWS = 10
# Of the free memory, what the weights of one example may take; implementations make several copies.
MOST_OF_MEMORY = 1 / 8
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Examples to analyse.

    Attributes:
        dataset, fingerprint: identity of the dataset.
        by_condition: inputs of the examples under each condition, ``clean`` first.
    """

    dataset: str
    fingerprint: str
    ids: tuple[str, ...]
    by_condition: Mapping[str, Sequence[Tensor]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisRequest:
    """Analysis that is asked for.

    Attributes:
        dataset: examples that models see.
        suite, views: perturbations of the examples; the suite is that of the views.
        count: number of first examples.
        seed: root of all randomness of perturbations and models; None for the suite's own, or 0 without a suite.
        epoch: number of epochs after which the weights are those of the model; None outside of a training.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        results: folder that results are kept in; None to keep none.
        modules: modules of checkpoints in memory, by the checkpoint's name.
    """

    analysis: AnalysisBase
    dataset: DatasetDeclaration | None = None
    suite: Suite | None = None
    views: Sequence[View] = ()
    count: int = 100
    seed: int | None = None
    epoch: int | None = None
    device: str = "auto"
    data_root: Path | None = None
    results: Path | None = None
    modules: Mapping[str, nn.Module] = field(default_factory=dict)

    @property
    def root_seed(self) -> int:
        """Return the seed, or the suite's."""
        return self.seed if self.seed is not None else 0 if self.suite is None else self.suite.seed


def analyse(
    request: AnalysisRequest, checkpoint: Checkpoint | None = None, on_progress: Progress = lambda done, total: None
) -> list[tuple[Analysed, Path | None]]:
    """Return the results of an analysis of a model, one a condition, each with the file it is kept in.

    An analysis of formulas has no checkpoint. ``on_progress`` is called with the number of examples seen, and of all.

    Raises:
        DeclarationError: the model does not show what the analysis needs.
        UsageError: the analysis needs other examples or conditions, or the device is unknown.
        RobenchError: weights or data are missing, the model fails, or memory does not suffice.
    """
    analysis = request.analysis
    facts: dict[str, Any] = {"analysis": analysis.kind, "settings": to_plain(analysis)}
    if checkpoint is None:
        with fixed_arithmetic(torch.device("cpu")):
            numbers = tuple(_numbers(analysis, name, each) for name, each in analysis.implemented()(analysis).items())
        found = [
            Analysed(facts=facts | _surroundings(torch.device("cpu")), examples=_samples_of(numbers), numbers=numbers)
        ]
    else:
        found = _of_model(request, checkpoint, facts, on_progress)
    return [(each, _kept(each, request.results)) for each in found]


def _samples_of(numbers: Sequence[Numbers]) -> tuple[str, ...]:
    """Return the numbers of a formula's random samples, which are its examples; empty if it has none."""
    counts = [len(each.values) for each in numbers if "example" in each.axes]
    return tuple(map(str, range(counts[0]))) if counts else ()


def examples_of(
    suite: Suite | None, conditions: Sequence[str], dataset: str | None, registries: Sequence[Path]
) -> dict[str, Any]:
    """Return the fields of a request that say which examples are analysed: those of a suite, or of a dataset.

    Raises:
        UsageError: neither is named.
        UnknownNameError: no such dataset or condition.
    """
    if suite is None:
        if conditions:
            raise UsageError("--condition names conditions of a suite: add --suite")
        if dataset is None:
            raise UsageError("name the examples with --dataset, or with --suite")
        known = find_datasets(registries)
        if dataset not in known:
            raise UnknownNameError("dataset", dataset, known)
        return {"dataset": known[dataset]}
    suite.check_dataset()
    views = [view for view in views_named(suite, conditions) if not view.attack.is_clean] if conditions else []
    first = views[0].condition if views else suite.conditions[0]
    return {"dataset": first.dataset, "suite": suite, "views": tuple(views)}


def _of_model(
    request: AnalysisRequest, checkpoint: Checkpoint, facts: dict[str, Any], on_progress: Progress
) -> list[Analysed]:
    _check_memory(request.analysis, checkpoint)
    device = torch.device(devices_of(request.device)[0])
    inputs = _inputs(request, checkpoint)
    in_memory, digest = request.modules.get(checkpoint.name), checkpoint.weights.sha256
    if in_memory is None:
        model, digest = load_model(checkpoint, device), resolve(checkpoint)[1]
    else:
        model = model_of(checkpoint, in_memory, device)
    facts |= {
        "model": checkpoint.name,
        "weights": digest,
        "dataset": inputs.dataset,
        "fingerprint": inputs.fingerprint,
        "seed": request.root_seed,
        **({} if request.epoch is None else {"epoch": request.epoch}),
    }
    viewer = _Viewer(request, checkpoint, model, inputs)
    conditions = [CLEAN, *(view.name for view in request.views)]
    is_change = request.analysis.subject == "change"
    wanted = conditions[1:] if is_change else conditions
    found = []
    for number, condition in enumerate(wanted):
        total = len(wanted) * len(inputs.ids)

        def advance(done: int, before: int = number * len(inputs.ids), total: int = total) -> None:
            on_progress(before + done, total)

        numbers = viewer.numbers([CLEAN, condition] if is_change else [condition], advance)
        of_condition = facts | {"condition": condition} | _surroundings(device)
        found.append(Analysed(facts=of_condition, examples=inputs.ids, numbers=numbers))
    return found


@dataclass(slots=True)
class _Viewer:
    """Model whose passes are seen from inside, batch by batch."""

    request: AnalysisRequest
    checkpoint: Checkpoint
    model: LoadedModel
    inputs: Inputs

    def numbers(self, conditions: Sequence[str], advance: Callable[[int], None]) -> tuple[Numbers, ...]:
        """Return the numbers of the analysis of passes under one condition, or of a change between two."""
        analysis, parts = self.request.analysis, []
        domain = DOMAINS[self.checkpoint.preprocessing.domain]
        rows = ROWS if domain.is_real_valued and not domain.is_padded else 1
        with Contained(keeps_environment=True), fixed_arithmetic(self.model.device):
            for start in range(0, len(self.inputs.ids), rows):
                passes = [self._seen(condition, start, start + rows) for condition in conditions]
                parts.append(analysis.implemented()(analysis, *passes))
                advance(min(start + rows, len(self.inputs.ids)))
        try:
            joined = {name: torch.cat([part[name].double().cpu() for part in parts]) for name in parts[0]}
        except RuntimeError as error:
            raise UsageError(
                f"analysis {analysis.kind} has numbers for each place of an input, and the examples of"
                f" {self.inputs.dataset} are not of one size: choose another dataset"
            ) from error
        return tuple(_numbers(analysis, name, values) for name, values in joined.items())

    def _seen(self, condition: str, start: int, stop: int) -> Pass:
        inputs = torch.stack(tuple(self.inputs.by_condition[condition][start:stop]))
        on_device = to_device(inputs, self.model.device)
        fingerprint, prediction = self.inputs.fingerprint, Stream(purpose="prediction")
        root, ids = self.request.root_seed, self.inputs.ids[start:stop]
        of_examples = [example_seed(root, fingerprint, prediction.purpose, each) for each in ids]
        seeds = [stream_seed(seed, prediction) for seed in of_examples]
        name = self.checkpoint.name
        layout = layout_of(self.checkpoint.architecture, self.model.module)
        try:
            seen = observe(self.model.module, lambda: self.model.outputs(on_device, seeds), layout, len(inputs))
        # Broad because it is the model's own code.
        except Exception as error:
            if isinstance(error, RobenchError) or not is_out_of_memory(error):
                raise
            raise RobenchError(
                f"the attention of {name} for {len(inputs)} examples does not fit into the memory of"
                f" {self.model.device}: choose another --device, or a model of fewer tokens"
            ) from error
        check_shown(self.request.analysis, seen, name)
        return seen


def _numbers(analysis: AnalysisBase, name: str, found: Any) -> Numbers:
    statistic: Statistic = analysis.statistics[name]
    values, x, y = (found, None, None) if isinstance(found, Tensor) else (found.values, found.x, found.y)
    axes = axes_of(statistic)
    if values.ndim != len(axes) or not bool(values.isfinite().all()):
        raise ContractError(
            f"statistic {name} of analysis {analysis.kind} is of shape {tuple(values.shape)} or not finite, wanted"
            f" finite numbers along {', '.join(axes) or 'no axis'}"
        )
    places = [None if each is None else each.double().numpy() for each in (x, y)]
    array: np.ndarray[Any, np.dtype[np.float64]] = values.double().cpu().numpy()
    return Numbers(name=name, statistic=statistic, axes=axes, values=array, x=places[0], y=places[1])


def _inputs(request: AnalysisRequest, checkpoint: Checkpoint) -> Inputs:
    """Return the first examples, clean and under each view."""
    if request.analysis.subject == "change" and not request.views:
        raise UsageError(
            f"analysis {request.analysis.kind} compares clean and perturbed examples: name conditions with --suite and"
            " --condition"
        )
    if request.dataset is None:
        raise UsageError("name the examples with --dataset, or with --suite")
    dataset = open_dataset(request.dataset, data_root=request.data_root, preprocessing=checkpoint.preprocessing)
    identity, count = dataset.identity, min(request.count, len(dataset))
    by_condition: dict[str, Sequence[Tensor]] = {}
    if not request.views:
        batches = [dataset.batch(start, min(start + ROWS, count)) for start in range(0, count, ROWS)]
        ids = tuple(each for batch in batches for each in batch.ids)
        by_condition[CLEAN] = [each for batch in batches for each in batch.inputs.unbind()]
    else:
        assert request.suite is not None  # the views are of one
        measured = RunRequest(
            suites=(request.suite,),
            checkpoints=(checkpoint,),
            seed=request.root_seed,
            device=request.device,
            data_root=request.data_root,
            modules=request.modules,
        )
        shown = pictured(measured, request.views, count=count)
        ids = tuple(each.example_id for each in shown)
        by_condition[CLEAN] = [torch.from_numpy(each.clean.pixels) for each in shown]
        for place, view in enumerate(request.views):
            by_condition[view.name] = [torch.from_numpy(each.shots[place].pixels) for each in shown]
    return Inputs(dataset=identity.name, fingerprint=identity.fingerprint, ids=ids, by_condition=by_condition)


def _check_memory(analysis: AnalysisBase, checkpoint: Checkpoint) -> None:
    """Refuse a model of so many tokens that the weights of one example take too much of the free memory."""
    architecture = checkpoint.architecture
    if not isinstance(architecture, Transformer) or "weights" not in analysis.needs:
        return
    # Datasets of texts have shorter inputs than the context, which is seen when they are read.
    if not DOMAINS[checkpoint.preprocessing.domain].is_real_valued:
        return
    count = architecture.depth * architecture.num_heads * architecture.num_tokens**2 * 4
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if count > MOST_OF_MEMORY * free:
        raise RobenchError(
            f"the weights of {checkpoint.name} for one example, of {architecture.num_tokens:,} tokens in"
            f" {architecture.depth} layers, take {count / 1e9:.1f} GB, more than an eighth of the {free / 1e9:.1f} GB"
            " that are free: choose a model of fewer tokens, or an analysis without weights ('robench list analyses')"
        )


def _surroundings(device: torch.device) -> dict[str, Any]:
    return {
        "device": device_kind(device),
        "versions": library_versions(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _kept(analysed: Analysed, results: Path | None) -> Path | None:
    """Write a result, in place of the last one of the same analysis; return its file."""
    if results is None:
        return None
    facts = {name: value for name, value in analysed.facts.items() if name not in ("at", "versions")}
    named = [str(facts[name]) for name in ("analysis", "model", "condition") if name in facts]
    named += [f"epoch-{facts['epoch']:03d}"] if "epoch" in facts else []
    name = "-".join(re.sub(r"[^A-Za-z0-9.@-]+", "_", each) for each in named)
    path = results / FOLDER / f"{name}-{key_of([facts, list(analysed.examples)])[:12]}.parquet"
    write_analysis(analysed, path)
    return path
