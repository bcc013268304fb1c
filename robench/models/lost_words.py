"""Words of a text that are lost in the pieces of a tokenizer: unknown pieces, or words without some of their signs.

Such a model looks better than it is: an unknown piece is easier than the word, and left-out letters are free.
"""

from typing import Any


class LostWords:
    """Counter of the words that are lost in the pieces of a fast tokenizer of transformers.

    With ``is_exact`` the decoded pieces must be the text but for white space, as a likelihood of the text needs; else
    other spellings, such as lower case, lose nothing.
    """

    # Any: transformers is optional.
    def __init__(self, tokenizer: Any, *, is_exact: bool) -> None:
        self._tokenizer = tokenizer
        backend = getattr(tokenizer, "backend_tokenizer", None)
        # Without a decoder pieces have no text of their own.
        self._is_exact = is_exact and getattr(backend, "decoder", None) is not None
        self._known: dict[str, bool] = {}

    def num_lost(self, text: str, ids: list[int], spans: list[tuple[int, int]], start: int = 0) -> int:
        """Return the number of words of a text that are lost from ``start`` on; ``spans`` are the places of its pieces.

        Where some are, each is read alone: after a letter that is left out places of pieces may be wrong.
        """
        if self._keeps(text, ids, spans):
            return 0
        words = text[start:].split()
        for word in {*words} - self._known.keys():
            options = {"add_special_tokens": False, "return_offsets_mapping": True, "verbose": False}
            pieces = self._tokenizer(word, **options)
            self._known[word] = self._keeps(word, pieces["input_ids"], pieces["offset_mapping"])
        return sum(not self._known[word] for word in words)

    def _keeps(self, text: str, ids: list[int], spans: list[tuple[int, int]]) -> bool:
        unknown, name = self._tokenizer.unk_token_id, self._tokenizer.unk_token
        found = bytearray(map(str.isspace, text))
        for piece, (first, last) in zip(ids, spans, strict=True):
            # The text itself may have the word for unknown ones.
            if piece != unknown or text[first:last].strip() == name:
                found[first:last] = b"\1" * (last - first)
        if 0 in found:
            return False
        decoded = self._tokenizer.decode(ids, clean_up_tokenization_spaces=False) if self._is_exact else text
        return "".join(decoded.split()) == "".join(text.split())
