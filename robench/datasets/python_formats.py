"""Declarations of users' datasets in Python code: a dataset class with items (image, label), or a declaration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from robench.core.containment import Contained
from robench.core.errors import DeclarationError, described
from robench.core.identity import key_of
from robench.core.user_code import is_target, module_of, what_was_raised
from robench.datasets.base import DatasetBase
from robench.datasets.user import FormatBase, StatedFormat, located
from robench.declarations.base import Argument, FieldProblem

ROOT = "root"


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
