"""Measurements of the GPU battery of precisions, early stopping, small passes, draws and several processes."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from gpu_parts import PREPROCESSING, Part, Setting, Task, written_photographs

import robench
from robench.attacks.apgd import Apgd
from robench.attacks.pgd import Pgd
from robench.attacks.square import Square
from robench.core.errors import UsageError
from robench.core.seeds import Stream
from robench.datasets import open_dataset
from robench.datasets.packed_pixels import find_packed, pack
from robench.declare import find_datasets
from robench.devices import to_device
from robench.evaluation.arithmetic import arithmetic_for
from robench.models.precision import check_device
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Barrier

    from gpu_parts import Row

    from robench.attacks.base import Attack
    from robench.core.protocols import Model


def of_stopping(setting: Setting) -> Iterator[Task]:
    """Yield attacks with early stopping, eager and compiled."""
    steps, epsilon = setting.num_steps, Fraction(1, 255)
    attacks: dict[str, Attack] = {
        "PGD": Pgd(epsilon=epsilon, relative_step=Fraction(1, 4), num_steps=steps, stop="at_success"),
        "Square": Square(epsilon=epsilon, num_queries=5 * steps, p_init=0.8, stop="at_success"),
        "APGD": Apgd(epsilon=epsilon, num_steps=steps, stop="at_success"),
    }

    def measure(attack: Attack, precision: str) -> Row:
        model, batch = setting.model(precision=precision), setting.batch

        def run() -> None:
            perturb(attack, batch, model, ExampleDraws(range(len(batch.ids)), setting.device), len(batch.ids))

        first = setting.seconds(run)
        again = setting.seconds(run)
        return {"precision": precision, "first_seconds": first, "images_per_second": len(batch.ids) / again}

    for name, attack in attacks.items():
        for precision in ("float32", "float32-compiled"):
            yield Task(name, partial(measure, attack, precision))


def of_precisions(setting: Setting) -> Iterator[Task]:
    """Yield outcomes of a trained model in other precisions beside those in float32, and the speed of passes."""
    number = 8 if setting.is_tiny else 500
    steps = 2 if setting.is_tiny else 20
    attack = Pgd(epsilon=Fraction(4, 255), relative_step=Fraction(1, 4), num_steps=steps)
    batch = robench.load_dataset("digits").batch(0, number)
    batch = replace(
        batch, inputs=to_device(batch.inputs, setting.device), targets=to_device(batch.targets, setting.device)
    )

    def predicted(model: Model) -> torch.Tensor:
        with arithmetic_for(model):
            made = perturb(attack, batch, model, ExampleDraws(range(number), setting.device), number)
            with torch.no_grad():
                return model.outputs(made.inputs).argmax(1).cpu()

    def measure(precision: str) -> Row:
        try:
            check_device(precision, setting.device)
        except UsageError:
            return {"skipped": f"the device has no {precision.upper()}"}
        exact = robench.load_checkpoint("digits-vit", device=str(setting.device))
        other, timed = exact.in_precision(precision), setting.model(precision=precision)
        differ = int((predicted(exact) != predicted(other)).sum())
        with arithmetic_for(timed):
            setting.with_gradient(timed)
            seconds = setting.seconds(lambda: setting.with_gradient(timed))
        return {"images": number, "other_outcomes": differ, "gradients_per_second": setting.batch_size / seconds}

    for precision in ("float32", "tf32", "bfloat16"):
        yield Task(f"PGD in {precision}", partial(measure, precision))


def of_small_passes(setting: Setting) -> Iterator[Task]:
    """Yield passes of few rows, and how many kernels are launched a second."""

    def measure(num_rows: int) -> Row:
        shown = setting.first(num_rows).inputs

        def run() -> None:
            with torch.no_grad():
                setting.softmax.outputs(shown)

        run()
        return {"milliseconds": 1000 * setting.seconds(run)}

    def launches() -> Row:
        values, count = torch.zeros(1, device=setting.device), 100 if setting.is_tiny else 10_000

        def run() -> None:
            for _ in range(count):
                values.add_(1)

        run()
        return {"launches_per_second": count / setting.seconds(run)}

    for num_rows in dict.fromkeys((4, setting.batch_size // 4, setting.batch_size)):
        yield Task(f"forward pass of {num_rows} images", partial(measure, num_rows))
    yield Task("launches of a small kernel", launches)


def of_draws(setting: Setting) -> Iterator[Task]:
    """Yield random numbers of an image, drawn on the CPU and brought to the device."""
    shape, stream = setting.batch.inputs.shape[1:], Stream(purpose="battery")
    draws = ExampleDraws(range(setting.batch_size), setting.device)

    def measure(kind: str) -> Row:
        return {
            "milliseconds_per_image": 1000
            * setting.seconds(lambda: getattr(draws, kind)(stream, shape))
            / setting.batch_size
        }

    for kind in ("normal", "uniform", "signs"):
        yield Task(kind, partial(measure, kind))


def of_workers(setting: Setting) -> Iterator[Task]:
    """Yield gradients a second of several processes on one device."""

    def measure(count: int) -> Row:
        context = multiprocessing.get_context("spawn")
        barrier, rates = context.Barrier(count), context.Queue()
        given = str(setting.device), setting.is_tiny, barrier, rates
        workers = [context.Process(target=_worker, args=given, daemon=True) for _ in range(count)]
        for worker in workers:
            worker.start()
        found = [rates.get(timeout=120) for _ in workers]
        for worker in workers:
            worker.join()
        return {
            "gradients_per_second": sum(found),
            "MPS": "yes" if os.environ.get("CUDA_MPS_PIPE_DIRECTORY") else "no",
        }

    for count in (1, 2) if setting.is_tiny else (1, 2, 4, 8):
        yield Task(f"{count} processes", partial(measure, count))


def _worker(device: str, is_tiny: bool, barrier: Barrier, rates: Queue[float]) -> None:
    setting = Setting(torch.device(device), is_tiny=is_tiny)
    setting.with_gradient(setting.softmax)
    barrier.wait(timeout=100)
    seconds = setting.seconds(lambda: [setting.with_gradient(setting.softmax) for _ in range(setting.num_steps)])
    rates.put(setting.batch_size * setting.num_steps / seconds)


def of_reading(setting: Setting) -> Iterator[Task]:
    """Yield packed images beside decoded ones."""
    count, side = 8 if setting.is_tiny else 512, int(setting.architecture["image_size"])

    def measure() -> Row:
        with tempfile.TemporaryDirectory() as folder:
            declared = find_datasets([written_photographs(Path(folder), count)])["photographs"]
            scaled = replace(PREPROCESSING, resize=side, crop=side)
            dataset = open_dataset(declared, data_root=None, preprocessing=scaled)
            decoding = setting.seconds(lambda: dataset.batch(0, count))
            pack(dataset, Path(folder))  # type: ignore[arg-type]  # of image files
            packed = find_packed("photographs", dataset.identity.fingerprint, Path(folder), scaled)
            assert packed is not None
            reading = setting.seconds(lambda: packed.read(0, count))
        return {"decoded_per_second": count / decoding, "packed_per_second": count / reading}

    yield Task("packed images", measure)


FURTHER_PARTS = (
    Part("precisions", "Outcomes and passes in other precisions", 1, of_precisions),
    Part("stopping", "Attacks with early stopping, eager and compiled", 3, of_stopping),
    Part("small", "Passes of few rows", 0.3, of_small_passes),
    Part("draws", "Random numbers", 0.3, of_draws),
    Part("reading", "Packed images", 0.5, of_reading),
    Part("workers", "Several processes on one device", 1.5, of_workers),
)
