"""Store of the adversarial examples of a results folder: one immutable file per shard, for rescoring and transfer.

A run that keeps them writes a shard's examples before its record, so that they exist whenever the record does. Of two
writers of one shard the first wins, as with records.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from robench.core.errors import StoreError
from robench.core.files import absolute
from robench.store.complaints import keeping, reading
from robench.store.paths import ADVERSARIAL_SUFFIX, Paths, kept_files, measurement_folders
from robench.store.publish import publish
from robench.store.reading import read_whole
from robench.store.safetensors_file import AdversarialExamples, decode_examples, encode_examples

if TYPE_CHECKING:
    from pathlib import Path

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
        """Return the keys of all shards with stored examples; files are only listed, and checked when read.

        Raises:
            StoreError: the folder cannot be read.
        """
        folder = Paths(self.results).adversarial
        with reading(folder):
            folders = measurement_folders(folder)
            return {path.stem for each in folders for path in kept_files(each, ADVERSARIAL_SUFFIX)}

    def has(self, measurement_key: str, shard_key: str) -> bool:
        """Return whether a shard has stored examples; raises like ``keys``."""
        path = self._path(measurement_key, shard_key)
        with reading(path):
            return path.exists()

    def put(self, examples: AdversarialExamples) -> None:
        """Store the examples of a shard unless some exist; warn if those differ, since they must be the same.

        Raises:
            StoreError: they could not be stored; existing files are unharmed.
        """
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
        """Return the examples of a shard, or None if there are none or damaged ones, which are set aside.

        Raises:
            StoreError: they cannot be read, or are of a later robench.
        """
        path = self._path(measurement_key, shard_key)
        return read_whole(
            path, decode_examples, lambda examples: examples.shard, Paths(self.results), max_bytes=MAX_BYTES
        )

    def _path(self, measurement_key: str, shard_key: str) -> Path:
        return Paths(self.results).adversarial_examples(measurement_key, shard_key)


_OTHER_EXAMPLES = (
    "%s gave other adversarial examples when it was measured again than those in %s."
    " The numbers are not reproducible; the first examples stay"
)
