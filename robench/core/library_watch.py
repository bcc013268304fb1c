"""Detection of code that replaces functions of torch, numpy or robench, on which the numbers of other models rest.

Research code does this, to change a module that it does not own: ``torch.nn.GELU.forward = mine``. A ``LibraryWatch``
compares the identities of functions with the ones at its start: public functions of torch and numpy, methods of tensors
and of torch's modules, and all functions and methods of robench's loaded modules. Names that are added count for
nothing, and neither do functions that torch itself replaces when it compiles. The code inside a function
(``__code__``) is not compared, and nothing is restored. Functions of libraries that were replaced before the start are
detected by their file.
"""

import builtins
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from operator import is_
from pathlib import Path
from types import ModuleType
from typing import Any

OWN = "robench"
_MODULES = (
    *("builtins", "math", "random"),
    *("numpy", "numpy.fft", "numpy.linalg", "numpy.random"),
    *("torch", "torch.autograd", "torch.fft", "torch.linalg", "torch.nn.functional", "torch.nn.init", "torch.special"),
    *("torch.nn.modules.module", "torch.random"),
)
# Names of builtins that notebooks, consoles and debuggers replace or add; no number depends on them.
_OF_CONSOLES = frozenset(
    ("breakpoint", "display", "execfile", "exit", "get_ipython", "help", "input", "print", "quit", "runfile")
)
_TENSORS = {"torch": ("Tensor",), "torch._C": ("TensorBase",)}
# Modules whose public classes are watched with their methods.
_MODULES_OF_CLASSES = ("torch.nn", "torch.autograd", "torch.distributions")
# torch replaces functions of its own when its compiler is loaded or first used; here the new ones come from.
_COMPILER = tuple(f"{os.sep}torch{os.sep}{each}" for each in (f"_dynamo{os.sep}", "_compile.py"))
_WATCHED = frozenset((*_MODULES, *_MODULES_OF_CLASSES, *_TENSORS))
_HOOKS = tuple(
    f"_global_{name}"
    for name in (
        *("forward_hooks", "forward_pre_hooks", "backward_hooks", "backward_pre_hooks"),
        *("buffer_registration_hooks", "module_registration_hooks", "parameter_registration_hooks"),
    )
)


class _Namespace:
    """Functions of a module or class, and inherited ones of a class, as they were."""

    __slots__ = ("_bases", "_functions", "_members", "_names", "_num_members", "_whole")

    def __init__(self, members: Mapping[str, object], bases: Sequence[type] = ()) -> None:
        unwatched = _OF_CONSOLES if members is vars(builtins) else ()
        watched = {name: each for name, each in members.items() if _is_function(each) and name not in unwatched}
        self._members, self._bases = members, bases
        self._names, self._functions = tuple(watched), tuple(watched.values())
        self._num_members = len(members)
        self._whole = dict(members)

    def is_whole(self) -> bool:
        """Return whether every member, function or not, is the same object."""
        if len(self._members) != len(self._whole):
            return False
        return all(map(is_, map(self._members.get, self._whole), self._whole.values()))

    def replaced(self) -> list[str]:
        """Return the names of functions that are others now, or hide an inherited one."""
        # Without a loop in Python, since there are thousands.
        is_same = all(map(is_, map(self._members.get, self._names), self._functions))
        if is_same and len(self._members) == self._num_members:
            return []
        known = dict(zip(self._names, self._functions, strict=True))
        changed = [name for name, before in known.items() if self._members.get(name) is not before]
        new = [name for name, each in self._members.items() if name not in known and _is_function(each)]
        hiding = [name for name in new if any(_is_function(vars(base).get(name)) for base in self._bases)]
        return [name for name in (*changed, *hiding) if not _is_by_compiler(self._members.get(name))]

    def from_elsewhere(self, folders: tuple[str, ...]) -> list[str]:
        """Return the names of functions whose file is neither below ``folders`` nor Python's own."""
        files = zip(self._names, map(_file_of, self._functions), strict=True)
        return [name for name, file in files if file.startswith(os.sep) and not file.startswith(folders)]


class _Module:
    """Watched namespaces of a module by title, which one watch after another uses while no member changes.

    Attributes:
        foreign: titles of functions of libraries whose file belongs neither to a library nor to Python.
    """

    def __init__(self, name: str, module: ModuleType, folders: tuple[str, ...]) -> None:
        found = list(_namespaces_of(name, module))
        self.namespaces = {title: _Namespace(members, bases) for title, members, bases in found}
        libraries = {} if _is_own(name) else self.namespaces
        self.foreign = [
            f"{title}.{each}" for title, found in libraries.items() for each in found.from_elsewhere(folders)
        ]
        self._module, self._folders, self._members = module, folders, _Namespace(vars(module))

    def is_of(self, module: ModuleType, folders: tuple[str, ...]) -> bool:
        """Return whether a new object of the same module would be equal."""
        if self._module is not module or self._folders != folders or not self._members.is_whole():
            return False
        return all(each.is_whole() for each in self.namespaces.values())


# Modules as the last watch that came upon them found them: to look through all of them takes a tenth of a second.
_LOOKED_AT: dict[str, _Module] = {}
# Title, members, and the bases of a class.
Titled = tuple[str, Mapping[str, object], Sequence[type]]


class LibraryWatch:
    """Comparison of the functions of libraries with the ones at the start, in less than a millisecond.

    Attributes:
        replaced: whose code replaced each function, as given to ``look``; the name is as in
            ``torch.nn.GELU.forward``. Functions that were replaced before the start are in it too.
    """

    def __init__(self) -> None:
        self.replaced: dict[str, str] = {}
        self._seen: dict[str, _Namespace] = {}
        self._modules: set[str] = set()
        self._values = _values()
        self._look_at_new("code that ran before")

    def look(self, culprit: str) -> None:
        """Add to ``replaced`` all functions that have changed since the last look, as the work of ``culprit``."""
        for title, namespace in self._seen.items():
            for name in namespace.replaced():
                self.replaced.setdefault(f"{title}.{name}", culprit)
        values = _values()
        for title, value in values.items():
            if self._values.get(title, value) != value:
                self.replaced.setdefault(title, culprit)
        self._values = values | self._values
        self._look_at_new(culprit)

    def _look_at_new(self, culprit: str) -> None:
        """Watch newly loaded modules too; functions of libraries from foreign files are the work of ``culprit``."""
        folders = _folders()
        for name in filter(_is_watched, sys.modules.keys() - self._modules):
            module = sys.modules.get(name)
            # One that another thread is importing is looked at later.
            if getattr(getattr(module, "__spec__", None), "_initializing", False):
                continue
            self._modules.add(name)
            if isinstance(module, ModuleType):
                known = _LOOKED_AT.get(name)
                if known is None or not known.is_of(module, folders):
                    known = _LOOKED_AT[name] = _Module(name, module, folders)
                self._seen |= known.namespaces
                self.replaced |= dict.fromkeys(known.foreign, culprit)


# Functions that modules of other code replaced when this process imported them, with the modules' names.
_BY_IMPORTS: dict[str, str] = {}


def replaced_by_imports() -> Mapping[str, str]:
    """Return the functions that imported code of others has replaced in this process, each with that module's name."""
    return _BY_IMPORTS


def note_import(watch: LibraryWatch, module_name: str) -> None:
    """Keep the functions that an import has replaced since ``watch`` began, for ``replaced_by_imports``."""
    before = dict(watch.replaced)
    watch.look(f"module {module_name!r}")
    _BY_IMPORTS.update({name: by for name, by in watch.replaced.items() if name not in before})


def is_permitted(replaced: Mapping[str, str], *, patches: bool) -> bool:
    """Return whether a model may be measured in a process where functions are replaced, if its entry says ``patches``.

    robench's own are never replaced: attacks, budgets and scores are the harness's.
    """
    return not replaced or (patches and not any(name.partition(".")[0] == OWN for name in replaced))


def described_replacement(replaced: Mapping[str, str]) -> str:
    """Return a sentence that names up to three replaced functions, and whose code did it."""
    culprits = ", ".join(dict.fromkeys(replaced.values()))
    names = list(replaced)
    further = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{culprits} replaced {', '.join(names[:3])}{further}, on which the numbers of every model here rest"


def replacement_problem(replaced: Mapping[str, str], *, patches: bool) -> str:
    """Return why a model must not be measured in this process, empty if it may be.

    Functions that imports replaced are added to the ones that a watch found (``replaced``).
    """
    found = {**replaced, **_BY_IMPORTS}
    return "" if is_permitted(found, patches=patches) else described_replacement(found)


def _is_own(module_name: str) -> bool:
    return module_name == OWN or module_name.startswith(f"{OWN}.")


def _is_watched(module_name: str) -> bool:
    return module_name in _WATCHED or _is_own(module_name)


def _namespaces_of(name: str, module: ModuleType) -> Iterator[Titled]:
    """Yield a watched module and its watched classes."""
    if name in _MODULES or _is_own(name):
        yield name, vars(module), ()
    for each, member in list(vars(module).items()):
        is_defined_here = isinstance(member, type) and member.__module__ == name
        is_public = isinstance(member, type) and name in _MODULES_OF_CLASSES and not each.startswith("_")
        if (is_defined_here and _is_own(name)) or is_public or each in _TENSORS.get(name, ()):
            yield f"{name}.{each}", vars(member), member.__mro__[1:-1]


def _values() -> dict[str, object]:
    """Return states of the process that change the results of torch's functions, and have no setter."""
    torch, module = sys.modules.get("torch"), sys.modules.get("torch.nn.modules.module")
    if torch is None or module is None:
        return {}
    stacks = torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()
    return {
        "torch.nn's hooks of all modules": tuple(len(getattr(module, name, ())) for name in _HOOKS),
        "torch's modes of functions": stacks,
    }


def _is_function(member: object) -> bool:
    return callable(member) or isinstance(member, (property, classmethod, staticmethod))


def _is_by_compiler(member: object) -> bool:
    return any(each in _file_of(member) for each in _COMPILER)


def _folders() -> tuple[str, ...]:
    """Return the folders of Python's library and of the packages that are installed beside torch and numpy."""
    packages = [sys.modules[name].__file__ for name in ("numpy", "torch") if name in sys.modules]
    return (str(Path(os.__file__).parent), *(str(Path(each).parents[1]) for each in packages if each is not None))


def _file_of(member: Any) -> str:
    """Return the file of the code of a function or method, empty if it is not Python's. Any: it may be anything."""
    if isinstance(member, (classmethod, staticmethod)):
        member = member.__func__
    if isinstance(member, property):
        member = member.fget
    code = getattr(member, "__code__", None)
    return str(getattr(code, "co_filename", ""))
