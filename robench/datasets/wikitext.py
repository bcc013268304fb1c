"""Declarations of WikiText-103 and WikiText-2, for language models of words.

Numbers of tokens and words are those of Merity et al. 2016, arXiv:1609.07843, table 1; the end of each line, ``<eos>``,
is a token. The table counts articles too: 60 for test and validation each, 28,475 and 600 for training. The files mark
articles by lines of the form of a title, and some other lines have that form: splits by it that others published have
62 documents for the test. So the number of examples is left to the files.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from robench.datasets.base import TEST_SPLIT, DatasetBase
from robench.declarations.base import LARGEST, FieldProblem
from robench.domains.texts import TEXTS


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFiles(DatasetBase):
    """Declaration of texts in token files as WikiText's, ``wiki.SPLIT.tokens``, below the data root.

    Attributes:
        num_tokens: number of tokens of each split, in the order of ``splits``: words, and an end at each line.
        vocabulary_size: number of different tokens of the training split, the end of a line included.
        context_tokens: number of tokens before each article that are its context, at most. It is part of the
            fingerprint.
        archive: name of the published archive.
    """

    implementation: ClassVar[str] = "robench.datasets.wikitext_impl:open_tokens"

    domain: str = TEXTS.name
    splits: tuple[str, ...] = ("train", "valid", TEST_SPLIT)
    folder: str
    num_tokens: tuple[Annotated[int, Ge(1), Le(1000 * LARGEST)], ...]
    vocabulary_size: Annotated[int, Ge(1), Le(LARGEST)]
    context_tokens: Annotated[int, Ge(0), Le(LARGEST)] = 384
    archive: str

    def contradictions(self) -> list[FieldProblem]:
        """Refuse another number of sizes than of splits."""
        problems = super(TokenFiles, self).contradictions()
        if len(self.num_tokens) != len(self.splits):
            wanted = f"must be a number for each of {', '.join(self.splits)}"
            problems.append(("num_tokens", f"{wanted}, got {len(self.num_tokens)} of them"))
        return problems

    def num_tokens_of(self, split: str) -> int:
        """Return the published number of tokens of a split."""
        self.check_split(split)
        return self.num_tokens[self.splits.index(split)]

    def path_of(self, split: str) -> str:
        """Return the path of a split's file below the data root."""
        return f"{self.folder}/wiki.{split}.tokens"


WIKITEXT_103 = TokenFiles(
    name="wikitext-103",
    title="WikiText-103: articles of the English Wikipedia, 103 million tokens for training",
    task="language-modeling",
    source="Merity et al. 2016, arXiv:1609.07843",
    licence="CC BY-SA 3.0",
    folder="wikitext-103",
    num_tokens=(103_227_021, 217_646, 245_569),
    vocabulary_size=267_735,
    archive="wikitext-103-v1.zip",
)
WIKITEXT_103_VALID = replace(
    WIKITEXT_103, name="wikitext-103/valid", title="WikiText-103, validation articles", evaluation_split="valid"
)
WIKITEXT_2 = replace(
    WIKITEXT_103,
    name="wikitext-2",
    title="WikiText-2: WikiText-103 with 2 million tokens for training and rare words unknown",
    folder="wikitext-2",
    num_tokens=(2_088_628, 217_646, 245_569),
    vocabulary_size=33_278,
    archive="wikitext-2-v1.zip",
)
WIKITEXT_2_VALID = replace(
    WIKITEXT_2, name="wikitext-2/valid", title="WikiText-2, validation articles", evaluation_split="valid"
)
