"""Declarations of CIFAR-10 and CIFAR-100, as published (Krizhevsky 2009, "Learning multiple layers of features")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from robench.datasets.user import FilesFormat
from robench.declarations.base import FieldProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Cifar10(FilesFormat):
    """Test images of CIFAR-10: the unpacked folder of its Python or binary version, or a folder that contains it.

    Attributes:
        classes: number of classes.
        file: test images of the Python version, with their MD5 as published; ``binary_file``: those of the binary one.
        folders: names of the unpacked folders.
        label_key: key of the labels in the Python version.
        label_bytes: number of labels per image in the binary version; the last one is used.
    """

    kind: ClassVar[str] = "cifar10"
    implementation: ClassVar[str] = "robench.datasets.cifar_impl:open_cifar"
    classes: ClassVar[int] = 10
    file: ClassVar[tuple[str, str]] = ("test_batch", "40351d587109b95175f43aff81a1287e")
    binary_file: ClassVar[str] = "test_batch.bin"
    folders: ClassVar[tuple[str, ...]] = ("cifar-10-batches-py", "cifar-10-batches-bin")
    label_key: ClassVar[str] = "labels"
    label_bytes: ClassVar[int] = 1

    @property
    def known_classes(self) -> int | None:
        """Return the number of classes."""
        return self.classes

    def contradictions(self) -> list[FieldProblem]:
        """Refuse a wrong number of classes."""
        problems = FilesFormat.contradictions(self)
        if self.num_classes in (None, self.classes):
            return problems
        return [*problems, ("num_classes", f"must be left out, or {self.classes}, got {self.num_classes}")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cifar100(Cifar10):
    """Test images of CIFAR-100 with their 100 fine labels; see CIFAR-10."""

    kind: ClassVar[str] = "cifar100"
    classes: ClassVar[int] = 100
    file: ClassVar[tuple[str, str]] = ("test", "f0ef6b0ae62326f3e7ffdfab6717acfc")
    binary_file: ClassVar[str] = "test.bin"
    folders: ClassVar[tuple[str, ...]] = ("cifar-100-python", "cifar-100-binary")
    label_key: ClassVar[str] = "fine_labels"
    label_bytes: ClassVar[int] = 2
