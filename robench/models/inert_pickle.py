"""Interpreter of pickles that builds plain values and inert nodes, and imports, calls and compares nothing of a file.

A pickle is a program: it names classes and functions of any module and has them called. Here a name becomes a ``Name``,
a pair of texts, and an object of any class an ``InertObject``, which only records the class's name and its state. No
attribute of a value is looked up or set, so that no ``__setstate__``, ``__reduce__`` or ``__hash__`` can be reached.
The exceptions are containers (``dict``, ``list``, ``tuple``, ``set``, ``OrderedDict``, which becomes a dict) and what
torch writes for a tensor, which becomes a ``SavedTensor``; the numbers are elsewhere in the file.

Pickles of a module have some ten thousand instructions. More than ``MAX_INSTRUCTIONS`` or ``MAX_BYTES`` are refused,
and items that instructions copy count as instructions, so that time and memory are bounded. Values may contain one
another many times over, or themselves: readers must not walk, print or compare them whole.
"""

from __future__ import annotations

import pickletools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

MAX_BYTES: Final = 16 << 20
MAX_INSTRUCTIONS: Final = 1_000_000
SCALARS: Final = (str, int, float, bool, bytes, type(None))
# Values of an unknown file.
Value = Any


class PickleProblem(Exception):  # noqa: N818  # becomes an error with the file's name where that is known
    """Content that no pickle of a module has; the message is a clause without the file's name."""


@dataclass(frozen=True, slots=True)
class Name:
    """Name of a class or function in a file, which was not imported."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(slots=True, eq=False)
class InertObject:
    """Object of a class that was not imported.

    Attributes:
        of: name of its class, or of the function that would have made it.
        state: its attributes, as the file has them; empty where its state is no dict.
    """

    of: Name
    state: dict[Value, Value] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class SavedStorage:
    """Reference to numbers beside the pickle: their type's name, such as ``FloatStorage``, their key and count."""

    kind: str
    key: str
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class SavedTensor:
    """Tensor whose numbers were not read; offset, size and stride are the file's, unchecked."""

    storage: SavedStorage
    offset: Value
    size: Value
    stride: Value


def unpickled(content: bytes) -> Value:
    """Return the value of a pickle: plain values, nodes of this module, and containers of both.

    Keys of dicts and members of sets that are no text, number, bool, bytes or None are left out, with their values.

    Raises:
        PickleProblem: it is damaged, too long, or has an instruction that no pickle of a module has.
    """
    if len(content) > MAX_BYTES:
        raise PickleProblem(f"its pickle has {len(content):,} bytes, at most {MAX_BYTES:,} are read")
    machine = _Machine()
    try:
        for instruction, argument, _ in pickletools.genops(content):
            machine.charge(1)
            machine.run(instruction.name, argument)
        return machine.pop()
    except PickleProblem:
        raise
    # Broad because a damaged or hostile file makes the parser raise errors of several classes, such as of decoding.
    except Exception as error:
        raise PickleProblem(f"its pickle is damaged ({type(error).__name__}: {error!s:.80})") from error


class _Machine:
    """Stack machine of the pickle format; the instructions are those of ``pickletools``."""

    def __init__(self) -> None:
        self.stack: list[Value] = []
        self.marks: list[list[Value]] = []
        self.memo: dict[int, Value] = {}
        self.charged = 0
        self.instructions: Mapping[str, Callable[[Value], None]] = {
            **dict.fromkeys(_CONSTANTS, self.push),
            **dict.fromkeys(("PROTO", "FRAME", "STOP"), lambda _: None),
            **{name: self._pushing(make) for name, make in _MADE.items()},
            **{name: self._of_items(make) for name, make in _MADE_OF_ITEMS.items()},
            **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), self.remember),
            **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), lambda place: self.push(self.memo[place])),
            **{f"TUPLE{count}": self._tuple_of(count) for count in (1, 2, 3)},
            "MEMOIZE": lambda _: self.remember(len(self.memo)),
            "MARK": self.mark,
            "POP": lambda _: self.forget(),
            "POP_MARK": lambda _: self.items().clear(),
            "DUP": lambda _: self.push(self.stack[-1]),
            "APPEND": lambda _: self.extend([self.pop()]),
            "APPENDS": lambda _: self.extend(self.items()),
            "ADDITEMS": lambda _: self.extend(self.items()),
            "SETITEM": lambda _: self.update([self.pop(), self.pop()][::-1]),
            "SETITEMS": lambda _: self.update(self.items()),
            "GLOBAL": lambda argument: self.push(Name(*argument.split(" ", 1))),
            "STACK_GLOBAL": lambda _: self.push(_name(*[self.pop(), self.pop()][::-1])),
            "INST": lambda argument: self.make_of(Name(*argument.split(" ", 1)), self.items()),
            "OBJ": lambda _: self.make_of_items(),
            "REDUCE": lambda _: self.make(),
            "NEWOBJ": lambda _: self.make(),
            "NEWOBJ_EX": lambda _: self.make(num_dropped=1),
            "BUILD": lambda _: self.build(self.pop()),
            "BINPERSID": lambda _: self.push(_storage(self.pop())),
        }

    def run(self, name: str, argument: Value) -> None:
        """Run one instruction."""
        if name not in self.instructions:
            raise PickleProblem(f"its pickle has the instruction {name}, which no pickle of a module has")
        self.instructions[name](argument)

    def charge(self, count: int) -> None:
        """Count instructions, or items that one copies."""
        self.charged += count
        if self.charged > MAX_INSTRUCTIONS:
            raise PickleProblem(f"its pickle has more than {MAX_INSTRUCTIONS:,} instructions, or items that they copy")

    def push(self, value: Value) -> None:
        """Put a value on the stack."""
        self.stack.append(value)

    def pop(self) -> Value:
        """Take the last value from the stack."""
        return self.stack.pop()

    def forget(self) -> None:
        """Drop the last value, or a mark without values after it."""
        if self.stack or not self.marks:
            self.stack.pop()
        else:
            self.stack = self.marks.pop()

    def mark(self, _: Value) -> None:
        """Begin a row of items."""
        self.marks.append(self.stack)
        self.stack = []

    def items(self) -> list[Value]:
        """Take the items since the last mark."""
        items, self.stack = self.stack, self.marks.pop()
        return items

    def remember(self, place: int) -> None:
        """Keep the last value under a number."""
        self.memo[place] = self.stack[-1]

    def extend(self, items: list[Value]) -> None:
        """Add items to the list or set on the stack; those of an inert object are dropped."""
        target = self.stack[-1]
        if type(target) is list:
            target.extend(items)
        elif type(target) is set:
            target.update(_scalars(items))
        elif type(target) is not InertObject:
            raise PickleProblem(f"its pickle adds items to a {type(target).__name__}")

    def update(self, items: list[Value]) -> None:
        """Set items, keys and values in turn, of the dict on the stack; those of an inert object are dropped."""
        target = self.stack[-1]
        if type(target) is dict:
            target.update(_mapping(zip(items[::2], items[1::2], strict=True)))
        elif type(target) is not InertObject:
            raise PickleProblem(f"its pickle sets items of a {type(target).__name__}")

    def make(self, num_dropped: int = 0) -> None:
        """Replace a name, a tuple of arguments, and values after it that do not matter, by an object of that name."""
        for _ in range(num_dropped):
            self.pop()
        arguments, of = self.pop(), self.pop()
        self.make_of(of, arguments)

    def make_of_items(self) -> None:
        """Replace the items since the last mark, a name and arguments, by an object of that name."""
        of, *arguments = self.items()
        self.make_of(of, arguments)

    def make_of(self, of: Value, arguments: Value) -> None:
        """Put an object of a name on the stack, made with arguments that may be large and used many times."""
        if type(arguments) in (tuple, list):
            self.charge(len(arguments))
            for each in arguments:
                self.charge(len(each) if type(each) in (tuple, list) else 0)
        self.push(_made(of, arguments))

    def build(self, state: Value) -> None:
        """Record the state of the inert object on the stack; that of any other value is dropped."""
        target = self.stack[-1]
        if type(target) is InertObject:
            # Of a class with slots it is a pair.
            for part in state if type(state) is tuple and len(state) == 2 else (state,):
                if type(part) is dict:
                    self.charge(len(part))
                    target.state.update(part)

    def _pushing(self, make: Callable[[], Value]) -> Callable[[Value], None]:
        return lambda _: self.push(make())

    def _of_items(self, make: Callable[[list[Value]], Value]) -> Callable[[Value], None]:
        return lambda _: self.push(make(self.items()))

    def _tuple_of(self, count: int) -> Callable[[Value], None]:
        return lambda _: self.push(tuple([self.pop() for _ in range(count)][::-1]))


def _name(module: Value, name: Value) -> Name:
    if type(module) is not str or type(name) is not str:
        raise PickleProblem("its pickle has a name that is no text")
    return Name(module, name)


def _made(of: Value, arguments: Value) -> Value:
    """Return the value of an instruction that calls or creates: a tensor, a container, or an inert object."""
    if type(of) is not Name:
        raise PickleProblem(f"its pickle calls a {type(of).__name__}")
    if type(arguments) not in (tuple, list):
        raise PickleProblem(f"its pickle calls {of!s:.80} without a tuple of arguments")
    make = _MAKERS.get((of.module, of.name))
    return InertObject(of) if make is None else make(*arguments)


def _tensor(storage: Value, offset: Value, size: Value, stride: Value, *_others: Value) -> SavedTensor:
    if type(storage) is not SavedStorage:
        raise PickleProblem(f"its pickle makes a tensor of a {type(storage).__name__}, wanted a storage")
    return SavedTensor(storage, offset, size, stride)


def _parameter(tensor: Value, *_others: Value) -> SavedTensor:
    if type(tensor) is not SavedTensor:
        raise PickleProblem(f"its pickle makes a parameter of a {type(tensor).__name__}, wanted a tensor")
    return tensor


def _storage(reference: Value) -> SavedStorage:
    if type(reference) is tuple and len(reference) == 5 and reference[0] == "storage":
        _, kind, key, _, count = reference
        if type(kind) is Name and kind.module == "torch" and type(key) is str and type(count) is int and count >= 0:
            return SavedStorage(kind.name, key, count)
    raise PickleProblem("its pickle refers to something outside it that is no storage of numbers")


def _scalars(items: Iterable[Value]) -> Iterable[Value]:
    # The hash of a tuple takes a time that is exponential in how deeply tuples hold one another twice.
    return (item for item in items if type(item) in SCALARS)


def _mapping(pairs: Iterable[Value]) -> dict[Value, Value]:
    return {key: value for key, value in pairs if type(key) in SCALARS}


def _pairs(items: Value = ()) -> dict[Value, Value]:
    """Return the dict of an OrderedDict's argument, a sequence of pairs."""
    if type(items) not in (list, tuple) or any(type(pair) not in (list, tuple) or len(pair) != 2 for pair in items):
        raise PickleProblem("its pickle makes a dict of something else than pairs")
    return _mapping(items)


def _set(items: Value = ()) -> set[Value]:
    if type(items) not in (list, tuple):
        raise PickleProblem(f"its pickle makes a set of a {type(items).__name__}")
    return set(_scalars(items))


_CONSTANTS = (
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
)
_MADE: Mapping[str, Callable[[], Value]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_SET": set,
}
_MADE_OF_ITEMS: Mapping[str, Callable[[list[Value]], Value]] = {
    "TUPLE": tuple,
    "LIST": list,
    "DICT": lambda items: _mapping(zip(items[::2], items[1::2], strict=True)),
    "FROZENSET": lambda items: set(_scalars(items)),
}
_MAKERS: Mapping[tuple[str, str], Callable[..., Value]] = {
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_parameter"): _parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): _parameter,
    ("collections", "OrderedDict"): _pairs,
    # Pickles of protocol 2, as torch writes them, have Python 2's name of the module.
    **{(module, "set"): _set for module in ("builtins", "__builtin__")},
    **{(module, "frozenset"): _set for module in ("builtins", "__builtin__")},
}
