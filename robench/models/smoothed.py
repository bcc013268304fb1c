"""Randomised smoothing: the class that a classifier gives most often to an input under Gaussian noise.

Source: Cohen et al. 2019, arXiv:1902.02918. The noise is added to the inputs of the model, before its normalisation,
and not clipped: the proof is about the whole space. Each draw belongs to an example and a number, so that neither the
batch nor the worker changes a vote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from robench.core.errors import ContractError, UsageError
from robench.core.seeds import Stream
from robench.draws import ExampleDraws
from robench.models.loaded import LoadedModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robench.core.checkpoint import Checkpoint, Smoothing


class SmoothedModel(LoadedModel):
    """Classifier under Gaussian noise, around another model.

    ``outputs`` are those of one draw of the noise, for attacks, which take the expectation over several
    (``num_draws``); ``votes`` count the classes of many.

    Attributes:
        base: the model that is smoothed.

    Raises:
        UsageError: its inputs are not real numbers.
    """

    def __init__(self, base: LoadedModel, smoothing: Smoothing) -> None:
        vars(self).update(vars(base))
        self.base, self.smoothing = base, smoothing
        if not base.domain.is_real_valued:
            raise UsageError(f"Gaussian noise needs real-valued inputs, and this model's are {base.domain.name}")

    def outputs(self, inputs: Tensor, seeds: Sequence[int] | None = None, targets: Tensor | None = None) -> Tensor:
        """Return (B, classes) logits of inputs (B, ...) under one draw of the noise; see ``LoadedModel.outputs``."""
        if targets is not None:
            raise ContractError("a smoothed model takes no targets")
        if seeds is None:
            return self.base.outputs(inputs + float(self.smoothing.sigma) * torch.randn_like(inputs))
        return self._under_noise(inputs, seeds, Stream(purpose="smoothing"))

    __call__ = outputs

    def votes(self, inputs: Tensor, seeds: Sequence[int], purpose: str, num_draws: int) -> Tensor:
        """Return the number of draws that give each class to inputs (B, ...), (B, classes) int64.

        Equal scores go to the lower class. Draws of another ``purpose`` are independent of these.

        Raises:
            ContractError: a score is not finite.
        """
        counts: Tensor | None = None
        with torch.no_grad():
            for draw in range(num_draws):
                logits = self._under_noise(inputs, seeds, Stream(purpose=f"smoothing {purpose}", draw=draw))
                self._rules.check_outputs(logits, len(inputs), "under noise")
                voted = one_hot(self._rules.labels_of(logits), logits.shape[1])
                counts = voted if counts is None else counts + voted
        assert counts is not None  # at least one draw
        return counts

    def with_gradients(self, mode: str) -> SmoothedModel:
        """Return the same model with other gradients of its modules."""
        return SmoothedModel(self.base.with_gradients(mode), self.smoothing)

    def with_backward(self, rule: str) -> SmoothedModel:
        """Return the same model, whose gradients follow a rule; see ``LoadedModel.with_backward``."""
        return SmoothedModel(self.base.with_backward(rule), self.smoothing)

    def in_precision(self, dtype: str) -> SmoothedModel:
        """Return the same model, whose passes run in another arithmetic; see ``LoadedModel.in_precision``."""
        return SmoothedModel(self.base.in_precision(dtype), self.smoothing)

    def _under_noise(self, inputs: Tensor, seeds: Sequence[int], stream: Stream) -> Tensor:
        noise = ExampleDraws(seeds, self.device).normal(stream, inputs.shape[1:])
        return self.base.outputs(inputs + float(self.smoothing.sigma) * noise)


def as_declared(model: LoadedModel, checkpoint: Checkpoint) -> LoadedModel:
    """Return the model of a checkpoint's weights, smoothed if the checkpoint says so.

    Raises:
        UsageError: it cannot be smoothed; the message says why.
    """
    if checkpoint.smoothing is None:
        return model
    if checkpoint.coupled:
        raise UsageError("a model whose rows influence each other cannot be smoothed: its draws are not independent")
    return SmoothedModel(model, checkpoint.smoothing)
