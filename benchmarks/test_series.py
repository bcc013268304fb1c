"""What padding costs, and how the time of mechanisms for series grows with the number of steps."""

from __future__ import annotations

import time
from math import log

import pytest
import torch

import robench
from robench.models.series_impl import SeriesModel

SIZES = {"backbone": "series", "num_channels": 3, "num_classes": 8, "dim": 512, "num_heads": 8, "feedforward": 2048}
ATTENTIONS = {
    "softmax": {"kind": "softmax"},
    "primal": {"kind": "primal", "num_directions": 20, "formula": "released"},
    "rkde": {"kind": "rkde"},
}
# Those of JapaneseVowels, evenly.
LENGTHS = [7 + place % 23 for place in range(46)]
STEPS = (64, 512, 2048)
# Masks may cost a tenth of a pass through the padded length, also where the series of each length pass on their own.
MOST, ROUNDS = 1.1, 9


def model_of(kind: str, num_steps: int, **fields: object) -> SeriesModel:
    model = robench.build_model({**SIZES, "num_steps": num_steps, "attention": ATTENTIONS[kind], **fields})
    assert isinstance(model, SeriesModel)
    return model.eval()


def seconds(model: SeriesModel, series: torch.Tensor, mask: torch.Tensor | None = None) -> float:
    """Return the processor time of a forward and backward pass, on one thread."""
    torch.set_num_threads(1)
    started = time.process_time()
    model.tokens(series, None, None, mask).sum().backward()
    return time.process_time() - started


@pytest.mark.parametrize("kind", ATTENTIONS)
def test_a_padded_batch_costs_hardly_more_than_its_padded_length(kind: str) -> None:
    model = model_of(kind, 29, padding="keys")
    series = torch.randn(len(LENGTHS), 29, 3)
    mask = torch.arange(29)[None] < torch.tensor(LENGTHS)[:, None]
    # In turns, so that other work on the machine slows both alike.
    rounds = [tuple(seconds(model, series, given) for given in (None, mask)) for _ in range(ROUNDS)]
    whole, masked = map(min, zip(*rounds, strict=True))
    print(f"\n{kind}: padded {whole:.3f} s, with masks {masked:.3f} s, {masked / whole:.2f} times")
    assert masked <= MOST * whole


def test_time_by_the_number_of_steps() -> None:
    base: dict[int, float] = {}
    for kind in ATTENTIONS:
        times = {}
        for num_steps in STEPS:
            model, rounds = model_of(kind, num_steps), 1 if num_steps > 1000 else 3
            times[num_steps] = min(seconds(model, torch.randn(1, num_steps, 3)) for _ in range(rounds))
        base = base or times
        exponent = log(times[2048] / times[512]) / log(4)
        ratios = ", ".join(f"{times[steps] / base[steps]:.2f} at {steps}" for steps in STEPS)
        print(f"\n{kind}: {times[2048]:.2f} s at 2,048 steps, times softmax {ratios}; exponent {exponent:.2f} from 512")
