"""Texts held in memory: datasets whose targets are the texts themselves, or classes; words of running text.

Words and punctuation marks have one blank between them. A word keeps its hyphens and apostrophes (``well-digested``,
``nation's``). Case is kept.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from robench.core.protocols import Batch, Dataset
from robench.core.shard import DatasetIdentity
from robench.datasets.order import check_range, checked_index
from robench.datasets.sotu import EmbeddedTexts
from robench.domains.code_points import UNKNOWN, encoded, padded
from robench.tasks.language_modeling_impl import END_OF_LINE

_WORD = re.compile(r"\w+(?:['\u2019-]\w+)*|[^\w\s]")
_BLANK_LINES = re.compile(r"\n\s*\n")
# Models of robench's recipe have the unknown word second; in the papers' code it has the rank of its frequency.
UNKNOWN_SECOND = (END_OF_LINE, UNKNOWN)
UNKNOWN_BY_FREQUENCY = (END_OF_LINE,)


def open_embedded(declared: EmbeddedTexts, *, split: str, **unused: object) -> Dataset:
    """Open a split of texts that come with a library."""
    declared.check_split(split)
    opened = Texts if declared.num_classes is None else LabelledTexts
    return opened(declared.name, declared.made(split))


class OrderedTexts:
    """Base class of datasets of texts that are their own targets: language models predict every word.

    Attributes:
        identity: name, content digest and size.
        ids: one id per example.
    """

    identity: DatasetIdentity
    ids: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor | int]:
        points = encoded(self.text(checked_index(index, self.identity.name, len(self))))
        return points, points.clone()

    def batch(self, start: int, stop: int) -> Batch:
        """Return examples [start, stop) as code points (B, T), which are inputs and targets alike."""
        check_range(start, stop, self.identity.name, len(self))
        points = padded([encoded(self.text(place)) for place in range(start, stop)])
        return Batch(ids=self.ids[start:stop], inputs=points, targets=points.clone())

    def text(self, index: int) -> str:
        """Return the text of an example."""
        raise NotImplementedError

    def articles(self) -> Iterator[str]:
        """Yield all texts in the order in which they were written, without context."""
        raise NotImplementedError


class Texts(OrderedTexts):
    """Texts in the order of ``texts``, pairs of ids and texts, or in a subclass tuples that begin with them."""

    def __init__(self, name: str, texts: Sequence[tuple[str, str, *tuple[int, ...]]]) -> None:
        self.ids = tuple(each for each, *_ in texts)
        self.texts = tuple(text for _, text, *_ in texts)
        digest = hashlib.sha256()
        for example_id, text, *labels in texts:
            parts = (example_id, hashlib.sha256(text.encode()).hexdigest(), *map(str, labels))
            digest.update(("\0".join(parts) + "\n").encode())
        self.identity = DatasetIdentity(name=name, fingerprint=digest.hexdigest(), num_examples=len(texts))

    def text(self, index: int) -> str:
        """Return the text of an example."""
        return self.texts[index]

    def articles(self) -> Iterator[str]:
        """Yield the texts in their order."""
        yield from self.texts


class LabelledTexts(Texts):
    """Texts in the order of ``texts``: ids, texts and classes."""

    def __init__(self, name: str, texts: Sequence[tuple[str, str, int]]) -> None:
        super().__init__(name, texts)
        self.labels = tuple(label for _, _, label in texts)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor | int]:
        points, _ = super().__getitem__(index)
        return points, self.labels[index]

    def batch(self, start: int, stop: int) -> Batch:
        """Return examples [start, stop) as code points (B, T) and classes (B,)."""
        return replace(super().batch(start, stop), targets=torch.tensor(self.labels[start:stop]))


def with_spaced_words(text: str) -> str:
    r"""Return the text with a line for each paragraph, and a blank between words and signs.

    >>> with_spaced_words("A free people ought\nto be armed, but disciplined;\n\nand well-digested.")
    'A free people ought to be armed , but disciplined ;\nand well-digested .\n'
    """
    paragraphs = (_WORD.findall(each) for each in _BLANK_LINES.split(text))
    return "".join(" ".join(words) + "\n" for words in paragraphs if words)


def vocabulary_of(
    texts: Iterable[str], size: int | None = None, min_count: int = 1, first: Sequence[str] = UNKNOWN_SECOND
) -> list[str]:
    r"""Return the words of texts: those of ``first``, and then the most frequent ones, ties by first occurrence.

    The words of ``first`` come first, whether they occur or not, and ``size`` counts them; others occur ``min_count``
    times at least.

    >>> vocabulary_of(["a b b\n", "c c a\nd"], 5, 2)
    ['\n', '<unk>', 'a', 'b', 'c']
    >>> vocabulary_of(["a <unk> b <unk> b\n"], first=UNKNOWN_BY_FREQUENCY)
    ['\n', '<unk>', 'b', 'a']
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text.split())
    # Of equal counts the first that occurs comes first, as Counter and a stable sort have it.
    frequent = sorted((word for word, count in counts.items() if count >= min_count), key=lambda word: -counts[word])
    leading = set(first)
    return [*first, *(word for word in frequent if word not in leading)][:size]
