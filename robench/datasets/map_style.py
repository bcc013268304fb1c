"""Declaration of a dataset class of torchvision, or of the user's own, with items (image, label)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Self

from robench.core.identity import key_of
from robench.core.user_code import is_target
from robench.datasets.user import StatedFormat, located
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
    implementation: ClassVar[str] = "robench.datasets.map_style_impl:open_map_style"

    target: str
    arguments: Mapping[str, Argument] = field(default_factory=dict)

    def __hash__(self) -> int:
        """Return a hash of target and arguments (a mapping)."""
        return hash((self.target, key_of(self.arguments)))

    @property
    def summary(self) -> str:
        """Return the default title."""
        return f"{self.kind} {self.target}"

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
