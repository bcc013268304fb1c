"""Shards, the units of work, and the identity that determines their outcomes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from robench.core.checkpoint import PLAIN_LAYOUT, Checkpoint
from robench.core.identity import Plain, key_of, to_plain
from robench.core.suite import Condition

EXACT_DTYPE: Literal["float32"] = "float32"
# Of adversarial images as files of 8 bits a value have them.
WRITTEN_DTYPE: Literal["uint8"] = "uint8"
NUM_LEVELS = 255
TF32: Literal["tf32"] = "tf32"
# Arithmetic in which the passes of a model can run: a number format, with fused operations if they are compiled.
Precision = Literal[
    "float32",
    "bfloat16",
    "float16",
    "float32-compiled",
    "bfloat16-compiled",
    "float16-compiled",
    "tf32",
    "tf32-compiled",
]
_COMPILED = "-compiled"


def number_format(precision: str) -> str:
    """Return the number format of a precision, such as ``bfloat16`` of ``bfloat16-compiled``."""
    return precision.removesuffix(_COMPILED)


def is_compiled(precision: str) -> bool:
    """Return whether the passes of a precision are compiled."""
    return precision.endswith(_COMPILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetIdentity:
    """Identity of the measured data: name, content digest and number of examples."""

    name: str
    fingerprint: str
    num_examples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Checkpoint under one condition, on known weights and data: everything that determines outcomes.

    Attributes:
        weights_digest: SHA-256 of the weights, 64 hexadecimal digits.
        tensors_digest: that of their tensors, without the file's format; not part of the key. None without a file.
        dtype: arithmetic of the model's passes, a ``Precision``; everything else is float32 or wider.
        code_digest: digest of the source of a model that robench does not build itself; None for all others.
        adversarial_dtype: number format that adversarial examples are rounded to before scoring, so that the stored
            examples are the scored ones: ``float32`` leaves them unchanged, ``float16`` rounds each change toward zero,
            ``uint8`` each value toward its clean level of 255.
        foreign_code: names of the model, the perturbation or other parts that are not robench's code, such as
            ``model 'mine'``; empty if everything is. Measurements with different ones share no worker process. Not part
            of the key.
    """

    checkpoint: Checkpoint
    condition: Condition
    weights_digest: str
    dataset: DatasetIdentity
    seed: int
    batch_size: int
    dtype: str = EXACT_DTYPE
    code_digest: str | None = None
    adversarial_dtype: str = EXACT_DTYPE
    tensors_digest: str | None = None
    foreign_code: str = ""
    _key: str = field(default="", init=False, repr=False, compare=False)

    @property
    def identity(self) -> dict[str, Plain]:
        """Return everything that determines an outcome: no names of models or conditions, no expectations or limits."""
        code: dict[str, Plain] = {} if self.code_digest is None else {"code": self.code_digest}
        layout = self.checkpoint.weights.form
        if layout != PLAIN_LAYOUT:
            # One file may hold several models, such as the weights and their moving average.
            code["layout"] = layout
        if self.adversarial_dtype != EXACT_DTYPE:
            code["adversarial_dtype"] = self.adversarial_dtype
        if self.checkpoint.smoothing is not None:
            code["smoothing"] = to_plain(self.checkpoint.smoothing)
        return (
            code
            | self.condition.identity
            | {
                "weights": self.weights_digest,
                "architecture": to_plain(self.checkpoint.architecture),
                "preprocessing": to_plain(self.checkpoint.preprocessing),
                "task": self.checkpoint.task,
                "dataset": self.dataset.fingerprint,
                "seed": self.seed,
                "batch_size": self.batch_size,
                "dtype": self.dtype,
            }
        )

    @property
    def key(self) -> str:
        """Return 32 hexadecimal digits that change if and only if the identity changes; computed once."""
        if not self._key:
            object.__setattr__(self, "_key", key_of(self.identity))
        return self._key

    @property
    def num_examples(self) -> int:
        """Return the number of examples of the whole condition on this data."""
        asked = self.condition.num_examples
        return self.dataset.num_examples if asked is None else min(asked, self.dataset.num_examples)


def shard_key(measurement_key: str, start: int, stop: int) -> str:
    """Return the key of examples [start, stop) of a measurement, given only the measurement's key."""
    # ``key_of([measurement_key, start, stop])`` in a tenth of its time: a run may have a million shards.
    return hashlib.sha256(f"[{json.dumps(measurement_key)},{start},{stop}]".encode("ascii")).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Examples [start, stop) of one measurement.

    Attributes:
        rows_per_pass: number of rows of a pass where memory is too small for the batch size; not part of the key.
        whole_stop: where the shard of a run without a limit stops, if this one is cut; not part of the key.
    """

    measurement: Measurement
    start: int
    stop: int
    rows_per_pass: int | None = None
    whole_stop: int | None = None
    _key: str = field(default="", init=False, repr=False, compare=False)

    @property
    def key(self) -> str:
        """Return 32 hexadecimal digits: a hash of everything that determines the shard's outcomes; computed once."""
        if not self._key:
            object.__setattr__(self, "_key", shard_key(self.measurement.key, self.start, self.stop))
        return self._key

    @property
    def batch_size(self) -> int:
        """Return the number of rows of a pass."""
        return self.measurement.batch_size if self.rows_per_pass is None else self.rows_per_pass

    @property
    def header(self) -> ShardHeader:
        """Return the shard as plain values, as stored on disk."""
        measurement = self.measurement
        return ShardHeader(
            key=self.key,
            measurement_key=measurement.key,
            perturbation_key=measurement.condition.perturbation_key,
            checkpoint=measurement.checkpoint.name,
            condition=measurement.condition.name,
            dataset=measurement.dataset,
            weights_digest=measurement.weights_digest,
            task=measurement.checkpoint.task,
            seed=measurement.seed,
            batch_size=measurement.batch_size,
            start=self.start,
            stop=self.stop,
            coupled=measurement.checkpoint.coupled,
            budget=measurement.condition.budget,
            dtype=measurement.dtype,
            tensors_digest=measurement.tensors_digest,
            caveat=measurement.checkpoint.caveat,
            alpha=None if (smoothing := measurement.checkpoint.smoothing) is None else float(smoothing.alpha),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardHeader:
    """Shard as plain values: all that reports and stores need without a registry, a suite or a model.

    Attributes:
        checkpoint, condition: the names under which it was measured.
        measurement_key, perturbation_key: identities, see ``core.identity``.
        coupled: whether the registry permitted rows that influence each other; never part of a key.
        budget: budget of the attack as written in its suite, such as ``8/255``; None without one, or with several
            (sweeps).
        dtype: number format of the model's passes.
        tensors_digest: SHA-256 of the tensors of the weights, equal for equal tensors in different files; None in
            records from before the field existed, and for models without a file.
        caveat: sentence on the weights or the noise that tables show with their numbers, empty without one; never part
            of a key.
        alpha: probability with which a certificate of a smoothed model may be wrong; None for other models.
    """

    key: str
    measurement_key: str
    perturbation_key: str
    checkpoint: str
    condition: str
    dataset: DatasetIdentity
    weights_digest: str
    task: str
    seed: int
    batch_size: int
    start: int
    stop: int
    coupled: bool = False
    budget: str | None = None
    dtype: str = EXACT_DTYPE
    tensors_digest: str | None = None
    caveat: str = ""
    alpha: float | None = None

    @property
    def weights(self) -> str:
        """Return the digest that identifies the weights: that of their tensors, or of their file if it is unknown."""
        return self.tensors_digest or self.weights_digest

    @property
    def model(self) -> str:
        """Return the checkpoint's name, with the precision if that is not float32, such as ``vit (bfloat16)``."""
        return self.checkpoint if self.dtype == EXACT_DTYPE else f"{self.checkpoint} ({self.dtype})"

    @property
    def title(self) -> str:
        """Return the name of the shard for messages."""
        return f"{self.model} / {self.condition} / examples {self.start}-{self.stop - 1}"


def into_shards(
    measurements: Iterable[Measurement], batches_per_shard: int, limit: int | None = None
) -> Iterator[Shard]:
    """Yield the shards of each measurement in turn, so that a model stays loaded while it is needed.

    ``limit`` requests the first examples alone, rounded up to whole batches: every pass has ``batch_size`` rows anyway,
    so that the rest of a batch costs nothing. Shards before the last are those of the unlimited run, and the last is
    the beginning of one.
    """
    for measurement in measurements:
        yield from pieces_of(measurement, measurement.batch_size * batches_per_shard, num_asked(measurement, limit))


def num_asked(measurement: Measurement, limit: int | None) -> int:
    """Return the number of examples of a measurement that a run with a limit computes."""
    num_examples, batch_size = measurement.num_examples, measurement.batch_size
    return num_examples if limit is None else min(limit + -limit % batch_size, num_examples)


def pieces_of(measurement: Measurement, size: int, count: int) -> Iterator[Shard]:
    """Yield the first ``count`` examples of a measurement in shards of ``size`` examples."""
    for start in range(0, count, size):
        whole = min(start + size, measurement.num_examples)
        stop = min(whole, count)
        yield Shard(measurement=measurement, start=start, stop=stop, whole_stop=None if stop == whole else whole)


def rest_of(shard: Shard, kept: Collection[str]) -> Shard | None:
    """Return the part of a shard that is not ``kept``, keys of shards; None if nothing is left of it.

    Runs with other limits keep its beginning, a part that follows it, or the whole shard that it begins. The shard of
    an audit is part of a batch, which earlier releases measured as one.
    """
    key, batch_size, start = shard.measurement.key, shard.measurement.batch_size, shard.start
    if shard.key in kept:
        return None
    first = start - start % batch_size
    batch = first, min(first + batch_size, shard.measurement.num_examples)
    if (first < start or shard.stop < batch[1]) and shard_key(key, *batch) in kept:
        return None
    last = shard.whole_stop or shard.stop
    while start < shard.stop:
        stops = {shard.stop, last, *range(start + batch_size, last, batch_size)}
        # The shard itself is not kept.
        stops -= {shard.stop} if start == shard.start else set()
        found = max((stop for stop in stops if shard_key(key, start, stop) in kept), default=None)
        if found is None:
            return shard if start == shard.start else replace(shard, start=start)
        start = found
    return None
