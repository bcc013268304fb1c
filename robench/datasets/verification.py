"""Verification of datasets on disk against their published form: folders, classes, counts, images, texts and series."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from robench.core.declared import DatasetDeclaration
from robench.core.errors import MissingDataError, UnknownNameError
from robench.core.files import read_regular
from robench.datasets import DATASETS, open_dataset
from robench.datasets.arrays_impl import ArrayImages
from robench.datasets.base import DatasetBase
from robench.datasets.cifar import CorruptedCifar, PublishedCifar
from robench.datasets.findings import Finding, Kind, Verification, refused
from robench.datasets.image_verification import is_absent, verify_images
from robench.datasets.imagenet_folder import layout_of
from robench.datasets.in_memory import OrderedExamples
from robench.datasets.lra import TokenSet
from robench.datasets.pathfinder_impl import PathfinderImages
from robench.datasets.published import PUBLISHED_SETS
from robench.datasets.published_texts import LabelledFiles, TokenFiles
from robench.datasets.segmentation import Ade20k
from robench.datasets.segmentation_impl import MaskedImages
from robench.datasets.series_in_memory import SeriesInMemory
from robench.datasets.texts import OrderedTexts
from robench.datasets.trajectories import OFFLINE_SETS, OfflineSet
from robench.datasets.ts_files import LARGEST_FILE
from robench.datasets.uea import UeaSet
from robench.datasets.uea_impl import check_file, path_of, published_split
from robench.datasets.user import UserDataset
from robench.datasets.user_verification import mask_findings, of_series, verify_user
from robench.domains.texts import TEXTS
from robench.domains.tokens import TOKENS


def verify(
    name: str, data_root: Path | None, *, decode: bool = False, datasets: Mapping[str, DatasetDeclaration] = DATASETS
) -> Iterator[Verification]:
    """Verify a dataset, or each dataset of a published set such as ``imagenet-c``, and yield the results.

    Each split of texts, of tokens, of series, and of arrays of images, is a result of its own.

    Args:
        name: a key of ``datasets``, of ``PUBLISHED_SETS`` or of ``OFFLINE_SETS``.
        data_root: folder that contains datasets on disk.
        decode: whether to decode every image, too, which takes minutes for 50,000.
        datasets: datasets of robench and of registry files.

    Raises:
        UnknownNameError: no such dataset.
    """
    if isinstance(declared := datasets.get(name), UserDataset):
        splits = declared.splits if declared.domain == TEXTS.name else (declared.evaluation_split,)
        yield from (verify_user(declared, split, decode=decode) for split in splits)
        return
    if declared is not None and name not in DATASETS:
        yield _verify_embedded(declared)
        return
    if name in OFFLINE_SETS:
        yield _verify_trajectories(OFFLINE_SETS[name], data_root)
        return
    if name not in DATASETS and name not in PUBLISHED_SETS:
        embedded = [each for each, declared in DATASETS.loaded() if declared.folder is None]
        users = [each for each in datasets if each not in DATASETS]
        raise UnknownNameError("dataset", name, [*embedded, *PUBLISHED_SETS, *OFFLINE_SETS, *users])
    for each in (name,) if name in DATASETS else PUBLISHED_SETS[name].datasets:
        yield from _verify_published(DATASETS[each], data_root, decode=decode)


def _verify_published(declared: DatasetBase, data_root: Path | None, *, decode: bool) -> Iterator[Verification]:
    if declared.folder is None:
        yield _verify_embedded(declared)
    elif isinstance(declared, UeaSet):
        yield from _verify_series(declared, data_root)
    elif isinstance(declared, TokenFiles | LabelledFiles | TokenSet | PublishedCifar | CorruptedCifar | Ade20k):
        yield from (_verify_split(declared, data_root, split, decode=decode) for split in declared.splits)
    else:
        yield verify_images(layout_of(declared), data_root, decode=decode)


def _verify_embedded(declared: DatasetDeclaration) -> Verification:
    """Verify an embedded dataset, or one of the user's code, by opening it."""
    dataset = open_dataset(declared, data_root=None, preprocessing=None)
    if isinstance(dataset, SeriesInMemory):
        return of_series(declared.name, dataset)
    found, size = Verification(dataset=declared.name, is_decoded=True), len(dataset)
    if declared.num_examples not in (None, size):
        message = f"dataset {declared.name!r} has {size:,} examples here, wanted {declared.num_examples:,}"
        found = replace(found, findings=(Finding(kind="wrong-count", message=message),))
    if declared.domain == TEXTS.name:
        return replace(found, num_texts=size)
    targets = dataset.batch(0, size).targets
    # Pixels that count nowhere are below 0.
    num_classes = len(targets[targets >= 0].unique())
    if declared.domain == TOKENS.name:
        return replace(found, num_sequences=size, num_classes=num_classes, sha256=dataset.identity.fingerprint)
    return replace(found, num_images=size, num_classes=num_classes)


def _verify_split(declared: DatasetBase, data_root: Path | None, split: str, *, decode: bool) -> Verification:
    """Verify one split by opening it, which compares it with its published form; files of Pathfinder are listed."""
    known: dict[str, Any] = {"split": None if isinstance(declared, CorruptedCifar) else split}
    if data_root is not None and not isinstance(declared, Ade20k):
        folder = data_root.expanduser() / str(declared.folder)
        known["folder"] = folder if folder.is_dir() else None
    noun = {TEXTS.name: "num_texts", TOKENS.name: "num_sequences"}.get(declared.domain, "num_images")
    try:
        dataset = open_dataset(declared, data_root=data_root, preprocessing=None, split=split)
    except MissingDataError as error:
        empty = {noun: 0, **({"num_tokens": 0} if isinstance(declared, TokenFiles) else {})}
        kind: Kind = "absent" if is_absent(error, data_root) else "wrong-file"
        return refused(declared.name, kind, error, **known, **empty)
    known |= {"dataset": declared.name, noun: len(dataset)}
    if isinstance(dataset, OrderedTexts):
        return Verification(is_decoded=True, num_tokens=getattr(dataset, "num_tokens", None), **known)
    if isinstance(dataset, MaskedImages):
        return _of_masks(declared, dataset, known, decode=decode)
    assert isinstance(dataset, OrderedExamples)  # what all others open
    counts = Counter(dataset.targets.tolist())
    if isinstance(dataset, ArrayImages) and len(set(counts.values())) == 1:
        known["images_per_class"] = min(counts.values())
    return Verification(
        num_classes=len(counts),
        is_decoded=not isinstance(dataset, PathfinderImages),
        sha256=dataset.identity.fingerprint,
        **known,
    )


def _of_masks(declared: DatasetBase, dataset: MaskedImages, known: dict[str, Any], *, decode: bool) -> Verification:
    """Return the numbers of images with masks; ``decode`` reads each of them."""
    findings, wanted = mask_findings(dataset)[0] if decode else [], declared.num_examples_of(known["split"])
    if len(dataset) != wanted:
        title = f"dataset {declared.name!r} in {dataset.place}"
        message = f"{title} has {len(dataset):,} images with masks of the {known['split']} split, wanted {wanted:,}"
        findings.insert(0, Finding(kind="wrong-count", message=message))
    return Verification(
        folder=dataset.place,
        form=dataset.form,
        num_classes=dataset.num_classes,
        is_decoded=decode,
        findings=tuple(findings),
        **known,
    )


def _verify_trajectories(declared: OfflineSet, data_root: Path | None) -> Verification:
    """Verify a set of trajectories by opening it, which compares it with its declaration."""
    folder = None if data_root is None or declared.folder is None else data_root.expanduser() / declared.folder
    known: dict[str, Any] = {"num_trajectories": 0, "folder": folder if folder and folder.is_dir() else None}
    try:
        found = declared.implemented()(declared, data_root=data_root)
    except MissingDataError as error:
        return refused(declared.name, "absent" if is_absent(error, data_root) else "wrong-file", error, **known)
    known |= {"num_trajectories": len(found), "num_steps": sum(len(each.rewards) for each in found)}
    return Verification(dataset=declared.name, is_decoded=True, **known)


def _verify_series(declared: UeaSet, data_root: Path | None) -> list[Verification]:
    """Verify both splits of a UEA set by reading their files; the longest series may be in either."""
    found = [_verify_series_of(declared, data_root, split) for split in declared.splits]
    longest = max(each.num_steps or 0 for each in found)
    if all(each.is_whole for each in found) and longest != declared.num_steps:
        message = f"dataset {declared.name!r} has series of up to {longest} steps, wanted {declared.num_steps}"
        found[0] = replace(found[0], findings=(Finding(kind="wrong-count", message=message),))
    return found


def _verify_series_of(declared: UeaSet, data_root: Path | None, split: str) -> Verification:
    """Verify the file of one split."""
    known: dict[str, Any] = {"split": split, "num_series": 0}
    kind: Kind = "absent"
    try:
        path = path_of(declared, data_root, split)
        known["folder"] = path.parent if path.parent.is_dir() else None
        check_file(declared, path)
        kind = "wrong-file"
        content = read_regular(path, LARGEST_FILE)
        known["sha256"] = hashlib.sha256(content).hexdigest()
        found = published_split(declared, split, content, str(path))
    except MissingDataError as error:
        return refused(declared.name, kind, error, **known)
    except OSError as error:
        return refused(declared.name, "unreadable", MissingDataError(f"cannot read {path}: {error.strerror}"), **known)
    return Verification(
        dataset=declared.name,
        num_classes=len(found.classes),
        is_decoded=True,
        num_channels=found.series[0].shape[1],
        num_steps=max(map(len, found.series)),
        **known | {"num_series": len(found.series)},
    )
