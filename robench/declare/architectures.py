"""Parsers of single members of a registry entry for the Python interface: architectures and preprocessings."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from robench.declare.python_source import document_from_python
from robench.declare.schema import FAMILIES, attempt, construct_member

if TYPE_CHECKING:
    from robench.declarations.base import DeclarationBase
    from robench.declarations.preprocessing import PreprocessingBase
    from robench.declare.problems import Problem


def parse_architecture(mapping: object, source: str = "architecture") -> DeclarationBase:
    """Return the architecture described by a mapping, as an entry's ``architecture`` in checkpoints.yaml.

    Raises:
        DeclarationError: all problems of the mapping; ``source`` is its name in the message.

    >>> parse_architecture({"backbone": "timm", "name": "deit_tiny_patch16_224"}).name
    'deit_tiny_patch16_224'
    """
    return _parsed("architecture", mapping, source)


def parse_preprocessing(mapping: object, source: str = "preprocessing") -> PreprocessingBase:
    """Return the preprocessing described by a mapping, as an entry's ``preprocessing`` in checkpoints.yaml.

    Raises:
        DeclarationError: all problems of the mapping; ``source`` is its name in the message.

    >>> parse_preprocessing({"kind": "image", "mean": [0.5, 0.5, 0.5], "std": [1.0, 1.0, 1.0]}).mean
    (0.5, 0.5, 0.5)
    """
    return cast("PreprocessingBase", _parsed("preprocessing", mapping, source))


def _parsed(family: str, mapping: object, source: str) -> DeclarationBase:
    document = document_from_python(mapping, source)
    problems: list[Problem] = []
    member = attempt(partial(construct_member, FAMILIES[family]), document, (), problems)
    return document.settle(member, problems)
