"""Seconds and memory of models that are measured in turns."""

import time
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from robench.core.errors import RobenchError
from robench.costs import Protocol
from robench.costs.counting import CPU, Subject
from robench.costs.measuring import measured

BRIEF = Protocol(batch_size=4, warm_ups=2, repeats=3)
BYTES = 4


def subject_of(module: nn.Module, shape: tuple[int, ...] = (100,)) -> Subject:
    return Subject(name="mine", module=module, forward=module, shape=shape, has_ids=False, device=CPU)


class Sleeper(nn.Module):
    """Model that writes into a log and takes a given time in evaluation mode."""

    def __init__(self, name: str, seconds: float, log: list[str]) -> None:
        super().__init__()
        self.name, self.seconds, self.log = name, seconds, log
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the inputs, scaled."""
        self.log.append(self.name)
        if not self.training:
            time.sleep(self.seconds)
        return self.weight * inputs


def test_models_take_turns_and_seconds_are_of_a_sample() -> None:
    log: list[str] = []
    subjects = [subject_of(Sleeper("slow", 0.04, log)), subject_of(Sleeper("fast", 0.02, log))]
    slow, fast = measured(subjects, replace(BRIEF, trains=False))
    # Two warm-ups and three timed passes of each in turns, and then one for the memory.
    assert log == ["slow", "fast"] * 6
    assert slow.keys() == {"inference"}
    assert 0.01 <= slow["inference"].seconds.low <= slow["inference"].seconds.median <= slow["inference"].seconds.high
    assert 0.005 <= fast["inference"].seconds.median < slow["inference"].seconds.median
    ratios = [each["inference"].ratio for each in (slow, fast)]
    assert ratios[0] is not None and ratios[0].median > 1.2  # noqa: PT018  # for mypy
    assert ratios[1] is not None and ratios[1].median == 1  # noqa: PT018  # for mypy


def test_memory_is_that_of_all_tensors_at_the_fullest_moment() -> None:
    (found,) = measured([subject_of(nn.Sequential(nn.Linear(100, 50, bias=False), nn.ReLU()))], BRIEF)
    assert found["inference"].ratio is None
    weights, inputs, hidden = 5000 * BYTES, 4 * 100 * BYTES, 4 * 50 * BYTES
    # In inference the layer's output and that of ReLU exist together.
    assert found["inference"].peak_bytes == weights + inputs + 2 * hidden
    # In training there are also gradients, and both moments of AdamW, and what a step computes.
    assert found["training"].peak_bytes >= 4 * weights + inputs
    assert found["training"].peak_bytes < 7 * weights


def test_other_models_in_turns_do_not_count_to_the_memory() -> None:
    small, large = nn.Linear(100, 10), nn.Linear(100, 5000)
    (alone,) = measured([subject_of(small)], BRIEF)
    beside, _ = measured([subject_of(small), subject_of(large)], BRIEF)
    of_beside, of_alone = ({kind: each.peak_bytes for kind, each in found.items()} for found in (beside, alone))
    assert of_beside == of_alone


class Raises(nn.Module):
    """Model that raises an error."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def forward(self, inputs: Tensor) -> Tensor:
        """Raise the error."""
        raise self.error


def test_too_large_a_batch_and_a_models_own_error_are_refused() -> None:
    with pytest.raises(RobenchError, match=r"inference of mine with batches of 4 does not fit .* smaller --batch"):
        measured([subject_of(Raises(torch.OutOfMemoryError("CUDA out of memory")))], BRIEF)
    with pytest.raises(RobenchError, match=r"inference of mine with batches of 4 fails \(KeyError: 'x'\)"):
        measured([subject_of(Raises(KeyError("x")))], BRIEF)


def test_measuring_draws_nothing_from_the_callers_generator() -> None:
    torch.manual_seed(1)
    wanted = torch.rand(1)
    torch.manual_seed(1)
    measured([subject_of(nn.Dropout())], replace(BRIEF, trains=False))
    assert torch.equal(torch.rand(1), wanted)
