"""An architecture by itself, as ``robench.build_model`` takes it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from robench.declare.python_source import document_from_python
from robench.declare.schema import FAMILIES, attempt, construct_member

if TYPE_CHECKING:
    from robench.declarations.base import DeclarationBase
    from robench.declare.problems import Problem


def parse_architecture(mapping: object, source: str = "architecture") -> DeclarationBase:
    """Return the architecture that a mapping describes, the same as an entry's ``architecture`` in checkpoints.yaml.

    Raises:
        DeclarationError: all that is wrong with it; ``source`` is what the message calls it.

    >>> parse_architecture({"backbone": "timm", "name": "deit_tiny_patch16_224"}).name
    'deit_tiny_patch16_224'
    """
    document = document_from_python(mapping, source)
    problems: list[Problem] = []
    architecture = attempt(partial(construct_member, FAMILIES["architecture"]), document, (), problems)
    return document.settle(architecture, problems)
