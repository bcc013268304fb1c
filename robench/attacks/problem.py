"""Problem given to an attack: examples, search region, and a victim that counts every forward pass.

An algorithm works on rows; the mapping of rows to examples, the random numbers of the victim, and the number of rows
per pass are handled here. So all attacks use the victim in the same way: gradients are taken with respect to inputs
alone, black-box passes build no graph, each pass has its own draws, different from those of the prediction, and one
example's pass does not depend on the other examples still under attack.

A pass has an address: the part of the attack, the search and the step that it belongs to (``Problem.at``), and the
number of earlier passes of the example there. Its draws are a function of the address and the example alone. A pass
without an address is refused, even if the victim is deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import cast

import torch
from torch import Tensor

from robench.attacks.ledger import Address, Ledger
from robench.attacks.passes import Graph, padded
from robench.attacks.regions import Region
from robench.attacks.rows import over_draws
from robench.core.errors import ContractError, DeclarationError
from robench.core.protocols import Draws, Model, ShownLayer, ShowsLayers
from robench.core.seeds import LazySeeds
from robench.devices import indices_on_cpu, to_device
from robench.tasks.base import Loss, ManyAnswers, TaskRules
from robench.tasks.classification_impl import RULES as CLASSIFICATION_RULES


@dataclass(frozen=True, slots=True)
class Reached:
    """Result of an attack: (B, ...) points in its space; for minimum-norm attacks, (B,) whether one was found."""

    points: Tensor
    found: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Passed:
    """Result of one forward pass of the victim.

    Attributes:
        points: (B, ...) inputs of the pass.
        outputs: (B, classes), or (B, ...) of another task; the mean over the draws, if there were several.
        values: (B,) the attack's loss.
        is_final: whether the final prediction would give the same outputs, since the victim drew nothing.
    """

    points: Tensor
    outputs: Tensor
    values: Tensor
    _gradient: Tensor | None = None
    is_final: bool = False

    def gradient(self) -> Tensor:
        """Return the gradient of the loss with respect to the points, in their shape.

        Where that by the outputs is too small for float32, it is a positive power of two times the gradient.

        Raises:
            ContractError: it was not requested.
        """
        if self._gradient is None:
            raise ContractError("an attack read the gradient of a pass for which it had requested values alone")
        return self._gradient


@dataclass(frozen=True, slots=True)
class Problem:
    """Rows to be attacked, with region, victim and counters.

    Attributes:
        inputs: (B, ...) clean inputs in the attack's space, clipped if ``uncut`` is given; ``labels``: (B,) classes to
            move away from, or (B, ...) answers of another task.
        region: search region; ``draws``: random numbers of these rows.
        rows: (B,) int64 on the CPU, indices of these rows in the batch, whose passes ``ledger`` counts.
        scale, shift: pixels are points times ``scale`` plus ``shift``; 1 and 0 if the attack's space is pixels.
        batch_size: maximum number of rows per pass.
        uncut: (B, ...) the clean inputs before clipping; None if they are within the limits.
        address: address of passes; None until set by ``at``.
        task: rules of the task.
        limits: minimum and maximum of the domain's inputs, in their own units; infinite for none.
        shows_layers: whether passes with gradients show the victim's layers to losses that read them.
        over_draws: how losses and gradients of several draws become one (``attacks.rows.over_draws``).
    """

    victim: Model
    inputs: Tensor
    labels: Tensor
    region: Region
    draws: Draws
    ledger: Ledger
    rows: Tensor
    scale: Tensor
    shift: Tensor
    batch_size: int
    uncut: Tensor | None = None
    address: Address = field(default_factory=Address)
    task: TaskRules = CLASSIFICATION_RULES
    limits: tuple[float, float] = (0.0, 1.0)
    shows_layers: bool = False
    over_draws: str = "mean"

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def clean(self) -> Tensor:
        """Return the clean inputs (B, ...) before any clipping, in the attack's space."""
        return self.inputs if self.uncut is None else self.uncut

    @property
    def is_limited(self) -> bool:
        """Return whether the domain has a smallest and a largest value."""
        return all(map(isfinite, self.limits))

    def pixels(self, points: Tensor) -> Tensor:
        """Convert points in the attack's space to the victim's inputs."""
        return points if self.scale.ndim == 0 else points * self.scale + self.shift

    def padded(self, points: Tensor) -> Tensor:
        """Return the points (N, ...) of one pass, with the last repeated up to a number of rows that passes have."""
        return padded(points, self.batch_size, is_compiled=getattr(self.victim, "is_compiled", False))

    def within(self, part: str) -> Problem:
        """Return the problem for a part of the attack, whose passes have draws different from all other parts."""
        return replace(self, address=Address((*self.address.parts, part)))

    def at(self, *, search: int, step: int) -> Problem:
        """Return the problem with the address of one step of one search, at which passes are allowed."""
        return replace(self, address=Address(self.address.parts, search, step))

    def take(self, chosen: Tensor) -> Problem:
        """Return the problem of a subset of the rows, selected by mask (B,) or indices."""
        places = indices_on_cpu(chosen)
        here = to_device(places, self.inputs.device)
        return replace(
            self,
            inputs=self.inputs.index_select(0, here),
            labels=self.labels.index_select(0, here),
            region=self.region.take(here),
            draws=self.draws.take(places.tolist()),
            rows=self.rows.index_select(0, places),
            uncut=None if self.uncut is None else self.uncut.index_select(0, here),
        )

    def evaluate(self, points: Tensor, loss: Loss, num_draws: int = 1, beside: Sequence[Tensor] = ()) -> Passed:
        """Return the victim's outputs and the loss at points (B, ...), without a gradient.

        ``beside`` (B,) each are the loss's arguments after outputs and labels.
        """
        seeds = [self._fresh_seeds(len(points)) for _ in range(num_draws)]
        with torch.inference_mode():
            passes = [self._outputs(points, of_pass) for of_pass in seeds]
            outputs = passes[0] if num_draws == 1 else torch.stack(passes).mean(0)
        if self.over_draws != "mean" and num_draws > 1:
            losses = [loss(each.clone(), self.labels, *beside) for each in passes]
            values, outputs = over_draws(self.over_draws, losses, passes)
            return Passed(points, outputs, values)
        # A copy, because tensors of inference mode could not be saved for a later gradient.
        outputs = outputs.clone()
        is_final = num_draws == 1 and self._drew_nothing(seeds[0])
        return Passed(points, outputs, loss(outputs, self.labels, *beside), is_final=is_final)

    def differentiate(self, points: Tensor, loss: Loss, num_draws: int = 1, beside: Sequence[Tensor] = ()) -> Passed:
        """Return outputs, loss and the loss's gradient at points (B, ...), over ``num_draws`` passes.

        The losses of a batch are summed and not averaged: a mean would scale each gradient by the size of the batch.
        ``beside`` (B,) each are the loss's arguments after outputs and labels.
        """
        passes = [self._differentiated(points, loss, beside) for _ in range(num_draws)]
        self.ledger.count(self.rows, gradients=num_draws)
        if num_draws == 1:
            return passes[0]
        by_draw = zip(*((each.values, each.outputs, each.gradient()) for each in passes), strict=True)
        values, outputs, gradient = over_draws(self.over_draws, *by_draw)
        return Passed(points, outputs, values, gradient)

    def differentiate_each(
        self, points: Tensor, losses: Iterable[Loss], beside: Sequence[Tensor] = ()
    ) -> Iterator[Passed]:
        """Yield outputs, loss and gradient for one loss after another, from one pass if the victim draws nothing.

        A victim that draws random numbers runs a new pass for each. ``beside`` are the losses' arguments after outputs
        and labels.
        """
        seeds, graphs = None, []
        for loss in losses:
            if seeds is None or seeds.were_read:
                seeds = self._fresh_seeds(len(points))
                self.ledger.count(self.rows, queries=1)
                graphs = list(self._graphs(points, seeds, beside))
            self.ledger.count(self.rows, gradients=1)
            yield self._passed_with(points, seeds, [each.gradient(loss, again=True) for each in graphs])

    def sample(self, points: Tensor, loss: Loss, draws: Sequence[int]) -> Tensor:
        """Return the losses (B, S) at S points of each row, (B, S, ...), without a gradient.

        ``draws`` has S numbers: points of a row with equal numbers share the victim's random numbers.
        """
        num_samples = points.shape[1]
        flat, of_rows = points.flatten(0, 1), self._fresh_seeds(len(points))
        seeds = LazySeeds(lambda: [(seed + draw) % 2**64 for seed in of_rows for draw in draws], len(flat))
        with torch.inference_mode():
            outputs = self._passed(flat, seeds)
        self.ledger.count(self.rows, queries=num_samples)
        return loss(outputs.clone(), self.labels.repeat_interleave(num_samples, 0)).view(-1, num_samples)

    def look(self, points: Tensor, read: Callable[[Sequence[ShownLayer]], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """Return the tensors (B, ...) that ``read`` takes from the layers of a pass at points, without gradients."""
        seeds, found = self._fresh_seeds(len(points)), []
        self.ledger.count(self.rows, queries=1)
        with torch.no_grad():
            for batch in self._batches(len(points)):
                _, layers = self._seen(self.padded(points[batch]), seeds, batch.start)
                found.append(read([layer.rows(len(points[batch])) for layer in layers]))
        return tuple(map(_joined, zip(*found, strict=True)))

    def predict(self, points: Tensor) -> Tensor:
        """Return the outputs (B, classes) of the final prediction at these points: its draws, no graph."""
        with torch.no_grad():
            return self._outputs(points, LazySeeds(lambda: self.draws.prediction_seeds, len(points)))

    def fooled(self, outputs: Tensor) -> Tensor:
        """Return (B,) whether these outputs are a success of the attack, such as a class other than the label."""
        return self.task.is_fooled(outputs, self.labels)

    def num_right(self, outputs: Tensor) -> Tensor:
        """Return (B,) how many answers are right; where an example has one, 0 if the attack succeeded, else 1."""
        if isinstance(self.task, ManyAnswers):
            return self.task.num_right(outputs, self.labels)
        return (~self.fooled(outputs)).long()

    def num_answers(self) -> Tensor:
        """Return (B,) how many answers count; 1 where an example has one."""
        if isinstance(self.task, ManyAnswers):
            return self.task.num_answers(self.labels)
        return torch.ones(len(self), dtype=torch.int64, device=self.inputs.device)

    def loss(self, name: str) -> Loss:
        """Return the loss to maximise, by the name in the attack's declaration.

        Raises:
            DeclarationError: the task has no such loss.
        """
        losses = {"objective": self.task.objective, **self.task.losses}
        if name not in losses:
            raise DeclarationError(f"loss must be {' or '.join(losses)} on this task, got {name}")
        return losses[name]

    def _differentiated(self, points: Tensor, loss: Loss, beside: Sequence[Tensor]) -> Passed:
        """Return one pass, computed batch by batch so that only one batch's graph is in memory."""
        seeds = self._fresh_seeds(len(points))
        self.ledger.count(self.rows, queries=1)
        return self._passed_with(points, seeds, (each.gradient(loss) for each in self._graphs(points, seeds, beside)))

    def _graphs(self, points: Tensor, seeds: LazySeeds, beside: Sequence[Tensor] = ()) -> Iterator[Graph]:
        for batch in self._batches(len(points)):
            rows = points[batch].detach()
            shown = self.padded(rows).requires_grad_(True)
            layers: Sequence[ShownLayer] = ()
            with torch.enable_grad():
                if self.shows_layers:
                    outputs, layers = self._seen(shown, seeds, batch.start)
                else:
                    outputs = self._shown(shown, seeds, batch.start)
            of_rows = [values[batch] for values in (self.labels, *beside)]
            yield Graph(shown, outputs[: len(rows)], of_rows, [layer.rows(len(rows)) for layer in layers])

    def _passed_with(self, points: Tensor, seeds: LazySeeds, passes: Iterable[tuple[Tensor, Tensor, Tensor]]) -> Passed:
        outputs, values, gradient = (_joined(pieces) for pieces in zip(*passes, strict=True))
        self.ledger.watch_gradient(self.rows, gradient)
        return Passed(points.detach(), outputs, values, gradient, is_final=self._drew_nothing(seeds))

    def _fresh_seeds(self, num_rows: int) -> LazySeeds:
        """Return the seeds of a new pass; refuse a problem without an address."""
        # Predictions have no address and are not counted: whether one is made can depend on the other examples.
        self.address.stream(0)
        numbers = self.ledger.number(self.address, self.rows)
        return LazySeeds(lambda: self._seeds_of(numbers.tolist()), num_rows)

    def _seeds_of(self, numbers: Sequence[int]) -> Sequence[int]:
        if len(set(numbers)) == 1:
            return self.draws.seeds(self.address.stream(numbers[0]))
        seeds = [0] * len(numbers)
        for number in set(numbers):
            places = [place for place, each in enumerate(numbers) if each == number]
            of_places = self.draws.take(places).seeds(self.address.stream(number))
            for place, seed in zip(places, of_places, strict=True):
                seeds[place] = seed
        return seeds

    def _drew_nothing(self, seeds: LazySeeds) -> bool:
        """Return whether a pass with these seeds drew nothing: the victim draws from seeds alone, and read none."""
        return bool(getattr(self.victim, "takes_seeds", False)) and not seeds.were_read

    def _outputs(self, points: Tensor, seeds: LazySeeds) -> Tensor:
        self.ledger.count(self.rows, queries=1)
        return self._passed(points, seeds)

    def _passed(self, points: Tensor, seeds: LazySeeds) -> Tensor:
        batches = self._batches(len(points))
        shown = [self.padded(points[batch]) for batch in batches]
        outputs = [self._shown(each, seeds, batch.start) for each, batch in zip(shown, batches, strict=True)]
        return _joined(outputs)[: len(points)]

    def _batches(self, num_rows: int) -> list[slice]:
        return [slice(start, min(start + self.batch_size, num_rows)) for start in range(0, num_rows, self.batch_size)]

    def _shown(self, points: Tensor, seeds: LazySeeds, first: int) -> Tensor:
        """Return the victim's outputs at the points of one pass, which starts at row ``first``."""
        outputs = self.victim.outputs(self.pixels(points), seeds.part(first, first + len(points), len(points)))
        self.ledger.watch(outputs)
        return outputs

    def _seen(self, points: Tensor, seeds: LazySeeds, first: int) -> tuple[Tensor, Sequence[ShownLayer]]:
        """Return the victim's outputs and layers at the points of one pass, which starts at row ``first``."""
        victim = cast("ShowsLayers", self.victim)
        of_pass = seeds.part(first, first + len(points), len(points))
        outputs, layers = victim.outputs_and_layers(self.pixels(points), of_pass)
        self.ledger.watch(outputs)
        return outputs, layers


def _joined(pieces: Sequence[Tensor]) -> Tensor:
    return pieces[0] if len(pieces) == 1 else torch.cat(list(pieces))
