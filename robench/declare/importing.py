"""Implementations and targets that the declarations of a file name: whether each can be imported."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from robench.core.errors import DeclarationError, described
from robench.core.library_watch import OWN
from robench.core.providers import nested_in
from robench.core.user_code import contained_import, is_target, module_of, what_was_raised

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robench.declare.document import Document, Place, Problem


def import_problems(document: Document, declared: Mapping[Place, object]) -> list[Problem]:
    """Return a problem for each place whose declaration names code that cannot be imported.

    robench's own implementations are looked for and not imported, since most import torch.
    """
    return [
        document.problem(place, wrong)
        for place, thing in declared.items()
        for wrong in dict.fromkeys(_problem_of(each) for each in nested_in(thing))
        if wrong
    ]


def _problem_of(declared: object) -> str:
    target, implementation = (getattr(declared, name, None) for name in ("target", "implementation"))
    if isinstance(target, str) and is_target(target):
        try:
            module = module_of(target)
        except DeclarationError as error:
            return str(error)
        name = target.partition(":")[2]
        return "" if hasattr(module, name) else f"target {target!r}: there is no {name} in {module.__file__}"
    return _missing(implementation) if isinstance(implementation, str) and implementation else ""


@lru_cache(maxsize=1024)
def _missing(implementation: str) -> str:
    """Return why the object at ``module:name`` cannot be imported; empty if it can."""
    module_name, _, name = implementation.partition(":")
    missing = ""
    try:
        if module_name.partition(".")[0] != OWN:
            missing = "" if hasattr(contained_import(module_name), name) else name
        elif (found := find_spec(module_name)) is None:
            missing = "module"
        elif not re.search(rf"^(?:def |class )?{re.escape(name)}\b", Path(str(found.origin)).read_text(), re.MULTILINE):
            missing = name
    # Broad because the top level of a module may raise anything.
    except Exception as error:
        return f"its implementation {implementation} cannot be imported: {described(what_was_raised(error))}"
    return f"its implementation {implementation} cannot be imported: there is no such {missing}" if missing else ""
