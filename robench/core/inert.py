"""Text of unknown origin, made harmless: names, labels and error messages come from files that strangers write."""

from __future__ import annotations

import json
from typing import Any

NAME_WIDTH = 80
NOTE_WIDTH = 400


def printable(text: str) -> str:
    r"""Return the text with everything that is not visible shown as an escape: controls, bidi marks, lone surrogates.

    A terminal obeys escape sequences, bidi controls show another order than there is, and zero-width characters make
    different names look equal.

    >>> printable("a\x1b[31m\u202eb\n")
    'a\\x1b[31m\\u202eb\\n'
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escape(character) for character in text)


def clipped(text: str, width: int = NAME_WIDTH) -> str:
    """Return printable text of at most ``width`` characters, the end replaced by an ellipsis where it is longer."""
    # An escape is up to 10 characters for one, so that cutting before escaping would not bound the width.
    shown = printable(text[: width + 1])
    return shown if len(shown) <= width else f"{shown[: width - 1]}…"


def inert_json(value: Any) -> str:
    r"""Return ``value`` as JSON in printable ASCII, indented; JSON escapes what a terminal would obey, names included.

    Raises:
        ValueError: a number is NaN or infinite, which JSON cannot say.

    >>> inert_json(["\x1b\u202e\x7f"])
    '[\n  "\\u001b\\u202e\\u007f"\n]'
    """
    # The one control character that the library leaves alone; it can only stand inside a text.
    return json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False).replace("\x7f", "\\u007f")


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
