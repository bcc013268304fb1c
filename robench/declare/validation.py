"""Files as their authors check them: every problem, before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from robench.declare.registry import registry_of
from robench.declare.suites import suite_of
from robench.declare.yaml_source import read_yaml

if TYPE_CHECKING:
    from pathlib import Path


def validate_file(path: Path) -> Literal["suite", "registry"]:
    """Return what kind of declaration a file holds: a registry has ``checkpoints`` at its top, all else is a suite.

    Raises:
        UsageError: there is no such file.
        DeclarationError: all that is wrong with it, each problem with its line.
    """
    document = read_yaml(path)
    if "checkpoints" in document.mapping_at():
        registry_of(document, path.absolute().parent)
        return "registry"
    suite_of(document)
    return "suite"
