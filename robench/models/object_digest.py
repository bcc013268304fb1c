"""Digest of Python objects: plain values, tensors, and code by the source it was loaded from.

Objects that cannot be digested raise an error instead of being left out, so that equal digests mean equal behaviour.
Functions and classes of torch and timm are digested by name, since their releases are provenance, and of torchvision by
name and release; those of other installed packages by name and all sources of the package; the user's own by all
sources of their module or package, and with everything that they refer to.
"""

from __future__ import annotations

import argparse
import enum
import functools
import hashlib
import logging
import re
import types
import typing
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import PurePath
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils._contextlib import _DecoratorContextManager

from robench.models.source_code import (
    Origin,
    UndigestibleError,
    found_by_name,
    names_in,
    origin_of,
    position_of,
    sources_of,
    verify,
)

__all__ = ["ObjectDigest", "UndigestibleError"]

_ATOMS = (type(None), bool, int, float, complex, str, bytes, types.EllipsisType, range, slice)
_NAMED = (torch.dtype, torch.device, torch.layout, torch.memory_format)
_SEQUENCES = (list, tuple, deque, torch.Size)
_MAPPINGS = (dict, OrderedDict, defaultdict, types.MappingProxyType)
_TENSORS = (torch.Tensor, nn.Parameter, nn.Buffer)
_BUILTINS = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
_WRAPPERS = (
    *(types.MethodType, functools.partial, staticmethod, classmethod, functools._lru_cache_wrapper),
    *(property, functools.cached_property),
)
_TYPING = (typing.TypeVar, types.UnionType, types.GenericAlias)
# Attributes of a class that follow from its source, or that Python and torch derive from it.
_DERIVED = {"_abc_impl", "_backward_cls"}
_GENERATED = {
    *("__init__", "__repr__", "__eq__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__"),
    *("__setattr__", "__delattr__", "__replace__"),
}


class ObjectDigest:
    """SHA-256 to which objects are added one after another.

    Args:
        add_module: function that adds an ``nn.Module``, with its place.
    """

    def __init__(self, add_module: Callable[[ObjectDigest, nn.Module, str], None]) -> None:
        self._hash = hashlib.sha256()
        self._add_module = add_module
        # Numbered objects; they are referenced, so that no other object gets their id.
        self._seen: dict[int, tuple[int, object]] = {}
        self._open: list[int] = []
        self._sources: dict[tuple[Origin, str], str] = {}
        # Number of enclosing functions and classes of the current object: deepcopy copies nothing inside them.
        self._code_depth = 0

    def hexdigest(self) -> str:
        """Return 64 hexadecimal digits."""
        return self._hash.hexdigest()

    def write(self, *words: object) -> None:
        """Add texts, or the text of objects, each with its length."""
        for word in words:
            text = str(word).encode("utf-8", "surrogatepass")
            self._hash.update(b"%d:" % len(text) + text)

    def add(self, value: Any, place: str) -> None:
        """Add any object; ``place`` is its location in messages.

        Raises:
            UndigestibleError: it, or something inside it, is of a kind that cannot be digested.
        """
        kind = type(value)
        if value.__class__ is not kind:
            raise UndigestibleError(f"{place} is a {kind.__qualname__} that stands for another object")
        if kind in _ATOMS:
            self.write(kind.__name__, repr(value))
        elif kind in _TENSORS:
            self._add_tensor(value, place)
        elif isinstance(value, _NAMED):
            self.write(kind.__name__, value)
        elif kind is np.ndarray or isinstance(value, np.generic):
            self.write(kind.__name__)
            self._add_array(np.asarray(value), place)
        elif isinstance(value, nn.Module):
            if self._code_depth:
                raise UndigestibleError(f"{place} is a module, which a copy of the model would share")
            if not self._was_seen(value):
                self._add_module(self, value, place)
        elif not (self._add_container(value, place) or self._add_code(value, place) or self._add_record(value, place)):
            raise UndigestibleError(f"{place} is an object of type {kind.__module__}.{kind.__qualname__}")

    def add_class(self, cls: type, place: str) -> None:
        """Add a class with its bases and, for the user's own, everything that it defines.

        Raises:
            UndigestibleError: it was not created by a class statement of a module, or defines something that cannot be
                digested.
        """
        if self._was_seen(cls):
            return
        origin = origin_of(cls.__module__)
        if origin is None:
            raise UndigestibleError(
                f"{place} is defined in no file, but in a notebook, an interactive session or by exec"
            )
        if found_by_name(cls.__module__, cls.__qualname__) is not cls:
            raise UndigestibleError(f"{place} is made at run time: {cls.__module__} has no such {cls.__qualname__}")
        self.write("class", cls.__module__, cls.__qualname__, self._sources_of(origin, cls.__module__))
        if origin is Origin.LIBRARY:
            forward = vars(cls).get("forward")
            if isinstance(forward, types.FunctionType) and origin_of(forward.__globals__["__name__"]) is not origin:
                self._add_function(forward, f"forward of {place}")
            return
        if origin is Origin.STANDARD:
            return
        for base in (*cls.__bases__, type(cls)):
            self.add_class(base, f"base {base.__name__} of {place}")
        # Members and methods of these are generated by Python.
        is_made = issubclass(cls, enum.Enum) or (issubclass(cls, tuple) and hasattr(cls, "_fields"))
        if origin is Origin.OWN and not is_made:
            self._add_definitions(cls, place)

    def _add_definitions(self, cls: type, place: str) -> None:
        for name, value in sorted(vars(cls).items()):
            is_generated = is_dataclass(cls) and name in _GENERATED and _is_of_dataclasses(value)
            if is_generated or name in _DERIVED or (_is_special(name) and not _is_code(value)):
                continue
            if isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType)):
                continue
            self.write("definition", name)
            with self._in_code():
                self.add(value, f"{name} of {place}")

    def _add_tensor(self, tensor: torch.Tensor, place: str) -> None:
        found = tensor.detach()
        if found.layout is not torch.strided or found.is_quantized or found.is_meta or nn.parameter.is_lazy(tensor):
            raise UndigestibleError(f"{place} is a tensor without plain values (sparse, quantized, meta or lazy)")
        self.write("tensor", found.dtype, tuple(found.shape))
        plain = found.cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
        self._hash.update(plain.view(torch.uint8).numpy().data if plain.numel() else b"")
        if attributes := vars(tensor):
            self.add(attributes, f"attributes of {place}")

    def _add_array(self, array: np.ndarray[Any, Any], place: str) -> None:
        if array.dtype.hasobject:
            raise UndigestibleError(f"{place} is an array of Python objects")
        self.write("array", array.dtype, array.shape)
        self._hash.update(np.ascontiguousarray(array).tobytes())

    def _add_container(self, value: Any, place: str) -> bool:
        """Add a list, tuple, set, dictionary or the like, or return False."""
        kind = type(value)
        is_named = isinstance(value, tuple) and hasattr(kind, "_fields") and not hasattr(value, "__dict__")
        if kind in (set, frozenset):
            # Sets have no order; they are sorted by their text, if that is unique.
            items: Iterable[object] = sorted(value, key=lambda item: (type(item).__name__, repr(item)))
            if any(type(item) not in _ATOMS for item in value):
                raise UndigestibleError(f"{place} is a set of items other than text and numbers")
        elif kind in _SEQUENCES or is_named:
            items = value
        elif kind in _MAPPINGS:
            items = [each for pair in value.items() for each in pair]
        else:
            return False
        if id(value) in self._open:
            self.write("cycle", self._open.index(id(value)))
            return True
        self._open.append(id(value))
        self.write("container", kind.__name__, len(value))
        if is_named:
            self.add_class(kind, place)
            self.write(*kind._fields)
        if isinstance(value, defaultdict):
            self.add(value.default_factory, place)
        for item in items:
            self.add(item, place)
        self._open.pop()
        return True

    def _add_record(self, value: Any, place: str) -> bool:
        """Add an instance of a class whose whole state is in its fields, or return False."""
        kind = type(value)
        if isinstance(value, enum.Enum):
            self.add_class(kind, place)
            self.write("member", value.name)
            self.add(value.value, f"value of {place}")
        elif isinstance(value, PurePath):
            self.write("path", value)
        elif isinstance(value, re.Pattern):
            self.write("pattern", value.pattern, value.flags)
        elif isinstance(value, logging.Logger):
            self.write("logger", value.name)
        elif isinstance(value, _TYPING) or kind.__module__ == "typing":
            self.write("annotation", repr(value))
        elif kind in (types.SimpleNamespace, argparse.Namespace):
            self.write("namespace")
            self.add(vars(value), place)
        elif issubclass(kind, _DecoratorContextManager) and origin_of(kind.__module__) is Origin.LIBRARY:
            # Such as ``@torch.no_grad()``.
            self.add_class(kind, place)
            self.add(vars(value), place)
        elif is_dataclass(value):
            self.add_class(kind, f"class {kind.__name__} of {place}")
            held = {field.name: getattr(value, field.name) for field in fields(value)}
            if (getattr(value, "__dict__", {}) | in_slots(value)).keys() - held:
                return False
            self.add(held, place)
        else:
            return False
        return True

    def _add_code(self, value: Any, place: str) -> bool:
        """Add a function, class, module, or wrapper of a function, or return False."""
        if isinstance(value, types.FunctionType):
            self._add_function(value, place)
        elif isinstance(value, type):
            self.add_class(value, place)
        elif isinstance(value, types.ModuleType):
            self._add_imported(value, place, frozenset())
        elif isinstance(value, _BUILTINS):
            bound = getattr(value, "__self__", None)
            if not (bound is None or isinstance(bound, (type, types.ModuleType))):
                return False
            self.write("builtin", getattr(value, "__module__", ""), value.__qualname__)
        elif (parts := _wrapped_by(value)) is not None:
            self.write(type(value).__name__)
            self.add(parts, place)
        else:
            return False
        return True

    def _add_function(self, function: types.FunctionType, place: str) -> None:
        if self._was_seen(function):
            return
        module, code = str(function.__globals__.get("__name__")), function.__code__
        origin = origin_of(module, code.co_filename)
        if origin is None:
            raise UndigestibleError(
                f"{place} is a function ({function.__qualname__}) whose code is in no module's file"
            )
        self.write("function", module, code.co_qualname, self._sources_of(origin, module), *position_of(code))
        is_global = found_by_name(module, code.co_qualname) is function
        if origin is not Origin.OWN and is_global:
            return
        if origin is Origin.OWN:
            verify(code, place)
        cells = [_content(cell) for cell in function.__closure__ or ()]
        with self._in_code():
            for part in (function.__defaults__, function.__kwdefaults__, cells, vars(function)):
                self.add(part, f"a value held by {place}")
            if origin is Origin.OWN:
                self._add_globals(function, place)

    def _add_globals(self, function: types.FunctionType, place: str) -> None:
        """Add all globals of the function's module that it refers to."""
        names = names_in(function.__code__)
        for name in sorted(names & function.__globals__.keys()):
            value = function.__globals__[name]
            self.write("global", name)
            if isinstance(value, types.ModuleType):
                self._add_imported(value, place, names)
            else:
                self.add(value, f"{name} (used in {place})")

    def _add_imported(self, module: types.ModuleType, place: str, names: frozenset[str]) -> None:
        """Add a module; for the user's own also its attributes among ``names``."""
        origin = origin_of(module.__name__)
        if origin is None:
            raise UndigestibleError(f"{place} refers to module {module.__name__}, which is in no file")
        is_own = origin is Origin.OWN
        sources = self._sources_of(origin, module.__name__) if is_own else getattr(module, "__version__", "")
        self.write("module", module.__name__, sources)
        for name in sorted(names & vars(module).keys()) if is_own else ():
            value = vars(module)[name]
            self.write("attribute", name)
            if not isinstance(value, types.ModuleType):
                self.add(value, f"{module.__name__}.{name} (used in {place})")
            elif not self._was_seen(value):
                self._add_imported(value, place, names)

    @contextmanager
    def _in_code(self) -> Iterator[None]:
        self._code_depth += 1
        yield
        self._code_depth -= 1

    def _sources_of(self, origin: Origin, module_name: str) -> str:
        place = origin, module_name
        if place not in self._sources:
            self._sources[place] = sources_of(origin, module_name)
        return self._sources[place]

    def _was_seen(self, thing: object) -> bool:
        """Return whether a module, function or class was added before, and write its number if it was."""
        if id(thing) in self._seen:
            self.write("again", self._seen[id(thing)][0])
            return True
        self._seen[id(thing)] = len(self._seen), thing
        return False


def in_slots(value: object) -> dict[str, Any]:
    """Return the contents of the ``__slots__`` of an object's classes."""
    members = {name: each for cls in reversed(type(value).__mro__) for name, each in vars(cls).items()}
    slots = [name for name, each in members.items() if isinstance(each, types.MemberDescriptorType)]
    return {name: getattr(value, name) for name in slots if hasattr(value, name)}


def _wrapped_by(value: Any) -> list[Any] | None:
    """Return the functions that an object wraps, with its other contents; None if it wraps none."""
    if type(value) not in _WRAPPERS:
        return None
    match value:
        case types.MethodType():
            return [value.__self__, value.__func__]
        case functools.partial():
            return [value.func, value.args, value.keywords, vars(value)]
        case staticmethod() | classmethod() | functools._lru_cache_wrapper():
            return [value.__wrapped__]
        case property():
            return [value.fget, value.fset, value.fdel]
        case functools.cached_property():
            return [value.func]
    return None


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _is_of_dataclasses(value: object) -> bool:
    """Return whether a method was generated by the dataclass decorator from the fields."""
    if not isinstance(value, types.FunctionType):
        return False
    return value.__code__.co_filename == "<string>" or value.__globals__.get("__name__") in ("dataclasses", "reprlib")


def _is_code(value: object) -> bool:
    return isinstance(value, (types.FunctionType, staticmethod, classmethod, property))


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # empty: the variable is not assigned yet
        return ...
