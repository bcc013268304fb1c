"""Protection of the user's script from processes started with ``spawn``, which would import it again.

Without ``if __name__ == "__main__":`` such a process would run the whole script once more. robench's processes need of
it at most classes that were defined there.
"""

from __future__ import annotations

import pickle
import sys
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MAIN = "__main__"


def refers_to_script(values: Iterable[object]) -> bool:
    """Return whether another process needs the script to unpickle some values; also True if they contain its name."""
    return any(_MAIN.encode() in pickle.dumps(value) for value in values)


@contextmanager
def without_script() -> Iterator[None]:
    """Start processes inside that do not import the script."""
    script = sys.modules[_MAIN]
    # multiprocessing reads there where the script is.
    sys.modules[_MAIN] = ModuleType(_MAIN)
    try:
        yield
    finally:
        sys.modules[_MAIN] = script
