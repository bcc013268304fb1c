"""Extraction of a model's tensors from the content of a file of weights, strictly by the declared layout."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from robench.core.errors import WeightsError
from robench.models.layouts import LAYOUTS, Layout

MAX_TENSORS = 10_000
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64)
# Any: the content of a file is unknown.
Entries = dict[Any, Any]


def tensors_in(content: object, layout: Layout, title: str, foreign: Sequence[object] = ()) -> dict[str, Tensor]:
    """Return a model's tensors by the model's own names, on the CPU, without gradients.

    ``foreign`` are mappings within the content that replace objects of unknown classes; ``title`` names the file in
    messages.

    Raises:
        WeightsError: the content has another layout, or contains anything but dense named tensors there.
    """
    entries = _entries_at(content, layout.path)
    if any(_lies_at(content, layout.path) is mapping for mapping in foreign):
        raise WeightsError(
            f"{title}: what lies {_where(layout.path)} is of a class that torch does not know, which was not run:"
            " save the model's state dict, in a dict"
        )
    if not _num_tensors(entries):
        raise WeightsError(f"{title}: no tensors by name lie {_where(layout.path)}. {_advice(content)}")
    check_count(len(entries), title)
    tensors: dict[str, Tensor] = {}
    for name, value in entries.items():
        if not isinstance(name, str):
            raise WeightsError(f"{title} has an entry named {name!r:.60}, wanted text: save the model's state dict")
        if not name.startswith(layout.prefix):
            raise WeightsError(f"{title}: entry {name!r} does not begin with {layout.prefix!r}. {_advice(content)}")
        read_as = _read_as(name.removeprefix(layout.prefix), layout)
        if read_as is None:
            continue
        if read_as in tensors:
            raise WeightsError(f"{title}: two entries read as {read_as!r}, {name!r} is one: save the state dict again")
        tensors[read_as] = dense(value, name, title)
    return tensors


def layouts_for(names: Sequence[str]) -> list[str]:
    """Return the declared layouts that remove a prefix from all of these names, or rename or drop some of them."""
    return [known for known, layout in LAYOUTS.items() if _num_changes(names, layout)]


def check_count(count: int, title: str) -> None:
    """Refuse more tensors than any model has."""
    if count > MAX_TENSORS:
        raise WeightsError(
            f"{title} holds {count} tensors, at most {MAX_TENSORS} are read: are these the weights of one model?"
        )


def _lies_at(content: object, path: Sequence[str]) -> object:
    # Methods of dict itself, here and below: a file can give an OrderedDict attributes that shadow its own.
    for key in path:
        content = dict.get(content, key) if isinstance(content, dict) else None
    return content


def _entries_at(content: object, path: Sequence[str]) -> Entries:
    found = _lies_at(content, path)
    return dict(dict.items(found)) if isinstance(found, dict) else {}


def _num_tensors(entries: Entries) -> int:
    return sum(isinstance(value, torch.Tensor) for value in entries.values())


def _read_as(name: str, layout: Layout) -> str | None:
    """Return the model's name for a saved name without its prefix; None if it is not part of the model."""
    if any(name.startswith(beginning) for beginning, _ in layout.dropped):
        return None
    for old, new in layout.renames:
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


def dense(tensor: object, name: str, title: str) -> Tensor:
    """Return a tensor without gradient and attributes."""
    wanted = "wanted a dense tensor of floating or integer numbers: save the model's state dict alone"
    if not isinstance(tensor, torch.Tensor):
        raise WeightsError(f"{title}: entry {name!r} is of type {type(tensor).__name__}, {wanted}")
    is_number = tensor.dtype.is_floating_point or tensor.dtype in INTEGERS
    if tensor.layout != torch.strided or not is_number or tensor.device.type != "cpu":
        storage = str(tensor.layout).removeprefix("torch.")
        raise WeightsError(f"{title}: {name!r} is {tensor.dtype}, {storage}, on {tensor.device.type}, {wanted}")
    # The class's own method, since a file can give tensors attributes too.
    return torch.Tensor.detach(tensor)


def _advice(content: object) -> str:
    """Return the locations of tensors, and the layouts with that location."""
    paths: list[tuple[Any, ...]] = [(), *((key,) for key in _entries_at(content, ()))]
    places = [(path, entries) for path in paths if _num_tensors(entries := _entries_at(content, path))]
    if not places:
        return "There are none at the top or one key below it: save the model's state dict"
    found = "; ".join(f"{_num_tensors(entries)} {_where(path)} ({_fitting(path, entries)})" for path, entries in places)
    return f"There are: {found}. Write the right one into the registry, as weights.layout"


def _fitting(path: tuple[Any, ...], names: Iterable[Any]) -> str:
    texts = [name for name in names if isinstance(name, str)]
    fitting = {
        known: num_changes
        for known, layout in LAYOUTS.items()
        if layout.path == path and all(text.startswith(layout.prefix) for text in texts)
        # One that drops names fits no file without them.
        if (num_changes := _num_changes(texts, layout)) or not layout.dropped
    }
    best = [known for known, num_changes in fitting.items() if num_changes == max(fitting.values())]
    return f"layout: {' or '.join(best)}" if best else "no layout is declared for that"


def _num_changes(names: Sequence[str], layout: Layout) -> int:
    """Return the number of names that a layout changes; a prefix counts if all have it."""
    if layout.prefix:
        return len(names) * all(name.startswith(layout.prefix) for name in names)
    return sum(name.startswith(old) for name in names for old, _ in (*layout.renames, *layout.dropped))


def _where(path: Sequence[object]) -> str:
    return "under " + ", ".join(f"{key!r:.60}" for key in path) if path else "at the top"
