"""Plug points: protocols of models, datasets, perturbations, executors and stores."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, runtime_checkable

from robench.core.errors import ContractError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence

    import torch

    from robench.core.declared import PerturbationDeclaration
    from robench.core.records import Failure, Manifest, Record
    from robench.core.seeds import Stream
    from robench.core.shard import DatasetIdentity, Measurement, Shard, ShardHeader
    from robench.core.suite import Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Batch of examples as passed to a model.

    Attributes:
        ids: one id an example; ``inputs``: (B, ...), such as images in [0, 1]; ``targets``: (B, ...), such as classes.
        task: name of the task whose targets these are; None for classification.
        domain: name of the domain whose inputs these are; None for images.
    """

    ids: tuple[str, ...]
    inputs: torch.Tensor
    targets: torch.Tensor
    task: str | None = None
    domain: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Perturbed:
    """Result of a perturbation on a batch.

    Attributes:
        inputs: (B, ...), in the shape of the batch's.
        found: (B,) booleans, whether a minimum-norm attack found an adversarial example (the input is the clean one if
            not); None for attacks within a budget.
        num_queries, num_gradients: (B,) number of forward and backward passes of each example.
        num_clamped: (B,) number of values of each input outside the domain's limits by more than rounding before
            clamping; None if nothing is clamped.
        num_zero_gradients: (B,) number of backward passes whose gradient by the input is zero; None if not counted.
    """

    inputs: torch.Tensor
    found: torch.Tensor | None = None
    num_queries: torch.Tensor | None = None
    num_gradients: torch.Tensor | None = None
    num_clamped: torch.Tensor | None = None
    num_zero_gradients: torch.Tensor | None = None


class Model(Protocol):
    """Model under test; it includes its preprocessing, so that inputs are in pixel space."""

    @property
    def device(self) -> torch.device:
        """Return the device that inputs must be on."""

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        """Return (B, classes) scores, differentiable in ``inputs``; row i depends on inputs[i] and seeds[i] alone.

        The rows of a coupled model (``evaluation.coupling``) depend on each other as well.
        """

    def with_gradients(self, mode: str) -> Model:
        """Return the same model with other gradients (``Attack.gradients``) where it has them, its own elsewhere."""

    @property
    def normalisation(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return mean and standard deviation of the model's preprocessing, (C, 1, 1) each, on its device."""


class ShownLayer:
    """Attention layer of one forward pass, whose tensors are in its graph; each is computed when it is first read.

    Axes: B batch, N tokens, C their width, H heads, D width of a head, M keys, which are tokens as well. Reading raises
    a ContractError where the mechanism has no such tensor, or where it is NaN or infinite.

    Attributes:
        tokens_BNC: tokens that enter the layer.
        queries_BHND, keys_BHMD: queries and keys as projected; a symmetric mechanism has the keys as both.
        weights_BHNM: weights of the values in each token, which need not sum to one, nor be positive.
    """

    tokens_BNC: torch.Tensor
    queries_BHND: torch.Tensor
    keys_BHMD: torch.Tensor
    weights_BHNM: torch.Tensor

    def __init__(self, name: str, tensor_of: Callable[[str], torch.Tensor | None]) -> None:
        self._name, self._tensor_of = name, tensor_of

    def __getattr__(self, part: str) -> torch.Tensor:
        """Return a tensor that has not been read before."""
        if part not in ShownLayer.__annotations__:
            raise AttributeError(part)
        tensor = self._tensor_of(part)
        if tensor is None or not tensor.isfinite().all():
            found = "no" if tensor is None else "NaN or infinite"
            raise ContractError(f"{self._name} shows {found} {part.split('_')[0]}, wanted finite ones of each token")
        setattr(self, part, tensor)
        return tensor

    def rows(self, n: int) -> ShownLayer:
        """Return the layer for the first ``n`` examples."""
        return ShownLayer(self._name, lambda part: getattr(self, part)[:n])


@runtime_checkable
class ShowsLayers(Model, Protocol):
    """Model whose attention layers can be seen in a pass."""

    def outputs_and_layers(
        self, inputs: torch.Tensor, seeds: Sequence[int] | None = None
    ) -> tuple[torch.Tensor, Sequence[ShownLayer]]:
        """Return ``outputs`` and the attention layers of the same pass. Raises ContractError: it shows none."""


class ScoresTargets(Model, Protocol):
    """Model whose outputs can be the scores of given targets, in place of targets that its inputs contain.

    Attributes:
        takes_targets: whether they can.
    """

    takes_targets: bool

    def outputs(
        self, inputs: torch.Tensor, seeds: Sequence[int] | None = None, targets: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return outputs as ``Model``, of targets (B, ...) if they are given."""


class Dataset(Protocol):
    """Dataset with a fixed order of examples."""

    @property
    def identity(self) -> DatasetIdentity:
        """Return name, content digest and size."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> tuple[torch.Tensor, Any]: ...

    def batch(self, start: int, stop: int) -> Batch:
        """Return examples [start, stop). Raises ExampleError: one of them cannot be read."""


@runtime_checkable
class ReadsAhead(Dataset, Protocol):
    """Dataset that can begin to read examples before they are asked for."""

    def read_ahead(self, start: int, stop: int) -> None:
        """Begin to read examples [start, stop), which ``batch`` will probably be asked for next, and return at once.

        Nothing is raised: what cannot be read is reported by ``batch``.
        """


@runtime_checkable
class ClassifiedDataset(Protocol):
    """Dataset that knows its number of classes only once opened.

    Attributes:
        num_classes: number of classes; targets are below it.
    """

    num_classes: int


class Draws(Protocol):
    """Random numbers that belong to examples: row i is a function of example i and the stream alone."""

    @property
    def prediction_seeds(self) -> tuple[int, ...]:
        """Return one seed per example, used for the model's final prediction."""

    def seeds(self, stream: Stream) -> tuple[int, ...]:
        """Return one 64-bit seed per example."""

    def uniform(self, stream: Stream, shape: Sequence[int]) -> torch.Tensor:
        """Return (B, *shape) float32 values in [0, 1)."""

    def normal(self, stream: Stream, shape: Sequence[int]) -> torch.Tensor:
        """Return (B, *shape) float32 values of the standard normal distribution."""

    def signs(self, stream: Stream, shape: Sequence[int]) -> torch.Tensor:
        """Return (B, *shape) float32 values, each -1 or 1 with the same probability."""

    def take(self, rows: Sequence[int]) -> Draws:
        """Return the draws of a subset of the examples."""


AskedFor = TypeVar("AskedFor", bound="PerturbationDeclaration", contravariant=True)


class Perturbation(Protocol[AskedFor]):
    """Function of declaration, examples, model and draws that returns harder inputs of the same shape."""

    def __call__(self, declaration: AskedFor, batch: Batch, model: Model, draws: Draws) -> Perturbed:
        """Return the perturbed ``batch``; the harness checks shape, range and budget itself."""


class Work(Protocol):
    """Shards to be measured, which an executor takes one at a time."""

    def __len__(self) -> int:
        """Return the number of shards that are left to be taken."""

    @property
    def measurements(self) -> Sequence[Measurement]:
        """Return the measurements of all shards, each once."""

    def take(self, worker: Hashable) -> Shard | None:
        """Return the next shard for a worker, of the model that it holds if possible.

        None if none is free at the moment; there may be later, unless the length is 0. An executor asks again within
        a second.
        """

    def following(self, worker: Hashable) -> Shard | None:
        """Return the shard that a worker will probably take next, whose examples may be read ahead, or None.

        It is not the worker's until it is taken.
        """

    def give_back(self, shard: Shard) -> None:
        """Return a shard without a result, which is taken again before all others."""


class Executor(Protocol):
    """Executor of shards, which yields their results in any order."""

    @property
    def num_workers(self) -> int:
        """Return the number of processes that it starts; 0 if it measures in this one."""

    def execute(self, work: Work) -> Iterator[Record | Failure]:
        """Yield one result per shard, until no work is left or ``drain`` is called."""

    def drain(self) -> None:
        """Start no further shards; those in progress are finished and yielded."""


class Claimed(Enum):
    """Answer to a claim on a shard."""

    MINE = "mine"
    TAKEN = "taken"
    DONE = "done"


class Claims(Protocol):
    """Claims on shards, by which several runs on one store share work; a hint, not a lock.

    A context manager: claims are renewed inside it and released at its end.
    """

    def __enter__(self) -> Self: ...

    def __exit__(self, *raised: object) -> None: ...

    def claim(self, measurement_key: str, key: str) -> Claimed:
        """Claim a shard, unless another run has claimed it (TAKEN) or it has a record (DONE)."""

    def release(self, key: str) -> None:
        """Release the claim on a shard, if there is one."""


class Store(Protocol):
    """Store of the results of shards, safe with several concurrent writers."""

    @property
    def num_lost(self) -> int:
        """Return the number of results that were listed but turned out damaged, or gone, when they were read."""

    def keys(self) -> set[str]:
        """Return the keys of all shards that have a record; none is read."""

    def has(self, measurement_key: str, key: str) -> bool:
        """Return whether a shard has a record; it is not read."""

    def claims(self, has: Callable[[str, str], bool] | None = None) -> Claims:
        """Return claims on shards of this store; ``has`` replaces the store's own."""

    def put(self, result: Record | Failure) -> None:
        """Store a result; a record replaces its shard's failure.

        Raises:
            StoreError: it could not be stored; existing files are unharmed.
        """

    def manifests(self, measurement_keys: Collection[str] | None = None) -> Iterator[Manifest]:
        """Yield the manifest of every stored measurement, or of those of some keys, by key; reads no outcomes."""

    def expect(self, conditions: Iterable[Condition], measurements: Iterable[Measurement] = ()) -> None:
        """Leave out records, read from now on, that break what conditions or planned measurements promise."""

    def records(self, select: Callable[[ShardHeader], bool]) -> Iterator[Record]:
        """Yield all complete records whose measurement ``select`` accepts, given the header of its manifest."""

    def records_of(self, measurement_keys: Collection[str]) -> Iterator[Record]:
        """Yield all complete records of some measurements, by key and start."""

    def outline(self, measurement_key: str) -> list[Record]:
        """Return records without outcomes that cover what is stored of a measurement, by start.

        Of many shards a few are read: adjacent others may be one record, whose provenance is an estimate.
        """

    def failures(self) -> Iterator[Failure]:
        """Return all stored failures, by key."""


class AdversarialStore(Protocol):
    """Store of the adversarial examples of shards. Any: their type is the store's (``store.adversarial``)."""

    def put(self, examples: Any) -> None:
        """Store the examples of a shard unless they exist already.

        Raises:
            StoreError: they could not be stored; existing files are unharmed.
        """

    def get(self, measurement_key: str, shard_key: str) -> Any:
        """Return the examples of a shard, or None if there are none."""


class Measure(Protocol):
    """Function of an action that measures a shard."""

    def __call__(
        self,
        shard: Shard,
        model: Model,
        dataset: Dataset,
        *,
        limit: int | None = None,
        kept: AdversarialStore | None = None,
    ) -> Record:
        """Measure every example of a shard, whose condition has the action, on the clean ``dataset``.

        ``limit`` is that of the run, only for the record's provenance; adversarial examples are written to ``kept`` and
        read from it, None stores none.

        Raises:
            StoreError: adversarial examples could not be stored, or do not exist.
            ExampleError: an example cannot be read.
            ContractError: the dataset, the perturbation or the model broke its contract.
        """
