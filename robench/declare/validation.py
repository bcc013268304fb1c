"""Files as their authors check them: every problem, before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from robench.datasets import DATASETS
from robench.declare.registry import registry_of
from robench.declare.suites import suite_of
from robench.declare.yaml_source import read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from robench.core.declared import DatasetDeclaration


def validate_file(path: Path, datasets: Mapping[str, DatasetDeclaration] = DATASETS) -> Literal["suite", "registry"]:
    """Return what kind of declaration a file holds.

    A registry has ``checkpoints`` or ``datasets`` at its top, all else is a suite. Names of datasets are resolved in
    ``datasets``, those of a registry in its own as well.

    Raises:
        UsageError: there is no such file.
        DeclarationError: all that is wrong with it, each problem with its line.
    """
    document = read_yaml(path)
    if not document.mapping_at().keys().isdisjoint(("checkpoints", "datasets")):
        registry_of(document, path.absolute().parent, datasets)
        return "registry"
    suite_of(document, datasets)
    return "suite"
