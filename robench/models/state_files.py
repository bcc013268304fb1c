"""Files of weights, read without running anything that they hold.

The content decides the format, never the suffix: safetensors, or a file of ``torch.save`` (the zip form and the older
one) through ``torch.load(weights_only=True)``, whose restricted unpickler calls nothing that a file names. Beyond what
it allows by itself, ``argparse.Namespace`` may occur: training scripts of DeiT and timm keep their options beside the
weights, and the class only holds values.
"""

from __future__ import annotations

import argparse
import pickle
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError, safe_open

from robench.core.errors import WeightsError

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

MAX_TENSORS = 10_000
MAX_SAFETENSORS_HEADER = 100_000_000
NESTED = ("model", "state_dict")
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64)


def load_state(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file by name, on the CPU; they may be mapped from the file, so copy before changing.

    A mapping that a training script put under ``model`` or ``state_dict`` is taken from there.

    Raises:
        WeightsError: the file is of another kind, damaged, unsafe, or holds anything but dense numbers.
    """
    if other := what_else_it_is(path):
        raise WeightsError(f"{path} is {other}, wanted weights. Download the file itself and put it there")
    head = _head(path)
    if _is_safetensors(head):
        state: object = _load_safetensors(path)
    elif head.startswith(b"PK\x03\x04"):
        state = _load_torch(path, is_zip=True)
    elif head.startswith(b"\x80\x02"):
        state = _load_torch(path, is_zip=False)
    elif re.match(rb"\x80[\x03-\x05]", head):
        raise WeightsError(
            f"{path} is a pickle of protocol {head[1]}, which cannot be read without running what it holds; nothing of"
            " it was run. Save the model's state dict with safetensors.torch.save_file"
        )
    else:
        raise WeightsError(
            f"{path} is neither a safetensors file nor one of torch.save: it begins with {head[:8]!r}."
            " Save the model's state dict with safetensors.torch.save_file"
        )
    return _checked(state, path)


def what_else_it_is(path: Path) -> str | None:
    """Return what a file is that often lies where weights should (a web page ...), None where it may be weights.

    Raises:
        WeightsError: the file cannot be read.
    """
    head = _head(path)
    if not head:
        return "empty"
    if head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<"):
        return "a web page (HTML or XML), as servers send it in place of a download that needs a login or is gone"
    if head.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer and not the file that it points to (`git lfs pull` fetches that)"
    return None


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(512)
    except OSError as error:
        raise WeightsError(f"{path} cannot be read ({error.strerror}): check the file and the disk") from error


def _is_safetensors(head: bytes) -> bool:
    # Eight bytes of header length, then a JSON object; the bound tells it from pickles, which may hold a brace there.
    return head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= MAX_SAFETENSORS_HEADER


def _load_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            names = list(file.keys())
            _check_count(len(names), path)
            return {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError) as error:
        raise _damaged(path, "safetensors", error) from error


def _load_torch(path: Path, *, is_zip: bool) -> object:
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):
            # torch takes a path that ends so for safetensors, whatever is inside; of an open file it sees the content.
            if is_zip and path.suffix != ".safetensors":
                return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
            with path.open("rb") as file:
                return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        names = sorted(set(re.findall(r"GLOBAL ([\w.]+)", str(error))))
        if not names:
            raise _damaged(path, "torch.save", error) from error
        raise WeightsError(
            f"{path} holds {', '.join(names)} beside its tensors, which is code and could do anything on loading."
            " Nothing of it was run. Load it where you trust it, and save the state dict alone, best with"
            " safetensors.torch.save_file"
        ) from error
    # Broad because a damaged or hostile file makes the unpickler raise errors of any class.
    except Exception as error:
        raise _damaged(path, "torch.save", error) from error


def _checked(content: object, path: Path) -> dict[str, Tensor]:
    if isinstance(content, Mapping):
        content = next((content[key] for key in NESTED if isinstance(content.get(key), Mapping)), content)
    if not isinstance(content, Mapping) or not content:
        held = "nothing" if isinstance(content, Mapping) else f"a {type(content).__name__}"
        raise WeightsError(
            f"{path} holds {held}, wanted tensors by name, at the top or under {' or '.join(NESTED)}."
            " Save the model's state dict"
        )
    _check_count(len(content), path)
    return {_name(name, path): _dense(tensor, name, path) for name, tensor in content.items()}


def _check_count(count: int, path: Path) -> None:
    if count > MAX_TENSORS:
        raise WeightsError(f"{path} holds {count} tensors, at most {MAX_TENSORS} are read: is it weights of one model?")


def _name(name: object, path: Path) -> str:
    if isinstance(name, str):
        return name
    raise WeightsError(f"{path} has an entry named {name!r:.60}, wanted text: save the model's state dict")


def _dense(tensor: object, name: object, path: Path) -> Tensor:
    wanted = "wanted a dense tensor of floating or integer numbers: save the model's state dict alone"
    if not isinstance(tensor, torch.Tensor):
        raise WeightsError(f"{path}: entry {name!r} is of type {type(tensor).__name__}, {wanted}")
    is_number = tensor.dtype.is_floating_point or tensor.dtype in INTEGERS
    if tensor.layout != torch.strided or not is_number or tensor.device.type != "cpu":
        layout = str(tensor.layout).removeprefix("torch.")
        raise WeightsError(f"{path}: {name!r} is {tensor.dtype}, {layout}, on {tensor.device.type}, {wanted}")
    return tensor.detach()


def _damaged(path: Path, form: str, error: Exception) -> WeightsError:
    # What follows the marker is the reason; what precedes it, and later sentences, advise to switch the safety off.
    reason = str(error).rpartition("WeightsUnpickler error: ")[2].strip().partition("\n")[0].partition(". ")[0]
    return WeightsError(
        f"{path} is a truncated or damaged {form} file, or holds more than tensors ({reason[:200]})."
        " Nothing of it was run. Download or save it again"
    )
