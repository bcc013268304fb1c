"""What batches of windows bring: a language model's passes over those of one window, at the same losses."""

from __future__ import annotations

import time
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

import pytest
import torch

from robench.declare import find_checkpoints
from robench.models import language_impl
from robench.models.language_impl import LanguageModel, windows_at_once

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
    chosen = windows_at_once(model.architecture, ids.device)
    taken: dict[int, list[float]] = {1: [], chosen: []}
    losses = {}
    seconds(model, ids)
    for _ in range(NUM_ROUNDS):
        for size, found in taken.items():
            monkeypatch.setattr(language_impl, "windows_at_once", lambda *_, size=size: size)
            spent, losses[size] = seconds(model, ids)
            found.append(spent)
    ratio = median(taken[1]) / median(taken[chosen])
    benchmark.extra_info["ratio of windows one by one to batches"] = round(ratio, 3)
    benchmark.pedantic(seconds, args=(model, ids), rounds=1)
    rate = NUM_WINDOWS / median(taken[chosen])
    print(
        f"\n{name} on {DEVICE}: batches of {chosen} windows take 1/{ratio:.2f} of the time, {rate:.0f} windows a second"
    )
    assert torch.allclose(losses[1], losses[chosen], rtol=1e-6, atol=1e-6)
    # On one core a window of a small model is work enough for the processor.
    assert ratio >= (10 if DEVICE == "cuda" else 0.9)
