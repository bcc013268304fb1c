"""Safe reading of files of weights, without running anything in them.

The content decides the format, never the suffix: safetensors, or a file of ``torch.save`` (the zip form and the older
one) through ``torch.load(weights_only=True)``, whose restricted unpickler calls nothing that a file names. If the
layout places the weights under a key, apart from the rest, or a whole module is read, inert stand-ins replace all other
classes (in the zip form, which lists their names). Otherwise, beyond what torch allows by itself,
``argparse.Namespace`` may occur, since training scripts store their options in one, and it only contains values.

Training scripts save optimisers, loss scalers, options and scores of any class beside the weights. torch's unpickler
refuses unknown names; with a stand-in registered under a name, it creates that instead. So nothing named in the file is
imported or run: a stand-in accepts any arguments and only keeps the state that it is given. Objects that a pickle fills
item by item (a ``defaultdict``, a ``deque``, options in a subclass of ``dict``) must be a real dict or list for the
unpickler; callers distinguish those from the file's own by identity. Names in modules that torch blocks (os, sys) stay
refused.
"""

import argparse
import hashlib
import os
import pickle
import re
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from robench.core.checkpoint import PLAIN_LAYOUT, Weights
from robench.core.errors import WeightsError
from robench.core.files import open_regular, other_content
from robench.models.layouts import layout_of
from robench.models.layouts_impl import check_count, tensors_in
from robench.models.shards import is_index, shards_of

MAX_SAFETENSORS_HEADER = 100_000_000
MAX_NAMES = 1_000
MAX_PICKLE = 16 << 20
_ZIP = b"PK\x03\x04"
# Errors of torch's unpickler, and the type it requires instead.
FILLED: Mapping[str, Callable[[], object]] = {
    "Can only SETITEM": OrderedDict,
    "Can only append to lists": list,
    "Can only extend lists": list,
}


class StandIn:
    """Inert replacement of a class or function: accepts any arguments and does nothing.

    Attributes:
        state: attributes that the file gives an object of the class; empty if they are not in a dict.
    """

    __slots__ = ("state",)
    state: dict[Any, Any]

    def __new__(cls, *arguments: object) -> Self:
        """Ignore all arguments."""
        made = super().__new__(cls)
        made.state = {}
        return made

    def __setstate__(self, state: object) -> None:
        """Keep the state, without applying it."""
        if type(state) is dict:
            self.state = state


class StandIns:
    """Stand-ins for the names of one file; the name of each class is the whole name in the file.

    Attributes:
        filled: dicts and lists created in place of objects of unknown classes.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.filled: list[object] = []
        self._classes = {name: type(name, (StandIn,), {"__module__": __name__, "__slots__": ()}) for name in names}

    def pairs(self) -> list[Callable[..., Any] | tuple[Callable[..., Any], str]]:
        """Return the arguments of ``torch.serialization.safe_globals``: stand-ins with the names that they replace."""
        return [(stand_in, name) for name, stand_in in self._classes.items()]

    def fill(self, complaint: str) -> bool:
        """Use a dict or list for an object that is filled item by item, as indicated by torch's unpickler.

        Returns False if the error has another cause; True at most once per name.
        """
        kinds = [kind for wanted, kind in FILLED.items() if wanted in complaint]
        for name, stand_in in self._classes.items():
            if kinds and issubclass(stand_in, StandIn) and repr(stand_in) in complaint:
                self._classes[name] = self._filled(name, kinds[0])
                return True
        return False

    def _filled(self, name: str, kind: Callable[[], object]) -> type:
        def make(cls: type, *arguments: object) -> object:
            self.filled.append(kind())
            return self.filled[-1]

        return type(name, (), {"__module__": __name__, "__slots__": (), "__new__": make})


def load_state(path: Path, form: Weights | str = PLAIN_LAYOUT, wanted: Collection[str] = ()) -> dict[str, Tensor]:
    """Return the tensors of a file by name, on the CPU; they may be memory-mapped, so copy before changing.

    ``form`` are the weights that a registry declares, or a key of ``models.layouts.LAYOUTS``; messages propose another
    one by the names ``wanted`` of a model. Of an index, all shards are read.

    Raises:
        WeightsError: the file is of another kind or layout, damaged, unsafe, or contains anything but dense tensors
            there.
        UnknownNameError: the layout is unknown.
    """
    weights = Weights(uri=str(path), sha256=None, layout=form) if isinstance(form, str) else form
    layout = layout_of(weights)
    content, foreign = _content(path, nested=bool(layout.path))
    stated = weights.form if weights.key or weights.prefix else f"layout: {weights.layout}"
    return tensors_in(content, layout, f"{path} ({stated})", foreign, wanted)


def digest_of(state: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of tensors by name, in the float32 of models: equal for equal tensors in different files."""
    found = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].to(torch.float32) if state[name].is_floating_point() else state[name]
        found.update(f"{name!r} {tensor.dtype} {tuple(tensor.shape)}\n".encode("utf-8", "backslashreplace"))
        found.update(tensor.detach().numpy().tobytes())
    return found.hexdigest()


def load_whole(path: Path) -> object:
    """Return the content of a file of ``torch.save(model)``, on the CPU: objects of unknown classes are ``StandIn``.

    Raises:
        WeightsError: the file is of another kind, damaged or unsafe.
    """
    if other := what_else_it_is(path):
        raise WeightsError(f"{path} is {other}, wanted a file of torch.save(model). Download the file itself")
    if not (head := _head(path)).startswith(_ZIP):
        raise WeightsError(
            f"{path} begins with {head[:8]!r}, wanted the zip form of torch.save, of torch 1.6 and later. Nothing of it"
            " was run. If it is in the older form, load it where you trust it, and save it with a newer torch"
        )
    _check_archive(path)
    return _load_torch(path, is_zip=True, nested=True, is_mapped=False)[0]


def what_else_it_is(path: Path) -> str | None:
    """Return the type of a file often found in place of weights (a web page ...), None if it may be weights."""
    return other_content(_head(path))


def _content(path: Path, *, nested: bool) -> tuple[object, Sequence[object]]:
    """Return the whole content of the file, and the mappings in it that replace objects of unknown classes."""
    if other := what_else_it_is(path):
        raise WeightsError(f"{path} is {other}, wanted weights. Download the file itself and put it there")
    if is_index(path):
        return {name: each for shard in shards_of(path) for name, each in _load_safetensors(shard).items()}, ()
    head = _head(path)
    if _is_safetensors(head):
        return _load_safetensors(path), ()
    if head.startswith(_ZIP):
        return _load_torch(path, is_zip=True, nested=nested)
    if head.startswith(b"\x80\x02"):
        return _load_torch(path, is_zip=False, nested=nested)
    if re.match(rb"\x80[\x03-\x05]", head):
        raise WeightsError(
            f"{path} is a pickle of protocol {head[1]}, which cannot be read without running its content; nothing of"
            " it was run. Save the model's state dict with safetensors.torch.save_file"
        )
    raise WeightsError(
        f"{path} is neither a safetensors file nor one of torch.save: it begins with {head[:8]!r}."
        " Save the model's state dict with safetensors.torch.save_file"
    )


def _head(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read(512)
    except OSError as error:
        raise WeightsError(f"{path} cannot be read ({error.strerror}): check the file and the disk") from error


def _is_safetensors(head: bytes) -> bool:
    # Eight bytes of header length, then a JSON object; the bound excludes pickles, which may have a brace there.
    return head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= MAX_SAFETENSORS_HEADER


def _load_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            names = list(file.keys())
            check_count(len(names), str(path))
            return {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError) as error:
        raise _damaged(path, "safetensors", error) from error


def _check_archive(path: Path) -> None:
    """Verify the checksums of all entries, and that reading them takes no more memory than the file has bytes."""
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            pickles = [entry.file_size for entry in entries if entry.filename.endswith(".pkl")]
            is_packed = any(entry.compress_type != zipfile.ZIP_STORED for entry in entries)
            is_larger = sum(entry.file_size for entry in entries) > os.fstat(file.fileno()).st_size
            if is_packed or is_larger or max(pickles, default=0) > MAX_PICKLE:
                raise ValueError(f"compressed, larger than the file, or a pickle of more than {MAX_PICKLE:,} bytes")
            if damaged := archive.testzip():
                raise ValueError(f"the checksum of {damaged} does not match")
    # zipfile raises errors of several classes for encryption, truncation and bad numbers.
    except Exception as error:
        raise _damaged(path, "torch.save", error) from error


def _load_torch(path: Path, *, is_zip: bool, nested: bool, is_mapped: bool = True) -> tuple[object, Sequence[object]]:
    try:
        if is_zip and nested:
            return _load_beside_others(path, is_mapped=is_mapped)
        with torch.serialization.safe_globals([argparse.Namespace]):
            return _load_known(path, is_mapped=is_zip), ()
    except pickle.UnpicklingError as error:
        names = sorted(set(re.findall(r"GLOBAL ([\w.]+)", str(error))))
        if not names:
            raise _damaged(path, "torch.save", error) from error
        aside = "" if nested else "; or, if the weights lie apart from it, under a key, name their weights.layout"
        if not is_zip:
            aside = " (of a file in torch's older form, which this is, nothing can be put aside)"
        raise WeightsError(
            f"{path} contains {', '.join(names)} beside its tensors, which is code and could do anything on loading."
            " Nothing of it was run. Load it where you trust it, and save the state dict alone, best with"
            f" safetensors.torch.save_file{aside}"
        ) from error
    except WeightsError:
        raise
    # Broad because a damaged or hostile file makes the unpickler raise errors of any class.
    except Exception as error:
        raise _damaged(path, "torch.save", error) from error


def _load_known(path: Path, *, is_mapped: bool) -> object:
    # torch treats a path with that suffix as safetensors regardless of content; from an open file it reads the content.
    if is_mapped and path.suffix != ".safetensors":
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    with open_regular(path) as file:
        return torch.load(file, map_location="cpu", weights_only=True)


def _load_beside_others(path: Path, *, is_mapped: bool) -> tuple[object, Sequence[object]]:
    with open_regular(path) as file:
        names = torch.serialization.get_unsafe_globals_in_checkpoint(file)
    if len(names) > MAX_NAMES:
        raise WeightsError(
            f"{path} names {len(names)} classes beside its weights, at most {MAX_NAMES} are put aside:"
            " save the state dict alone"
        )
    stand_ins = StandIns(names)
    while True:
        try:
            with torch.serialization.safe_globals(stand_ins.pairs()):
                return _load_known(path, is_mapped=is_mapped), stand_ins.filled
        except pickle.UnpicklingError as error:
            if not stand_ins.fill(str(error)):
                raise


def _damaged(path: Path, form: str, error: Exception) -> WeightsError:
    # The reason follows the marker; the text before it, and later sentences, advise to switch the safety off.
    reason = str(error).rpartition("WeightsUnpickler error: ")[2].strip().partition("\n")[0].partition(". ")[0]
    return WeightsError(
        f"{path} is a truncated or damaged {form} file, or holds more than tensors ({reason[:200]})."
        " Nothing of it was run. Download or save it again"
    )
