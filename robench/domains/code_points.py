"""Strings as tensors of Unicode code points, so that batches of texts are tensors like all others.

A text is (T,) int32; in a batch (B, T) shorter texts are padded on the right. A model reads texts through ``decoded``,
so that padding cannot matter to it.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from robench.domains import sequences

PADDING = -1
# The text after this sign is scored, the text before it is context alone: U+001E, "information separator two".
CONTEXT_END = "\x1e"
# The sign of texts and vocabularies for a word that they do not have.
UNKNOWN = "<unk>"


def encoded(text: str) -> Tensor:
    """Return the code points (T,) of a text.

    >>> encoded("Sí").tolist()
    [83, 237]
    """
    return torch.from_numpy(np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<i4").copy())


def padded(texts: Sequence[Tensor], length: int = 0) -> Tensor:
    """Return texts (T,) as one batch (B, T), as long as the longest, or ``length`` if that is more."""
    return sequences.padded(texts, PADDING, length)


def decoded(points: Tensor) -> list[str]:
    r"""Return the texts of a batch (B, T).

    >>> decoded(padded([encoded("Sí"), encoded("no\n")]))
    ['Sí', 'no\n']
    """
    rows = points.cpu().numpy().astype("<i4", copy=False)
    return [row[row != PADDING].tobytes().decode("utf-32-le", "surrogatepass") for row in rows]


def encoded_batch(texts: Sequence[str]) -> Tensor:
    """Return strings as one batch (B, T)."""
    return padded([encoded(text) for text in texts])


def lines_of(text: str) -> list[list[str]]:
    r"""Return the words of each line of a text, split at white space. A last line without words is left out.

    >>> lines_of("We the People\n\n  of the U.S.\n")
    [['We', 'the', 'People'], [], ['of', 'the', 'U.S.']]
    """
    lines = text.split("\n")
    if not lines[-1].strip():
        lines.pop()
    return [line.split() for line in lines]
