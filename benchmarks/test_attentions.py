"""What each attention mechanism costs: a whole DeiT-tiny with it, over the same model with softmax, in one run.

``forward`` is inference; ``attack`` a forward and backward pass for the input alone, which is what attacks are made of.
Beside the ratios stand those that papers print for their own code; a larger one here is shown, and explained in
docs/performance.md.
"""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING

import pytest
import torch
from torch.nn.functional import cross_entropy

import robench
from robench.attention import ATTENTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_benchmark.fixture import BenchmarkFixture
    from torch import nn

DEIT_TINY = {
    "backbone": "vit", "image_size": 224, "patch_size": 16, "num_classes": 1000,
    "depth": 12, "dim": 192, "num_heads": 3,
}  # fmt: skip
BATCH_SIZE, NUM_ROUNDS = 4, 5
# Fields without default, at the sizes that the sources use on as many tokens.
FIELDS: Mapping[str, Mapping[str, object]] = {
    "rpc": {"num_iterations": 6},
    "rpc-asymmetric": {"num_iterations": 6},
    "performer": {"num_features": 64},
    "primal": {"num_directions": 96},
    "linformer": {"projection_length": 64},
    "nystrom": {"num_landmarks": 64},
}
# What the papers print for their own code: time over that of their baseline.
PRINTED = {"twicing": 1.07, "rkde": 1.23, "spkde": 4.1, "mom": 1.06, "rpc": 1.1}


def model_of(kind: str) -> nn.Module:
    model = robench.build_model({**DEIT_TINY, "attention": {"kind": kind, **FIELDS.get(kind, {})}})
    return model.eval().requires_grad_(False)


def seconds(model: nn.Module, images: torch.Tensor, *, attack: bool) -> float:
    started = time.perf_counter()
    if attack:
        inputs = images.clone().requires_grad_(True)
        loss = cross_entropy(model(inputs), torch.zeros(len(images), dtype=torch.int64))
        torch.autograd.grad(loss, inputs)
    else:
        with torch.no_grad():
            model(images)
    return time.perf_counter() - started


@pytest.mark.parametrize("kind", [kind for kind in ATTENTIONS if kind != "softmax"])
def test_the_cost_of_a_mechanism_over_softmax(kind: str, benchmark: BenchmarkFixture) -> None:
    torch.set_num_threads(1)
    images = torch.rand(BATCH_SIZE, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    softmax, other = model_of("softmax"), model_of(kind)
    ratios = {}
    for attack in (False, True):
        seconds(other, images, attack=attack)
        # In turns, so that whatever else the machine does slows both alike.
        pairs = [
            (seconds(other, images, attack=attack), seconds(softmax, images, attack=attack)) for _ in range(NUM_ROUNDS)
        ]
        ratios["attack" if attack else "forward"] = round(median(ours / theirs for ours, theirs in pairs), 2)
    benchmark.extra_info.update(ratios)
    benchmark.pedantic(seconds, args=(other, images), kwargs={"attack": False}, rounds=1)
    printed = f", printed {PRINTED[kind]}" if kind in PRINTED else ""
    print(f"\n| {kind} | {ratios['forward']} | {ratios['attack']} |{printed}")
    assert all(ratio > 0 for ratio in ratios.values())
