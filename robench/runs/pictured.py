"""Examples to look at: what a model was given, clean and under conditions of a suite, and what it answered.

Attacks run once more, on the batches that have the wanted examples alone. Each example has its own random numbers, so
that the images and predictions are those of a run; nothing is stored.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from robench.core.columns import fields_of
from robench.core.declared import DatasetDeclaration
from robench.core.errors import RobenchError, UnknownNameError, UsageError
from robench.core.protocols import Dataset
from robench.core.records import Failure, Record
from robench.core.shard import NUM_LEVELS, Measurement, Shard
from robench.core.suite import Condition, Suite, View, views_of
from robench.datasets import open_dataset
from robench.declarations.base import imported
from robench.domains import DOMAINS, Domain
from robench.domains.code_points import decoded
from robench.evaluation.evaluator import Evaluator
from robench.executors import IN_PROCESS
from robench.exports.pictures import Pictured, Shot, file_levels
from robench.perturbations.clean import Clean
from robench.runs.devices import choose_workers
from robench.runs.prepare import prepare
from robench.runs.request import RunRequest
from robench.store.adversarial import ONE_BUDGET, AdversarialExamples
from robench.tasks import TASKS
from robench.tasks.base import Proportion

CLEAN = "clean"


def views_named(suite: Suite, names: Sequence[str]) -> list[View]:
    """Return the views of conditions by name: ``pgd`` (each budget of a sweep) or ``pgd@4/255``; all for no names.

    Raises:
        UnknownNameError: the suite has no such condition.
    """
    everything = [view for condition in suite.conditions for view in views_of(condition)]
    known = {
        each: [view for view in everything if each in (view.name, view.condition.name)]
        for view in everything
        for each in (view.condition.name, view.name)
    }
    for name in names:
        if name not in known:
            raise UnknownNameError(f"condition of suite {suite.name!r}", name, known)
    chosen = everything if not names else [view for name in names for view in known[name]]
    return list(dict.fromkeys(chosen))


def pictured(
    request: RunRequest,
    views: Sequence[View],
    *,
    count: int = 1,
    examples: Sequence[str] = (),
    among: Collection[str] | None = None,
    are_images: bool = True,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Pictured]:
    """Return examples of one dataset, clean and under the conditions of some views.

    The request has one suite and one model; what says how much is measured, and where, does not matter. Without ids of
    ``examples`` they are the first ``count``. ``among`` are keys of measurements, such as those of a results folder, to
    which the conditions must belong. Examples of other domains are refused, unless ``are_images`` is False.
    ``on_progress`` is called with the number of finished batches, and of all.

    Raises:
        UsageError: the conditions are of several datasets, or of no images, or there is no such example;
            or a condition is not ``among`` the measurements.
        RobenchError: a condition could not be measured, or see ``prepare``.
    """
    (checkpoint,) = request.checkpoints
    if others := {view.condition.dataset.name for view in views} - {(declared := views[0].condition.dataset).name}:
        raise UsageError(
            f"conditions are of different datasets, {declared.name} and {', '.join(sorted(others))}, whose examples "
            "are not the same; choose conditions of one"
        )
    if are_images and DOMAINS[declared.domain].shown_as != "image":
        raise UsageError(f"examples of {declared.name} are {declared.domain}; pictures are made of images alone")
    perturbed = [view for view in views if not view.attack.is_clean]
    conditions = list(dict.fromkeys(replace(view.condition, num_examples=None) for view in perturbed))
    of_clean, *measured = beside_clean(request, declared, conditions)
    dataset = open_dataset(declared, data_root=request.data_root, preprocessing=checkpoint.preprocessing)
    places = _places(dataset, examples) if examples else range(min(count, len(dataset)))
    if absent := [each.condition.name for each in measured if among is not None and each.key not in among]:
        raise UsageError(
            f"the results have no {', '.join(absent)} of {checkpoint.name!r} with these weights, data and settings; "
            "measure it with 'robench run', or leave out --results"
        )
    images = _Kept()
    evaluator = Evaluator(
        device=choose_workers(request.device, None, IN_PROCESS).devices[0],
        data_root=request.data_root,
        adversarial=images,
        modules=request.modules,
    )
    shards = [shard for each in (of_clean, *measured) for shard in _batches(each, places)]
    for number, shard in enumerate(shards):
        on_progress(number, len(shards))
        images.add(evaluator(shard), shard, dataset, evaluator)
    on_progress(len(shards), len(shards))
    by_condition = dict(zip(conditions, measured, strict=True))
    shown = [(view, by_condition[replace(view.condition, num_examples=None)]) for view in perturbed]
    return [images.of_example(dataset, place, of_clean, shown) for place in places]


def beside_clean(
    request: RunRequest, declared: DatasetDeclaration, conditions: Sequence[Condition]
) -> Sequence[Measurement]:
    """Return the measurements of one model on a dataset's clean examples and under some conditions, by this process.

    The request has one suite; raises like ``prepare``.
    """
    (suite,) = request.suites
    clean = Condition(name=CLEAN, dataset=declared, perturbation=Clean())
    asked = replace(suite, conditions=(clean, *conditions), columns=(), audit=False)
    alone = replace(request, suites=(asked,), limit=None, workers=None, executor=IN_PROCESS, shard_timeout=None)
    return prepare(replace(alone, audit=False, keep_adversarial=None)).measurements[asked.name]


def _places(dataset: Dataset, examples: Sequence[str]) -> list[int]:
    """Return the places of examples in a dataset; refuse ids that it does not have."""
    # robench's own datasets know their ids; of others, every example is read.
    ids: Sequence[str] = getattr(dataset, "ids", None) or [
        dataset.batch(place, place + 1).ids[0] for place in range(len(dataset))
    ]
    place_of = {example_id: place for place, example_id in enumerate(ids)}
    for each in examples:
        if each not in place_of:
            raise UsageError(
                f"dataset {dataset.identity.name!r} has no example {each!r}; ids are such as {', '.join(ids[:3])}"
            )
    return [place_of[each] for each in dict.fromkeys(examples)]


def _batches(measurement: Measurement, places: Sequence[int]) -> list[Shard]:
    """Return the batches of a measurement that have some examples, each as a shard."""
    size, stop = measurement.batch_size, measurement.num_examples
    starts = sorted({place // size * size for place in places})
    return [Shard(measurement=measurement, start=start, stop=min(start + size, stop)) for start in starts]


@dataclass(slots=True)
class _Kept:
    """Store of adversarial examples (``core.protocols.AdversarialStore``) in memory, and of answers beside them.

    Answers by shard and budget are masks (B, H, W), where the task answers with these, and classes of images once they
    are written as files of 8 bits a value.
    """

    _examples: dict[str, AdversarialExamples] = field(default_factory=dict)
    _records: dict[str, Record] = field(default_factory=dict)
    _points: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    _masks: dict[tuple[str, str], Tensor] = field(default_factory=dict)
    _of_files: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def put(self, examples: AdversarialExamples) -> None:
        """Keep the examples of a shard."""
        self._examples[examples.shard.key] = examples

    def get(self, measurement_key: str, shard_key: str) -> AdversarialExamples | None:
        """Return the examples of a shard, or None if there are none."""
        return self._examples.get(shard_key)

    def add(self, result: Record | Failure, shard: Shard, dataset: Dataset, evaluator: Evaluator) -> None:
        """Keep outcomes and inputs of a shard, and the answers that outcomes do not have; raise a failure's error."""
        if isinstance(result, Failure):
            raise RobenchError(f"{result.shard.title}: {result.error}")
        key, outcomes = shard.key, result.outcomes
        self._records[key] = result
        if (made := self._examples.get(key)) is not None:
            self._points[key] = {name: torch.from_numpy(each) for name, each in made.points.items()}
        else:
            self._points[key] = {ONE_BUDGET: dataset.batch(shard.start, shard.stop).inputs}
        is_image = DOMAINS[shard.measurement.condition.dataset.domain].shown_as == "image"
        has_classes = "prediction" in fields_of(outcomes.row_type) and outcomes.values("prediction") is not None
        for name, points in self._points[key].items():
            if TASKS[shard.measurement.checkpoint.task].answers_as == "mask":
                self._masks[key, name] = evaluator.answers(shard, points)
            if is_image and has_classes:
                read = torch.from_numpy(file_levels(points.numpy())).float() / NUM_LEVELS
                self._of_files[key, name] = [str(each) for each in evaluator.answers(shard, read).tolist()]

    def of_example(
        self, dataset: Dataset, place: int, clean: Measurement, wanted: Sequence[tuple[View, Measurement]]
    ) -> Pictured:
        """Return one example, clean and under each wanted view."""
        batch, declared = dataset.batch(place, place + 1), clean.condition.dataset
        (shard,) = _batches(clean, [place])
        shot, outcome = self._shot(CLEAN, None, clean, place), self._records[shard.key].outcomes[place - shard.start]
        return Pictured(
            domain=declared.domain,
            example_id=batch.ids[0],
            target="" if shot.mask is not None else str(getattr(outcome, "target", "")),
            clean=shot,
            shots=tuple(self._shot(view.name, view.epsilon, measurement, place) for view, measurement in wanted),
            true_mask=None if shot.mask is None else batch.targets[0].numpy(),
            class_names=declared.class_names or (),
        )

    def _shot(self, name: str, epsilon: str | None, measurement: Measurement, place: int) -> Shot:
        """Return an example under one condition, at one budget of a sweep."""
        (shard,) = _batches(measurement, [place])
        row, place_of = place - shard.start, (shard.key, epsilon or ONE_BUDGET)
        outcomes = self._records[shard.key].outcomes.at_budget(epsilon).take(slice(row, row + 1))
        task, domain = TASKS[measurement.checkpoint.task], DOMAINS[measurement.condition.dataset.domain]
        outcome, verdict = outcomes[0], task.verdict
        masks, of_files = self._masks.get(place_of), self._of_files.get(place_of)
        loss = None if masks is not None else getattr(outcome, "loss_nats", None)
        proportion: Proportion | None = None if masks is None or not task.proportion else imported(task.proportion)
        return Shot(
            name=name,
            inputs=_without_padding(self._points[shard.key][place_of[1]][row], domain),
            prediction=str(getattr(outcome, "prediction", "" if loss is None else f"{loss:.4g} nats")),
            mask=None if masks is None else masks[row].numpy(),
            proportion=None if proportion is None else float(proportion(outcomes)[0]),
            confidence=getattr(outcome, "confidence", None),
            is_right=None if verdict is None else getattr(outcome, verdict),
            linf=outcome.linf,
            num_changed=outcome.num_changed,
            of_file=None if of_files is None else of_files[row],
        )


def _without_padding(inputs: Tensor, domain: Domain) -> NDArray[Any] | str:
    if domain.shown_as == "text":
        (text,) = decoded(inputs[None])
        return text
    valid = domain.rules.valid(inputs[None])
    kept: NDArray[Any] = (inputs if valid is None or valid.ndim > 2 else inputs[valid[0]]).numpy()
    return kept
