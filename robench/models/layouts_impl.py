"""Extraction of a model's tensors from the content of a file of weights, strictly by the declared layout."""

import json
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from robench.core.errors import WeightsError
from robench.models.layouts import LAYOUTS, Layout

MAX_TENSORS = 10_000
# Beginnings of names by wrappers of models: DistributedDataParallel and moving averages, torch.compile, Lightning.
_WRAPPERS = ("module.", "_orig_mod.", "model.", "net.", "network.")
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64)
# Any: the content of a file is unknown.
Entries = dict[Any, Any]


def tensors_in(
    content: object,
    layout: Layout,
    title: str,
    foreign: Sequence[object] = (),
    wanted: Collection[str] = (),
) -> dict[str, Tensor]:
    """Return a model's tensors by the model's own names, on the CPU, without gradients.

    ``foreign`` are mappings within the content that replace objects of unknown classes; ``title`` names the file in
    messages, which propose the fields of an entry by the names ``wanted`` of a model.

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
        raise WeightsError(f"{title}: no tensors by name lie {_where(layout.path)}. {_advice(content, wanted)}")
    check_count(len(entries), title)
    tensors: dict[str, Tensor] = {}
    for name, value in entries.items():
        if not isinstance(name, str):
            raise WeightsError(f"{title} has an entry named {name!r:.60}, wanted text: save the model's state dict")
        if not name.startswith(layout.prefix):
            if layout.leaves_others:
                continue
            found = f"{title}: entry {name!r} does not begin with {layout.prefix!r}"
            raise WeightsError(f"{found}. {_advice(content, wanted)}")
        read_as = _read_as(name.removeprefix(layout.prefix), layout)
        if read_as is None:
            continue
        if read_as in tensors:
            raise WeightsError(f"{title}: two entries read as {read_as!r}, {name!r} is one: save the state dict again")
        tensors[read_as] = dense(value, name, title)
    if not tensors:
        raise WeightsError(f"{title}: no entry begins with {layout.prefix!r}. {_advice(content, wanted)}")
    return tensors


def proposal(path: Sequence[Any], names: Iterable[Any], wanted: Collection[str] = ()) -> str:
    """Return the fields of an entry's ``weights`` that read tensors of these names, which lie under a path.

    The prefix is the one under which the names ``wanted`` of a model are there; without such names, or where none is,
    all beginnings of wrappers that the names share.
    """
    texts = [name for name in names if isinstance(name, str)]
    prefix = _prefix_of(texts, wanted)
    fitting = {
        known: num_changes
        for known, layout in LAYOUTS.items()
        if layout.path == tuple(path) and layout.prefix == prefix and all(text.startswith(prefix) for text in texts)
        # One that drops names fits no file without them.
        if (num_changes := _num_changes(texts, layout)) or not layout.dropped
    }
    if best := [known for known, num_changes in fitting.items() if num_changes == max(fitting.values())]:
        return f"layout: {' or '.join(best)}"
    if not all(isinstance(key, str) for key in path):
        return "which no key names: save the state dict alone"
    stated = {"key": path[0] if path else "", "prefix": prefix}
    return ", ".join(f"{field}: {_scalar(value)}" for field, value in stated.items() if value) or "layout: plain"


def better_fields(layout: Layout, names: Sequence[str], wanted: Collection[str]) -> str:
    """Return the fields by which saved names would be read otherwise than by a layout; empty if none are known."""
    prefix = _prefix_of(names, wanted)
    others = [
        each for each in LAYOUTS.values() if each.path == layout.path and each.prefix == prefix and each != layout
    ]
    is_changed = any((each.renames or each.dropped) and _num_changes(names, each) for each in others)
    return proposal(layout.path, names, wanted) if is_changed or prefix != layout.prefix else ""


def _prefix_of(names: Sequence[str], wanted: Collection[str]) -> str:
    present = {*names}
    # Older files lack these, which are filled.
    needed = [name for name in wanted if not name.endswith("num_batches_tracked")]
    longest = max(needed, key=len, default="")
    for name in names if needed else ():
        prefix = name.removesuffix(longest)
        if name != prefix and (not prefix or prefix[-1] == ".") and all(prefix + each in present for each in needed):
            return prefix
    prefix = ""
    while names and (beginning := next((each for each in _WRAPPERS if names[0].startswith(prefix + each)), "")):
        whole = prefix + beginning
        if not all(name.startswith(whole) for name in names) or any(name.startswith(whole) for name in wanted):
            break
        prefix = whole
    return prefix


def _scalar(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z_][\w.-]*", text) else json.dumps(text)


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


def _advice(content: object, wanted: Collection[str] = ()) -> str:
    paths: list[tuple[Any, ...]] = [(), *((key,) for key in _entries_at(content, ()))]
    places = [(path, entries) for path in paths if _num_tensors(entries := _entries_at(content, path))]
    if not places:
        return "There are none at the top or one key below it: save the model's state dict"
    found = "; ".join(
        f"{_num_tensors(entries)} {_where(path)} ({proposal(path, entries, wanted)})" for path, entries in places
    )
    return f"There are: {found}. Write the right fields into `weights` of the registry entry"


def _num_changes(names: Sequence[str], layout: Layout) -> int:
    if layout.prefix:
        return len(names) * all(name.startswith(layout.prefix) for name in names)
    return sum(name.startswith(old) for name in names for old, _ in (*layout.renames, *layout.dropped))


def _where(path: Sequence[object]) -> str:
    return "under " + ", ".join(f"{key!r:.60}" for key in path) if path else "at the top"
