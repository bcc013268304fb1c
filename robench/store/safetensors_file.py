"""Adversarial examples as a safetensors file, readable by any tool that supports the format.

One tensor per budget: in a sweep named by the budget, such as ``4/255``, otherwise ``inputs``. With float32 it contains
the inputs themselves, (N, ...), in pixels; with float16 their change from the clean ones, because float16 is an eighth
of a grey level apart near 0.5, and 1/128 of one near a change of 8/255. ``found:NAME`` is the mask of the examples for
which a minimum-norm attack found one. The entry ``robench`` of the metadata is JSON: the shard, the ids in order, and a
digest of the tensors under a seal (see ``seal``), so that any flipped bit is detected.
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
    """Adversarial examples of one shard.

    Attributes:
        ids: ids in the order of the rows.
        points: (N, ...) float32 inputs, or float16 changes of the clean inputs, by ascending budget, or under
            ``ONE_BUDGET`` if there is no sweep.
        found: (N,) booleans by the same names; only for minimum-norm attacks.
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
    """Decode examples encoded by ``encode_examples``.

    Raises:
        DamagedError: the bytes differ from those written.
        NewerFormatError: they were written by a later robench.
    """
    try:
        tensors = load(content)
    except (SafetensorError, KeyError, ValueError) as error:
        raise DamagedError(f"it is not a safetensors file: {error}") from error
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
    # The library has read this header already, so it is valid; it returns metadata of files only.
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
