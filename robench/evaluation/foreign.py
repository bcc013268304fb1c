"""Monitoring of third-party perturbations at run time, by the rules that contract tests apply to robench's own.

A perturbation is a function of the examples, the model and the draws that it is given. Drawing from a process-wide
generator violates this, and so does changing the clean inputs, against which its budget is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, cast

import numpy.random  # noqa: F401  # loaded before anything is watched, since it is seeded when it is first used
import torch

from robench.core.containment import generator_states
from robench.core.declared import PerturbationDeclaration
from robench.core.errors import ContractError, RobenchError, described
from robench.core.protocols import Batch, Model, Perturbed
from robench.core.providers import foreign_in, title_of

Made = Iterator[tuple[PerturbationDeclaration, Perturbed]]


def watched(title: str, batch: Batch, model: Model, perturb: Callable[[Model], Made]) -> Made:
    """Yield the checked results of a third-party perturbation, called ``title``, on a batch with a model.

    Raises:
        ContractError: it raised an error, drew from a global generator, changed the clean inputs, or returned something
            other than inputs of the same shape and dtype on the same device.
    """
    watch = WatchedModel(model, title, {})
    made = perturb(cast("Model", watch))
    while True:
        clean, targets = batch.inputs.clone(), batch.targets.clone()
        watch.go_on()
        try:
            found = next(made, None)
        except RobenchError:
            raise
        # Broad because it is third-party code; SystemExit would end the process.
        except (Exception, SystemExit) as error:
            raise ContractError(f"{title} raised {described(error)}") from error
        if found is None:
            return
        watch.check()
        if not (torch.equal(batch.inputs, clean) and torch.equal(batch.targets, targets)):
            raise ContractError(f"{title} changed the clean examples in place: let it change a copy")
        _check_returned(title, found[1], batch)
        yield found


def title_of_foreign(declaration: PerturbationDeclaration) -> str | None:
    """Return the name in messages of the first third-party perturbation, itself or nested; None for none."""
    found = foreign_in(declaration)
    if found is None:
        return None
    return title_of("perturbation", found, str(getattr(type(found), "kind", type(found).__name__)))


class WatchedModel:
    """Model as a perturbation sees it: the model's own draws are not attributed to the perturbation.

    ``states`` are those of the process-wide generators, which the perturbation must not change.
    """

    def __init__(self, model: Model, title: str, states: dict[str, object]) -> None:
        self._model, self._title, self._states = model, title, states

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def outputs(self, *arguments: Any) -> torch.Tensor:
        """Return the model's scores."""
        self.check()
        try:
            return self._model.outputs(*arguments)
        finally:
            self.go_on()

    def with_gradients(self, mode: str) -> WatchedModel:
        """Return the same wrapper of the model with other gradients."""
        return WatchedModel(self._model.with_gradients(mode), self._title, self._states)

    def with_backward(self, rule: str) -> WatchedModel:
        """Return the same wrapper of the model whose gradients follow a rule."""
        return WatchedModel(cast("Any", self._model).with_backward(rule), self._title, self._states)

    def go_on(self) -> None:
        """Accept the current states: the perturbation did not change them."""
        self._states.update(generator_states())

    def check(self) -> None:
        """Refuse a perturbation that has changed them; the message names the generators."""
        states = generator_states()
        # A library loaded in between has not been seeded.
        if drawn := [name for name, state in self._states.items() if states[name] != state]:
            raise ContractError(
                f"{self._title} drew from the global generator of {' and '.join(drawn)}: let it take random numbers "
                "from the draws that it is given, which belong to the examples"
            )


def _check_returned(title: str, perturbed: object, batch: Batch) -> None:
    if not isinstance(perturbed, Perturbed) or not isinstance(perturbed.inputs, torch.Tensor):
        found = perturbed.inputs if isinstance(perturbed, Perturbed) else perturbed
        raise ContractError(f"{title} returned a {type(found).__name__}, wanted a Perturbed whose inputs are a tensor")
    for quality in ("shape", "dtype", "device"):
        found, wanted = getattr(perturbed.inputs, quality), getattr(batch.inputs, quality)
        if found != wanted:
            shown = (tuple(found), tuple(wanted)) if quality == "shape" else (found, wanted)
            raise ContractError(f"{title} returned inputs of {quality} {shown[0]}, wanted {shown[1]}")
    for field in fields(Perturbed):
        counts = getattr(perturbed, field.name)
        if field.name == "inputs" or counts is None:
            continue
        if not isinstance(counts, torch.Tensor) or counts.shape != (len(batch.ids),):
            raise ContractError(f"{title} returned {field.name} other than one an example, (B,), or None")
