"""Plug points: protocols of models, datasets, perturbations, executors and stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    import torch

    from robench.core.declared import PerturbationDeclaration
    from robench.core.records import Failure, Manifest, Record
    from robench.core.seeds import Stream
    from robench.core.shard import DatasetIdentity, Shard, ShardHeader


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
    """

    inputs: torch.Tensor
    found: torch.Tensor | None = None
    num_queries: torch.Tensor | None = None
    num_gradients: torch.Tensor | None = None
    num_clamped: torch.Tensor | None = None


class Model(Protocol):
    """Model under test; it includes its preprocessing, so that inputs are in pixel space."""

    @property
    def device(self) -> torch.device:
        """Return the device that inputs must be on."""

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        """Return (B, classes) scores, differentiable in ``inputs``; row i depends on inputs[i] and seeds[i] alone.

        The rows of a coupled model (``evaluation.coupling``) depend on each other as well.
        """

    def through_solvers(self) -> Model:
        """Return the same model with gradients through its internal solvers, if it has any."""

    @property
    def normalisation(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return mean and standard deviation of the model's preprocessing, (C, 1, 1) each, on its device."""


class Dataset(Protocol):
    """Dataset with a fixed order of examples."""

    @property
    def identity(self) -> DatasetIdentity:
        """Return name, content digest and size."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> tuple[torch.Tensor, Any]: ...

    def batch(self, start: int, stop: int) -> Batch:
        """Return examples [start, stop).

        Raises:
            ExampleError: one of them cannot be read.
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


class Executor(Protocol):
    """Executor of shards, which yields their results in any order."""

    def execute(self, shards: Iterable[Shard]) -> Iterator[Record | Failure]:
        """Yield one result per shard, until all are done or ``drain`` is called."""

    def drain(self) -> None:
        """Start no further shards; those in progress are finished and yielded."""


class Store(Protocol):
    """Store of the results of shards, safe with several concurrent writers."""

    def keys(self) -> set[str]:
        """Return the keys of all shards that have a complete record."""

    def put(self, result: Record | Failure) -> None:
        """Store a result; a record replaces its shard's failure.

        Raises:
            StoreError: it could not be stored; existing files are unharmed.
        """

    def manifests(self) -> Iterator[Manifest]:
        """Yield the manifest of every stored measurement, by key; reads no outcomes."""

    def records(self, select: Callable[[ShardHeader], bool]) -> Iterator[Record]:
        """Yield all complete records whose measurement ``select`` accepts, given the header of its manifest."""

    def records_of(self, measurement_keys: Collection[str]) -> Iterator[Record]:
        """Yield all complete records of some measurements, by key and start."""

    def failures(self) -> Iterator[Failure]:
        """Return all stored failures, by key."""


class AdversarialStore(Protocol):
    """Store of the adversarial examples of shards. Any: their type is the store's (``store.safetensors_file``)."""

    def put(self, examples: Any) -> None:
        """Store the examples of a shard unless they exist already.

        Raises:
            StoreError: they could not be stored; existing files are unharmed.
        """

    def get(self, measurement_key: str, shard_key: str) -> Any:
        """Return the examples of a shard, or None if there are none."""
