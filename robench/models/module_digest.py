"""Digest of everything that determines the outputs of a module in evaluation mode.

Parameters and buffers (persistent or not) by name, type, shape and bytes; the class of each submodule; and all its
other attributes. Excluded is what evaluation of a frozen model does not depend on: device, training mode,
requires_grad, gradients, and hooks of state dicts.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import nn

from robench.models.build import is_guard
from robench.models.object_digest import ObjectDigest, UndigestibleError, in_slots

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

# Increased when the content or the method of the digest changes.
_VERSION = "in-memory model 1"
_BASE = frozenset(vars(nn.Module())) | {"_compiled_call_impl"}
_HOOKS = tuple(name for name in sorted(_BASE) if name.endswith("_hooks") and "state_dict" not in name)


def digest_of_module(module: nn.Module) -> str:
    """Return 64 hexadecimal digits that differ between modules that compute different functions.

    Raises:
        UndigestibleError: something cannot be digested; the message says what, and in which submodule.
    """
    registered = {id(each) for each in module.modules()}
    digest = ObjectDigest(partial(_add_module, registered=registered))
    digest.write(_VERSION)
    try:
        digest.add(module, "")
    except RecursionError as error:
        raise UndigestibleError("it is nested too deeply") from error
    return digest.hexdigest()


def _add_module(digest: ObjectDigest, module: nn.Module, place: str, *, registered: Collection[int]) -> None:
    """Add one module and all below it.

    Args:
        digest: digest to update.
        module: the module.
        place: its dotted name, empty for the root.
        registered: identities of the modules that ``eval()`` reaches; for all others the mode is included.
    """
    kind = type(module)
    title = f"submodule {place} ({kind.__name__})" if place else f"its class {kind.__name__}"
    if isinstance(module, torch.jit.ScriptModule):
        raise UndigestibleError(f"{title} is compiled by torch.jit")
    digest.add_class(kind, title)
    attributes: Mapping[str, Any] = vars(module)
    for name in _HOOKS:
        if any(not is_guard(hook) for hook in attributes.get(name, {}).values()):
            raise UndigestibleError(f"{title} has a hook ({name.strip('_')})")
    if "forward" in attributes:
        raise UndigestibleError(f"{title} has a forward that is assigned on the instance")
    if id(module) not in registered:
        digest.write("unregistered", module.training)
    for held in ("_parameters", "_buffers"):
        _add_items(digest, attributes[held], f"of {title}")
    others = in_slots(module) | {name: attributes[name] for name in attributes.keys() - _BASE}
    _add_items(digest, dict(sorted(others.items())), f"of {title}")
    digest.write("modules", len(attributes["_modules"]))
    for name, child in attributes["_modules"].items():
        digest.write(name)
        digest.add(child, f"{place}.{name}" if place else name)


def _add_items(digest: ObjectDigest, items: Mapping[str, Any], of_title: str) -> None:
    digest.write("items", len(items))
    for name, value in items.items():
        digest.write(name)
        digest.add(value, f"{name} {of_title}")
