"""Detection of code that replaces functions of torch, numpy or robench, on which the numbers of other models rest.

Research code does this to change a module that it does not own: ``torch.nn.GELU.forward = mine``. A ``LibraryWatch``
compares the identities of functions with the ones at its start: public functions of torch and numpy, methods of tensors
and of torch's modules, and all functions and methods of robench's loaded modules. Added names do not count, nor do
functions that torch itself replaces when it compiles. The code inside a function (``__code__``) is not compared, and
nothing is restored. Functions of libraries that were replaced before the start are detected by their file.
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
# Modules whose functions are watched.
_OF_FUNCTIONS = frozenset({
    "builtins", "math", "random", "numpy", "numpy.fft", "numpy.linalg", "numpy.random", "torch", "torch.autograd",
    "torch.fft", "torch.linalg", "torch.nn.functional", "torch.nn.init", "torch.special", "torch.nn.modules.module",
    "torch.random",
})  # fmt: skip
# Modules whose public classes are watched with their methods, and single classes of others.
_OF_CLASSES = frozenset({"torch.nn", "torch.autograd", "torch.distributions"})
_CLASSES = frozenset({("torch", "Tensor"), ("torch._C", "TensorBase")})
_WATCHED = _OF_FUNCTIONS | _OF_CLASSES | {module for module, _ in _CLASSES}
# Builtins that notebooks, consoles and debuggers replace or add; no number depends on them.
_OF_CONSOLES = frozenset({
    "breakpoint", "display", "execfile", "exit", "get_ipython", "help", "input", "print", "quit", "runfile",
})  # fmt: skip
# torch replaces some of its functions when its compiler is loaded or first used, with functions from these files.
_OF_COMPILER = (f"{os.sep}torch{os.sep}_dynamo{os.sep}", f"{os.sep}torch{os.sep}_compile.py")
# Hooks of all modules, in ``torch.nn.modules.module``.
_HOOKS = (
    "_global_forward_hooks", "_global_forward_pre_hooks", "_global_backward_hooks", "_global_backward_pre_hooks",
    "_global_buffer_registration_hooks", "_global_module_registration_hooks", "_global_parameter_registration_hooks",
)  # fmt: skip


class _Namespace:
    """Members of a module or class as they were at the start, with the bases of a class."""

    __slots__ = ("_before", "_members", "bases")

    def __init__(self, members: Mapping[str, object], bases: Sequence[type] = ()) -> None:
        self._members, self._before, self.bases = members, dict(members), bases

    def is_unchanged(self) -> bool:
        """Return whether every member is the same object as before."""
        # Without a loop in Python, since there are thousands.
        is_same = map(is_, map(self._members.get, self._before), self._before.values())
        return len(self._members) == len(self._before) and all(is_same)

    def functions(self) -> dict[str, object]:
        """Return the functions as they were, by name."""
        unwatched = _OF_CONSOLES if self._members is vars(builtins) else ()
        return {name: each for name, each in self._before.items() if _is_function(each) and name not in unwatched}

    def replaced(self) -> list[str]:
        """Return the names of functions that have been replaced, or hidden by new ones of a subclass."""
        if self.is_unchanged():
            return []
        before, now = self.functions(), dict(self._members)
        names = [name for name, each in before.items() if now.get(name) is not each]
        for name in now.keys() - before.keys():
            if _is_function(now[name]) and any(_is_function(vars(base).get(name)) for base in self.bases):
                names.append(name)
        return [name for name in names if not any(each in _file_of(now.get(name)) for each in _OF_COMPILER)]


class LibraryWatch:
    """Comparison of the functions of libraries with the ones at the start, in some milliseconds.

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
        values = _values()
        changed = [f"{title}.{name}" for title, namespace in self._seen.items() for name in namespace.replaced()]
        changed += (title for title, value in values.items() if self._values.get(title, value) != value)
        for name in changed:
            self.replaced.setdefault(name, culprit)
        self._values = values | self._values
        self._look_at_new(culprit)

    def _look_at_new(self, culprit: str) -> None:
        """Watch newly loaded modules too; functions of libraries from foreign files are the work of ``culprit``."""
        folders = _folders()
        for name in sys.modules.keys() - self._modules:
            module, is_own = sys.modules.get(name), _is_own(name)
            # One that another thread is importing is looked at later.
            is_whole = not getattr(getattr(module, "__spec__", None), "_initializing", False)
            if not (is_own or name in _WATCHED) or not isinstance(module, ModuleType) or not is_whole:
                continue
            self._modules.add(name)
            found = dict(_namespaces_of(name, module))
            self._seen |= found
            functions = {} if is_own else {title: each.functions() for title, each in found.items()}
            for title, members in functions.items():
                foreign = (each for each, function in members.items() if _is_foreign(function, folders))
                self.replaced |= dict.fromkeys((f"{title}.{each}" for each in foreign), culprit)


# Functions that modules of other code replaced when this process imported them, with the modules' names.
_BY_IMPORTS: dict[str, str] = {}


def replaced_by_imports() -> Mapping[str, str]:
    """Return the functions that imported code of others has replaced in this process, each with that module's name."""
    return _BY_IMPORTS


def note_import(watch: LibraryWatch, module_name: str) -> None:
    """Keep the functions that an import has replaced since ``watch`` began, for ``replaced_by_imports``."""
    before = set(watch.replaced)
    watch.look(f"module {module_name!r}")
    _BY_IMPORTS.update({name: by for name, by in watch.replaced.items() if name not in before})


def replacement_problem(replaced: Mapping[str, str], *, patches: bool) -> str:
    """Return why a model must not be measured in this process, empty if it may be.

    Functions that imports replaced are added to the ones that a watch found (``replaced``). A model whose registry
    entry says ``patches`` may replace functions of libraries, never robench's: attacks, budgets and scores are the
    harness's.
    """
    found = {**replaced, **_BY_IMPORTS}
    if not found or (patches and not any(map(_is_own, found))):
        return ""
    names, culprits = list(found), ", ".join(dict.fromkeys(found.values()))
    further = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{culprits} replaced {', '.join(names[:3])}{further}, on which the numbers of every model here rest"


def _is_own(name: str) -> bool:
    return name.partition(".")[0] == OWN


def _namespaces_of(name: str, module: ModuleType) -> Iterator[tuple[str, _Namespace]]:
    """Yield the titles of a watched module and its watched classes, each with its members."""
    is_own = _is_own(name)
    if is_own or name in _OF_FUNCTIONS:
        yield name, _Namespace(vars(module))
    for each, member in list(vars(module).items()):
        if isinstance(member, type):
            is_public = name in _OF_CLASSES and not each.startswith("_")
            if is_public or (name, each) in _CLASSES or (is_own and member.__module__ == name):
                yield f"{name}.{each}", _Namespace(vars(member), member.__mro__[1:-1])


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


def _is_foreign(function: object, folders: tuple[str, ...]) -> bool:
    file = _file_of(function)
    return file.startswith(os.sep) and not file.startswith(folders)


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
    return str(getattr(getattr(member, "__code__", None), "co_filename", ""))
