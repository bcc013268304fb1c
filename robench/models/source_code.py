"""Origin of loaded code, and verification against its source file."""

from __future__ import annotations

import sys
import sysconfig
from enum import Enum
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from robench.core.user_code import code_digest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

# The releases of torch and timm are in the provenance of every record.
_LIBRARIES = ("torch", "torchvision", "timm")
_RELEASE_COUNTS = "torchvision"
_INSTALLED = ("site-packages", "dist-packages")
_OWN_PACKAGE = __name__.partition(".")[0]


class UndigestibleError(Exception):
    """Error for an object whose behaviour a digest cannot capture; its text completes "cannot ...: "."""


class Origin(Enum):
    """Origin of code: a known library, Python itself, another installed package, or the user."""

    LIBRARY = "library"
    STANDARD = "standard"
    INSTALLED = "installed"
    OWN = "own"


def origin_of(module_name: str, code_file: str | None = None) -> Origin | None:
    """Return the origin of a loaded module; None if it is in no file, or ``code_file`` differs from its file."""
    module = sys.modules.get(module_name)
    if module is None:
        return None
    if module_name.partition(".")[0] in sys.builtin_module_names:
        return Origin.STANDARD
    file = getattr(module, "__file__", None)
    if module_name.partition(".")[0] in _LIBRARIES:
        # Some of torch's modules are made by its extension and have no file.
        return Origin.LIBRARY if code_file is None or _is_same(code_file, file) else None
    if not file or not Path(file).is_file() or (code_file is not None and not _is_same(code_file, file)):
        return Origin.STANDARD if getattr(module.__spec__, "origin", None) == "frozen" else None
    path = Path(file)
    if any(part in _INSTALLED for part in path.parts) or module_name.partition(".")[0] == _OWN_PACKAGE:
        return Origin.INSTALLED
    return Origin.STANDARD if path.is_relative_to(sysconfig.get_path("stdlib")) else Origin.OWN


def sources_of(origin: Origin, module_name: str) -> str:
    """Return the SHA-256 of a module's sources, or of its whole package; for torchvision its release.

    For Python's own modules, and those whose releases are provenance, this is the empty text.

    Raises:
        UndigestibleError: they cannot be read.
    """
    if module_name.partition(".")[0] == _RELEASE_COUNTS:
        return version(_RELEASE_COUNTS)
    if origin in (Origin.LIBRARY, Origin.STANDARD):
        return ""
    try:
        return code_digest(sys.modules[module_name])
    except (ImportError, OSError) as error:
        raise UndigestibleError(f"the sources of module {module_name} cannot be read ({error})") from error


def found_by_name(module_name: str, qualified_name: str) -> object | None:
    """Return the object at a dotted name in a loaded module; None if there is none."""
    found: object | None = sys.modules.get(module_name)
    for name in qualified_name.split("."):
        found = getattr(found, name, None)
    return found


def names_in(code: CodeType) -> frozenset[str]:
    """Return the names of globals and attributes that code, or nested definitions, may read."""
    return frozenset(name for each in _nested(code) for name in each.co_names)


def position_of(code: CodeType) -> tuple[int, int]:
    """Return line and column of the first instruction with both: two lambdas may be in one line."""
    columns = (column for _, _, column, _ in code.co_positions() if column is not None)
    # The first instructions of any function have the column 0.
    return code.co_firstlineno, next((column for column in columns if column), 0)


def verify(code: CodeType, place: str) -> None:
    """Check that some code is still what its file contains.

    Raises:
        UndigestibleError: it is not: the file has changed since it was loaded, or the code was never in it.
    """
    path = Path(code.co_filename)
    try:
        held = _codes_of(path, path.stat().st_mtime_ns, path.stat().st_size)
    except (OSError, SyntaxError, ValueError) as error:
        raise UndigestibleError(f"{place} has code in {path}, which cannot be read ({error})") from error
    if code not in held:
        raise UndigestibleError(
            f"{place} has code ({code.co_qualname}) that is not in {path}: the file has changed since it was imported,"
            " or the code was made at run time"
        )


@lru_cache(maxsize=256)
def _codes_of(path: Path, changed: int, size: int) -> frozenset[CodeType]:
    """Return all code that a file compiles to; ``changed`` and ``size`` describe the current file."""
    return frozenset(_nested(compile(path.read_bytes(), str(path), "exec", dont_inherit=True)))


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, type(code)):
            yield from _nested(constant)


def _is_same(code_file: str, file: str | None) -> bool:
    return file is not None and (code_file == file or Path(code_file).resolve() == Path(file).resolve())
