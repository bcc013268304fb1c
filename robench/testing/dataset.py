"""Contract of datasets: ``check_dataset(MY_DATASET)``."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from robench.core.errors import ContractError
from robench.core.identity import key_of
from robench.core.protocols import ClassifiedDataset, ReadsAhead
from robench.datasets import DATASETS
from robench.datasets.base import DatasetBase
from robench.declarations.preprocessing import ImagePreprocessing
from robench.domains import DOMAINS
from robench.domains.images import IMAGES
from robench.tasks.classification import CLASSIFICATION
from robench.tasks.segmentation import IGNORED, SEGMENTATION
from robench.testing.expectations import DECLARATION_CHECKS, refusal, require, run_checks, watched_generators

__all__ = ["DATASET_CHECKS", "Opened", "check_dataset"]

# Number of examples read from a large dataset.
MOST_READ = 1000


@dataclass(frozen=True)
class Opened:
    """Declared dataset on this machine.

    Attributes:
        declared: its declaration.
        open: function that opens it again; Any, since ``ids`` is not part of ``core.protocols.Dataset``.
    """

    declared: DatasetBase
    open: Callable[[], Any]

    @cached_property
    def dataset(self) -> Any:
        """Return the dataset, opened once."""
        return self.open()

    def size_of_batch(self, most: int) -> int:
        """Return the largest number of examples that can be read at once, at most ``most``."""
        return min(len(self.dataset), most if self.declared.has_one_size else 1)


def check_dataset(
    declared: DatasetBase | str, *, data_root: Path | None = None, preprocessing: ImagePreprocessing | None = None
) -> None:
    """Check that a dataset fulfils all contracts of robench's own datasets.

    Args:
        declared: its declaration, or the name of one that robench knows.
        data_root: folder that contains its files; not needed for embedded datasets.
        preprocessing: resize and crop; None for the dataset's usual one.
    """
    declaration = DATASETS.get(declared) if isinstance(declared, str) else declared
    if not isinstance(declaration, DatasetBase):
        raise AssertionError(f"{declared!r} is not a dataset; expected an instance of robench's DatasetBase")

    def opened() -> Any:
        return declaration.implemented()(
            declaration,
            data_root=data_root,
            preprocessing=preprocessing,
            decode_workers=0,
            split=declaration.evaluation_split,
        )

    subject = f"dataset {declaration.name!r}"
    run_checks(subject, DECLARATION_CHECKS, declaration)
    run_checks(subject, DATASET_CHECKS, Opened(declaration, opened))


def has_the_declared_name_and_classes(opened: Opened) -> None:
    """Check the name, and of classes, or of those of pixels that count, that all targets are classes."""
    dataset, declared = opened.dataset, opened.declared
    name = dataset.identity.name
    require(name == declared.name, f"opens as {name!r}", "the name that is declared")
    targets = dataset.batch(0, opened.size_of_batch(MOST_READ)).targets
    num_classes = declared.num_classes
    if num_classes is None and isinstance(dataset, ClassifiedDataset):
        num_classes = dataset.num_classes
    if num_classes is None or not (_is_of_classes(opened) or declared.task == SEGMENTATION.name):
        return
    lowest = 0 if _is_of_classes(opened) else IGNORED
    require(
        bool(targets.min() >= lowest and targets.max() < num_classes),
        f"has targets from {int(targets.min())} to {int(targets.max())}",
        f"classes {lowest} to {num_classes - 1}, since num_classes is {num_classes}",
    )


def has_as_many_examples_as_it_says(opened: Opened) -> None:
    """Check that length, identity, ids and iteration agree with each other and the declaration."""
    dataset, declared = opened.dataset, opened.declared
    counts = {"len": len(dataset), "identity": dataset.identity.num_examples, "ids": len(dataset.ids)}
    if len(dataset) <= MOST_READ:
        counts["iteration"] = len(list(dataset))
    require(len(set(counts.values())) == 1, f"has different numbers of examples: {counts}", "one number")
    # A dataset on disk may lack some folders.
    size = declared.num_examples
    fits = size is None or len(dataset) == size or (declared.folder and len(dataset) <= size)
    require(bool(fits), f"has {len(dataset)} examples", f"{size}, as is declared")


def gives_inputs_of_its_domain(opened: Opened) -> None:
    """Check that the rules of the domain accept its inputs; images have further checks."""
    domain = opened.declared.domain
    if domain == IMAGES.name:
        gives_images_in_the_unit_range(opened)
        return
    batch = opened.dataset.batch(0, opened.size_of_batch(MOST_READ))
    try:
        DOMAINS[domain].rules.check_clean(batch.inputs, opened.declared.name)
    except ContractError as error:
        require(False, f"is refused: {error}", f"inputs of the domain {domain}")


def gives_images_in_the_unit_range(opened: Opened) -> None:
    """Check shapes, types and values of items and batches."""
    dataset = opened.dataset
    image, label = dataset[0]
    size = opened.size_of_batch(8)
    batch = dataset.batch(0, size)
    shape = tuple(batch.inputs.shape)
    require(
        len(shape) == 4 and shape[0] == size and tuple(image.shape) == shape[1:],
        f"gives a batch of shape {shape} and an item of shape {tuple(image.shape)}",
        f"({size}, channels, height, width) and (channels, height, width)",
    )
    side = opened.declared.image_size if opened.declared.folder is None else None
    require(side is None or shape[2:] == (side, side), f"gives images of {shape[2:]} pixels", f"{side} each")
    tensors = [("inputs", batch.inputs, torch.float32), ("items", image, torch.float32)]
    if _is_of_classes(opened):
        require(type(label) is int, f"gives labels of type {type(label).__name__}", "int")
        tensors.append(("targets", batch.targets, torch.int64))
    elif opened.declared.task == SEGMENTATION.name:
        axes = tuple(batch.targets.shape)
        require(len(axes) == 3 and axes[0] == size, f"gives targets of shape {axes}", f"({size}, height, width)")
        tensors.append(("targets", batch.targets, torch.int64))
    for what, tensor, wanted in tensors:
        require(tensor.dtype == wanted, f"gives {what} of {tensor.dtype}", str(wanted))
    require(batch.inputs.is_contiguous(), "gives inputs that are not contiguous", "contiguous ones")
    low, high = float(batch.inputs.min()), float(batch.inputs.max())
    require(low >= 0 and high <= 1, f"gives values from {low:.6g} to {high:.6g}", "values in [0, 1], as 8 bits / 255")
    require(high > 1 / 255, f"gives no value above {high:.6g}", "images whose white is 1, and not 1/255")


def _is_of_classes(opened: Opened) -> bool:
    """Return whether the target of an example is one class; targets of other tasks have shapes and values of theirs."""
    return opened.declared.task == CLASSIFICATION.name


def _is_row(row: Any, example: Any) -> bool:
    """Return whether a batch's row is an example: the same, or padded on the right with one value."""
    row, example = torch.as_tensor(row), torch.as_tensor(example)
    if row.shape == example.shape:
        return torch.equal(row, example.to(row.dtype))
    shorter, longer = sorted((row, example), key=len)
    rest = longer[len(shorter) :]
    return shorter.ndim == longer.ndim == 1 and torch.equal(longer[: len(shorter)], shorter) and len(rest.unique()) == 1


def _is_same_label(one: Any, other: Any) -> bool:
    """Return whether two labels agree: numbers, or tensors of one shape."""
    first, second = torch.as_tensor(one), torch.as_tensor(other)
    return first.shape == second.shape and bool((first == second).all())


def ids_are_unique_and_in_the_order_of_their_hash(opened: Opened) -> None:
    """Check that the order is that of the ids' SHA-256, so that the first examples are a fair sample."""
    ids = opened.dataset.ids
    require(len(set(ids)) == len(ids), f"has {len(ids)} examples and {len(set(ids))} ids", "an id for each")
    ordered = sorted(ids, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    require(
        list(ids) == ordered,
        "has its examples in an order of its own",
        "the order of the ids' SHA-256 (`robench.datasets.order.hash_order`), so that the first N are a fair sample",
    )


def a_batch_is_its_items(opened: Opened) -> None:
    """Check that a batch contains the items of its range, and neighbouring batches those of the wide one."""
    dataset = opened.dataset
    stop = opened.size_of_batch(9)
    middle = stop // 2
    if not middle:
        (example, target), batch = dataset[0], dataset.batch(0, 1)
        same = _is_row(batch.inputs[0], example) and _is_row(batch.targets[0], target)
        require(same, "gives example 0 otherwise alone than in a batch", "the same input and target")
        return
    wide, left, right = dataset.batch(0, stop), dataset.batch(0, middle), dataset.batch(middle, stop)
    require(wide.ids == dataset.ids[:stop], "gives a batch the ids of other examples", "those of its range")
    for index in range(stop):
        example, target = dataset[index]
        same = _is_row(wide.inputs[index], example) and _is_row(wide.targets[index], target)
        require(same, f"gives example {index} otherwise alone than in a batch", "the same input and target")
    rows = [(part, row) for part in (left, right) for row in range(len(part.ids))]
    joined = len(rows) == stop and all(
        _is_row(wide.inputs[index], part.inputs[row]) and _is_row(wide.targets[index], part.targets[row])
        for index, (part, row) in enumerate(rows)
    )
    joined = joined and wide.ids == left.ids + right.ids
    require(joined, "gives two neighbouring batches that are not the wide one", "the same examples")


def reading_ahead_changes_nothing(opened: Opened) -> None:
    """Check that a dataset that reads ahead raises nothing then, and gives the same batches, announced or not."""
    dataset = opened.dataset
    if not isinstance(dataset, ReadsAhead):
        return
    stop = opened.size_of_batch(6)
    middle = stop // 2
    ranges = ((0, stop), (0, middle), (middle, stop)) if middle else ((0, 1), (len(dataset) - 1, len(dataset)))
    plain = [dataset.batch(*bounds) for bounds in ranges]
    for announced in (*ranges, (0, len(dataset) + 1)):
        # Past the end, too: `batch` reports the problem.
        dataset.read_ahead(*announced)
        for bounds, expected in zip(ranges, plain, strict=True):
            batch = dataset.batch(*bounds)
            same = batch.ids == expected.ids and torch.equal(batch.inputs, expected.inputs)
            same = same and torch.equal(batch.targets, expected.targets)
            require(same, f"gives another batch {list(bounds)} after it read ahead", "the same examples")


def indices_are_those_of_a_list(opened: Opened) -> None:
    """Check that negative indices count from the end, and that all others outside are an IndexError."""
    dataset = opened.dataset
    size = len(dataset)
    from_the_end = torch.equal(dataset[-1][0], dataset[size - 1][0])
    from_the_end = from_the_end and _is_same_label(dataset[-size][1], dataset[0][1])
    require(from_the_end, "gives another example for -1 than the last", "indices as of a list")
    for index in (size, size + 7, -size - 1):
        found = refusal(lambda index=index: dataset[index], IndexError)  # type: ignore[misc]  # a default
        require(found is None, f"{found} for index {index} of {size}", "an IndexError")
    for start, stop in ((0, size + 1), (-1, 1), (1, 1), (2, 1)):
        found = refusal(lambda start=start, stop=stop: dataset.batch(start, stop), IndexError)  # type: ignore[misc]
        require(
            found is None,
            f"{found} for the batch [{start}, {stop}) of {size} examples",
            "an IndexError, since a short batch would go unnoticed",
        )


def writing_into_a_batch_changes_no_later_one(opened: Opened) -> None:
    """Check that callers get copies."""
    dataset = opened.dataset
    stop = opened.size_of_batch(3)
    kept, labels = dataset.batch(0, stop).inputs.clone(), dataset.batch(0, stop).targets.clone()
    written = dataset.batch(0, stop)
    written.inputs.zero_()
    written.targets.fill_(-1)
    dataset[0][0].zero_()
    later = dataset.batch(0, stop)
    same = torch.equal(later.inputs, kept) and torch.equal(later.targets, labels)
    require(same, "gives other images after a caller wrote into a batch", "a copy for each caller")


def two_openings_are_the_same(opened: Opened) -> None:
    """Check that name, fingerprint, ids and images are stable, and that the fingerprint is a SHA-256."""
    first, second = opened.dataset, opened.open()
    digest = first.identity.fingerprint
    is_digest = isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest) is not None
    require(is_digest, f"has fingerprint {digest!r}", "a SHA-256 over all that its examples are")
    same = first.identity == second.identity and key_of(first.identity) == key_of(second.identity)
    require(same, f"opens as {first.identity}, and then as {second.identity}", "one identity")
    require(first.ids == second.ids, "has other ids when opened again", "the same ids")
    stop = opened.size_of_batch(5)
    equal = torch.equal(first.batch(0, stop).inputs, second.batch(0, stop).inputs)
    require(equal, "has other images when opened again", "the same images")


def leaves_global_generators_alone(opened: Opened) -> None:
    """Check that opening and reading neither moves global generators nor depends on them."""
    with watched_generators():
        again = opened.open()
        again.batch(0, opened.size_of_batch(4))
    require(again.ids == opened.dataset.ids, "depends on global generators", "the same ids always")


DATASET_CHECKS = (
    has_the_declared_name_and_classes,
    has_as_many_examples_as_it_says,
    gives_inputs_of_its_domain,
    ids_are_unique_and_in_the_order_of_their_hash,
    a_batch_is_its_items,
    reading_ahead_changes_nothing,
    indices_are_those_of_a_list,
    writing_into_a_batch_changes_no_later_one,
    two_openings_are_the_same,
    leaves_global_generators_alone,
)
