"""A checkpoint that trains in a moment, and a folder of ImageNet's shape for it to learn from."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from robench.core.checkpoint import Checkpoint, Weights
from robench.core.declared import Declaration
from robench.declarations.preprocessing import ImagePreprocessing
from robench.models.vit import Vit
from robench.training.deit import DeitTraining

CLASSES = {"n01440764": 0, "n01443537": 1, "n03000684": 491, "n15075141": 999}
ARCHITECTURE = Vit(image_size=32, patch_size=16, num_classes=1000, depth=2, dim=12, num_heads=2)
PREPROCESSING = ImagePreprocessing(mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.25), resize=36, crop=32)


def write_tree(root: Path, split: str = "train", per_class: int = 4) -> Path:
    """Write noise of 40 x 50 pixels as JPEGs, in one folder for each of four classes; return ``root``."""
    generator = np.random.default_rng(0)
    for wordnet_id in CLASSES:
        folder = root / "imagenet-1k" / split / wordnet_id
        folder.mkdir(parents=True)
        for number in range(per_class):
            pixels = generator.integers(0, 255, (40, 50, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"{wordnet_id}_{number}.JPEG")
    return root


def recipe(**changes: Any) -> DeitTraining:
    """Return DeiT's recipe, at a rate that shows, for two epochs of two batches each."""
    short = DeitTraining(dataset="imagenet-1k", num_epochs=2, batch_size=8, warmup_epochs=1, learning_rate=0.05)
    return replace(short, **changes)


def entry_of(architecture: Declaration, preprocessing: Any, training: Any, **fields: Any) -> Checkpoint:
    """Return an entry of these fields, called mine."""
    usual: dict[str, Any] = {"name": "mine", "task": "classification", "training_data": "noise", "folder": Path()}
    usual |= {"source": "here", "licence": "MIT", "weights": Weights(uri="mine.safetensors", sha256=None)} | fields
    return Checkpoint(architecture=architecture, preprocessing=preprocessing, training=training, **usual)


def checkpoint_of(architecture: Declaration = ARCHITECTURE, **changes: Any) -> Checkpoint:
    """Return a checkpoint of these images whose recipe is ``recipe(**changes)``."""
    return entry_of(architecture, PREPROCESSING, recipe(**changes), name="tiny")
