"""What robench brings along: its registry and its suites, in a checkout or in an installed wheel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from robench.core.errors import UnknownNameError
from robench.core.files import absolute, is_file_name
from robench.declare.registry import merge, read_registry
from robench.declare.suites import read_suite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robench.core.checkpoint import Checkpoint
    from robench.core.suite import Suite

_REGISTRY = "checkpoints.yaml"


def shipped_folder() -> Path:
    """Return the folder that holds checkpoints.yaml, checkpoints/ and suites/."""
    package = Path(__file__).resolve().parents[1]
    return package.parent if (package.parent / _REGISTRY).is_file() else package / "shipped"


def shipped_registry() -> Path:
    """Return the registry that comes with robench."""
    return shipped_folder() / _REGISTRY


def shipped_suites() -> dict[str, Path]:
    """Return the suites that come with robench, by name."""
    return {path.stem: path for path in sorted((shipped_folder() / "suites").glob("*.yaml"))}


def find_suite(name_or_path: str | Path) -> Suite:
    """Return a shipped suite by its name, or the suite of a file: a path that ends in .yaml or .yml or has a slash.

    Raises:
        UsageError: there is no such file.
        UnknownNameError: no suite of this name is shipped.
        DeclarationError: all that is wrong with the file.
    """
    if isinstance(name_or_path, Path) or is_file_name(name_or_path):
        return read_suite(absolute(name_or_path, "suite"))
    shipped = shipped_suites()
    if name_or_path not in shipped:
        raise UnknownNameError("suite", name_or_path, shipped, "Or give the path of a YAML file.")
    return read_suite(shipped[name_or_path])


def find_checkpoints(names: Sequence[str], registry_files: Sequence[Path] = ()) -> list[Checkpoint]:
    """Return checkpoints by name, each once, from the shipped registry and further files.

    Raises:
        UsageError: there is no such file.
        UnknownNameError: no registry declares one of the names.
        DeclarationError: all that is wrong with a file; or two files declare the same name.
    """
    declared = read_registries(registry_files)
    for name in names:
        if name not in declared:
            raise UnknownNameError("model", name, declared, "Others can be added with a registry file (--registry).")
    return [declared[name] for name in dict.fromkeys(names)]


def read_registries(registry_files: Sequence[Path] = ()) -> dict[str, Checkpoint]:
    """Return every checkpoint of the shipped registry and further files, by name.

    Raises:
        UsageError: there is no such file.
        DeclarationError: all that is wrong with a file; or two files declare the same name.
    """
    files = (shipped_registry(), *(absolute(path, "registry") for path in registry_files))
    return merge({path: read_registry(path) for path in files})
