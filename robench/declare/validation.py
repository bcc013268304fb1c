"""Validation of suite and registry files for their authors: all problems, before anything runs."""

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
    """Validate a file, and return the kind of its declaration.

    A file with ``checkpoints`` or ``datasets`` at its top is a registry, any other a suite. Names of datasets are
    resolved in ``datasets``, and in a registry's own.

    Raises:
        UsageError: there is no such file.
        DeclarationError: all problems of the file, each with its line.
    """
    document = read_yaml(path)
    if not document.mapping_at().keys().isdisjoint(("checkpoints", "datasets")):
        registry_of(document, path.absolute().parent, datasets)
        return "registry"
    suite_of(document, datasets)
    return "suite"
