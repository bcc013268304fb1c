"""Ranks by variables of srun, torchrun and Kubernetes, and the request of a rank."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from robench.core.errors import UsageError
from robench.declare import find_checkpoints, find_suite
from robench.runs import RunRequest
from robench.runs.ranks import ALONE, Rank, as_rank, rank_of

SLURM = {"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1"}
STEP = {**SLURM, "SLURM_STEP_ID": "0"}


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, (0, 1, 0)),
        (STEP, (3, 8, 1)),
        # One step of several of a job; a batch script, which runs once; and an array of jobs.
        ({**STEP, "SLURM_STEP_NUM_TASKS": "4"}, (3, 4, 1)),
        (SLURM, (0, 1, 0)),
        ({"SLURM_ARRAY_TASK_ID": "3"}, (0, 1, 0)),
        ({"RANK": "5", "WORLD_SIZE": "16", "LOCAL_RANK": "1"}, (5, 16, 1)),
        # torchrun below srun starts ranks of its own.
        ({**STEP, "RANK": "5", "WORLD_SIZE": "16", "LOCAL_RANK": "1"}, (5, 16, 1)),
        ({"RANK": "5"}, (0, 1, 0)),
        ({"RANK": "0", "WORLD_SIZE": "1"}, (0, 1, 0)),
        ({"JOB_COMPLETION_INDEX": "2", "WORLD_SIZE": "4"}, (2, 4, 0)),
    ],
)
def test_ranks_of_environments(environment: dict[str, str], wanted: tuple[int, int, int]) -> None:
    found = rank_of(environment)
    assert (found.number, found.count, found.local) == wanted


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"JOB_COMPLETION_INDEX": "2"},
            "WORLD_SIZE is not set; set it to a number, or .* --ignore-ranks",
        ),
        ({"RANK": "-1", "WORLD_SIZE": "4"}, "RANK is '-1'"),
        ({"RANK": "4", "WORLD_SIZE": "4"}, "RANK is 4 and WORLD_SIZE 4: ranks count from 0"),
    ],
)
def test_refused_environments(environment: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        rank_of(environment)


def request(**fields: Any) -> RunRequest:
    suites, checkpoints = (find_suite("digits-adv"),), tuple(find_checkpoints(["digits-vit"]))
    return RunRequest(suites=suites, checkpoints=checkpoints, **fields)


RANK = Rank(2, 4, 1, "RANK and WORLD_SIZE")


@pytest.mark.parametrize(("num_gpus", "device"), [(0, "auto"), (1, "cuda:0"), (4, "cuda:1")])
def test_a_rank_has_a_part_a_worker_and_a_device(num_gpus: int, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: num_gpus > 0)
    monkeypatch.setattr("torch.cuda.device_count", lambda: num_gpus)
    found = as_rank(request(), RANK)
    assert (found.part, found.take_over, found.device, found.workers) == ((3, 4), True, device, 1)
    asked = request(device="cpu", workers=3, part=(3, 4))
    assert as_rank(asked, RANK) == replace(asked, take_over=True)
    assert as_rank(asked, ALONE) is asked


def test_a_rank_contradicts_another_part_and_more_ranks_than_shards_are_refused() -> None:
    with pytest.raises(UsageError, match=r"--part 1/4 contradicts rank 2 of 4 .*, whose part is 3/4"):
        as_rank(request(part=(1, 4)), RANK)
    assert rank_of({"JOB_COMPLETION_INDEX": "2"}, part=(3, 4)) == Rank(2, 4, 0, "JOB_COMPLETION_INDEX and WORLD_SIZE")
    shards = tuple(SimpleNamespace(key=str(number)) for number in range(4))
    RANK.check(SimpleNamespace(shards=shards))  # type: ignore[arg-type]  # what it reads
    with pytest.raises(UsageError, match=r"rank 2 of 4 .*, and the run has 3 shards"):
        RANK.check(SimpleNamespace(shards=shards[:3] * 2))  # type: ignore[arg-type]


def test_a_dry_run_lists_the_part_of_a_rank(
    robench: Any, small_suite: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = "run", "--suite", small_suite(), "--model", "digits-vit", "--results", tmp_path, "--dry-run", "--json"
    monkeypatch.setenv("WORLD_SIZE", "2")
    titles = []
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        titles += json.loads(robench(*asked).stdout)["titles"]
    assert sorted(titles) == sorted(json.loads(robench(*asked, "--ignore-ranks").stdout)["titles"])
