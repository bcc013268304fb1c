"""A researcher's own model: a function of any importable package that returns a module."""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from robench.core.errors import ContractError, DeclarationError, UnknownNameError, described
from robench.models.containment import Contained

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from robench.models.base import Argument
    from robench.models.python_backbone import Python


def build_python(architecture: Python) -> nn.Module:
    """Return what the target gives when it is called with the declared arguments.

    The module is looked for on the Python path first and then in the current folder, which stays on the path, since
    a model may import when it is first called. Where the declaration says which part of the output the logits are, a
    hook picks it out, so that the names of the model's parameters stay as they are.

    Raises:
        UnknownNameError: the module has no such function.
        DeclarationError: there is no such module, it fails on import, its function fails, or returns no ``nn.Module``.
    """
    target = architecture.target
    module_name, _, function_name = target.partition(":")
    function = _function(_import(module_name, target), function_name, target)
    arguments = dict(architecture.arguments)
    try:
        with Contained(keeps_environment=True):
            model = function(**arguments)
    # Broad because the function is the user's, and whatever it raises is for the user to read.
    except Exception as error:
        raise DeclarationError(
            f"target {target!r}, called with {arguments}, raised {described(_raised(error))}. Make it return the"
            " model when it is called with the `arguments` of the checkpoint's architecture, by name"
        ) from _raised(error)
    if not isinstance(model, nn.Module):
        raise DeclarationError(
            f"target {target!r} returned {model!r:.100} of type {type(model).__name__}, wanted a torch.nn.Module."
            " Let the function return the model itself"
        )
    if architecture.output is not None:
        model.register_forward_hook(partial(_picked, architecture.output))
    return model


def code_digest(architecture: Python) -> str:
    """Return the SHA-256 of the target's Python sources, 64 hexadecimal digits: other code is another model.

    Of a module within a package these are all files of the package, of a single module its own. What they import from
    elsewhere is not seen.

    Raises:
        DeclarationError: there is no such module, or it fails on import.
    """
    module_name = architecture.target.partition(":")[0]
    file = _import(module_name, architecture.target).__file__
    top = importlib.import_module(module_name.partition(".")[0])
    folders = [Path(folder) for folder in getattr(top, "__path__", [])]
    files = [path for folder in folders for path in sorted(folder.rglob("*.py"))] or ([Path(file)] if file else [])
    hashed = hashlib.sha256()
    for path in files:
        hashed.update(f"{path.name} {path.stat().st_size}\n".encode() + path.read_bytes())
    return hashed.hexdigest()


def _picked(part: Argument, module: nn.Module, inputs: object, output: object) -> object:
    """Return the part of a model's output that ``output`` of the declaration names."""
    held = ""
    if isinstance(output, Mapping):
        held = f" of {', '.join(map(str, output))}"
        if part in output:
            return output[part]
    elif isinstance(part, str) and hasattr(output, part) and not isinstance(output, torch.Tensor):
        return getattr(output, part)
    elif isinstance(output, (tuple, list)):
        held = f" of {len(output)}"
        if isinstance(part, int) and -len(output) <= part < len(output):
            return output[part]
    raise ContractError(
        f"the model returned a {type(output).__name__}{held}, which has no part {part!r}: correct `output` of its"
        " architecture (the index in a tuple or list, or the name of a key or an attribute)"
    )


def _import(module_name: str, target: str) -> ModuleType:
    folder = Path.cwd()
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    importlib.invalidate_caches()
    try:
        with Contained(keeps_environment=True):
            return importlib.import_module(module_name)
    # Broad because a module's top level is the user's code; SystemExit comes from scripts without a __main__ guard.
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{module_name}.".startswith(f"{missing}."):
            raise DeclarationError(
                f"target {target!r}: no module {missing!r} on the Python path or in the current folder {folder}."
                " Install the package, or run from the folder that holds it"
            ) from error
        raise DeclarationError(
            f"target {target!r}: importing {module_name} raised {described(_raised(error))}. Mend it until"
            f" `python -c 'import {module_name}'` works in this environment"
        ) from _raised(error)


def _function(module: ModuleType, name: str, target: str) -> Callable[..., object]:
    function: object = getattr(module, name, None)
    if function is None:
        public = [known for known, value in vars(module).items() if callable(value) and not known.startswith("_")]
        raise UnknownNameError("function", name, public, f"They are of {module.__name__}, {module.__file__}.")
    if not callable(function):
        raise DeclarationError(
            f"target {target!r} is of type {type(function).__name__}, wanted a function that returns a torch.nn.Module"
        )
    return function


def _raised(error: Exception) -> BaseException:
    """Return what the user's code raised, which ``Contained`` may have replaced."""
    return error.__cause__ if isinstance(error, ContractError) and error.__cause__ else error
