"""Monitoring of third-party perturbations at run time, by the rules that contract tests apply to robench's own.

A perturbation is a function of the examples, the model and the draws that it is given. Drawing from a process-wide
generator violates this, and so does changing the clean inputs, against which its budget is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields

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
    watch = _Watch(title)
    made = perturb(WatchedModel(model, watch))
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


class _Watch:
    """States of the process-wide generators, which a perturbation must not change."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._states: dict[str, object] = {}

    def go_on(self) -> None:
        """Accept the current states: the perturbation did not change them."""
        self._states = generator_states()

    def check(self) -> None:
        """Refuse a perturbation that has changed them; the message names the generators."""
        states = generator_states()
        # A library loaded in between has not been seeded.
        if drawn := [name for name, state in self._states.items() if states[name] != state]:
            raise ContractError(
                f"{self._title} drew from the global generator of {' and '.join(drawn)}: let it take random numbers "
                "from the draws that it is given, which belong to the examples"
            )


class WatchedModel:
    """Model wrapper that does not attribute the model's own draws to the perturbation."""

    def __init__(self, model: Model, watch: _Watch) -> None:
        self._model = model
        self._watch = watch

    @property
    def takes_seeds(self) -> bool:
        """Return whether the model declares that its random numbers come from seeds alone."""
        return bool(getattr(self._model, "takes_seeds", False))

    @property
    def device(self) -> torch.device:
        """Return the device that inputs must be on."""
        return self._model.device

    @property
    def normalisation(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return mean and standard deviation, (C, 1, 1) each."""
        return self._model.normalisation

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        """Return the model's scores."""
        self._watch.check()
        try:
            return self._model.outputs(inputs, seeds)
        finally:
            self._watch.go_on()

    def through_solvers(self) -> WatchedModel:
        """Return the same wrapper of the model with gradients through its solvers."""
        return WatchedModel(self._model.through_solvers(), self._watch)


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
