"""Sizes and multiply-adds of DeiT-tiny with several mechanisms, against those that are published.

The Bilateral paper's table 5 counts the linear layers and the patch embedding, without the products of attention.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import robench

DEIT_TINY: dict[str, Any] = {
    "backbone": "vit", "image_size": 224, "patch_size": 16, "num_classes": 1000,
    "depth": 12, "dim": 192, "num_heads": 3,
}  # fmt: skip


def model_of(**attention: Any) -> torch.nn.Module:
    return robench.build_model({**DEIT_TINY, "attention": attention}).requires_grad_(False)


def linear_multiply_adds(model: torch.nn.Module) -> float:
    """In units of 1e9, of one image; the counter counts a multiplication and an addition as two."""
    images = torch.rand(1, 3, 224, 224)
    model(images)
    with FlopCounterMode(display=False) as counter:
        model(images)
    counts = counter.get_flop_counts()["Global"]
    return sum(count for operation, count in counts.items() if "bmm" not in str(operation)) / 2e9


@pytest.mark.parametrize(
    ("attention", "training", "printed"),
    [
        ({"kind": "softmax"}, False, 1.08),
        ({"kind": "bilateral"}, True, 1.33),
        ({"kind": "bilateral"}, False, 1.08),
        ({"kind": "bilateral", "positions": "none"}, True, 1.08),
    ],
)
def test_multiply_adds_are_those_of_the_bilateral_papers_table_5(
    attention: dict[str, Any], training: bool, printed: float
) -> None:
    model = model_of(**attention).train(training)
    assert linear_multiply_adds(model) == pytest.approx(printed, abs=0.007)


@pytest.mark.parametrize(
    ("attention", "count"),
    [
        ({"kind": "softmax"}, 5_717_416),
        ({"kind": "twicing"}, 5_717_416),
        # Touvron et al. count 5.7 million; without the queries' projections there are 12 x (192 x 192 + 192) fewer.
        ({"kind": "symmetric"}, 5_717_416 - 12 * (192 * 192 + 192)),
        ({"kind": "rpc"}, 5_717_416 - 12 * (192 * 192 + 192)),
        ({"kind": "attnscale"}, 5_717_416 + 12 * 3),
        ({"kind": "rvt"}, 5_717_416 + 12 * 3 * 197 * 197),
        ({"kind": "scaled", "parameterization": "scalar"}, 5_717_416 + 12),
    ],
)
def test_numbers_of_parameters_are_the_published_ones(attention: dict[str, Any], count: int) -> None:
    assert sum(parameter.numel() for parameter in model_of(**attention).parameters()) == count


@pytest.mark.parametrize(("dim", "num_heads", "count"), [(384, 6, 22_050_664), (768, 12, 86_567_656)])
def test_deit_small_and_base_have_their_published_sizes(dim: int, num_heads: int, count: int) -> None:
    architecture = {**DEIT_TINY, "dim": dim, "num_heads": num_heads}
    with torch.device("meta"):
        model = robench.build_model(architecture)
    assert sum(parameter.numel() for parameter in model.parameters()) == count
