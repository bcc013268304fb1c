"""Datasets: what can be known of them before they are opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from robench.declarations.base import DeclarationBase

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetDeclaration(DeclarationBase):
    """A dataset as users see it in ``robench list datasets``.

    Attributes:
        folder: folder below the data root that holds it; None where it is embedded in a library.
        num_examples: size of the whole evaluation split.
    """

    kind: ClassVar[str] = "dataset"

    name: str
    title: str
    task: str
    num_classes: int
    num_examples: int
    source: str
    licence: str
    folder: str | None = None


DIGITS = DatasetDeclaration(
    name="digits",
    title="Handwritten digits, 8x8 scans shown at 32x32 RGB",
    task="classification",
    num_classes=10,
    num_examples=600,
    source="scikit-learn load_digits: UCI Optical Recognition of Handwritten Digits, Alpaydin & Kaynak 1998",
    licence="CC BY 4.0",
)
IMAGENET_1K = DatasetDeclaration(
    name="imagenet-1k",
    title="ImageNet ILSVRC 2012 validation images",
    task="classification",
    num_classes=1000,
    num_examples=50_000,
    source="Russakovsky et al. 2015, arXiv:1409.0575; to be had from image-net.org",
    licence="ImageNet terms of access, research only",
    folder="imagenet-1k",
)

DATASETS: Mapping[str, DatasetDeclaration] = {declared.name: declared for declared in (DIGITS, IMAGENET_1K)}
