"""Inert stand-ins for the classes and functions that a file names, so that what lies beside its weights is harmless.

Training scripts save optimisers, loss scalers, options and scores of any class beside the weights. torch's restricted
unpickler refuses a name that it does not know; told of a stand-in under that name, it makes one instead. So nothing of
the file's is imported or run: a stand-in takes whatever it is made of and keeps nothing. What a pickle fills item by
item (a ``defaultdict``, a ``deque``, options in a subclass of ``dict``) must be a real dict or list to the unpickler;
whoever asks can tell those from the file's own by identity. Names in modules that torch blocks (os, sys) stay refused.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# What torch's unpickler complains of, and what it wants in that place.
FILLED: Mapping[str, Callable[[], object]] = {
    "Can only SETITEM": OrderedDict,
    "Can only append to lists": list,
    "Can only extend lists": list,
}


class InertStandIn:
    """Takes the place of a class or function: can be made of anything, and holds and does nothing."""

    __slots__ = ()

    def __new__(cls, *arguments: object) -> Self:
        """Ignore all arguments."""
        return super().__new__(cls)

    def __setstate__(self, state: object) -> None:
        """Ignore the state."""


class StandIns:
    """Stand-ins for the names of one file.

    Attributes:
        filled: the dicts and lists that were made in place of objects of unknown classes.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.filled: list[object] = []
        self._classes = {name: type(name, (InertStandIn,), {"__module__": __name__, "__slots__": ()}) for name in names}

    def pairs(self) -> list[Callable[..., Any] | tuple[Callable[..., Any], str]]:
        """Return what ``torch.serialization.safe_globals`` takes: each stand-in, and the name that it stands for."""
        return [(stand_in, name) for name, stand_in in self._classes.items()]

    def fill(self, complaint: str) -> bool:
        """Let a dict or list stand for what turned out to be filled item by item, as torch's unpickler complained.

        Returns False where the complaint is of something else; True at most once a name.
        """
        kinds = [kind for wanted, kind in FILLED.items() if wanted in complaint]
        for name, stand_in in self._classes.items():
            if kinds and issubclass(stand_in, InertStandIn) and repr(stand_in) in complaint:
                self._classes[name] = self._filled(name, kinds[0])
                return True
        return False

    def _filled(self, name: str, kind: Callable[[], object]) -> type:
        def make(cls: type, *arguments: object) -> object:
            self.filled.append(kind())
            return self.filled[-1]

        return type(name, (), {"__module__": __name__, "__slots__": (), "__new__": make})
