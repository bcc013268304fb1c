"""Refusals of a room as a table: what is called, the error that it raises, and its message."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest


class Refusal(NamedTuple):
    """One call that is refused.

    Attributes:
        call: called with an empty folder.
        error: type of the error.
        message: regular expression that is searched in the message, as by ``pytest.raises``.
    """

    call: Callable[[Path], object]
    error: type[Exception]
    message: str


def check(refusal: Refusal, folder: Path) -> None:
    """Call what is refused, and compare the error."""
    with pytest.raises(refusal.error, match=refusal.message):
        refusal.call(folder)
