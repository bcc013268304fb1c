"""Builder of models by a function of any importable package."""

from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType

import torch
from torch import nn

from robench.core.containment import Contained
from robench.core.errors import ContractError, DeclarationError, UnknownNameError, described
from robench.core.user_code import module_of, what_was_raised
from robench.declarations.base import Argument
from robench.models.foreign import Python


def build_python(architecture: Python) -> nn.Module:
    """Call the target with the declared arguments, and return its model.

    The module is searched on the Python path first and then in the current folder, which stays on the path, since a
    model may import modules when first called. If the declaration names the part of the output with the logits, a hook
    selects it, so that the names of the model's parameters stay unchanged.
    """
    target = architecture.target
    function = _function(module_of(target), target.partition(":")[2], target)
    arguments = dict(architecture.arguments)
    try:
        with Contained(keeps_environment=True):
            model = function(**arguments)
    # Broad because the function is the user's, who reads the error.
    except Exception as error:
        raise DeclarationError(
            f"target {target!r}, called with {arguments}, raised {described(what_was_raised(error))}. Make it return"
            " the model when it is called with the `arguments` of the checkpoint's architecture, by name"
        ) from what_was_raised(error)
    if not isinstance(model, nn.Module):
        raise DeclarationError(
            f"target {target!r} returned {model!r:.100} of type {type(model).__name__}, wanted a torch.nn.Module."
            " Let the function return the model itself"
        )
    if architecture.output is not None:
        model.register_forward_hook(partial(_picked, architecture.output))
    return model


def _picked(part: Argument, module: nn.Module, inputs: object, output: object) -> object:
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
