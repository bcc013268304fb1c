"""Adversarial examples as a safetensors file, which any tool that knows the format can open.

One tensor a budget: of a sweep named by the budget, such as ``4/255``, else ``inputs``. With float32 it holds the
inputs themselves, (N, ...), in pixels; with float16 their change from the clean ones, because float16 is an eighth of a
grey level apart near 0.5, and 1/128 of one near a change of 8/255. ``found:NAME`` says of a search for the nearest
adversarial example where it found one. The entry ``robench`` of the metadata is JSON: the shard, the ids in order, and
a digest of the tensors under a seal (see ``seal``), so that a flipped bit anywhere is noticed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from robench.store.envelope import members_of, read_envelope, shard_of
from robench.store.seal import DamagedError, check_seal, seal, with_blank_seal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from robench.core.shard import ShardHeader

    Array = NDArray[Any]

METADATA_KEY = "robench"
ONE_BUDGET = "inputs"
_FOUND = "found:"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdversarialExamples:
    """What a perturbation made of the examples of one shard.

    Attributes:
        ids: in the order of the rows.
        points: by budget, in ascending order of them, or under ``ONE_BUDGET`` where there is no sweep: (N, ...) float32
            inputs, or float16 changes of the clean inputs.
        found: by the same names, (N,) truth values; only of searches for the nearest adversarial example.
    """

    shard: ShardHeader
    ids: tuple[str, ...]
    points: Mapping[str, Array]
    found: Mapping[str, Array]


def encode_examples(examples: AdversarialExamples) -> bytes:
    """Return a safetensors file; equal examples give equal bytes."""
    tensors = {name: np.ascontiguousarray(array) for name, array in examples.points.items()}
    tensors |= {f"{_FOUND}{name}": np.ascontiguousarray(array) for name, array in examples.found.items()}
    members = {
        "shard": members_of(examples.shard),
        "ids": list(examples.ids),
        "budgets": list(examples.points),
        "tensors": _digest(tensors),
    }
    text = with_blank_seal(json.dumps(members, sort_keys=True, separators=(",", ":")))
    return save(tensors, {METADATA_KEY: seal(text.encode("ascii")).decode("ascii")})


def decode_examples(content: bytes) -> AdversarialExamples:
    """Return the examples that ``encode_examples`` encoded.

    Raises:
        DamagedError: the bytes are not those that were written.
        NewerFormatError: they are, by a later robench.
    """
    try:
        tensors = load(content)
    except (SafetensorError, KeyError, ValueError) as error:
        raise DamagedError(f"it is no safetensors file: {error}") from error
    text = _metadata(content)
    check_seal(text)
    members = read_envelope(text)
    if members.get("tensors") != _digest(tensors):
        raise DamagedError("its tensors are not those that were written")
    return AdversarialExamples(
        shard=shard_of(members),
        ids=tuple(members["ids"]),
        points={name: tensors[name] for name in members["budgets"]},
        found={name: tensors[_FOUND + name] for name in members["budgets"] if _FOUND + name in tensors},
    )


def _metadata(content: bytes) -> bytes:
    # The library has read this header already, so that it is sound; it hands out metadata of files alone.
    stop = 8 + int.from_bytes(content[:8], "little")
    metadata = json.loads(content[8:stop]).get("__metadata__", {})
    if METADATA_KEY not in metadata:
        raise DamagedError("its metadata has no entry of robench")
    return str(metadata[METADATA_KEY]).encode()


def _digest(tensors: Mapping[str, Array]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
