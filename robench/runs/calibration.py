"""Calibration of devices: seconds of a floating-point operation and of a worker's start, kept in a file.

The file is that of the variable ``ROBENCH_CALIBRATION``, by default ``~/.cache/robench/calibration.json``. It serves
estimates alone: no result depends on it, and what cannot be read counts as not calibrated.
"""

import json
import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from robench.core.checkpoint import Checkpoint
from robench.core.containment import Contained
from robench.core.declared import DatasetDeclaration
from robench.core.errors import ExampleError, RobenchError
from robench.core.files import write_whole
from robench.core.protocols import Dataset
from robench.domains import DOMAINS
from robench.evaluation.arithmetic import device_kind, fixed_arithmetic, library_versions
from robench.executors import Death, answers_in_a_process
from robench.models.in_memory_impl import model_of
from robench.models.loading import load_model
from robench.runs.devices import devices_of
from robench.scheduling.pace import BACKWARD_TO_INPUTS

FILE_VARIABLE = "ROBENCH_CALIBRATION"
SECONDS_EACH = 1.0
MATRIX_SIZES = {"cpu": 1024, "cuda": 8192}
ROWS = {"cpu": 8, "cuda": 128}
IMAGE_SIZE, PATCH_SIZE, WIDTH, DEPTH, NUM_HEADS = 224, 16, 192, 4, 3
START_LIMIT_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Calibration of one kind of device.

    Attributes:
        device: kind of device, such as ``cpu AVX512`` or ``NVIDIA H200``.
        seconds_per_flop: seconds of a forward and a backward pass of a small vision transformer, over the
            floating-point operations of its forward pass; with the settings that measure (one thread on a CPU).
        matmul_flops: floating-point operations per second of a product of large matrices.
        startup_seconds: time from the start of a worker process until torch is imported and it answers.
        at: UTC time, ISO 8601.
        versions: version of each library involved.
    """

    device: str
    seconds_per_flop: float
    matmul_flops: float
    startup_seconds: float
    at: str
    versions: Mapping[str, str]


def calibration_file() -> Path:
    """Return the file that calibrations are kept in, which may not exist."""
    named = os.environ.get(FILE_VARIABLE)
    return Path(named).expanduser() if named else Path.home() / ".cache" / "robench" / "calibration.json"


def calibrations() -> dict[str, Calibration]:
    """Return the kept calibrations by kind of device; broken entries are left out."""
    try:
        kept = json.loads(calibration_file().read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    entries = kept.values() if isinstance(kept, dict) else ()
    return {found.device: found for entry in entries if (found := _calibration(entry)) is not None}


def calibrated(kind: str) -> Calibration | None:
    """Return the calibration of a kind of device; None without one."""
    return calibrations().get(kind)


def speed_of(device: str) -> float | None:
    """Return the speed of forward passes on a device, in floating-point operations a second; None if not calibrated."""
    found = calibrated(device_kind(torch.device(devices_of(device)[0])))
    return None if found is None else (1 + BACKWARD_TO_INPUTS) / found.seconds_per_flop


def calibrate(device: str) -> Calibration:
    """Time the device for a few seconds, and keep and return its calibration.

    Raises:
        RobenchError: a worker process cannot start, or the file cannot be written.
    """
    where = torch.device(device)
    with fixed_arithmetic(where):
        found = Calibration(
            device=device_kind(where),
            seconds_per_flop=_seconds_per_flop(where),
            matmul_flops=_matmul_flops(where),
            startup_seconds=_startup_seconds(),
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            versions=library_versions(),
        )
    _keep({**calibrations(), found.device: found})
    return found


def _calibration(entry: Any) -> Calibration | None:
    try:
        found = Calibration(**entry)
    except TypeError:
        return None
    numbers = found.seconds_per_flop, found.matmul_flops, found.startup_seconds
    texts = found.device, found.at
    is_sound = all(isinstance(each, float | int) and 0 < each < math.inf for each in numbers)
    are_texts = all(isinstance(each, str) for each in texts) and isinstance(found.versions, dict)
    return found if is_sound and are_texts else None


def _keep(calibrations: Mapping[str, Calibration]) -> None:
    path = calibration_file()
    text = json.dumps({kind: asdict(each) for kind, each in sorted(calibrations.items())}, indent=1)
    try:
        write_whole(path, f"{text}\n".encode())
    except OSError as error:
        raise RobenchError(
            f"the calibration cannot be written to {path}: {error.strerror}; name another file by {FILE_VARIABLE}"
        ) from error


class _Block(torch.nn.Module):
    """Transformer block of the calibrated model."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList([torch.nn.LayerNorm(WIDTH) for _ in range(2)])
        self.qkv, self.joined = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        rows, length, _ = tokens.shape
        split = self.qkv(self.norms[0](tokens)).reshape(rows, length, 3, NUM_HEADS, -1).permute(2, 0, 3, 1, 4)
        scores = split[0] @ split[1].mT * (WIDTH // NUM_HEADS) ** -0.5
        tokens = tokens + self.joined((scores.softmax(-1) @ split[2]).transpose(1, 2).reshape(rows, length, WIDTH))
        transformed: torch.Tensor = tokens + self.mlp(self.norms[1](tokens))
        return transformed


class _SmallVit(torch.nn.Module):
    """Vision transformer of four blocks of a DeiT-tiny, whose attention is written out as in models under test."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = torch.nn.Conv2d(3, WIDTH, PATCH_SIZE, PATCH_SIZE)
        self.blocks = torch.nn.Sequential(*(_Block() for _ in range(DEPTH)))
        self.head = torch.nn.Linear(WIDTH, 1000)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.blocks(self.patches(images).flatten(2).mT).mean(1))
        return scores


def _seconds_per_flop(device: torch.device) -> float:
    model = _SmallVit().to(device).requires_grad_(requires_grad=False)
    images = torch.rand(ROWS.get(device.type, 8), 3, IMAGE_SIZE, IMAGE_SIZE, device=device, requires_grad=True)

    def both() -> None:
        torch.autograd.grad(model(images).square().sum(), images)

    with torch.no_grad():
        flops = flops_of_a_pass(lambda: model(images))
    return _seconds_of(both, device) / flops


def _matmul_flops(device: torch.device) -> float:
    size = MATRIX_SIZES.get(device.type, 1024)
    matrix = torch.rand(size, size, device=device)
    return 2 * size**3 / _seconds_of(lambda: torch.mm(matrix, matrix), device)


def _seconds_of(work: Callable[[], object], device: torch.device) -> float:
    """Return the shortest time of some work that is repeated for a while, after one repetition to warm up."""
    work()
    times: list[float] = []
    started = time.perf_counter()
    while not times or time.perf_counter() - started < SECONDS_EACH:
        _finish(device)
        begun = time.perf_counter()
        work()
        _finish(device)
        times.append(time.perf_counter() - begun)
    return min(times)


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _startup_seconds() -> float:
    started = time.perf_counter()
    with closing(answers_in_a_process(_number_of_threads, [0], START_LIMIT_SECONDS)) as answers:
        answer, seconds = next(answers), time.perf_counter() - started
    if isinstance(answer, Death):
        raise RobenchError(f"a worker process cannot start: it {answer.what}; {answer.advice}")
    return seconds


def _number_of_threads(task: object) -> int:
    """Return the number of threads, for which a worker has to import torch."""
    return torch.get_num_threads()


def flops_of_a_pass(forward: Callable[[], object]) -> int:
    """Return the floating-point operations of what ``forward`` computes: two of each product that is summed."""
    with FlopCounterMode(display=False) as counter:
        forward()
    found: int = counter.get_total_flops()
    return found


def flops_of(
    checkpoint: Checkpoint, declared: DatasetDeclaration, dataset: Dataset, module: nn.Module | None = None
) -> int | None:
    """Return the floating-point operations of a forward pass of one example, counted on the CPU.

    ``module`` is the module of a checkpoint in memory. None if inputs differ in length, the first example cannot be
    read, or torch cannot count the model's operations.
    """
    domain = DOMAINS[declared.domain]
    if not domain.is_real_valued:
        return None
    # An error in a model's code appears in its checks as well; here it costs an estimate alone.
    with suppress(ExampleError, Exception), Contained(), torch.no_grad():
        inputs = domain.rules.collate([dataset[0][0]])
        model = load_model(checkpoint) if module is None else model_of(checkpoint, module)
        return flops_of_a_pass(lambda: model.outputs(inputs, [0])) or None
    return None
