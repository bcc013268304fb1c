"""Escaping of untrusted text (names, labels, error messages) before it is printed."""

import json
from typing import Any

NAME_WIDTH = 80
NOTE_WIDTH = 400


def printable(text: str) -> str:
    r"""Return the text with all invisible characters escaped: controls, bidi marks, lone surrogates.

    Terminals execute escape sequences, bidi controls change the visible order, and zero-width characters make different
    names look equal.

    >>> printable("a\x1b[31m\u202eb\n")
    'a\\x1b[31m\\u202eb\\n'
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escape(character) for character in text)


def clipped(text: str, width: int = NAME_WIDTH) -> str:
    """Return printable text of at most ``width`` characters, truncated with an ellipsis."""
    # One character escapes to up to 10, so truncating before escaping would not bound the width.
    shown = printable(text[: width + 1])
    return shown if len(shown) <= width else f"{shown[: width - 1]}…"


def inert_json(value: Any) -> str:
    r"""Return ``value`` as indented JSON in printable ASCII; JSON escapes everything that a terminal would execute.

    Raises:
        ValueError: a number is NaN or infinite, which JSON cannot represent.

    >>> inert_json(["\x1b\u202e\x7f"])
    '[\n  "\\u001b\\u202e\\u007f"\n]'
    """
    # The one control character that the library leaves alone; it occurs only inside texts.
    return json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False).replace("\x7f", "\\u007f")


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
