"""Base classes of the declarations of datasets: everything known before a dataset is opened."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le

from robench.core.declared import DatasetDeclaration
from robench.core.errors import (
    ContractError,
    DeclarationError,
    MissingDataError,
    UnknownNameError,
    UsageError,
    described,
)
from robench.core.protocols import Dataset
from robench.core.providers import title_of
from robench.core.shard import DatasetIdentity
from robench.core.suite import Condition
from robench.core.user_code import what_was_raised
from robench.declarations.base import LARGEST, DeclarationBase, FieldProblem, imported
from robench.domains.images import IMAGES

TEST_SPLIT = "test"
# Rules that replace the resize of a checkpoint's preprocessing: another filter, or no resize.
ResizeRule = Literal["bicubic", "bilinear", "none"]
# Subsets of the classes of ImageNet-1k; all other logits are masked before the softmax. The lists are text files, each
# with its source; indices are those of ILSVRC 2012 (by WordNet id).
CLASS_SUBSETS = ("imagenet-a", "imagenet-o", "imagenet-r")
_CLASS_LISTS = Path(__file__).parent / "class_lists"
# Images corrupted on the fly have another family than published ones: they are never called ImageNet-C.
LIVE = {
    "imagenet-1k": "imagenet-c-live",
    "digits": "digits-c",
    "cifar-10": "cifar-10-c-live",
    "cifar-100": "cifar-100-c-live",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetBase(DeclarationBase):
    """Declaration of a dataset, as listed by ``robench list datasets``.

    Attributes:
        folder: its folder below the data root; None if it is embedded in a library.
        num_classes: number of classes of a model; labels are class indices. None if only the files contain it.
        num_examples: size of the whole evaluation split; None likewise.
        class_subset: name of the subset of classes that logits are masked to before the softmax
            (``class_subset``); None for all.
        resize_rule: rule that overrides the resize of the checkpoint's preprocessing; None for no override.
        image_size: side of the square images in pixels, if all have one size and none is resized.
        corruption, severity: type and severity of published corrupted images; ``clean``: the dataset of the same images
            without corruption.
        is_out_of_distribution: whether the examples belong to no class. Labels exist but are meaningless; a model is
            evaluated by its confidence.
        splits: splits that ``open_dataset`` supports.
        evaluation_split: split that is measured, one of ``splits``.
        has_training_images: whether the publisher provides training images in a separate folder.
        num_training_examples: size of the training split, for forecasts; None likewise.
        class_names: names of the classes, in their order, for columns of single classes; None for their numbers.
    """

    kind: ClassVar[str] = "dataset"

    name: str
    title: str
    task: str
    domain: str = IMAGES.name
    num_classes: Annotated[int | None, Ge(2), Le(LARGEST)] = None
    num_examples: Annotated[int | None, Ge(1), Le(1000 * LARGEST)] = None
    source: str
    licence: str
    folder: str | None = None
    class_subset: str | None = None
    resize_rule: ResizeRule | None = None
    image_size: Annotated[int | None, Ge(1), Le(4096)] = None
    corruption: str | None = None
    severity: Annotated[int | None, Ge(1), Le(5)] = None
    clean: str | None = None
    is_out_of_distribution: bool = False
    splits: tuple[str, ...] = (TEST_SPLIT,)
    evaluation_split: str = TEST_SPLIT
    has_training_images: bool = False
    num_training_examples: Annotated[int | None, Ge(1), Le(1000 * LARGEST)] = None
    class_names: tuple[str, ...] | None = None

    def num_examples_of(self, split: str) -> int | None:
        """Return the number of examples of a split; None if it is unknown."""
        return self.num_examples if split == self.evaluation_split else self.num_training_examples

    def num_tokens_of(self, split: str) -> int | None:
        """Return the number of tokens of a split of texts for language models; None if it is unknown."""
        return None

    @property
    def classes(self) -> tuple[int, ...] | None:
        """Return the classes that may be predicted, ascending; None for all."""
        return None if self.class_subset is None else class_indices_of(self.class_subset)

    @property
    def has_one_size(self) -> bool:
        """Return whether all examples have one shape; otherwise a pass has one of them."""
        return True

    @property
    def known_fingerprint(self) -> str | None:
        """Return the fingerprint of the evaluation split as published; None if unknown."""
        return None

    def contradictions(self) -> list[FieldProblem]:
        """Refuse resize rule none without the size of the images, and to measure a split that does not exist."""
        problems: list[FieldProblem] = []
        if self.resize_rule == "none" and self.image_size is None:
            problems.append(("image_size", "must be given with resize_rule none, got None"))
        if self.evaluation_split not in self.splits:
            wanted = f"must be one of {', '.join(self.splits)}"
            problems.append(("evaluation_split", f"{wanted}, got {self.evaluation_split!r}"))
        return problems + class_name_problems(self.class_names, self.num_classes)

    def check_split(self, split: str) -> None:
        """Refuse a split that the dataset does not have."""
        if split not in self.splits:
            images = " (the validation images)" if self.has_training_images else ""
            known = " and ".join(map(repr, self.splits))
            raise UsageError(f"dataset {self.name!r} has no split {split!r} here, only {known}{images}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedSplits(DatasetBase):
    """Base of the declarations of datasets with a known number of examples of each split.

    Attributes:
        sizes: number of examples of each split, in the order of ``splits``.
    """

    num_classes: Annotated[int, Ge(2), Le(LARGEST)]
    sizes: tuple[Annotated[int, Ge(1), Le(1000 * LARGEST)], ...]

    def num_examples_of(self, split: str) -> int:
        """Return the number of examples of a split."""
        self.check_split(split)
        return self.sizes[self.splits.index(split)]


def class_name_problems(names: tuple[str, ...] | None, num_classes: int | None) -> list[FieldProblem]:
    """Return the problem of class names that occur twice, or of another number than the classes."""
    if names is None:
        return []
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        return [("class_names", f"must be different names, got {twice!r} twice")]
    if num_classes not in (None, len(names)):
        return [("class_names", f"must be {num_classes} names, as many as num_classes, got {len(names)}")]
    return []


def stand_in(task: str, domain: str = IMAGES.name) -> DatasetBase:
    """Return a stand-in for any dataset of a task and a domain, for suites that name none; it cannot be opened."""
    return DatasetBase(
        name="any",
        title="The dataset that a run is given",
        task=task,
        domain=domain,
        source="given with a run",
        licence="its own",
    )


def opened_by_others(declared: DatasetDeclaration, opened: Callable[[], Dataset]) -> Dataset:
    """Return an opened third-party dataset after checking that it matches its declaration."""
    # Imported here, since most datasets are robench's.
    from robench.core.containment import Contained

    name = declared.name
    title = title_of("dataset", declared, name)
    try:
        with Contained(keeps_environment=True):
            dataset = opened()
            identity = dataset.identity
    except (UsageError, DeclarationError, MissingDataError):
        raise
    # Broad because it is third-party code.
    except Exception as error:
        raise ContractError(f"{title} cannot be opened: {described(what_was_raised(error))}") from error
    if not isinstance(identity, DatasetIdentity):
        raise ContractError(f"{title} has an identity of type {type(identity).__name__}, wanted a DatasetIdentity")
    if identity.name != name or len(dataset) != identity.num_examples:
        raise ContractError(
            f"{title} calls itself {identity.name!r} with {identity.num_examples} examples and has {len(dataset)}; "
            "its identity must be of the declared name and its own size"
        )
    return dataset


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedImages(DatasetBase):
    """Declaration of a dataset of small images embedded in a library, or generated.

    Attributes:
        maker: ``module:name`` of the function that returns the images, imported when the dataset is opened; it takes
            the name of a split if there are several, otherwise nothing.
    """

    implementation: ClassVar[str] = "robench.datasets.in_memory:open_embedded"

    num_classes: Annotated[int, Ge(2), Le(LARGEST)]
    num_examples: Annotated[int, Ge(1), Le(1000 * LARGEST)]
    maker: str

    def made(self, split: str) -> Dataset:
        """Return the images of a split."""
        make = imported(self.maker)
        dataset: Dataset = make(split) if len(self.splits) > 1 else make()
        return dataset


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFolder(DatasetBase):
    """Declaration of a dataset of image files in class folders below the data root."""

    implementation: ClassVar[str] = "robench.datasets.imagenet_impl:open_image_folder"

    num_classes: Annotated[int, Ge(2), Le(LARGEST)]
    num_examples: Annotated[int, Ge(1), Le(1000 * LARGEST)]


def class_indices_of(subset: str) -> tuple[int, ...]:
    """Return the class indices of a subset, ascending."""
    return tuple(class_subset(subset).values())


@cache
def class_subset(subset: str) -> Mapping[str, int]:
    """Return the class index of each WordNet id of a subset, ascending in both."""
    if subset not in CLASS_SUBSETS:
        raise UnknownNameError("class subset", subset, CLASS_SUBSETS)
    lines = (_CLASS_LISTS / f"{subset}.txt").read_text().splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    return {wordnet_id: int(index) for index, wordnet_id in rows}


@dataclass(frozen=True, slots=True)
class Corrupted:
    """Corruption type at one severity, within a family whose errors are aggregated."""

    family: str
    type: str
    severity: int


def corrupted_of(condition: Condition) -> Corrupted | None:
    """Return the corruption of a condition within its family, None if it has none."""
    published, name = condition.dataset, condition.dataset.name
    if condition.perturbation.corruption is not None:
        return Corrupted(LIVE.get(name, f"{name}-c"), *condition.perturbation.corruption)
    if published.corruption is None or published.severity is None:
        return None
    # The family of ``imagenet-c/fog/3`` is its first part.
    return Corrupted(name.partition("/")[0], published.corruption, published.severity)


def uncorrupted_of(condition: Condition) -> str:
    """Return the dataset of the same images without corruption."""
    return condition.dataset.clean or condition.dataset.name
