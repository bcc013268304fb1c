"""Base classes of the declarations of users' datasets: file formats and the fields of their entries."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from annotated_types import Ge, Le

from robench.core.errors import did_you_mean
from robench.core.files import absolute
from robench.datasets.base import TEST_SPLIT, DatasetBase, class_name_problems
from robench.declarations.base import LARGEST, DeclarationBase, FieldProblem
from robench.domains import DOMAINS
from robench.domains.images import IMAGES
from robench.tasks import DEFAULT_TASK, TASKS

NOT_STATED = "not stated"
TRAIN_SPLIT, VALID_SPLIT = "train", "valid"


class FormatBase(DeclarationBase):
    """Declaration of the format of a user's dataset, as written in a registry file below the dataset's name.

    The implementation is a function ``(declared: UserDataset, *, preprocessing, decode_workers, split) -> Dataset``,
    where the dataset also has its number of classes (``core.protocols.ClassifiedDataset``).
    """

    @property
    def has_one_size(self) -> bool:
        """Return whether all examples have one shape; otherwise a pass has one of them."""
        return True

    def declared(self, name: str, folder: Path) -> DatasetBase:
        """Return the declaration of the dataset ``name``; relative paths are below ``folder``, the registry's."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class UserDataset(DatasetBase):
    """Dataset declared in a registry file.

    Attributes:
        content: format of its files, with absolute paths. Paths are not part of fingerprints.
    """

    implementation: ClassVar[str] = "robench.datasets.user_impl:open_user"

    content: FormatBase

    @property
    def has_one_size(self) -> bool:
        """Return whether all examples have one shape; otherwise a pass has one of them."""
        return self.content.has_one_size


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedFormat(FormatBase):
    """Format with the fields that any entry may have.

    Attributes:
        title: one line for ``robench list datasets``; by default the format and the location of the files.
        source, licence: origin of the data, and terms of use.
        task: name of the task.
        num_classes: number of classes, checked against the files; None to take it from them.
        class_names: names of the classes 0, 1, ...; None for names in the files, in the order of their text.
    """

    # Field that the default title names.
    named_by: ClassVar[str] = ""

    title: str = ""
    source: str = NOT_STATED
    licence: str = NOT_STATED
    task: str = DEFAULT_TASK
    num_classes: Annotated[int | None, Ge(2), Le(LARGEST)] = None
    class_names: tuple[str, ...] | None = None

    @property
    def input_domain(self) -> str:
        """Return the name of the domain of the inputs."""
        return IMAGES.name

    @property
    def splits(self) -> tuple[str, ...]:
        """Return the splits that can be opened."""
        return (TEST_SPLIT,)

    @property
    def names_of_classes(self) -> tuple[str, ...] | None:
        """Return the names of the classes; None where the entry has none."""
        return self.class_names

    def located(self, folder: Path) -> Self:
        """Return the same format with absolute paths; relative ones are relative to ``folder``."""
        return self

    def declared(self, name: str, folder: Path) -> DatasetBase:
        """Return the declaration of the dataset; see ``FormatBase``."""
        content = self.located(folder)
        # Formats of other domains have no size of images.
        return UserDataset(
            name=name,
            title=content.title or f"{content.kind} {getattr(content, content.named_by)}",
            task=content.task,
            domain=content.input_domain,
            num_classes=content.num_classes or len(content.names_of_classes or ()) or None,
            class_names=content.names_of_classes,
            source=content.source,
            licence=content.licence,
            image_size=getattr(content, "image_size", None),
            splits=content.splits,
            content=content,
        )

    def contradictions(self) -> list[FieldProblem]:
        """Refuse an unknown task, and names of other classes."""
        problems = class_name_problems(self.class_names, self.num_classes)
        if self.task in TASKS:
            return problems
        return [*problems, ("task", f"unknown task {self.task!r}.{did_you_mean(self.task, TASKS)}")]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesFormat(StatedFormat):
    """Format of one file or folder.

    Attributes:
        path: its path: absolute, relative to the registry file, or below ``~``, the user's home folder.
    """

    named_by: ClassVar[str] = "path"
    # Fields that are paths. An entry may leave out all but the first.
    path_fields: ClassVar[tuple[str, ...]] = ("path",)

    path: str

    @property
    def place(self) -> Path:
        """Return the path as a ``Path``."""
        return Path(self.path)

    @property
    def paths(self) -> dict[str, str]:
        """Return the path of each split that can be opened."""
        named = {split: getattr(self, split) for split in self.path_fields if split in (TRAIN_SPLIT, VALID_SPLIT)}
        return {TEST_SPLIT: self.path} | {split: path for split, path in named.items() if path is not None}

    @property
    def splits(self) -> tuple[str, ...]:
        """Return the splits that can be opened."""
        return tuple(self.paths)

    def located(self, folder: Path) -> Self:
        """Return the same format with absolute paths; relative ones are relative to ``folder``."""
        given = {name: getattr(self, name) for name in self.path_fields}
        paths: dict[str, Any] = {name: path and located(path, folder) for name, path in given.items()}
        return replace(self, **paths)

    def contradictions(self) -> list[FieldProblem]:
        """Refuse empty paths, and null bytes."""
        # Named, since a class with slots is recreated and does not support a bare super().
        problems, given = StatedFormat.contradictions(self), {name: getattr(self, name) for name in self.path_fields}
        return problems + [
            (name, f"must name a file or folder, got {path!r}")
            for name, path in given.items()
            if path is not None and not (path and "\0" not in path)
        ]


def domain_problems(domain: str) -> list[FieldProblem]:
    """Return the problem of a domain that is unknown or not of real numbers."""
    if domain not in DOMAINS:
        return [("domain", f"unknown domain {domain!r}.{did_you_mean(domain, DOMAINS)}")]
    return [] if DOMAINS[domain].is_real_valued else [("domain", f"must be of real numbers, got {domain}")]


def delimiter_problems(delimiter: str | None) -> list[FieldProblem]:
    """Return the problem of a delimiter of columns that is not one character, or is one with another meaning."""
    if delimiter is None or (len(delimiter) == 1 and delimiter not in '"\r\n\0'):
        return []
    return [("delimiter", f'must be one character such as ";" or "\\t", got {delimiter!r}')]


def located(path: str, folder: Path) -> str:
    """Return an absolute path; a relative one is relative to ``folder``, and ``~`` is the user's home folder."""
    return str(absolute(path if path.startswith("~") else folder / path, "path"))
