"""Training of models of series and of tokens in memory, with the weights of the last or of the best epoch.

The state contains the best weights so far beside the last ones, so that a resumed training publishes the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import OneCycleLR

from robench.core.errors import DeclarationError
from robench.core.identity import key_of
from robench.datasets import open_dataset
from robench.models.build import build
from robench.models.loaded import Normaliser
from robench.training.epochs import Learner, Part, Validation, check_classes, run_epochs, split_rows, weights_of
from robench.training.optimization import check_auxiliary, flushing_denormals, reproducible, saved, seed_for
from robench.training.sequences import SequenceTraining

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from robench.core.checkpoint import Checkpoint
    from robench.core.protocols import Dataset
    from robench.training.base import EpochReport, Host, ValidationScores

OPTIMIZERS = {"radam": torch.optim.RAdam, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


def train(
    checkpoint: Checkpoint, host: Host, on_epoch: Callable[[EpochReport], None] = lambda report: None
) -> dict[str, Tensor]:
    """Train ``checkpoint`` from scratch or from its stored state, and return the state dict on the CPU.

    The caller's random generators and number of threads are restored.
    """
    training = checkpoint.training
    if not isinstance(training, SequenceTraining):
        raise DeclarationError(
            f"checkpoint {checkpoint.name!r} has no 'training' of kind 'sequence-training'; add it to its entry"
        )
    check_classes(checkpoint)
    device = torch.device(host.device)
    # Where attention is nearly one-hot, most gradients of queries and keys are denormal.
    with reproducible(training.seed, device), flushing_denormals():
        model = build(checkpoint.architecture).to(device)
        scored_split = "validation" if training.selection == "best-on-split" and not training.held_out else None
        learned, scored = (
            open_dataset(
                training.dataset, data_root=host.data_root, preprocessing=checkpoint.preprocessing, split=split
            )
            for split in ("train", scored_split)
        )
        learner = SequenceLearner(model, checkpoint, training, learned, scored, host)
        fingerprints = learned.identity.fingerprint, scored.identity.fingerprint
        return run_epochs(
            learner,
            host=host,
            key=key_of([checkpoint.architecture, checkpoint.preprocessing, training, *fingerprints]),
            score=learner.scores,
            on_epoch=on_epoch,
        )


class SequenceLearner(Learner):
    """Model in training with its optimiser, its data on the device, and the best weights so far."""

    def __init__(
        self,
        model: nn.Module,
        checkpoint: Checkpoint,
        training: SequenceTraining,
        learned: Dataset,
        scored: Dataset,
        host: Host,
    ) -> None:
        optimizer = OPTIMIZERS[training.optimizer](model.parameters(), lr=training.learning_rate, weight_decay=0)
        super().__init__(model, training, optimizer, host)
        device = self._device
        self._normaliser = Normaliser(model, checkpoint.preprocessing, device)
        batch = learned.batch(0, len(learned))
        self._inputs, self._targets = batch.inputs.to(device), batch.targets.to(device)
        self._rows, held_out = split_rows(len(learned), training.held_out, training.seed)
        part = scored if not len(held_out) else Part(lambda rows: (batch.inputs[rows], batch.targets[rows]), held_out)
        self._validation = Validation(part, checkpoint.preprocessing, device)
        self._num_batches = -(-len(self._rows) // training.batch_size)
        self.num_examples = len(self._rows) if training.steps_per_epoch is None else None
        self._schedule = _schedule_of(training, self._optimizer)
        self._best: dict[str, Tensor] = {}
        self._best_accuracy = torch.tensor(-1.0)
        normalised, _ = self._normaliser(self._inputs[:2])
        check_auxiliary(model, normalised, training.auxiliary_weight)

    def epoch(self, epoch: int) -> tuple[float, int]:
        """Train for an epoch (0-based); return the mean loss in nats and the number of examples."""
        training = self.training
        torch.manual_seed(seed_for(training.seed, "model", epoch))
        total, count = torch.zeros((), device=self._inputs.device), 0
        for part in self._batches(epoch):
            loss = self.step(self._outputs, self._inputs[part], self._targets[part], cross_entropy)
            if self._schedule is not None:
                self._schedule.step()
            total, count = total + loss * len(part), count + len(part)
        return float(total) / count, count

    def _batches(self, epoch: int) -> Iterator[Tensor]:
        """Yield the rows of each step of an epoch (0-based), in passes that each have an order of their own."""
        training = self.training
        num_steps = training.steps_per_epoch or self._num_batches
        orders: dict[int, tuple[Tensor, ...]] = {}
        for step in range(epoch * num_steps, (epoch + 1) * num_steps):
            number, place = divmod(step, self._num_batches)
            if number not in orders:
                generator = torch.Generator().manual_seed(seed_for(training.seed, "series", number))
                rows = self._rows[torch.randperm(len(self._rows), generator=generator)].to(self._inputs.device)
                orders = {number: rows.split(training.batch_size)}
            yield orders[number][place]

    def scores(self, model: nn.Module) -> ValidationScores:
        """Return the scores after an epoch, and keep its weights if they are the best so far."""
        scores = self._validation.scores(model)
        if self.training.selection != "last" and (scores.top1_accuracy or 0.0) > float(self._best_accuracy):
            self._best_accuracy = torch.tensor(scores.top1_accuracy, dtype=torch.float64)
            # Copies: on a CPU the weights of a model are its parameters, which later steps change.
            self._best = {name: value.clone() for name, value in weights_of(model).items()}
        return scores

    def weights(self) -> dict[str, Tensor]:
        """Return the weights that would be published now, on the CPU."""
        return saved(self._best, self.training.saved_as) if self._best else super().weights()

    def parts(self) -> dict[str, dict[str, Any]]:
        """Return state dicts of everything that changes, for ``restore``."""
        return {
            **super().parts(),
            "schedule": {} if self._schedule is None else self._schedule.state_dict(),
            "best": self._best,
            "progress": {"best_accuracy": self._best_accuracy},
        }

    def restore(self, parts: dict[str, dict[str, Any]]) -> None:
        """Restore the state from ``parts``."""
        super().restore(parts)
        if self._schedule is not None:
            self._schedule.load_state_dict(parts["schedule"])
        self._best, self._best_accuracy = parts["best"], parts["progress"]["best_accuracy"]

    def _outputs(self, inputs: Tensor, **losses: list[Tensor]) -> Tensor:
        normalised, others = self._normaliser(inputs)
        outputs: Tensor = self.model(normalised, **others, **losses)
        return outputs


def _schedule_of(training: SequenceTraining, optimizer: torch.optim.Optimizer) -> OneCycleLR | None:
    if training.schedule == "constant":
        return None
    total_steps = training.num_epochs * (training.steps_per_epoch or 0)
    return OneCycleLR(
        optimizer,
        max_lr=training.learning_rate,
        total_steps=total_steps,
        pct_start=training.warmup_steps / total_steps,
        anneal_strategy="linear",
    )
