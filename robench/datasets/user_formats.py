"""Formats of users' data: image folders, CSV files, arrays, series, dataset classes, declarations in code."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from annotated_types import Ge, Le

from robench.core.containment import Contained
from robench.core.errors import DeclarationError, described
from robench.core.identity import key_of
from robench.core.user_code import is_target, module_of, what_was_raised
from robench.datasets.base import DatasetBase
from robench.datasets.text_formats import TextTable
from robench.datasets.user import (
    TRAIN_SPLIT,
    FilesFormat,
    FormatBase,
    StatedFormat,
    delimiter_problems,
    domain_problems,
    located,
)
from robench.declarations.base import LARGEST, Argument, FieldProblem
from robench.domains.images import IMAGES
from robench.domains.series import SERIES
from robench.domains.texts import TEXTS
from robench.tasks.segmentation import SEGMENTATION

ROOT = "root"
# Column of a list's images where its entry names none.
IMAGE_COLUMN = "path"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFolder(FilesFormat):
    """Images in class folders, read as torchvision's ImageFolder reads them.

    The folders below ``path``, in the order of ``class_names`` or sorted by name as text, are classes 0, 1, ...; images
    lie in them at any depth. Names that begin with a dot are ignored, as are files without the suffix of an image.

    Attributes:
        image_size: side of the square images that the model sees, in pixels: the shorter side of each image is resized
            to it, and the central square kept. None for the resize and crop of the model's preprocessing; if that has
            none either, all files must have one size.
    """

    kind: ClassVar[str] = "image-folder"
    implementation: ClassVar[str] = "robench.datasets.image_files_impl:open_class_folders"

    image_size: Annotated[int | None, Ge(1), Le(4096)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvTable(TextTable):
    """CSV file with a header and a row for each image, or text.

    Paths of images are relative to the CSV file's folder, and must stay below it. Labels that are all whole numbers,
    also as 1.0, are class numbers; otherwise they are names, which are numbered in the order of their sorted text.

    Attributes:
        image_column, label_column: names of the columns in the header; ``path`` and ``label`` if not stated.
        text_column: name of the column of texts; None for images. ``train``, ``valid`` and ``spaced`` are of texts.
        image_size: side of the square images in pixels, as in ``image-folder``.
        delimiter: character between columns; None for a comma.
    """

    kind: ClassVar[str] = "csv"
    implementation: ClassVar[str] = "robench.datasets.user_texts_impl:open_csv"

    image_column: str | None = None
    text_column: str | None = None
    image_size: Annotated[int | None, Ge(1), Le(4096)] = None
    delimiter: str | None = None

    @property
    def input_domain(self) -> str:
        """Return the name of the domain of the inputs."""
        return IMAGES.name if self.text_column is None else TEXTS.name

    def contradictions(self) -> list[FieldProblem]:
        """Refuse one column for both input and label, and fields of images with texts, or of texts with images."""
        problems = TextTable.contradictions(self) + delimiter_problems(self.delimiter)
        if self.text_column is not None:
            given = {"image_column": self.image_column, "image_size": self.image_size}
            return problems + [(name, "must be left out with text_column") for name, value in given.items() if value]
        given = {"train": self.train, "valid": self.valid, "spaced": self.spaced or None}
        problems += [(name, "must be left out without text_column") for name, value in given.items() if value]
        if (self.image_column or IMAGE_COLUMN) == self.label_column:
            problems.append(("label_column", f"must differ from image_column, got {self.label_column!r} for both"))
        return problems


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesFormat(FilesFormat):
    """Format of time series in a file of each split; ``path`` is that of the test split.

    Attributes:
        train: path of the file of the training split, relative as ``path`` is; None without a training split.
        standardise: whether each channel is standardised by its mean and deviation over all steps of the training
            split; None for whether there is one.
        num_steps: number of steps that series are padded to; None for that of the longest one of both splits.
    """

    path_fields: ClassVar[tuple[str, ...]] = ("path", TRAIN_SPLIT)

    train: str | None = None
    standardise: bool | None = None
    num_steps: Annotated[int | None, Ge(1), Le(LARGEST)] = None

    @property
    def input_domain(self) -> str:
        """Return the name of the domain of the inputs."""
        return SERIES.name

    def contradictions(self) -> list[FieldProblem]:
        """Refuse standardisation without a training split, and an empty path."""
        problems = FilesFormat.contradictions(self)
        if self.train is None and self.standardise:
            problems.append(("standardise", "must be left out without train, whose means and deviations it needs"))
        return problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrays(SeriesFormat):
    """Inputs and labels in an npz file, which is read without pickle.

    Images are uint8 of the shape (N, height, width) or (N, height, width, channels), or floats in [0, 1] of the shape
    (N, channels, height, width); inputs of other domains are floats with the axes of the domain. Labels are N whole
    numbers from 0. Time series are numbers of the shape (N, steps, channels), with NaN in all channels after the end of
    a shorter one. With the task ``segmentation`` targets are masks (N, height, width) of whole numbers.

    Attributes:
        domain: name of the domain of the inputs, one of real numbers.
        inputs, targets: names of the two arrays; None for ``inputs`` and ``targets``.
        ignore_index: value in masks of pixels that count nowhere.
    """

    kind: ClassVar[str] = "npz"
    implementation: ClassVar[str] = "robench.datasets.arrays_impl:open_arrays"

    domain: str = IMAGES.name
    inputs: str | None = None
    targets: str | None = None
    ignore_index: int | None = None

    @property
    def input_domain(self) -> str:
        """Return the name of the domain of the inputs."""
        return self.domain

    def contradictions(self) -> list[FieldProblem]:
        """Refuse one array for two purposes, and fields of time series for another domain."""
        problems = SeriesFormat.contradictions(self) + domain_problems(self.domain)
        inputs, targets = self.inputs or "inputs", self.targets or "targets"
        if inputs == targets:
            problems.append(("targets", f"must differ from inputs, got {targets!r} for both"))
        if self.task == SEGMENTATION.name and self.domain != IMAGES.name:
            problems.append(("domain", f"must be {IMAGES.name} for {self.task}, got {self.domain}"))
        elif self.task != SEGMENTATION.name and self.ignore_index is not None:
            problems.append(("ignore_index", f"must be left out for {self.task}, since it is of masks alone"))
        if self.domain == SERIES.name:
            return problems
        of_series = ("train", "standardise", "num_steps")
        given = [name for name in of_series if getattr(self, name) is not None]
        return problems + [(name, f"must be left out for {self.domain}, since it is of series alone") for name in given]


@dataclass(frozen=True, slots=True, kw_only=True)
class TsSeries(SeriesFormat):
    """Time series in .ts files, the format of the UEA and UCR archives, with labels.

    Classes are numbered in the order of ``@classLabel``, which both files must have alike. Missing values are
    interpolated linearly.
    """

    kind: ClassVar[str] = "ts"
    implementation: ClassVar[str] = "robench.datasets.series_formats_impl:open_ts"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesTable(SeriesFormat):
    """Time series in CSV files with a row for each step of each series.

    A row has the name of its series, its step or time, a number or date by which the rows of a series are ordered, the
    label of the series, and a number for each channel, or ``?`` for a missing one, which is interpolated. Times must be
    even. Labels are as in ``csv``.

    Attributes:
        series_column, step_column, label_column: names of the columns in the header.
        channels: names of the channels' columns, in their order; () for all others, in the order of the header.
        delimiter: character between columns; None for a comma.
    """

    kind: ClassVar[str] = "series-csv"
    implementation: ClassVar[str] = "robench.datasets.series_formats_impl:open_table"

    series_column: str = "series"
    step_column: str = "step"
    label_column: str = "label"
    channels: tuple[str, ...] = ()
    delimiter: str | None = None

    @property
    def fixed_columns(self) -> tuple[str, str, str]:
        """Return the names of the columns beside the channels."""
        return self.series_column, self.step_column, self.label_column

    def contradictions(self) -> list[FieldProblem]:
        """Refuse one column for two purposes, and what ``SeriesFormat`` refuses."""
        problems, columns = SeriesFormat.contradictions(self), self.fixed_columns
        problems += delimiter_problems(self.delimiter)
        if len(set(columns)) < len(columns):
            problems.append(("label_column", f"must differ from the other columns, got {', '.join(columns)}"))
        if len({*self.channels, *columns}) < len(self.channels) + len(set(columns)):
            problems.append(
                ("channels", "must be different columns, and no series_column, step_column or label_column")
            )
        return problems


@dataclass(frozen=True, slots=True, kw_only=True)
class MapStyle(StatedFormat):
    """Dataset class with ``__len__`` and ``__getitem__`` whose items are (image, label), such as those of torchvision.

    Images are Pillow's, or tensors of the shape (channels, height, width): uint8, or floats in [0, 1]. All items are
    read when the dataset is opened, since their content is its fingerprint. Nothing is downloaded.

    Attributes:
        target: ``package.module:Class``, such as ``torchvision.datasets:SVHN``.
        arguments: keyword arguments of the class; ``root`` is a path as in other formats.
    """

    kind: ClassVar[str] = "torchvision"
    implementation: ClassVar[str] = "robench.datasets.python_formats_impl:open_map_style"
    named_by: ClassVar[str] = "target"

    target: str
    arguments: Mapping[str, Argument] = field(default_factory=dict)

    def __hash__(self) -> int:
        """Return a hash of target and arguments (a mapping)."""
        return hash((self.target, key_of(self.arguments)))

    def located(self, folder: Path) -> Self:
        """Return the same format with an absolute ``root``; a relative one is relative to ``folder``."""
        root = self.arguments.get(ROOT)
        if not isinstance(root, str) or not root:
            return self
        return replace(self, arguments={**self.arguments, ROOT: located(root, folder)})

    def contradictions(self) -> list[FieldProblem]:
        """Refuse a malformed target, and downloads."""
        problems = StatedFormat.contradictions(self)
        if not is_target(self.target):
            problems.append(("target", f"must be package.module:Class, got {self.target}"))
        if self.arguments.get("download"):
            problems.append(
                ("arguments", "must not have download: robench downloads nothing; put the files below root")
            )
        return problems


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonTarget(FormatBase):
    """Target in the user's own code: a ``DatasetBase`` instance of the entry's name, or a class.

    Attributes:
        target: ``package.module:NAME``, found on the Python path or in the current folder.
        arguments: fields of the declaration beside its name, if the target is a class.
    """

    kind: ClassVar[str] = "python"
    implementation: ClassVar[str] = "robench.datasets.user_impl:open_user"

    target: str
    arguments: Mapping[str, Argument] = field(default_factory=dict)

    def declared(self, name: str, folder: Path) -> DatasetBase:
        """Return the user's declaration; see ``FormatBase``."""
        module, attribute = module_of(self.target), self.target.partition(":")[2]
        title = f"target {self.target!r}"
        if not hasattr(module, attribute):
            raise DeclarationError(f"{title}: there is no {attribute} in {module.__name__}, {module.__file__}")
        found: Any = getattr(module, attribute)
        if isinstance(found, type) and issubclass(found, DatasetBase):
            try:
                with Contained(keeps_environment=True):
                    found = found(name=name, **dict[str, Any](self.arguments))
            # Broad because it is the user's code.
            except Exception as error:
                raise DeclarationError(f"{title} raised {described(what_was_raised(error))}") from error
        elif self.arguments:
            raise DeclarationError(f"{title} is not a class, so arguments must be left out")
        if not isinstance(found, DatasetBase):
            wanted = f"{DatasetBase.__module__}.{DatasetBase.__qualname__}"
            raise DeclarationError(
                f"{title} is of type {type(found).__name__}, wanted an instance of {wanted} or a class"
            )
        if found.name != name:
            raise DeclarationError(f"{title} has the name {found.name!r}; give the entry the same name, got {name!r}")
        return found

    def contradictions(self) -> list[FieldProblem]:
        """Refuse a malformed target."""
        return [] if is_target(self.target) else [("target", f"must be package.module:NAME, got {self.target}")]
