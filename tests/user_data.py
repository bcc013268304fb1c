"""Small datasets as users have them, made of the digits: folders, lists, arrays and CIFAR-10-shaped files."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_digits  # type: ignore[import-untyped]  # ships no types

from robench.core.declared import DatasetDeclaration
from robench.datasets import open_dataset
from robench.datasets.base import EmbeddedImages
from robench.datasets.in_memory import InMemoryImages
from robench.declarations.preprocessing import ImagePreprocessing
from robench.declare import find_datasets

CLASSES = ("zero", "one", "two", "three")


def scans(num_images: int, side: int = 32) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the first scans of 0 to 3 as (N, side, side) bytes, and their labels, in turn 0, 1, 2, 3, 0, ..."""
    digits = load_digits()
    of_class = [digits.images[digits.target == label] for label in range(len(CLASSES))]
    chosen = [of_class[number % len(CLASSES)][number // len(CLASSES)] for number in range(num_images)]
    images = (np.stack(chosen) * 255 / 16).astype(np.uint8).repeat(side // 8, 1).repeat(side // 8, 2)
    return images, np.arange(num_images) % len(CLASSES)


def write_folder(root: Path, num_images: int = 40, side: int = 32) -> Path:
    """Write PNGs in class folders, every fifth in a folder below; return ``root``."""
    for number, (image, label) in enumerate(zip(*scans(num_images, side), strict=True)):
        name = f"nested/{number}.png" if number % 5 == 0 else f"{number}.PNG"
        path = root / CLASSES[label] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    return root


def write_list(root: Path, num_images: int = 12, *, names: bool = True) -> Path:
    """Write PNGs and a CSV file that lists them, labels as names or as numbers; return the file."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / "list.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "label", "remark"])
        for number, (image, label) in enumerate(zip(*scans(num_images), strict=True)):
            Image.fromarray(image).save(root / f"{number}.png")
            writer.writerow([f"{number}.png", CLASSES[label] if names else label, "a, b"])
    return root / "list.csv"


def write_arrays(path: Path, num_images: int = 12, **changes: Any) -> Path:
    """Write an npz file of ``inputs`` and ``targets``, unless changed; return it."""
    images, labels = scans(num_images)
    np.savez(path, **{"inputs": images, "targets": labels, **changes})
    return path


def made() -> InMemoryImages:
    """Return a dataset of the user's own code."""
    images, labels = scans(12)
    ids = [f"mine/{number}" for number in range(12)]
    pixels = dict(zip(ids, images[:, None].astype(np.float32) / 255, strict=True))
    return InMemoryImages("mine", dict(zip(ids, labels.tolist(), strict=True)), pixels)


MINE = EmbeddedImages(
    name="mine",
    title="Twelve scans",
    task="classification",
    source="here",
    licence="MIT",
    num_classes=4,
    num_examples=12,
    image_size=32,
    maker="user_data:made",
)


def declared(folder: Path, entry: str, name: str = "mine") -> DatasetDeclaration:
    """Return the dataset that an entry, in YAML's flow style, declares in a registry in ``folder``."""
    return find_datasets([write_registry(folder, entry, name)])[name]


def preprocessing(**fields: Any) -> ImagePreprocessing:
    """Return one of three channels, unless stated otherwise."""
    return ImagePreprocessing(**{"mean": (0.5,) * 3, "std": (0.5,) * 3} | fields)


def opened(declaration: DatasetDeclaration, split: str | None = None, **fields: Any) -> Any:
    """Open what is declared, for a model with a preprocessing of these fields if there are any."""
    wanted = preprocessing(**fields) if fields else None
    return open_dataset(declaration, data_root=None, preprocessing=wanted, split=split)


def write_registry(folder: Path, entry: str, name: str = "mine", file: str = "data.yaml") -> Path:
    """Write a registry of one dataset; return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).write_text(f"datasets:\n  {name}: {entry}\n")
    return folder / file
