"""WordPiece with case: words as pieces of a vocabulary file, as in BERT (Devlin et al. 2019, arXiv:1810.04805).

Control signs are left out; a punctuation mark or a Chinese character is a word of its own. A word is
the longest piece that it begins with, then the longest ``##`` piece that its rest begins with, and so on. One that has
no such pieces, or more than 100 signs, is ``[UNK]``. Ends of lines are ``[SEP]``, and ``<unk>`` is ``[UNK]``, as in the
code of the NAACL 2019 tutorial on transfer learning (huggingface/naacl_transfer_learning_tutorial, ``utils.py``).
"""

import unicodedata
from collections.abc import Callable
from pathlib import Path

from robench.core.errors import WeightsError
from robench.core.files import read_regular

PADDING_PIECE = "[PAD]"
UNKNOWN_PIECE = "[UNK]"
END_PIECE = "[SEP]"
_SPECIAL = {"\n": END_PIECE, "<unk>": UNKNOWN_PIECE}
_LONGEST_WORD = 100
_MOST_BYTES = 1 << 26
# Blocks of Chinese characters, as in BERT's code.
_CHARACTERS = (
    range(0x4E00, 0xA000),
    range(0x3400, 0x4DC0),
    range(0x20000, 0x2A6E0),
    range(0x2A700, 0x2B740),
    range(0x2B740, 0x2B820),
    range(0x2B820, 0x2CEB0),
    range(0xF900, 0xFB00),
    range(0x2F800, 0x2FA20),
)


def pieces_of(word: str, is_piece: Callable[[str], bool]) -> list[str]:
    r"""Return the pieces of a word without white space, at least one.

    >>> pieces_of("unmoved,", {"un", "##moved", ","}.__contains__)
    ['un', '##moved', ',']
    >>> pieces_of("\n", bool), pieces_of("moved", set().__contains__)
    (['[SEP]'], ['[UNK]'])
    """
    if word in _SPECIAL:
        return [_SPECIAL[word]]
    return [piece for part in _parts(word) for piece in _longest_first(part, is_piece)] or [UNKNOWN_PIECE]


def read_pieces(path: Path, size: int) -> list[str]:
    """Return the pieces of a file, one a line: ``vocab.txt`` of a BERT model.

    Raises:
        WeightsError: it cannot be read, has another number of lines than ``size``, or lacks a piece of BERT's.
    """
    try:
        pieces = read_regular(path, _MOST_BYTES).decode().removesuffix("\n").split("\n")
    except (OSError, ValueError) as error:
        raise WeightsError(
            f"cannot read the word pieces in {path} ({error}): take vocab.txt of a BERT model"
        ) from error
    if len(pieces) != size or pieces[0] != PADDING_PIECE or not {UNKNOWN_PIECE, END_PIECE} <= {*pieces}:
        raise WeightsError(
            f"{path} has {len(pieces):,} word pieces, the first of them {pieces[0][:40]!r}: expected vocabulary_size"
            f" {size:,}, with {PADDING_PIECE} first, {UNKNOWN_PIECE} and {END_PIECE}, as in vocab.txt of BERT"
        )
    return pieces


def _parts(word: str) -> list[str]:
    parts, is_open = list[str](), False
    for sign in word:
        category = unicodedata.category(sign)
        if category.startswith("C") or sign == "\ufffd":
            continue
        is_alone = _is_punctuation(sign, category) or any(ord(sign) in block for block in _CHARACTERS)
        if is_open and not is_alone:
            parts[-1] += sign
        else:
            parts.append(sign)
        is_open = not is_alone
    return parts


def _is_punctuation(sign: str, category: str) -> bool:
    return category.startswith("P") or (sign.isascii() and not sign.isalnum())


def _longest_first(word: str, is_piece: Callable[[str], bool]) -> list[str]:
    pieces, start = list[str](), 0
    while start < len(word) <= _LONGEST_WORD:
        mark = "##" if start else ""
        stop = next((end for end in range(len(word), start, -1) if is_piece(mark + word[start:end])), None)
        if stop is None:
            return [UNKNOWN_PIECE]
        pieces.append(mark + word[start:stop])
        start = stop
    return pieces or [UNKNOWN_PIECE]
