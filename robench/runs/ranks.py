"""Ranks: the part of a run, and the GPU, of a process that srun, torchrun or a Kubernetes Job started beside others.

All ranks share one results folder. Each measures its part and then what is left of the others, so that rank 0 ends when
everything is stored. The part of a killed rank is measured by the others, or by the next start.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from robench.core.errors import UsageError
from robench.runs.devices import AUTO
from robench.runs.prepare import PreparedRun
from robench.runs.request import RunRequest

IGNORED = "or run robench with --ignore-ranks, which measures everything in this process alone"


@dataclass(frozen=True, slots=True)
class Rank:
    """Number of a process, from 0, among ``count`` of a job, ``local`` among those of its machine, and who says so."""

    number: int
    count: int
    local: int
    source: str

    @property
    def title(self) -> str:
        """Return the rank in words."""
        return f"rank {self.number} of {self.count} ({self.source})"

    def check(self, prepared: PreparedRun) -> None:
        """Refuse more ranks than there are shards. Raises UsageError."""
        num_shards = len({shard.key for shard in prepared.shards})
        if self.count > max(1, num_shards):
            raise UsageError(
                f"{self.title}, and the run has {num_shards} shards: start at most as many ranks, or let the suites "
                f"have smaller shards (batches_per_shard), {IGNORED}"
            )


# A process on its own.
ALONE = Rank(0, 1, 0, "")


def rank_of(environment: Mapping[str, str], part: tuple[int, int] | None = None) -> Rank:
    """Return the rank that variables of the environment state; without one ``ALONE``.

    These are ``SLURM_PROCID`` and ``SLURM_NTASKS`` of a process that srun started, ``RANK``, ``WORLD_SIZE`` and
    ``LOCAL_RANK`` of torchrun, and ``JOB_COMPLETION_INDEX`` of an Indexed Job of Kubernetes, for which ``WORLD_SIZE``
    is to be set, unless ``part`` says how many there are.

    Raises:
        UsageError: a variable is missing or no number, or the rank is not below the count.
    """
    if "RANK" in environment and "WORLD_SIZE" in environment:
        names = "RANK", "WORLD_SIZE", "LOCAL_RANK"
    # Of a batch script, which runs once, Slurm states the number of tasks as well.
    elif "SLURM_PROCID" in environment and "SLURM_STEP_ID" in environment:
        of_step = "SLURM_STEP_NUM_TASKS"
        names = "SLURM_PROCID", of_step if of_step in environment else "SLURM_NTASKS", "SLURM_LOCALID"
    elif "JOB_COMPLETION_INDEX" in environment:
        names = "JOB_COMPLETION_INDEX", "WORLD_SIZE", "LOCAL_RANK"
        if part is not None:
            environment = {"WORLD_SIZE": str(part[1]), **environment}
    else:
        return ALONE
    number, count = (_number(environment, name) for name in names[:2])
    if number >= count:
        raise UsageError(f"{names[0]} is {number} and {names[1]} {count}: ranks count from 0; correct them, {IGNORED}")
    local = _number(environment, names[2]) if names[2] in environment else 0
    return ALONE if count == 1 else Rank(number, count, local, f"{names[0]} and {names[1]}")


def as_rank(request: RunRequest, rank: Rank) -> RunRequest:
    """Return the request of one rank: its part, what is left of the others, and one worker on its own device.

    That of a process on its own stays as it is. ``device``, ``workers`` and ``executor`` that are asked for stay.

    Raises:
        UsageError: another part is asked for.
    """
    if rank == ALONE:
        return request
    part = rank.number + 1, rank.count
    if request.part not in (None, part):
        asked, own = ("/".join(map(str, each)) for each in (request.part, part))
        raise UsageError(f"--part {asked} contradicts {rank.title}, whose part is {own}; leave --part out, {IGNORED}")
    device, num_gpus = request.device, torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device in (AUTO, "cuda") and num_gpus:
        device = f"cuda:{rank.local % num_gpus}"
    is_free = request.workers is None and request.executor == AUTO
    return replace(request, part=part, take_over=True, device=device, workers=1 if is_free else request.workers)


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name)
    if text is None or not (text.isascii() and text.isdecimal()):
        found = "is not set" if text is None else f"is {text!r}"
        raise UsageError(f"this process has a rank, and {name} {found}; set it to a number, {IGNORED}")
    return int(text)
