"""Adversarial examples of a results folder: one immutable safetensors file per shard, for rescoring and transfer.

One tensor per budget: in a sweep named by the budget, such as ``4/255``, otherwise ``inputs``. With float32 it contains
the inputs themselves, (N, ...), in pixels; with float16 their change from the clean ones, because float16 is an eighth
of a grey level near 0.5, and 1/128 of one near a change of 8/255; with uint8 their levels of 255. ``found:NAME`` is the
mask of the examples for which a minimum-norm attack found one. The entry ``robench`` of the metadata is JSON: the
shard, the ids in order, and a digest of the tensors under a seal (see ``sealed``), so that any flipped bit is detected.

A run that keeps them writes a shard's examples before its record, so that they exist whenever the record does. Of two
writers of one shard the first wins, as with records. A StoreError says that a file cannot be read or written.
"""

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from robench.core.errors import StoreError
from robench.core.files import absolute
from robench.core.shard import ShardHeader
from robench.store.damaged import check_place, read_whole
from robench.store.envelope import members_of, read_envelope, shard_of
from robench.store.paths import ADVERSARIAL_SUFFIX, Paths, kept_keys, measurement_folders
from robench.store.sealed import DamagedError, check_seal, keeping, publish, reading, seal, with_blank_seal

Array = NDArray[Any]


METADATA_KEY = "robench"
ONE_BUDGET = "inputs"
_FOUND = "found:"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdversarialExamples:
    """Adversarial examples of one shard.

    Attributes:
        points: (N, ...) float32 inputs, float16 changes of the clean ones, or uint8 levels of 255, by ascending budget,
            or under ``ONE_BUDGET`` if there is no sweep.
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
    """Decode examples encoded by ``encode_examples``; raises like all decoders (``envelope``)."""
    try:
        tensors = load(content)
    except (SafetensorError, KeyError, ValueError) as error:
        raise DamagedError(f"it is not a safetensors file: {error}") from error
    text = _metadata(content)
    check_seal(text)
    members = read_envelope(text)
    if members.get("tensors") != _digest(tensors):
        raise DamagedError("its tensors changed after they were written")
    ids, budgets = (_texts(members, name) for name in ("ids", "budgets"))
    if lacking := [name for name in budgets if name not in tensors]:
        raise DamagedError(f"it has no tensor of budget {lacking[0]!r:.60}")
    return AdversarialExamples(
        shard=shard_of(members),
        ids=ids,
        points={name: tensors[name] for name in budgets},
        found={name: tensors[_FOUND + name] for name in budgets if _FOUND + name in tensors},
    )


def examples_at(path: Path, content: bytes) -> AdversarialExamples:
    """Decode the examples at ``path``, which are damaged if they were copied or renamed."""
    examples = decode_examples(content)
    check_place(path, examples.shard)
    return examples


def _texts(members: Mapping[str, Any], name: str) -> tuple[str, ...]:
    found = members.get(name)
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise DamagedError(f"its {name} must be a list of texts")
    return tuple(found)


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


logger = logging.getLogger("robench.store")

# Each further attempt means that another damaged file has appeared in the same place.
_ATTEMPTS = 3
# Read whole, like records, but with the images of a shard: 64 GiB are 100,000 of 224 x 224 pixels.
MAX_BYTES = 64 << 30


@dataclass(frozen=True, slots=True)
class AdversarialFolder:
    """Store of adversarial examples below a results folder; can be sent to another process.

    Attributes:
        results: absolute path of the results folder; see ``paths`` for its contents.
    """

    results: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "results", absolute(self.results, "results"))

    def keys(self) -> set[str]:
        """Return the keys of all shards with stored examples; files are only listed, and checked when read."""
        folders = measurement_folders(Paths(self.results).adversarial)
        return {key for each in folders for key in kept_keys(each, ADVERSARIAL_SUFFIX)}

    def has(self, measurement_key: str, shard_key: str) -> bool:
        """Return whether a shard has stored examples."""
        path = self._path(measurement_key, shard_key)
        with reading(path):
            return path.exists()

    def put(self, examples: AdversarialExamples) -> None:
        """Store the examples of a shard unless some exist; warn if those differ, since they must be the same."""
        content, shard = encode_examples(examples), examples.shard
        path = self._path(shard.measurement_key, shard.key)
        with keeping(path):
            for _ in range(_ATTEMPTS):
                if publish(path, content):
                    return
                if (kept := self.get(shard.measurement_key, shard.key)) is not None:
                    if encode_examples(kept) != content:
                        logger.warning(_OTHER_EXAMPLES, shard.title, path)
                    return
        raise StoreError(f"{path} is damaged and cannot be replaced; move it away and run again")

    def get(self, measurement_key: str, shard_key: str) -> AdversarialExamples | None:
        """Return the examples of a shard, or None if there are none or damaged ones, which are set aside."""
        path = self._path(measurement_key, shard_key)
        return read_whole(path, partial(examples_at, path), Paths(self.results), max_bytes=MAX_BYTES)

    def _path(self, measurement_key: str, shard_key: str) -> Path:
        return Paths(self.results).adversarial_examples(measurement_key, shard_key)


_OTHER_EXAMPLES = (
    "%s gave other adversarial examples when it was measured again than those in %s."
    " The numbers are not reproducible; the first examples stay"
)
