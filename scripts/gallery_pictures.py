"""Writes docs/gallery: digits under corruptions, shifts and an attack, by robench's Python interface."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image
from safetensors.numpy import load_file

import robench

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Pixels = NDArray[np.float32]

FOLDER = Path(__file__).parents[1] / "docs" / "gallery"
SCALE = 2
GAP = 2
SHIFTS = ("digits", "digits-a", "digits-r", "digits-sketch", "digits-o")
NUM_COLUMNS = 12
# One that is easily read.
DIGIT = 4
SEVERITIES = (1, 3, 5)
# So that a change of 8/255 can be seen.
AMPLIFIED = 8


def write_pictures(folder: Path = FOLDER) -> None:
    """Write the three pictures; equal code and releases give equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("shifts", shifts()), ("corruptions", corruptions()), ("attack", attack())):
        grid(rows).save(folder / f"{name}.png", optimize=True)


def shifts() -> list[Sequence[Pixels]]:
    """Return a row for each dataset of digits: its first images (3, H, W) in [0, 1]."""
    opened = [robench.load_dataset(name) for name in SHIFTS]
    return [[dataset[number][0].numpy() for number in range(NUM_COLUMNS)] for dataset in opened]


def corruptions() -> list[Sequence[Pixels]]:
    """Return a row for each severity: one digit under each type of corruption."""
    from robench.corruptions import TYPES

    return [[_corrupted(name, severity) for name in TYPES] for severity in SEVERITIES]


def attack() -> list[Sequence[Pixels]]:
    """Return three rows: clean digits, what PGD at 8/255 makes of them, and the amplified difference around grey."""
    pgd = {"kind": "pgd", "epsilon": "8/255", "step_size": "2/255", "num_steps": 20}
    adversarial = _inputs({"name": "pgd", "perturbation": pgd})
    clean = [robench.load_dataset("digits")[number][0].numpy() for number in range(NUM_COLUMNS)]
    changes = [0.5 + AMPLIFIED * (after - before) for before, after in zip(clean, adversarial, strict=True)]
    return [clean, adversarial, [np.clip(change, 0, 1) for change in changes]]


def grid(rows: Sequence[Sequence[Pixels]]) -> Image.Image:
    """Return rows of images (3, H, W) in [0, 1] as one picture on white."""
    side = SCALE * rows[0][0].shape[1] + GAP
    picture = Image.new("RGB", (side * len(rows[0]) - GAP, side * len(rows) - GAP), "white")
    for top, row in enumerate(rows):
        for left, pixels in enumerate(row):
            levels = np.round(255 * pixels.transpose(1, 2, 0)).astype(np.uint8)
            image = Image.fromarray(levels).resize((side - GAP, side - GAP), Image.Resampling.NEAREST)
            picture.paste(image, (left * side, top * side))
    return picture


def _corrupted(name: str, severity: int) -> Pixels:
    from robench.corruptions.corruption import Corruption
    from robench.perturbations.draws import ExampleDraws

    declared = Corruption(type=name, severity=severity, constants="cifar")
    batch = robench.load_dataset("digits").batch(DIGIT, DIGIT + 1)
    # No corruption asks the model anything.
    pixels: Pixels = declared.implemented()(declared, batch, None, ExampleDraws([0])).inputs[0].numpy()
    return pixels


def _inputs(condition: dict[str, object]) -> Sequence[Pixels]:
    """Return the inputs (3, H, W) that digits-vit was shown under a condition, of the first examples."""
    from robench.declare.suites import parse_suite

    suite = {"name": "gallery", "version": 1, "seed": 0, "dataset": "digits", "batch_size": NUM_COLUMNS}
    declared = parse_suite(suite | {"conditions": [condition], "metrics": ["top1_accuracy"]})
    with tempfile.TemporaryDirectory() as results:
        robench.run(declared, "digits-vit", results=results, limit=NUM_COLUMNS, audit=False, keep_adversarial="float32")
        (file,) = Path(results).rglob("*.safetensors")
        tensors = load_file(file)
    return list(tensors["inputs"][:NUM_COLUMNS])


if __name__ == "__main__":
    write_pictures()
