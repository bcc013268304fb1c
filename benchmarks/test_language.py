"""What batches of windows bring: a language model's passes of 32 windows over passes of one, at the same losses."""

from __future__ import annotations

import time
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

import pytest
import torch

from robench.declare import find_checkpoints
from robench.models import language_impl
from robench.models.language_impl import LanguageModel

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

NUM_WINDOWS, NUM_ROUNDS = 64, 3
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def seconds(model: LanguageModel, ids: torch.Tensor) -> tuple[float, torch.Tensor]:
    started = time.perf_counter()
    with torch.no_grad():
        losses = model.losses(ids, NUM_WINDOWS, None)
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started, losses


@pytest.mark.parametrize("name", ["sotu-lm", "wikitext-softmax-small"])
def test_windows_are_passed_in_batches(name: str, benchmark: BenchmarkFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The papers' protocol: stride 1, so that each window scores its last word alone."""
    torch.set_num_threads(1)
    (checkpoint,) = find_checkpoints([name], [])
    torch.manual_seed(0)
    model = LanguageModel(replace(checkpoint.architecture, stride=1)).eval().to(DEVICE)
    words = model.architecture.vocabulary_size
    ids = torch.randint(words, (model.architecture.context + NUM_WINDOWS + 1,)).to(DEVICE)
    taken: dict[int, list[float]] = {1: [], 32: []}
    losses = {}
    seconds(model, ids)
    for _ in range(NUM_ROUNDS):
        for size, found in taken.items():
            monkeypatch.setattr(language_impl, "WINDOWS_AT_ONCE", size)
            spent, losses[size] = seconds(model, ids)
            found.append(spent)
    ratio = median(taken[1]) / median(taken[32])
    benchmark.extra_info["ratio of windows one by one to batches of 32"] = round(ratio, 3)
    benchmark.pedantic(seconds, args=(model, ids), rounds=1)
    rate = NUM_WINDOWS / median(taken[32])
    print(f"\n{name} on {DEVICE}: batches of 32 windows take 1/{ratio:.2f} of the time, {rate:.0f} windows a second")
    assert torch.allclose(losses[1], losses[32], rtol=1e-6, atol=1e-6)
    # A GPU has room for 32. On one core a window of a small model is work enough for the processor.
    assert ratio >= (10 if DEVICE == "cuda" else 0.9)
