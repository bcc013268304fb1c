"""Transformer of softmax attention in float64, written out, that shows its layers to attacks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from robench.core.protocols import Batch

SIDE, PATCH, WIDTH, NUM_HEADS, DEPTH, NUM_CLASSES = 6, 2, 8, 2, 6, 4
GRID = SIDE // PATCH
NUM_TOKENS = GRID**2


@dataclass
class PlantedLayer:
    tokens_BNC: Tensor
    queries_BHND: Tensor
    keys_BHMD: Tensor
    weights_BHNM: Tensor

    def rows(self, n: int) -> "PlantedLayer":
        return PlantedLayer(*(each[:n] for each in vars(self).values()))


class PlantedTransformer:
    """Patches of 2 x 2 pixels as tokens, attention with a residual connection, and the mean of all tokens."""

    device = torch.device("cpu")
    normalisation = (torch.zeros(3, 1, 1), torch.ones(3, 1, 1))
    takes_seeds = True

    def __init__(self, scale: float = 1.0) -> None:
        generator = torch.Generator().manual_seed(5)

        def drawn(*shape: int) -> Tensor:
            return scale * torch.randn(shape, generator=generator, dtype=torch.float64) / shape[-1] ** 0.5

        self.embedding, self.positions = drawn(WIDTH, 3 * PATCH**2), drawn(NUM_TOKENS, WIDTH)
        self.projections = [drawn(3, WIDTH, WIDTH) for _ in range(DEPTH)]
        self.head = 3 * drawn(NUM_CLASSES, WIDTH)

    def outputs(self, inputs: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        return self.outputs_and_layers(inputs)[0]

    def outputs_and_layers(self, inputs: Tensor, seeds: Any = None) -> tuple[Tensor, list[PlantedLayer]]:
        count = len(inputs)
        pieces = inputs.unfold(2, PATCH, PATCH).unfold(3, PATCH, PATCH).permute(0, 2, 3, 1, 4, 5)
        tokens = torch.tanh(pieces.reshape(count, NUM_TOKENS, -1) @ self.embedding.T) + self.positions
        layers = []
        for projection in self.projections:
            queries, keys, values = (
                (tokens @ each.T).view(count, NUM_TOKENS, NUM_HEADS, -1).transpose(1, 2) for each in projection
            )
            weights = (queries @ keys.transpose(-2, -1) / queries.shape[-1] ** 0.5).softmax(-1)
            layers.append(PlantedLayer(tokens, queries, keys, weights))
            tokens = tokens + (weights @ values).transpose(1, 2).reshape(count, NUM_TOKENS, WIDTH)
        return torch.tanh(tokens).mean(1) @ self.head.T, layers

    def with_gradients(self, mode: str) -> "PlantedTransformer":
        return self


def images(count: int = 4) -> Batch:
    """Return images in float64, labelled with the model's own classes."""
    inputs = torch.rand(count, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    targets = PlantedTransformer().outputs(inputs).argmax(1)
    return Batch(ids=tuple(map(str, range(count))), inputs=inputs, targets=targets)
