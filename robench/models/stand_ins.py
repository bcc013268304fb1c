"""Inert stand-ins for the classes and functions named in a file, which make everything beside its weights harmless.

Training scripts save optimisers, loss scalers, options and scores of any class beside the weights. torch's restricted
unpickler refuses unknown names; with a stand-in registered under a name, it creates that instead. So nothing named in
the file is imported or run: a stand-in accepts any arguments and stores nothing. Objects that a pickle fills item by
item (a ``defaultdict``, a ``deque``, options in a subclass of ``dict``) must be a real dict or list for the unpickler;
callers distinguish those from the file's own by identity. Names in modules that torch blocks (os, sys) stay refused.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# Errors of torch's unpickler, and the type it requires instead.
FILLED: Mapping[str, Callable[[], object]] = {
    "Can only SETITEM": OrderedDict,
    "Can only append to lists": list,
    "Can only extend lists": list,
}


class InertStandIn:
    """Inert replacement of a class or function: accepts any arguments, stores and does nothing."""

    __slots__ = ()

    def __new__(cls, *arguments: object) -> Self:
        """Ignore all arguments."""
        return super().__new__(cls)

    def __setstate__(self, state: object) -> None:
        """Ignore the state."""


class StandIns:
    """Stand-ins for the names of one file.

    Attributes:
        filled: dicts and lists created in place of objects of unknown classes.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.filled: list[object] = []
        self._classes = {name: type(name, (InertStandIn,), {"__module__": __name__, "__slots__": ()}) for name in names}

    def pairs(self) -> list[Callable[..., Any] | tuple[Callable[..., Any], str]]:
        """Return the arguments of ``torch.serialization.safe_globals``: stand-ins with the names that they replace."""
        return [(stand_in, name) for name, stand_in in self._classes.items()]

    def fill(self, complaint: str) -> bool:
        """Use a dict or list for an object that is filled item by item, as indicated by torch's unpickler.

        Returns False if the error has another cause; True at most once per name.
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
