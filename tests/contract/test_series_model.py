"""The encoder of series and its KSVD losses against a reference in loops, written from the description alone."""

from math import sqrt
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm

from robench.attention.base import AttentionBase
from robench.attention.primal import Primal
from robench.attention.softmax import Softmax
from robench.core.errors import ContractError
from robench.models.build import build
from robench.models.series import Series

NUM_STEPS, DIM, NUM_HEADS = 9, 16, 2
WIDTH = DIM // NUM_HEADS
# Data-dependent weights have n = s x multiplier rows, at most one per step.
ATTENTIONS: dict[str, AttentionBase] = {
    "softmax": Softmax(),
    "dependent": Primal(num_directions=4, rank_multiplier=2, formula="released"),
    "more directions than steps": Primal(num_directions=12, rank_multiplier=5, formula="released"),
    "independent": Primal(num_directions=4, data_dependent=False, formula="released", layers=(1,)),
}


def linear(layer: Any, x: Tensor) -> Tensor:
    return layer.weight @ x + layer.bias


def softmax_heads(attention: Any, tokens: list[Tensor]) -> list[Tensor]:
    projected = [linear(attention.qkv, x) for x in tokens]
    outputs = [torch.zeros(DIM) for _ in tokens]
    for head in range(NUM_HEADS):
        part = slice(head * WIDTH, (head + 1) * WIDTH)
        queries, keys, values = ([x.split(DIM)[which][part] for x in projected] for which in range(3))
        for step, query in enumerate(queries):
            weights = torch.stack([query @ key / sqrt(WIDTH) for key in keys]).softmax(0)
            outputs[step][part] = sum(weight * value for weight, value in zip(weights, values, strict=True))
    return outputs


def primal_heads(attention: Any, tokens: list[Tensor]) -> tuple[list[Tensor], Tensor]:
    """Return the heads' outputs and the loss of one series."""
    num_rows, outputs = attention.we.shape[1], [torch.zeros(DIM) for _ in tokens]
    energy = trace = torch.zeros(())
    for head in range(NUM_HEADS):
        part = slice(head * WIDTH, (head + 1) * WIDTH)
        weights = [attention.we[head], attention.wr[head]]
        if attention.data_dependent:
            rows = [tokens[row * (len(tokens) - 1) // (num_rows - 1)][part] for row in range(num_rows)]
            weights = [sum(torch.outer(x, w[row]) for row, x in enumerate(rows)) for w in weights]
        for step, x in enumerate(tokens):
            query, key = (each[part] for each in linear(attention.qk, x).split(DIM))
            e, r = weights[0].T @ (query / query.norm()), weights[1].T @ (key / key.norm())
            outputs[step][part] = linear(attention.concate_weight, torch.cat([e, r]))
            energy = (
                energy + ((e * attention.Lambda[head]) ** 2).sum() / 2 + ((r * attention.Lambda[head]) ** 2).sum() / 2
            )
        trace = trace + torch.trace(attention.we[head].T @ attention.wr[head]) / NUM_HEADS
    return outputs, (energy / (NUM_HEADS * len(tokens)) - trace) ** 2


def reference(model: Any, series: Tensor, length: int) -> tuple[Tensor, list[Tensor]]:
    """Return the logits and the losses of the layers of one series (N, channels) with this many valid steps."""
    losses = []
    tokens = [linear(model.embedding, x) * sqrt(DIM) + model.pos_embed[0, step] for step, x in enumerate(series)]
    for block in model.blocks:
        if hasattr(block.attn, "we"):
            heads, loss = primal_heads(block.attn, tokens)
            losses.append(loss)
        else:
            heads = softmax_heads(block.attn, tokens)
        after = []
        for x, mixed in zip(tokens, heads, strict=True):
            y = layer_norm(x + linear(block.attn.proj, mixed), (DIM,), block.norm1.weight, block.norm1.bias)
            z = linear(block.mlp[3], gelu(linear(block.mlp[0], y)))
            after.append(layer_norm(y + z, (DIM,), block.norm2.weight, block.norm2.bias))
        tokens = after
    last = [gelu(layer_norm(x, (DIM,), model.norm.weight, model.norm.bias)) for x in tokens]
    return linear(model.head, torch.cat([x * (step < length) for step, x in enumerate(last)])), losses


@pytest.mark.parametrize("attention", ATTENTIONS.values(), ids=list(ATTENTIONS))
def test_logits_and_ksvd_losses_are_those_of_the_loops(attention: AttentionBase) -> None:
    torch.manual_seed(0)
    sizes = {"num_steps": NUM_STEPS, "num_channels": 3, "num_classes": 4, "dim": DIM, "num_heads": NUM_HEADS}
    model: Any = build(Series(**sizes, feedforward=32, dropout=0.1, attention=attention)).double().eval()
    series = torch.randn(2, NUM_STEPS, 3, dtype=torch.float64)
    lengths = torch.tensor([NUM_STEPS, 6])
    mask = torch.arange(NUM_STEPS)[None] < lengths[:, None]
    series[~mask] = 0.0
    losses: list[Tensor] = []
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad():
            logits = model(series, losses_B=losses, mask_BN=mask)
            for row, length in enumerate(lengths.tolist()):
                wanted, wanted_losses = reference(model, series[row], length)
                torch.testing.assert_close(logits[row], wanted, rtol=0, atol=1e-10)
                found = [each[row] for each in losses]
                torch.testing.assert_close(found, wanted_losses, rtol=0, atol=1e-10)
    finally:
        torch.set_default_dtype(torch.float32)


def test_positions_start_uniformly_within_0_02() -> None:
    torch.manual_seed(0)
    model = build(Series(num_steps=64, num_channels=3, num_classes=4, dim=32, num_heads=2, feedforward=8, depth=1))
    positions = model.pos_embed.detach()
    assert float(positions.abs().max()) <= 0.02
    # The deviation of a uniform number within a is a / sqrt(3); its error over 2,048 of them is 1 %.
    assert float(positions.std()) == pytest.approx(0.02 / sqrt(3), rel=0.05)
    assert abs(float(positions.mean())) < 0.001


def test_series_longer_than_the_positions_are_refused() -> None:
    model = build(Series(num_steps=4, num_channels=1, num_classes=2, dim=8, num_heads=2, feedforward=8))
    with pytest.raises(ContractError, match="takes series of 4 steps, padding included, got 5: its num_steps must be"):
        model(torch.zeros(1, 5, 1))
