"""Measurements of the GPU battery: each part is a list of tasks, and each task returns the values of one row."""

from __future__ import annotations

import io
import os
import tempfile
import time
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image
from torch.nn.functional import cross_entropy

import robench
from robench.attacks.autoattack import AutoAttack
from robench.attacks.fgsm import Fgsm
from robench.attacks.pgd import Pgd
from robench.attention import ATTENTIONS
from robench.core.protocols import Batch
from robench.corruptions import TYPES
from robench.corruptions.corruption import Corruption
from robench.datasets import open_dataset
from robench.declarations.preprocessing import ImagePreprocessing
from robench.declare import find_datasets
from robench.devices import to_device
from robench.models import precision as model_precision
from robench.models.loaded import LoadedModel
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws
from robench.testing.models import rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from robench.attacks.base import Attack

Row = dict[str, Any]
MODEL = {"backbone": "vit", "image_size": 224, "patch_size": 16, "num_classes": 1000, "depth": 12, "dim": 192}
TINY_MODEL = {"backbone": "vit", "image_size": 32, "patch_size": 8, "num_classes": 10, "depth": 2, "dim": 24}
PREPROCESSING = ImagePreprocessing(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
# Fields of mechanisms without a default, at the sizes of their papers and for 17 tokens.
FIELDS: dict[str, tuple[str, int, int]] = {
    "rpc": ("num_iterations", 6, 2),
    "rpc-asymmetric": ("num_iterations", 6, 2),
    "performer": ("num_features", 64, 4),
    "primal": ("num_directions", 96, 4),
    "linformer": ("projection_length", 64, 4),
    "nystrom": ("num_landmarks", 64, 4),
}
PRECISIONS = ("float32", "bfloat16", "float32-compiled", "bfloat16-compiled")
EXACT = "float32"


@dataclass
class Setting:
    """Device and sizes of all measurements."""

    device: torch.device
    is_tiny: bool = False

    def __post_init__(self) -> None:
        self.architecture = (TINY_MODEL if self.is_tiny else MODEL) | {"num_heads": 3}
        self.num_rounds = 1 if self.is_tiny else 5
        self.batch_size = 4 if self.is_tiny else 128
        self.num_steps = 2 if self.is_tiny else 20
        if self.is_tiny:
            # Graphs are traced, and run without a compiler.
            model_precision.COMPILER = "eager"

    @property
    def title(self) -> str:
        """Return the size of the model in words."""
        side, depth, dim = (self.architecture[name] for name in ("image_size", "depth", "dim"))
        return f"ViT at {side} pixels, {depth} layers of width {dim}, random weights, batches of {self.batch_size}"

    def model(self, kind: str = "softmax", precision: str = EXACT) -> LoadedModel:
        """Return a model with random weights and a mechanism."""
        name, large, small = FIELDS.get(kind, ("", 0, 0))
        fields = {name: small if self.is_tiny else large} if name else {}
        torch.manual_seed(0)
        module = robench.build_model(self.architecture | {"attention": {"kind": kind, **fields}})
        return LoadedModel(module, PREPROCESSING, self.device).in_precision(precision)

    @cached_property
    def softmax(self) -> LoadedModel:
        """Return the model with softmax attention in float32."""
        return self.model()

    @cached_property
    def batch(self) -> Batch:
        """Return random images with the classes that the softmax model predicts."""
        side = int(self.architecture["image_size"])
        inputs = torch.rand(self.batch_size, 3, side, side, generator=torch.Generator().manual_seed(0))
        inputs = inputs.to(self.device)
        with torch.no_grad():
            targets = self.softmax.outputs(inputs).argmax(1)
        return Batch(ids=tuple(map(str, range(self.batch_size))), inputs=inputs, targets=targets)

    @cached_property
    def epsilon(self) -> Fraction:
        """Return the budget, in 2040ths, at which PGD fools about half of the images."""
        low, high = 0, 2040
        for _ in range(1 if self.is_tiny else 11):
            middle = (low + high) // 2
            made = self.attacked(Pgd(epsilon=Fraction(middle, 2040), relative_step=Fraction(1, 4), num_steps=5))
            with torch.no_grad():
                fooled = self.softmax.outputs(made).argmax(1) != self.batch.targets
            low, high = (low, middle) if float(fooled.float().mean()) > 0.5 else (middle, high)
        return Fraction(max(high, 1), 2040)

    def attacked(self, declared: Attack, batch: Batch | None = None) -> torch.Tensor:
        """Return what an attack makes of a batch."""
        batch = batch or self.batch
        draws = ExampleDraws(range(len(batch.ids)), self.device)
        return perturb(declared, batch, self.softmax, draws, len(batch.ids)).inputs

    def first(self, number: int) -> Batch:
        """Return the first examples of the batch."""
        return rows_of(self.batch, range(min(number, self.batch_size)))

    def wait(self) -> None:
        """Wait until the device is idle."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def seconds(self, function: Callable[[], object]) -> float:
        """Return the seconds of one call."""
        self.wait()
        started = time.perf_counter()
        function()
        self.wait()
        return time.perf_counter() - started

    def compared(self, own: Callable[[], object], other: Callable[[], object]) -> tuple[float, float]:
        """Return the median seconds of both, measured in turns after a first call of each."""
        own(), other()
        pairs = [(self.seconds(own), self.seconds(other)) for _ in range(self.num_rounds)]
        return median(each[0] for each in pairs), median(each[1] for each in pairs)

    def with_gradient(self, model: LoadedModel) -> None:
        """Run one forward and one backward pass for the inputs."""
        inputs = self.batch.inputs.detach().clone().requires_grad_()
        torch.autograd.grad(cross_entropy(model.outputs(inputs), self.batch.targets), inputs)

    def forward(self, model: LoadedModel) -> None:
        """Run one forward pass."""
        with torch.no_grad():
            model.outputs(self.batch.inputs)


@dataclass(frozen=True)
class Task:
    """Measurement of one row, and the modules that it imports."""

    name: str
    measure: Callable[[], Row]
    requires: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """Measurements with a weight by which they get time."""

    name: str
    title: str
    weight: float
    tasks: Callable[[Setting], Iterable[Task]]


class AsModule(torch.nn.Module):
    """Model as other libraries take it."""

    def __init__(self, model: LoadedModel) -> None:
        super().__init__()
        self.model = model
        self.anchor = torch.nn.Parameter(torch.zeros(1, device=model.device))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        return self.model.outputs(pixels)


def beside(own: float, theirs: float) -> Row:
    """Return the seconds of robench and of another library, and how many times as fast robench is."""
    return {"seconds": own, "seconds_of_library": theirs, "gain": theirs / own}


def of_passes(setting: Setting) -> Iterator[Task]:
    """Yield PGD over bare forward and backward passes."""

    def measure() -> Row:
        pgd = Pgd(epsilon=Fraction(8, 255), relative_step=Fraction(1, 4), num_steps=setting.num_steps, returns="last")

        def bare() -> None:
            for _ in range(setting.num_steps):
                setting.with_gradient(setting.softmax)

        own, passes = setting.compared(lambda: setting.attacked(pgd), bare)
        rate = setting.batch_size * setting.num_steps / own
        return {"seconds": own, "bare_seconds": passes, "over_bare": own / passes, "passes_per_second": rate}

    yield Task(f"PGD of {setting.num_steps} steps", measure)


def of_attacks(setting: Setting) -> Iterator[Task]:
    """Yield attacks with early stopping beside other libraries'."""

    def pgd() -> Row:
        import torchattacks

        epsilon, steps = setting.epsilon, setting.num_steps
        declared = Pgd(epsilon=epsilon, step_size=epsilon / 4, num_steps=steps, stop="at_success")
        attack = torchattacks.PGD(AsModule(setting.softmax), eps=float(epsilon), alpha=float(epsilon / 4), steps=steps)
        batch = setting.batch
        own, theirs = setting.compared(lambda: setting.attacked(declared), lambda: attack(batch.inputs, batch.targets))
        return {"epsilon": str(epsilon), "images": len(batch.ids)} | beside(own, theirs)

    def autoattack() -> Row:
        import pyautoattack

        # At a budget that fools all images at once, the ensemble takes seconds.
        epsilon = Fraction(1, 2) if setting.is_tiny else setting.epsilon
        batch = setting.first(2 if setting.is_tiny else 32)
        attack = pyautoattack.AutoAttack(
            AsModule(setting.softmax), norm="Linf", eps=float(epsilon), device=str(setting.device), seed=0
        )

        def other() -> None:
            with redirect_stdout(io.StringIO()):
                attack.run_standard_evaluation(batch.inputs, batch.targets, batch_size=len(batch.ids))

        own = setting.seconds(lambda: setting.attacked(AutoAttack(variant="standard", epsilon=epsilon), batch))
        theirs = setting.seconds(other)
        return {"epsilon": str(epsilon), "images": len(batch.ids)} | beside(own, theirs)

    yield Task("PGD to success over torchattacks", pgd, ("torchattacks",))
    yield Task("AutoAttack (standard) over pyautoattack", autoattack, ("pyautoattack",))


def of_mechanisms(setting: Setting) -> Iterator[Task]:
    """Yield passes of all mechanisms, eager ones first, since compiling takes long."""

    def measure(kind: str, precision: str) -> Row:
        if setting.is_tiny and precision != EXACT and kind != "softmax":
            return {"skipped": "at tiny sizes other precisions are those of softmax alone"}
        model = setting.model(kind, precision)
        row: Row = {"precision": precision}
        for name, run in (("forward", setting.forward), ("gradient", setting.with_gradient)):
            first, *further = (setting.seconds(partial(run, model)) for _ in range(1 + setting.num_rounds))
            row |= {f"{name}_images_per_second": setting.batch_size / median(further), f"first_{name}_seconds": first}
        return row

    for precision in PRECISIONS:
        for kind in ATTENTIONS:
            yield Task(f"{kind} {precision}", partial(measure, kind, precision))


def of_corruptions(setting: Setting) -> Iterator[Task]:
    """Yield corruptions beside imagecorruptions, which computes on the CPU."""

    def measure(kind: Any) -> Row:
        import imagecorruptions

        batch = setting.first(2 if setting.is_tiny else 32)
        images = (batch.inputs * 255).round().permute(0, 2, 3, 1).byte().cpu().numpy()
        declared, draws = Corruption(type=kind, severity=3), ExampleDraws(range(len(batch.ids)), setting.device)
        own, theirs = setting.compared(
            lambda: perturb(declared, batch, setting.softmax, draws, len(batch.ids)),
            lambda: [imagecorruptions.corrupt(image, 3, kind) for image in images],
        )
        count = len(batch.ids)
        return {"images_per_second": count / own, "images_per_second_of_library": count / theirs, "gain": theirs / own}

    for kind in TYPES:
        yield Task(kind, partial(measure, kind), ("imagecorruptions",))


def of_decoding(setting: Setting) -> Iterator[Task]:
    """Yield decoding of JPEG files beside forward passes."""
    count, side = 8 if setting.is_tiny else 512, int(setting.architecture["image_size"])

    def measure(num_workers: int) -> Row:
        with tempfile.TemporaryDirectory() as folder:
            declared = find_datasets([written_photographs(Path(folder), count)])["photographs"]
            scaled = replace(PREPROCESSING, resize=side, crop=side)
            dataset = open_dataset(declared, data_root=None, preprocessing=scaled, decode_workers=num_workers)
            dataset.batch(0, 1)
            decoding = setting.seconds(lambda: dataset.batch(0, count))
        forward = setting.seconds(lambda: setting.forward(setting.softmax))
        decoded, computed = count / decoding, setting.batch_size / forward
        row = {"decoded_per_second": decoded, "forward_per_second": computed}
        return row | {"decoding_over_compute": computed / decoded}

    for num_workers in (0,) if setting.is_tiny else dict.fromkeys((0, 4, os.cpu_count() or 1)):
        yield Task(f"{num_workers} decoding processes", partial(measure, num_workers))


def written_photographs(folder: Path, count: int) -> Path:
    """Write smooth random JPEG files of the size of ImageNet's into class folders, and a registry of them."""
    generator = np.random.default_rng(0)
    for number in range(count):
        coarse = generator.integers(0, 256, (12, 16, 3), dtype=np.uint8)
        path = folder / f"class-{number % 2}" / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(coarse).resize((500, 375), Image.Resampling.BICUBIC).save(path, quality=90)
    registry = folder / "photographs.yaml"
    registry.write_text("datasets:\n  photographs: {kind: image-folder, path: .}\n")
    return registry


def of_idleness(setting: Setting) -> Iterator[Task]:
    """Yield the proportion of time in which the device computes nothing."""

    def measure(function: Callable[[], object]) -> Row:
        function()
        if setting.device.type != "cuda":
            started = time.process_time()
            wall = setting.seconds(function)
            busy = min(time.process_time() - started, wall)
        else:
            activities = [torch.profiler.ProfilerActivity.CUDA]
            with torch.profiler.profile(activities=activities) as profile:
                wall = setting.seconds(function)
            busy = sum(event.self_device_time_total for event in profile.key_averages()) / 1e6
        return {"seconds": wall, "busy_seconds": busy, "idle_proportion": max(0.0, 1 - busy / wall)}

    pgd = Pgd(epsilon=Fraction(8, 255), relative_step=Fraction(1, 4), num_steps=setting.num_steps)
    yield Task("forward passes", partial(measure, lambda: setting.forward(setting.softmax)))
    yield Task("PGD", partial(measure, lambda: setting.attacked(pgd)))
    yield Task("PGD of 4 images", partial(measure, lambda: setting.attacked(pgd, setting.first(4))))


def of_memory(setting: Setting) -> Iterator[Task]:
    """Yield the largest memory of the device that passes and attacks allocate."""

    def measure(function: Callable[[], object]) -> Row:
        if setting.device.type != "cuda":
            return {"skipped": "a CPU does not count allocations"}
        setting.wait()
        torch.cuda.reset_peak_memory_stats(setting.device)
        before = torch.cuda.memory_allocated(setting.device)
        function()
        setting.wait()
        peak = torch.cuda.max_memory_allocated(setting.device)
        return {"peak_mib": peak / 2**20, "mib_per_image": (peak - before) / setting.batch_size / 2**20}

    pgd = Pgd(epsilon=Fraction(8, 255), relative_step=Fraction(1, 4), num_steps=2)
    yield Task("forward pass", partial(measure, lambda: setting.forward(setting.softmax)))
    yield Task("forward and backward pass", partial(measure, lambda: setting.with_gradient(setting.softmax)))
    yield Task("PGD", partial(measure, lambda: setting.attacked(pgd)))


def of_outcomes(setting: Setting) -> Iterator[Task]:
    """Yield outcomes of a trained model on the device beside those on the CPU."""
    number = 8 if setting.is_tiny else 200
    attacks: dict[str, Attack | None] = {
        "clean": None,
        "FGSM": Fgsm(epsilon=Fraction(4, 255)),
        "PGD": Pgd(epsilon=Fraction(4, 255), relative_step=Fraction(1, 4), num_steps=2 if setting.is_tiny else 20),
    }

    def outcomes(device: torch.device, attack: Attack | None) -> tuple[torch.Tensor, torch.Tensor]:
        model = robench.load_checkpoint("digits-vit", device=str(device))
        batch = robench.load_dataset("digits").batch(0, number)
        batch = replace(batch, inputs=to_device(batch.inputs, device), targets=to_device(batch.targets, device))
        inputs = batch.inputs
        if attack is not None:
            inputs = perturb(attack, batch, model, ExampleDraws(range(number), device), number).inputs
        with torch.no_grad():
            outputs = model.outputs(inputs)
        return outputs.argmax(1).cpu(), cross_entropy(outputs, batch.targets, reduction="none").cpu()

    def measure(attack: Attack | None) -> Row:
        (here, loss), (there, other) = outcomes(setting.device, attack), outcomes(torch.device("cpu"), attack)
        differ = int((here != there).sum())
        largest = float((loss - other).abs().max())
        return {"images": number, "other_predictions": differ, "largest_change_of_loss": largest}

    for name, attack in attacks.items():
        yield Task(name, partial(measure, attack))


PARTS = (
    Part("passes", "PGD over bare passes", 1, of_passes),
    Part("outcomes", "Outcomes beside a CPU's", 1, of_outcomes),
    Part("memory", "Memory", 0.5, of_memory),
    Part("idle", "Idle proportion of the device", 0.5, of_idleness),
    Part("attacks", "Attacks with early stopping beside other libraries", 4, of_attacks),
    Part("decoding", "Decoding against compute", 1, of_decoding),
    Part("corruptions", "Corruptions beside imagecorruptions", 2, of_corruptions),
    Part("mechanisms", "Passes of all mechanisms", 6, of_mechanisms),
)
