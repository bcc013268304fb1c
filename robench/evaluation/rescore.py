"""Rescoring of stored adversarial examples by a new pass of the attacked model or another one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import torch

from robench.core.declared import PerturbationDeclaration
from robench.core.errors import StoreError, UsageError
from robench.core.protocols import AdversarialStore, Batch, Dataset, Draws, Model, Perturbed
from robench.core.records import Record
from robench.core.shard import Measurement, Shard, shard_key
from robench.core.suite import views_of
from robench.devices import to_device
from robench.evaluation.actions import Rescore
from robench.evaluation.evaluate import evaluate
from robench.evaluation.keeping import restored
from robench.store.adversarial import ONE_BUDGET, AdversarialExamples


def rescore_shard(
    shard: Shard, model: Model, dataset: Dataset, *, limit: int | None = None, kept: AdversarialStore | None = None
) -> Record:
    """Return the record of a shard whose adversarial examples are stored."""
    declaration = shard.measurement.condition.action
    assert isinstance(declaration, Rescore)  # this function is its implementation
    key = shard_key(declaration.source, shard.start, shard.stop)
    examples = None if kept is None else kept.get(declaration.source, key)
    if examples is None:
        raise StoreError(
            f"the adversarial examples for {shard.header.title} are not kept (shard {key}); "
            "repeat the command to make them again"
        )
    return rescore(shard, examples, model, dataset, limit)


def rescore(
    shard: Shard, examples: AdversarialExamples, model: Model, dataset: Dataset, limit: int | None = None
) -> Record:
    """Return the record of a shard from stored adversarial examples; otherwise like ``evaluate``.

    For the shard in which they were made, the outcomes equal those of its record, except for the counts of passes and
    of clamped values, which are None.

    The examples, of all of the shard's ids, were made in it, or in the one that its action rescores.

    Raises:
        UsageError: the examples are of other data.
        ExampleError: an example cannot be read.
        ContractError: the examples violate their threat model, or the model broke its contract.
    """
    _check_same_data(shard, examples)
    declaration = shard.measurement.condition.action
    if not isinstance(declaration, Rescore):
        return evaluate(shard, model, dataset, limit=limit, source=Kept(examples))
    shown = cast("Model", NormalisedAs(model, declaration.mean, declaration.std))
    return evaluate(shard, shown, dataset, limit=limit, source=Kept(_at(examples, declaration.budget)))


class Kept:
    """Source (``keeping.Source``) of stored examples instead of attacks."""

    def __init__(self, examples: AdversarialExamples) -> None:
        self._examples = examples
        self._rows = {example_id: row for row, example_id in enumerate(examples.ids)}

    def __call__(
        self, measurement: Measurement, batch: Batch, model: Model, draws: Draws
    ) -> Iterator[tuple[PerturbationDeclaration, Perturbed]]:
        """Yield each attack with its stored result."""
        device = batch.inputs.device
        rows = [self._rows[example_id] for example_id in batch.ids]
        for view in views_of(measurement.condition):
            name = view.epsilon or ONE_BUDGET
            points = to_device(torch.from_numpy(self._examples.points[name][rows]), device)
            found = self._examples.found.get(name)
            yield (
                view.attack,
                Perturbed(
                    inputs=restored(batch.inputs, points),
                    found=None if found is None else to_device(torch.from_numpy(found[rows]), device),
                ),
            )


class NormalisedAs:
    """Model with the normalisation of the attacked model.

    A budget may be defined in that space; the model's own normalisation stays inside it.
    """

    def __init__(self, model: Model, mean: Sequence[float], std: Sequence[float]) -> None:
        self._model = model
        shape = [-1, 1, 1][: model.normalisation[0].ndim]
        self.normalisation = tuple(
            torch.tensor(values, dtype=torch.float32, device=model.device).reshape(shape) for values in (mean, std)
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def _at(examples: AdversarialExamples, budget: str | None) -> AdversarialExamples:
    name = budget or ONE_BUDGET
    found = {ONE_BUDGET: examples.found[name]} if name in examples.found else {}
    return replace(examples, points={ONE_BUDGET: examples.points[name]}, found=found)


def _check_same_data(shard: Shard, examples: AdversarialExamples) -> None:
    wanted, found = shard.measurement.dataset, examples.shard.dataset
    if wanted != found or (shard.start, shard.stop) != (examples.shard.start, examples.shard.stop):
        raise UsageError(
            f"the adversarial examples of {examples.shard.title} are of {found.name!r} with fingerprint "
            f"{found.fingerprint[:12]}, but {shard.header.title} is on {wanted.name!r} with {wanted.fingerprint[:12]}; "
            "score them on the data they were made from"
        )
