"""Escaping of untrusted text (names, labels, error messages) before it is printed."""

import json
import re
from typing import Any

NAME_WIDTH = 80
NOTE_WIDTH = 400
# An address without a user's name, in the characters of RFC 3986 that no markup gives a meaning.
_LINK = re.compile(r"https?://[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?([/?#][A-Za-z0-9._~:/?#@!&+,;=%-]{0,2000})?")


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


def is_link(text: str) -> bool:
    """Return whether a text may become a link: an http or https address that no markup could read as anything else.

    >>> is_link("https://arxiv.org/abs/2402.04617"), is_link("javascript:alert(1)"), is_link("https://a.org/?q='>x")
    (True, False, False)
    """
    return _LINK.fullmatch(text) is not None


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
