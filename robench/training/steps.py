"""Loop over the steps of a training on texts: learning rates, clipped gradients, draws, and a state within epochs.

On texts in files all draws begin at seeds made of the recipe's seed, the epoch and the step, so that a training resumed
within an epoch gives the bytes of an uninterrupted one, on one kind of CPU and one release of torch. On texts that come
with a library draws follow each other through all epochs, as when the published models were trained; such trainings
resume between epochs, from the stored states of the generators.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import cos, pi
from typing import Any

import torch
from torch import Tensor, nn

from robench.core.errors import DeclarationError
from robench.training.base import Host
from robench.training.epochs import Learner
from robench.training.optimization import (
    adamw,
    fraction_of_peak,
    matrices_but_embeddings,
    seed_for,
    set_learning_rate,
)
from robench.training.texts import WordTraining

# A state is written after this many steps, or this many seconds, of an epoch.
STEPS_BETWEEN_STATES = 1000
SECONDS_BETWEEN_STATES = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Parts in which trainings of language models and of classifiers differ.

    Attributes:
        num_batches: number of batches of an epoch; of embedded texts an estimate.
        num_examples: number of examples of an epoch; None where it is not known.
        batches: from a generator to the batches of an epoch, the rows of each.
        examples_of: from rows (B,) and a generator to inputs and targets (B, ...), on the CPU.
        outputs_of: model, or a method of it, from inputs and ``losses_B`` to outputs.
        loss_of: mean loss of outputs and targets.
    """

    num_batches: int
    num_examples: int | None
    batches: Callable[[torch.Generator], Sequence[Tensor]]
    examples_of: Callable[[Tensor, torch.Generator], tuple[Tensor, Tensor]]
    outputs_of: Callable[..., Tensor]
    loss_of: Callable[[Tensor, Tensor], Tensor]


class Draws:
    """Random numbers of a training: order, replaced words, and what the model draws, such as dropout."""

    def __init__(self, seed: int, *, is_sequential: bool) -> None:
        self.is_sequential = is_sequential
        self.generator = torch.Generator().manual_seed(seed)
        self._seed = seed

    def begin_epoch(self, epoch: int) -> None:
        """Begin an epoch (0-based) at its seed, unless draws are sequential."""
        if not self.is_sequential:
            self.generator.manual_seed(seed_for(self._seed, "order", epoch))

    def begin_step(self, epoch: int, place: int) -> None:
        """Begin a step of an epoch (both 0-based) at its seeds, unless draws are sequential."""
        if not self.is_sequential:
            self.generator.manual_seed(seed_for(self._seed, "words", epoch, place))
            torch.manual_seed(seed_for(self._seed, "model", epoch, place))

    def parts(self) -> dict[str, Any]:
        """Return the states of the generators; none where seeds determine them."""
        if not self.is_sequential:
            return {}
        return {"own": self.generator.get_state(), "model": torch.get_rng_state()}

    def restore(self, parts: dict[str, Any]) -> None:
        """Restore the states from ``parts``."""
        if self.is_sequential:
            self.generator.set_state(parts["own"])
            torch.set_rng_state(parts["model"])


class TextLearner(Learner):
    """Model in training on texts, with all state that changes from step to step.

    ``store`` writes this state, given the number of whole epochs.
    """

    def __init__(
        self, model: nn.Module, training: WordTraining, steps: Steps, host: Host, store: Callable[[int], None]
    ) -> None:
        check_length(training, steps.num_batches)
        optimizer = adamw(
            model.parameters(),
            matrices_but_embeddings(model),
            learning_rate=training.learning_rate,
            weight_decay=training.weight_decay,
        )
        super().__init__(model, training, optimizer, host)
        self._steps, self._store = steps, store
        self.num_examples = steps.num_examples
        self._draws = Draws(training.seed, is_sequential=training.is_embedded)
        # Of the epoch in progress: steps that are done, and the sum of the losses of their examples.
        self._place, self._total = 0, 0.0

    def epoch(self, epoch: int) -> tuple[float, int]:
        """Train to the end of an epoch (0-based); return its mean loss in nats and the examples taken here."""
        training, before = self.training, self.num_done
        self._draws.begin_epoch(epoch)
        batches = self._steps.batches(self._draws.generator)
        num_batches = len(batches)
        if training.num_steps is not None:
            batches = batches[: training.num_steps - epoch * num_batches]
        stored = time.monotonic()
        for place in range(self._place, len(batches)):
            self._draws.begin_step(epoch, place)
            fraction = fraction_at(training, epoch, place, num_batches)
            set_learning_rate(self._optimizer, training.learning_rate * fraction)
            inputs, targets = self._steps.examples_of(batches[place], self._draws.generator)
            on_device = inputs.to(self._device), targets.to(self._device)
            loss = float(self.step(self._steps.outputs_of, *on_device, self._steps.loss_of))
            self._place = place + 1
            self._total += loss * len(batches[place])
            is_due = self._place % STEPS_BETWEEN_STATES == 0 or time.monotonic() - stored > SECONDS_BETWEEN_STATES
            if is_due and not self._draws.is_sequential:
                self._store(epoch)
                stored = time.monotonic()
        mean = self._total / self.num_done
        self._place, self._total = 0, 0.0
        return mean, self.num_done - before

    def parts(self) -> dict[str, dict[str, Any]]:
        """Return state dicts of everything that changes, for ``restore``."""
        return {
            **super().parts(),
            "draws": self._draws.parts(),
            "epoch": {"place": self._place, "count": self.num_done, "total": self._total},
        }

    def restore(self, parts: dict[str, dict[str, Any]]) -> None:
        """Restore the state from ``parts``."""
        super().restore(parts)
        self._draws.restore(parts["draws"])
        progress = parts["epoch"]
        self._place, self.num_done, self._total = progress["place"], progress["count"], progress["total"]


def check_length(training: WordTraining, num_batches: int) -> None:
    """Refuse texts without a whole batch, and a number of steps that does not end in the last epoch."""
    if not num_batches:
        raise DeclarationError(
            f"the training texts of {training.dataset} are shorter than the model's context; lower context in the"
            " entry's architecture"
        )
    if training.num_steps is None:
        return
    last = -(-training.num_steps // num_batches)
    if last != training.num_epochs:
        raise DeclarationError(
            f"training.num_steps {training.num_steps:,} end in epoch {last:,}, since {training.dataset} has"
            f" {num_batches:,} steps an epoch at batch_size {training.batch_size}, but num_epochs is"
            f" {training.num_epochs:,}; write num_epochs: {last}, or another number of steps"
        )


def fraction_at(training: WordTraining, epoch: int, place: int, num_batches: int) -> float:
    """Return the learning rate over its peak at a step: the place in an epoch (both 0-based) of so many batches."""
    step, total = epoch * num_batches + place, training.num_steps or training.num_epochs * num_batches
    done = step / total if training.num_steps else (epoch + place / num_batches) / training.num_epochs
    warmup = training.warmup_share if training.warmup_steps is None else training.warmup_steps / total
    if training.schedule == "cosine-after-warmup":
        return fraction_of_peak(done, warmup)
    if done < warmup:
        return done / warmup
    return 1.0 if training.schedule == "constant" else 0.5 * (1 + cos(pi * done))
