"""Tensors and settings of a module that was saved whole, by torch.save(model), without its classes.

The dicts ``_parameters``, ``_buffers`` and ``_modules``, which every ``torch.nn.Module`` has, are read as
``state_dict`` reads them, so that names are those of the module's state dict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from robench.models.inert_pickle import InertObject, PickleProblem, SavedTensor, Value
from robench.models.layouts_impl import MAX_TENSORS
from robench.models.torch_archive import opened_archive

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from torch import Tensor

MAX_PARTS: Final = 10_000
MAX_DEPTH: Final = 32
MAX_NAME: Final = 200
_TORCH = "torch."


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedModule:
    """Module of a file.

    Attributes:
        tensors: its parameters and persistent buffers by their names in the state dict, on the CPU.
        parts: the module itself, under the empty name, and all modules in it, by their names in it.
    """

    tensors: Mapping[str, Tensor]
    parts: Mapping[str, InertObject]

    def has(self, part: str, setting: str) -> bool:
        """Return whether a module has an attribute of that name, beside its tensors and modules."""
        return part in self.parts and setting in self.parts[part].state

    def setting(self, part: str, setting: str) -> Value:
        """Return the value of a module's attribute, None if it has none; it may be of any type and depth."""
        return self.parts[part].state.get(setting) if part in self.parts else None

    @property
    def class_names(self) -> tuple[str, ...]:
        """Return the names of the classes that are not torch's, sorted."""
        names = {str(part.of) for part in self.parts.values()}
        return tuple(sorted(name for name in names if not name.startswith(_TORCH)))


def load_module(path: Path) -> SavedModule:
    """Return the module of a file of torch.save(model); nothing of the file is imported or called.

    Raises:
        WeightsError: the file cannot be read, is damaged or hostile, or holds something else than one module.
    """
    with opened_archive(path) as archive:
        parts = dict(_parts(archive.content))
        saved: dict[str, SavedTensor] = {}
        for place, part in parts.items():
            saved.update(_tensors(place, part, MAX_TENSORS - len(saved)))
        tensors = {name: archive.tensor(each) for name, each in saved.items()}
    return SavedModule(tensors=tensors, parts=parts)


def listed(names: list[str], most: int = 20) -> str:
    """Return names in a sentence, the first ``most`` of them.

    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _parts(root: Value) -> Iterator[tuple[str, InertObject]]:
    """Yield the module and all modules in it by their names, the outer before the inner."""
    if not _is_module(root):
        kind = f"an object of class {root.of!s:.80}" if type(root) is InertObject else f"a {type(root).__name__}"
        raise PickleProblem(
            f"it holds {kind} and no whole module; a state dict needs no import, but an entry's weights.layout"
        )
    waiting: list[tuple[str, InertObject, int]] = [("", root, 0)]
    count = 1
    while waiting:
        place, part, depth = waiting.pop()
        # Many modules may share one dict of many others.
        count += len(part.state["_modules"])
        if count > MAX_PARTS or depth > MAX_DEPTH:
            raise PickleProblem(f"it has more than {MAX_PARTS:,} modules, or more than {MAX_DEPTH} within each other")
        yield place, part
        inner = [(_joined(place, name), each) for name, each in _items(part, "_modules") if each is not None]
        if wrong := next((name for name, each in inner if not _is_module(each)), None):
            raise PickleProblem(f"its part {wrong} is no module")
        waiting += [(name, each, depth + 1) for name, each in reversed(inner)]


def _tensors(place: str, part: InertObject, most: int) -> Iterator[tuple[str, SavedTensor]]:
    """Yield a module's own parameters and persistent buffers, at most ``most``."""
    if sum(len(part.state[each]) for each in ("_parameters", "_buffers")) > most:
        raise PickleProblem(f"it has more than {MAX_TENSORS:,} tensors")
    passing = part.state.get("_non_persistent_buffers_set")
    left_out = passing if type(passing) is set else set()
    own = [*_items(part, "_parameters"), *(each for each in _items(part, "_buffers") if each[0] not in left_out)]
    for name, value in own:
        if type(value) is SavedTensor:
            yield _joined(place, name), value
        elif value is not None:
            raise PickleProblem(f"its part {_joined(place, name)} is no dense tensor")


def _is_module(value: Value) -> bool:
    kept = ("_parameters", "_buffers", "_modules")
    return type(value) is InertObject and all(type(value.state.get(each)) is dict for each in kept)


def _items(part: InertObject, attribute: str) -> list[tuple[Value, Value]]:
    return list(part.state[attribute].items())


def _joined(place: str, name: Value) -> str:
    if type(name) is not str or not 0 < len(name) <= MAX_NAME:
        raise PickleProblem(
            f"a module or tensor in {place or 'it'} has a name that is no text of 1 to {MAX_NAME} signs"
        )
    return f"{place}.{name}" if place else name
