"""Opener of token files such as WikiText's: articles in the order of their ids, each after what comes before it.

In the papers' evaluation a split is one sequence of tokens, and each is predicted from up to 256 or 384 before it,
those of other articles included (Transformer-XL, lmtool-fwp). Here an example is an article, whose context is the end
of what comes before it: each token has the predecessors that it has there, and is scored in one article alone. The
first token of all, the ``<eos>`` of the empty first line, is predicted nowhere; models begin any text with one. So
245,568 of the 245,569 tokens of WikiText-103's test split are scored.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from robench.core.errors import MissingDataError
from robench.core.protocols import Batch
from robench.core.shard import DatasetIdentity
from robench.datasets.base import TEST_SPLIT
from robench.datasets.order import check_range, checked_index, hash_order
from robench.datasets.token_files import context_before, read_split
from robench.datasets.vocabulary import UNKNOWN_BY_FREQUENCY, vocabulary_of
from robench.domains.code_points import CONTEXT_END, encoded, padded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torch import Tensor

    from robench.datasets.wikitext import TokenFiles
    from robench.declarations.preprocessing import PreprocessingBase

_TRAINING_SPLIT = "train"
_MOST_OF_A_TITLE = 40
_NOT_INERT = re.compile(r"[^A-Za-z0-9]+")


def open_tokens(
    declared: TokenFiles,
    *,
    data_root: Path | None,
    preprocessing: PreprocessingBase | None,
    decode_workers: int,
    split: str,
) -> WikiText:
    """Open a split of token files.

    Raises:
        UsageError: there is no such split.
        MissingDataError: there is no such file, or it is not the published one.
    """
    del preprocessing, decode_workers  # Texts are as they are.
    return WikiText(declared, data_root, split)


def vocabulary(declared: TokenFiles, data_root: Path | None) -> list[str]:
    r"""Return the words of the papers' models: ``\n`` for ``<eos>``, then by frequency, ties by first occurrence.

    The unknown word ``<unk>`` is a word of the training file, with the place that its frequency has.

    Raises:
        MissingDataError: there is no training file, or it has not as many different words as the published one.
    """
    words = vocabulary_of(WikiText(declared, data_root, _TRAINING_SPLIT).articles(), first=UNKNOWN_BY_FREQUENCY)
    if len(words) != declared.vocabulary_size:
        raise MissingDataError(
            f"{declared.file_of(_TRAINING_SPLIT)} has {len(words):,} different tokens, the end of a line included, "
            f"wanted {declared.vocabulary_size:,} as published. Unpack {declared.archive} again"
        )
    return words


class WikiText:
    """Articles of one split, in the order of the SHA-256 of their ids; texts are made on access.

    An id is such as ``wikitext-103/test/00007-Du-Fu``: number from 0 in the file, and what of the title is inert. A
    text is context, ``CONTEXT_END`` and what is scored. The fingerprint is a SHA-256 over number of tokens of context,
    ids and digests of the articles. Held in memory are the file's bytes and a few numbers for each article.

    Args:
        declared: the dataset.
        data_root: folder that contains its folder.
        split: name of the split.

    Raises:
        UsageError: there is no such split.
        MissingDataError: there is no such file, or it is not the published one.
    """

    def __init__(self, declared: TokenFiles, data_root: Path | None, split: str = TEST_SPLIT) -> None:
        self._content, self._articles = read_split(declared, data_root, split)
        self._context_tokens = declared.context_tokens
        self._places = {
            article_id(f"{declared.folder}/{split}", place, article.title): place
            for place, article in enumerate(self._articles)
        }
        self.ids = tuple(hash_order(self._places))
        digest = hashlib.sha256(f"context\0{declared.context_tokens}\n".encode())
        for example_id in self.ids:
            digest.update(f"{example_id}\0{self._articles[self._places[example_id]].digest}\n".encode())
        self.identity = DatasetIdentity(name=declared.name, fingerprint=digest.hexdigest(), num_examples=len(self.ids))
        self.num_tokens = declared.num_tokens_of(split)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        points = encoded(self.text(checked_index(index, self.identity.name, len(self))))
        return points, points.clone()

    def batch(self, start: int, stop: int) -> Batch:
        """Return examples [start, stop) as code points (B, T), which are inputs and targets alike."""
        check_range(start, stop, self.identity.name, len(self))
        points = padded([encoded(self.text(index)) for index in range(start, stop)])
        return Batch(ids=self.ids[start:stop], inputs=points, targets=points.clone())

    def text(self, index: int) -> str:
        """Return the text of an example: context, ``CONTEXT_END`` and what is scored."""
        article = self._articles[self._places[self.ids[index]]]
        context = context_before(self._content, self._articles[0].start, article.start, self._context_tokens)
        return f"{context}{CONTEXT_END}{self._content[article.start : article.stop].decode()}"

    def articles(self) -> Iterator[str]:
        """Yield the text of each article in the order of the file, without context."""
        for article in self._articles:
            yield self._content[article.start : article.stop].decode()


def article_id(split: str, place: int, title: str) -> str:
    """Return the id of an article.

    >>> article_id("wikitext-2/valid", 7, "Homarus <unk> ( lobster )")
    'wikitext-2/valid/00007-Homarus-unk-lobster'
    """
    inert = _NOT_INERT.sub("-", title)[:_MOST_OF_A_TITLE].strip("-")
    return f"{split}/{place:05d}-{inert}".rstrip("-")
