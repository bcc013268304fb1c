"""Third-party code: contained imports, look-up of objects by target, and digests of sources."""

import hashlib
import importlib
import importlib.util
import io
import pickle
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from robench.core.errors import ContractError, DeclarationError, described
from robench.core.library_watch import OWN, LibraryWatch, note_import


def is_target(text: str) -> bool:
    """Return whether a text has the form ``package.module:Name``."""
    module, _, name = text.partition(":")
    return all(part.isidentifier() for part in module.split(".")) and name.isidentifier()


def contained_import(module_name: str) -> ModuleType:
    """Import a module, undoing the effects of its top level on the process.

    Functions of libraries that it replaces stay replaced, and are known to ``library_watch.replaced_by_imports``.

    Raises:
        Exception: the module's own error, or a ``ContractError`` caused by it if it would have ended the process.
    """
    if (loaded := sys.modules.get(module_name)) is not None:
        return loaded
    # Imported here, so that declarations without foreign code are not slowed down.
    from robench.core.containment import Contained

    importlib.invalidate_caches()
    watch = LibraryWatch()
    try:
        with Contained(keeps_environment=True):
            return importlib.import_module(module_name)
    finally:
        note_import(watch, module_name)


def unpickled(content: bytes) -> Any:
    """Return a pickled object; modules that it needs are imported as ``contained_import`` does. Any: it is anything."""
    with io.BytesIO(content) as file:
        return _Unpickler(file).load()


class _Unpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        if module_name.partition(".")[0] != OWN:
            contained_import(module_name)
        return super().find_class(module_name, global_name)


def what_was_raised(error: Exception) -> BaseException:
    """Return the error raised by the code itself, which ``Contained`` may have replaced."""
    return error.__cause__ if isinstance(error, ContractError) and error.__cause__ else error


def missing_module(error: Exception, module_name: str) -> str | None:
    """Return the name of the module that was not found: the requested one, or a package that contains it."""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    return missing if missing and f"{module_name}.".startswith(f"{missing}.") else None


def module_of(target: str) -> ModuleType:
    """Import the module of a target in the user's own code.

    It is searched on the Python path first and then in the current folder, which stays on the path, since code may
    import modules when first called.

    Raises:
        DeclarationError: there is no such module, or it fails on import.
    """
    module_name = target.partition(":")[0]
    _look_in_current_folder()
    try:
        return contained_import(module_name)
    # Broad because a module's top level is the user's code; SystemExit comes from scripts without a __main__ guard.
    except Exception as error:
        if missing := missing_module(error, module_name):
            raise _nowhere(target, missing) from error
        raised = what_was_raised(error)
        raise DeclarationError(
            f"target {target!r}: importing {module_name} raised {described(raised)}. Fix it until"
            f" `python -c 'import {module_name}'` works in this environment"
        ) from raised


def target_digest(target: str) -> str:
    """Return ``code_digest`` of the module of a target in the user's own code, without running any of it.

    Raises:
        DeclarationError: there is no such module.
    """
    _look_in_current_folder()
    top = target.partition(":")[0].partition(".")[0]
    importlib.invalidate_caches()
    spec = None if top == "__main__" else importlib.util.find_spec(top)
    if spec is None:
        raise _nowhere(target, top)
    return _digest(spec.submodule_search_locations or [], spec.origin if spec.has_location else None)


def code_digest(module: ModuleType) -> str:
    """Return the SHA-256 of a module's Python sources as 64 hexadecimal digits; empty if it is in no file.

    For a module in a package these are all files of the package, for a single module its own file. Imports from
    elsewhere are not included.
    """
    top = importlib.import_module(module.__name__.partition(".")[0])
    return _digest(getattr(top, "__path__", []), getattr(module, "__file__", None))


def _digest(folders: Iterable[str], file: str | None) -> str:
    inside = [path for folder in folders for path in sorted(Path(folder).rglob("*.py"))]
    paths = inside or ([Path(file)] if file else [])
    hashed = hashlib.sha256()
    for path in paths:
        hashed.update(f"{path.name} {path.stat().st_size}\n".encode() + path.read_bytes())
    return hashed.hexdigest() if paths else ""


def _look_in_current_folder() -> None:
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)


def _nowhere(target: str, missing: str) -> DeclarationError:
    return DeclarationError(
        f"target {target!r}: no module {missing!r} on the Python path or in the current folder {Path.cwd()}."
        " Install the package, or run from the folder that holds it"
    )
