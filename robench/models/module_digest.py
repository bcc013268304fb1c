"""Digest of everything that determines the outputs of a module in evaluation mode.

Parameters and buffers (persistent or not) by name, type, shape and bytes; all other attributes; and code. Of the user's
own functions and classes these are the compiled code, which is what runs, the values that it refers to, and the sources
of their modules or packages, for code that is looked up by computed names. Those of torch and timm are digested by
name, since their releases are provenance, of torchvision by name and release, and of other installed packages by name
and all sources of the package. Other objects are digested by what pickle would store. What cannot be digested raises an
error instead of being left out, so that equal digests mean equal behaviour.

Excluded is what evaluation of a frozen model does not depend on: device, training mode, requires_grad, gradients, and
hooks of state dicts.
"""

import copyreg
import dis
import functools
import hashlib
import sys
import sysconfig
import types
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import nn

from robench.core.user_code import code_digest
from robench.models.build import is_guard

# Increased when the content or the method of the digest changes.
_VERSION = "in-memory model 2"
_BASE = frozenset(vars(nn.Module())) | {"_compiled_call_impl"}
_HOOKS = tuple(name for name in sorted(_BASE) if name.endswith("_hooks") and "state_dict" not in name)
_ATOMS = (type(None), bool, int, float, complex, str, bytes, types.EllipsisType)
_NAMED = (torch.dtype, torch.device, torch.layout, torch.memory_format)
_WRAPPED: Mapping[type, tuple[str, ...]] = {
    types.MethodType: ("__self__", "__func__"),
    functools.cached_property: ("func",),
    property: ("fget", "fset", "fdel"),
    **dict.fromkeys((staticmethod, classmethod, functools._lru_cache_wrapper), ("__wrapped__",)),
}
# Attributes of a class that Python and torch derive from it.
_DERIVED = {"_abc_impl", "_backward_cls"}
_PICKLING = ("__reduce__", "__reduce_ex__", "__getstate__", "__getnewargs__", "__getnewargs_ex__")
# Marks of torch.compile on modules and tensors, and attributes of its wrapper that follow from module and options.
_MARKS = {"_is_torch_compile", "_dynamo_static_input_type"}
_OF_WRAPPERS = {
    *("dynamo_ctx", "forward", "get_compiler_config"),
    *("_torchdynamo_orig_callable", "_torchdynamo_wrapper_id", "_super_module_initialized"),
}
# The releases of torch and timm are in the provenance of every record.
_LIBRARIES = ("torch", "timm")
_INSTALLED = {"site-packages", "dist-packages"}
_OWN_PACKAGE = __name__.partition(".")[0]


class UndigestibleError(Exception):
    """Error for an object whose behaviour a digest cannot capture; its text completes "cannot ...: "."""


def digest_of_module(module: nn.Module) -> str:
    """Return 64 hexadecimal digits that differ between modules that compute different functions.

    Raises:
        UndigestibleError: something cannot be digested; the message says what, and in which submodule.
    """
    digest = _Digest({id(each) for each in module.modules()})
    try:
        digest.add(module, "")
    except RecursionError as error:
        raise UndigestibleError("it is nested too deeply") from error
    return digest.hash.hexdigest()


class _Digest:
    """SHA-256 to which objects are added one after another; ``place`` is an object's location in messages.

    Args:
        registered: identities of the modules that ``eval()`` reaches; for all others the mode is included.
    """

    def __init__(self, registered: Collection[int]) -> None:
        self.hash = hashlib.sha256()
        self._registered = registered
        # Numbered modules, functions and classes; they are referenced, so that no other object gets their id.
        self._seen: dict[int, tuple[int, object]] = {}
        self._open: list[int] = []
        self._origin = functools.cache(_origin_of)
        # Number of enclosing functions and classes of the current object: deepcopy copies nothing inside them.
        self._code_depth = 0
        self.write(_VERSION)

    def write(self, *words: object) -> None:
        for word in words:
            text = str(word).encode("utf-8", "surrogatepass")
            self.hash.update(b"%d:" % len(text) + text)

    def add(self, value: Any, place: str) -> None:
        kind = type(value)
        if value.__class__ is not kind:
            raise UndigestibleError(f"{place} is a {kind.__qualname__} that represents another object")
        if kind in _ATOMS:
            self.write(kind.__name__, repr(value))
        elif isinstance(value, _NAMED):
            self.write(kind.__name__, value)
        elif isinstance(value, torch.Tensor):
            self._add_tensor(value, place)
        elif isinstance(value, types.ModuleType):
            self._add_imported(value, frozenset(), place)
        elif isinstance(value, (nn.Module, types.FunctionType, type)):
            self._add_once(value, place)
        elif id(value) in self._open:
            self.write("cycle", self._open.index(id(value)))
        else:
            self._open.append(id(value))
            parts = self._parts(value, place)
            self.write("parts", kind.__qualname__, len(parts))
            for part in parts:
                self.add(part, place)
            self._open.pop()

    def _add_once(self, value: nn.Module | types.FunctionType | type, place: str) -> None:
        if isinstance(value, nn.Module) and self._code_depth:
            raise UndigestibleError(f"{place} is a module, which a copy of the model would share")
        if id(value) in self._seen:
            self.write("again", self._seen[id(value)][0])
            return
        self._seen[id(value)] = len(self._seen), value
        if isinstance(value, nn.Module):
            self._add_module(value, place)
        elif isinstance(value, type):
            self._add_class(value, place)
        else:
            self._add_function(value, place)

    def _add_module(self, module: nn.Module, place: str) -> None:
        title = f"submodule {place} ({type(module).__name__})" if place else f"its class {type(module).__name__}"
        if isinstance(module, torch.jit.ScriptModule):
            raise UndigestibleError(f"{title} is compiled by torch.jit")
        state: Any = object.__getstate__(module)  # a pair where there are slots
        attributes, slots = state if isinstance(state, tuple) else (state, {})
        for name in _HOOKS:
            if any(not is_guard(hook) for hook in attributes.get(name, {}).values()):
                raise UndigestibleError(f"{title} has a hook ({name.strip('_')})")
        if "forward" in attributes and not _is_compiled(module):
            raise UndigestibleError(f"{title} has a forward that is assigned on the instance")
        self.add(type(module), title)
        if id(module) not in self._registered:
            self.write("unregistered", module.training)
        others = slots | {name: attributes[name] for name in attributes.keys() - _excluded(module)}
        if _is_compiled(module):
            others["compilation"] = _compilation_of(attributes["dynamo_ctx"])
        for items in (attributes["_parameters"], attributes["_buffers"], dict(sorted(others.items()))):
            self.write("items", len(items))
            for name, value in items.items():
                self.write(name)
                self.add(value, f"{name} of {title}")
        self.write("modules", len(attributes["_modules"]))
        for name, child in attributes["_modules"].items():
            self.write(name)
            self.add(child, f"{place}.{name}" if place else name)

    def _add_tensor(self, tensor: torch.Tensor, place: str) -> None:
        found = tensor.detach()
        if type(tensor) not in (torch.Tensor, nn.Parameter, nn.Buffer):
            raise UndigestibleError(f"{place} is a tensor of type {type(tensor).__qualname__}")
        if found.layout is not torch.strided or found.is_quantized or found.is_meta or nn.parameter.is_lazy(tensor):
            raise UndigestibleError(f"{place} is a tensor without plain values (sparse, quantized, meta or lazy)")
        self.write("tensor", found.dtype, tuple(found.shape))
        plain = found.cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
        self.hash.update(plain.view(torch.uint8).numpy().data if plain.numel() else b"")
        if attributes := {name: each for name, each in vars(tensor).items() if name not in _MARKS}:
            self.add(attributes, f"attributes of {place}")

    def _parts(self, value: Any, place: str) -> list[Any]:
        """Return the parts that determine an object: members, wrapped functions, or the content of its pickle."""
        kind = type(value)
        if kind in _WRAPPED:
            return [getattr(value, name) for name in _WRAPPED[kind]]
        if kind in (list, tuple):
            return [*value]
        if kind in (dict, types.MappingProxyType):
            return [each for pair in value.items() for each in pair]
        if kind in (set, frozenset):
            if any(type(item) not in _ATOMS for item in value):
                raise UndigestibleError(f"{place} is a set of items other than text and numbers")
            # Sets have no order.
            return sorted(value, key=lambda item: (type(item).__name__, repr(item)))
        return self._pickled(value, place)

    def _pickled(self, value: Any, place: str) -> list[Any]:
        kind = type(value)
        own = [each for each in kind.__mro__ for name in _PICKLING if self._is_own_function(vars(each).get(name))]
        reducer = copyreg.dispatch_table.get(kind)
        try:
            if own or kind is object:
                raise TypeError("its pickle need not hold all of it")
            reduced: Any = reducer(value) if reducer else value.__reduce_ex__(2)
        # Broad because objects define their own pickling.
        except Exception as error:
            raise UndigestibleError(f"{place} is an object of type {kind.__module__}.{kind.__qualname__}") from error
        if isinstance(reduced, str):
            module = str(getattr(value, "__module__", None))
            return [reduced, module, *self._origin(module)]
        made, (items, pairs) = reduced[:3], (*reduced[3:5], None, None)[:2]
        return [*made, [*(items or ())], [each for pair in pairs or () for each in pair]]

    def _add_class(self, cls: type, place: str) -> None:
        is_own, sources = self._origin(cls.__module__)
        self.write("class", cls.__qualname__, sources)
        definitions = dict(sorted(vars(cls).items()))
        if is_own and not getattr(sys.modules.get(cls.__module__), "__file__", None):
            raise UndigestibleError(
                f"{place} is defined in no file, but in a notebook, an interactive session or by exec"
            )
        if not is_own and _found_by_name(cls.__module__, cls.__qualname__) is cls:
            self.write(cls.__module__)
            # Methods that the user's code has replaced.
            definitions = {name: each for name, each in definitions.items() if self._is_own_function(each)}
        else:
            for base in (*cls.__bases__, type(cls)):
                self.add(base, f"base {base.__name__} of {place}")
        for name, value in definitions.items():
            is_special = name.startswith("__") and name.endswith("__")
            is_code = isinstance(value, (types.FunctionType, staticmethod, classmethod, property))
            is_slot = isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType))
            if name not in _DERIVED and not is_slot and (is_code or not is_special):
                self.write("definition", name)
                with self._in_code():
                    self.add(value, f"{name} of {place}")

    def _add_function(self, function: types.FunctionType, place: str) -> None:
        module, code = str(function.__globals__.get("__name__")), function.__code__
        is_own, sources = self._origin(module)
        self.write("function", code.co_qualname, sources)
        if not is_own and _found_by_name(module, code.co_qualname) is function:
            self.write(module)
            return
        if is_own and module in sys.modules and not getattr(sys.modules[module], "__file__", None):
            raise UndigestibleError(
                f"{place} is a function ({function.__qualname__}) whose code is in no module's file"
            )
        with self._in_code():
            for each in _nested(code):
                self._add_code(each, place)
            cells = [_content(cell) for cell in function.__closure__ or ()]
            for part in (function.__defaults__, function.__kwdefaults__, cells, vars(function)):
                self.add(part, f"a value held by {place}")
            if is_own:
                self._add_globals(function, place)

    def _add_code(self, code: types.CodeType, place: str) -> None:
        """Add what code computes, without names of files and numbers of lines."""
        arguments = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
        self.write("code", code.co_code.hex(), code.co_exceptiontable.hex(), *arguments)
        self.write(code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        self.add([each for each in code.co_consts if not isinstance(each, types.CodeType)], f"a constant of {place}")

    def _add_globals(self, function: types.FunctionType, place: str) -> None:
        """Add all globals that a function reads, and the modules that it imports when it is called."""
        found, codes = function.__globals__, [*_nested(function.__code__)]
        names = frozenset(name for each in codes for name in each.co_names)
        instructions = [each for code in codes for each in dis.get_instructions(code)]
        read = {each.argval for each in instructions if "GLOBAL" in each.opname or each.opname == "LOAD_NAME"}
        imported = {each.argval for each in instructions if each.opname == "IMPORT_NAME"}
        for name in sorted(imported):
            module = sys.modules.get(name) or sys.modules.get(f"{found.get('__package__')}.{name}")
            if module is None:
                raise UndigestibleError(f"{place} imports {name} when it is called: import it before")
            self._add_imported(module, names, place)
        for name in sorted(read & found.keys()):
            self.write("global", name)
            if isinstance(found[name], types.ModuleType):
                self._add_imported(found[name], names, place)
            else:
                self.add(found[name], f"{name} (used in {place})")

    def _add_imported(self, module: types.ModuleType, names: frozenset[str], place: str) -> None:
        """Add a module, with its attributes among ``names`` that are the user's own."""
        is_own, sources = self._origin(module.__name__)
        self.write("module", module.__name__, sources)
        self._open.append(id(module))
        for name in sorted(names & vars(module).keys()):
            value = vars(module)[name]
            if isinstance(value, types.ModuleType):
                if id(value) not in self._open:
                    self._add_imported(value, names, place)
            elif is_own or self._is_own_function(value):
                self.write("attribute", name)
                self.add(value, f"{module.__name__}.{name} (used in {place})")
        self._open.pop()

    @contextmanager
    def _in_code(self) -> Iterator[None]:
        self._code_depth += 1
        yield
        self._code_depth -= 1

    def _is_own_function(self, value: object) -> bool:
        return isinstance(value, types.FunctionType) and _is_own(str(value.__globals__.get("__name__")))


def _is_own(module_name: str) -> bool:
    """Return whether code of a module is the user's own, without reading any source."""
    file = getattr(sys.modules.get(module_name), "__file__", None)
    is_installed = file is not None and not _INSTALLED.isdisjoint(Path(file).parts)
    return not (_has_release(module_name, file) or module_name.partition(".")[0] == _OWN_PACKAGE or is_installed)


def _has_release(module_name: str, file: str | None) -> bool:
    """Return whether a module is of Python, torch, timm or torchvision."""
    top = module_name.partition(".")[0]
    is_standard = file is None or Path(file).is_relative_to(sysconfig.get_path("stdlib"))
    return top in (*_LIBRARIES, "torchvision") or (top in sys.stdlib_module_names and is_standard)


def _origin_of(module_name: str) -> tuple[bool, str]:
    """Return whether code of a module is the user's own, and the release or digest of sources that identifies it."""
    top, module = module_name.partition(".")[0], sys.modules.get(module_name)
    file = getattr(module, "__file__", None)
    if _has_release(module_name, file):
        return False, version(top) if top == "torchvision" else ""
    try:
        return _is_own(module_name), code_digest(module) if module and file else ""
    except (ImportError, OSError) as error:
        raise UndigestibleError(f"the sources of module {module_name} cannot be read ({error})") from error


def _is_compiled(module: nn.Module) -> bool:
    """Return whether torch.compile made a module and its forward."""
    # Not imported: that takes a second, and without it nothing is compiled.
    wrapper = getattr(sys.modules.get("torch._dynamo.eval_frame"), "OptimizedModule", ())
    return type(module) is wrapper and hasattr(module.forward, "_torchdynamo_orig_callable")


def _excluded(module: nn.Module) -> frozenset[str]:
    if _is_compiled(module):
        return _BASE | _MARKS | _OF_WRAPPERS
    # Weak references to parameters.
    return _BASE | _MARKS | {"_flat_weight_refs"} if isinstance(module, nn.RNNBase) else _BASE | _MARKS


def _compilation_of(context: Any) -> list[object]:
    backend = context.callback
    while hasattr(backend, "_torchdynamo_orig_backend"):
        backend = backend._torchdynamo_orig_backend
    return [type(backend), vars(backend), context.fullgraph, context._dynamic]


def _found_by_name(module_name: str, qualified_name: str) -> object | None:
    found: object | None = sys.modules.get(module_name)
    for name in qualified_name.split("."):
        found = getattr(found, name, None)
    return found


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # empty: the variable is not assigned yet
        return ...
