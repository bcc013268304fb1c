"""Time left of a queue of trainings: said once every kind that is left has been timed, and then close to the truth."""

from pathlib import Path

import pytest

from robench.declare import find_checkpoints
from robench.runs import training_queue
from robench.runs.training_queue import Job
from robench.training.base import Host

NUM_EPOCHS = 100


def said_in(names: list[str], epoch_seconds: list[float], monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float]]:
    """Return what a queue of one process says of the time left, with the truth, after each epoch."""
    done, now = dict.fromkeys(names, 0), 0.0
    host = Host(data_root=None, device="cpu", micro_batch_size=None, decode_workers=1, state_path=None)
    jobs = [Job(checkpoint=each, host=host, history=Path(each.name)) for each in find_checkpoints(names)]
    monkeypatch.setattr(training_queue, "_epochs", lambda job: (None,) * done[job.checkpoint.name])
    monkeypatch.setattr(training_queue.time, "monotonic", lambda: now)
    end = sum(30 + seconds * (NUM_EPOCHS - 1) for seconds in epoch_seconds)
    clock, said = training_queue._Clock(jobs, 1), []
    for job, seconds in zip(jobs, epoch_seconds, strict=True):
        clock.moved([job])
        for epoch in range(NUM_EPOCHS):
            # Libraries and data are loaded in the first one.
            now += seconds if epoch else 30
            done[job.checkpoint.name] += 1
            clock.moved([job])
            if (found := clock.progress.seconds_left) is not None and now < end:
                said.append((found, end - now))
        clock.ended(job)
    return said


@pytest.mark.parametrize(
    ("names", "epoch_seconds", "num_said"),
    [
        (["digits-vit", "digits-rpc-symvit"], [1.0, 10.0], NUM_EPOCHS - 2),
        (["digits-vit", "digits-vit@1", "digits-vit@2"], [4.0, 4.0, 4.0], 3 * NUM_EPOCHS - 2),
    ],
)
def test_it_is_said_within_a_factor_of_three(
    names: list[str], epoch_seconds: list[float], num_said: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = said_in(names, epoch_seconds, monkeypatch)
    assert abs(len(said) - num_said) <= 1
    assert [each for each in said if not each[1] / 3 <= each[0] <= 3 * each[1]] == []
