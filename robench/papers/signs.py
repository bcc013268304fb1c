"""Signs of verdicts in tables, one character each, and their key."""

from collections.abc import Iterable, Mapping

NOTHING = "—"
PRINT_INCONSISTENT = "print inconsistent"
REMARK = "remark"

# By verdict on a number or on a claim: the sign, and its form where an encoding lacks the signs.
_SIGNS: Mapping[str, tuple[str, str]] = {
    "reproduced": ("✓", "="),
    "supported": ("✓", "="),
    "consistent": ("≈", "~"),
    "undecided": ("?", "?"),
    "differs": ("≠", "x"),
    "contradicted": ("✗", "X"),
    "smaller": ("↓", "<"),
    "one of m runs": ("∈", "m"),
    "one seed": ("¹", "'"),
    "inferred": ("↻", "o"),
    "flagged": ("⚑", "f"),
    PRINT_INCONSISTENT: ("!", "!"),
    "other device": ("◇", "d"),
    "other protocol": ("≁", "p"),
    "not measured": ("·", "."),
    "no entry": ("–", "-"),  # noqa: RUF001  # a dash
    REMARK: ("†", "*"),
}
_ASCII = str.maketrans({**dict(_SIGNS.values()), NOTHING: "_"})


def sign_of(name: str) -> str:
    """Return the sign of a verdict or mark.

    Raises:
        KeyError: it has none.
    """
    return _SIGNS[name][0]


def key_of(names: Iterable[str]) -> str:
    """Return the signs of some verdicts and marks with their meanings, such as ``✓ reproduced, · not measured``."""
    wanted = set(names)
    return ", ".join(f"{sign} {name}" for name, (sign, _) in _SIGNS.items() if name in wanted)


def encodable(text: str, encoding: str) -> str:
    """Return text with signs of ASCII, if an encoding lacks any of them, so that columns stay aligned."""
    try:
        "".join(sign for sign, _ in _SIGNS.values()).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return text.translate(_ASCII)
    return text
