"""The unit of work, and the identity that decides its outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from robench.core.checkpoint import PLAIN_LAYOUT
from robench.core.identity import Plain, key_of, to_plain

if TYPE_CHECKING:
    from robench.core.checkpoint import Checkpoint
    from robench.core.suite import Condition

EXACT_DTYPE: Literal["float32"] = "float32"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetIdentity:
    """Which data was measured: its name, a digest of its content, and how many examples it has."""

    name: str
    fingerprint: str
    num_examples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One checkpoint under one condition, on known weights and data: all that decides the outcomes of its shards.

    Attributes:
        weights_digest: SHA-256 of the weights that were found, 64 hexadecimal digits.
        dtype: number format of the arithmetic, such as ``float32``.
        code_digest: of the source of a model that robench does not build itself; None for all others.
        adversarial_dtype: what adversarial examples are rounded to before they are scored, so that what is kept of them
            is what was scored: ``float32`` leaves them as they are, ``float16`` rounds each change toward zero.
    """

    checkpoint: Checkpoint
    condition: Condition
    weights_digest: str
    dataset: DatasetIdentity
    seed: int
    batch_size: int
    dtype: str = "float32"
    code_digest: str | None = None
    adversarial_dtype: str = EXACT_DTYPE

    @property
    def identity(self) -> dict[str, Plain]:
        """All that decides an outcome: never names of models or conditions, licences, expectations or limits."""
        code: dict[str, Plain] = {} if self.code_digest is None else {"code": self.code_digest}
        layout = self.checkpoint.weights.layout
        if layout != PLAIN_LAYOUT:
            # One file may hold several models, such as the weights and their moving average.
            code["layout"] = layout
        if self.adversarial_dtype != EXACT_DTYPE:
            code["adversarial_dtype"] = self.adversarial_dtype
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
        """32 hexadecimal digits that change when, and only when, the identity changes."""
        return key_of(self.identity)

    @property
    def num_examples(self) -> int:
        """How many examples the whole condition has on this data."""
        asked = self.condition.num_examples
        return self.dataset.num_examples if asked is None else min(asked, self.dataset.num_examples)


def shard_key(measurement_key: str, start: int, stop: int) -> str:
    """Return the key of examples [start, stop) of a measurement, of which no more than its key need be known."""
    return key_of([measurement_key, start, stop])


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Examples [start, stop) of one measurement."""

    measurement: Measurement
    start: int
    stop: int

    @property
    def key(self) -> str:
        """32 hexadecimal digits: a hash of everything that decides the shard's outcomes."""
        return shard_key(self.measurement.key, self.start, self.stop)

    @property
    def header(self) -> ShardHeader:
        """The shard as plain values, as kept on disk."""
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
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardHeader:
    """A shard as plain values: what reports and stores need of it without a registry, a suite or a model.

    Attributes:
        checkpoint, condition: the names under which it was measured.
        measurement_key, perturbation_key: identities, see ``core.identity``.
        coupled: whether the registry permitted rows that influence each other; never part of a key.
        budget: budget of the attack as its suite spells it, such as ``8/255``; None where there is none, or a sweep has
            several.
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

    @property
    def title(self) -> str:
        """How messages name the shard."""
        return f"{self.checkpoint} / {self.condition} / examples {self.start}-{self.stop - 1}"
