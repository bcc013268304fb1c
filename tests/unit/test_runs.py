"""Which devices measure, with how many workers, and which requests are refused before anything is opened."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from examples import CHECKPOINT
from robench.core.errors import UsageError
from robench.core.suite import Suite
from robench.declare import find_suite
from robench.runs import RunRequest, choose_workers, devices

SUITE: Suite = find_suite("digits-adv")


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices.os, "sched_getaffinity", lambda process: set(range(8)), raising=False)


@pytest.mark.usefixtures("eight_cores")
class TestWithoutGpu:
    @pytest.fixture(autouse=True)
    def _no_gpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    def test_there_is_a_worker_for_each_core(self) -> None:
        workers = choose_workers("auto", None, "auto")
        assert workers.devices == ("cpu",) * 8
        assert not workers.in_process
        assert workers.decode_workers == 1

    def test_as_many_as_asked_for(self) -> None:
        assert choose_workers("cpu", 3, "auto").devices == ("cpu",) * 3

    def test_one_worker_needs_no_process_unless_it_is_asked_for(self) -> None:
        assert choose_workers("cpu", 1, "auto").in_process
        assert not choose_workers("cpu", 1, "processes").in_process
        assert choose_workers("cpu", None, "serial").in_process

    def test_with_a_limit_of_time_even_one_worker_is_a_process(self) -> None:
        assert not choose_workers("cpu", 1, "auto", 5.0).in_process
        assert choose_workers("cpu", None, "serial").in_process

    def test_cores_that_do_not_measure_decode(self) -> None:
        assert choose_workers("cpu", 2, "auto").decode_workers == 4

    @pytest.mark.parametrize("device", ["cuda", "cuda:0", "tpu", "CPU"])
    def test_an_absent_device_is_refused_with_those_that_there_are(self, device: str) -> None:
        with pytest.raises(UsageError, match=rf"no device '{device}' on this machine; there is: cpu$"):
            choose_workers(device, None, "auto")


@pytest.mark.usefixtures("two_gpus", "eight_cores")
class TestWithGpus:
    @pytest.mark.parametrize("device", ["auto", "cuda"])
    def test_there_is_a_worker_for_each_gpu(self, device: str) -> None:
        workers = choose_workers(device, None, "auto")
        assert workers.devices == ("cuda:0", "cuda:1")
        assert workers.decode_workers == 4

    def test_more_workers_share_the_gpus_in_turn(self) -> None:
        assert choose_workers("cuda", 3, "auto").devices == ("cuda:0", "cuda:1", "cuda:0")

    def test_one_gpu_can_be_named_and_is_used_in_this_process(self) -> None:
        workers = choose_workers("cuda:1", None, "auto")
        assert (workers.devices, workers.in_process) == (("cuda:1",), True)

    def test_the_cpu_can_still_be_asked_for(self) -> None:
        assert set(choose_workers("cpu", None, "auto").devices) == {"cpu"}

    def test_an_absent_gpu_is_refused_with_those_that_there_are(self) -> None:
        with pytest.raises(UsageError, match="there is: cpu, cuda, cuda:0, cuda:1"):
            choose_workers("cuda:2", None, "auto")


class TestRequest:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"limit": 0}, "--limit must be at least 1, got 0"),
            ({"workers": 0}, "--workers must be at least 1, got 0"),
            ({"executor": "serial", "workers": 2}, "leave one of them out"),
            ({"shard_timeout": 0.0}, "--shard-timeout must be a number of seconds above 0, got 0.0"),
            ({"shard_timeout": float("nan")}, "--shard-timeout must be a number of seconds above 0, got nan"),
            ({"shard_timeout": 5.0, "executor": "serial"}, "--shard-timeout; leave one of them out"),
            ({"suites": (SUITE, SUITE)}, "two of the suites are named digits-adv"),
            (
                {"checkpoints": (replace(CHECKPOINT, task="language"),)},
                "is for classification, but model 'm' is for language",
            ),
        ],
        ids=lambda value: value if isinstance(value, str) else None,
    )
    def test_what_cannot_be_met_is_refused(self, changes: dict[str, Any], message: str) -> None:
        fields: dict[str, Any] = {"suites": (SUITE,), "checkpoints": (CHECKPOINT,)}
        with pytest.raises(UsageError, match=message):
            RunRequest(**(fields | changes))

    def test_what_is_not_said_takes_its_default(self) -> None:
        request = RunRequest(suites=(SUITE,), checkpoints=(CHECKPOINT,), data_root=Path("data"))
        assert (request.device, request.executor, request.workers, request.limit) == ("auto", "auto", None, None)
