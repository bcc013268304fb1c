"""Padded time series and models of them, on which perturbations of series are tested."""

from collections.abc import Sequence

import torch

from robench.core.protocols import Batch
from robench.domains.series import SERIES
from robench.domains.series_impl import PADDING
from robench.testing.models import LinearModel, by_rows

# Shortest and longest, and some between.
LENGTHS = (1, 12, 2, 5, 9, 12)
NUM_CHANNELS = 3


class SeriesVictim(LinearModel):
    """Logits of a small network of series (T, C), which reads zeros in the place of padding as ``LoadedModel`` does."""

    normalisation = torch.zeros(NUM_CHANNELS), torch.ones(NUM_CHANNELS)

    def __init__(self, num_steps: int = max(LENGTHS), num_classes: int = 5) -> None:
        super().__init__(0, 0.0, num_classes, (num_steps, NUM_CHANNELS), SERIES)
        self.mixing = torch.randn(num_classes, num_classes, generator=torch.Generator().manual_seed(2))
        self.shown: list[torch.Tensor] = []

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        self.shown.append(inputs.detach().clone())
        valid = SERIES.rules.valid(inputs)
        assert valid is not None
        rows = torch.where(valid[..., None], inputs, 0.0).flatten(1)
        logits = by_rows(rows, self.weight)
        return torch.tanh(by_rows(logits, self.mixing) / 4) + 0.2 * logits


def series_batch(lengths: Sequence[int] = LENGTHS, num_steps: int = max(LENGTHS), scale: float = 1.0) -> Batch:
    """Return smooth series (B, T, 3) of these lengths, the same whatever the padding, with any of five classes."""
    inputs = torch.full((len(lengths), num_steps, NUM_CHANNELS), PADDING)
    for row, length in enumerate(lengths):
        steps = torch.randn(length, NUM_CHANNELS, generator=torch.Generator().manual_seed(row))
        inputs[row, :length] = scale * steps.cumsum(0) / length**0.5
    targets = torch.arange(len(lengths)) % 5
    return Batch(ids=tuple(map(str, range(len(lengths)))), inputs=inputs, targets=targets, domain=SERIES.name)


def is_padding(batch: Batch) -> torch.Tensor:
    """Return (B, T, C) booleans."""
    return batch.inputs == PADDING
