"""The plug points: what a model, a dataset, a perturbation, an executor and a store must offer."""

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
    """Examples as a model meets them.

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
    """What a perturbation made of a batch.

    Attributes:
        inputs: (B, ...), in the shape of the batch's.
        found: (B,) truth values, whether a search for the nearest adversarial example found one; None where a budget
            is given instead. Where it found none, the input is the clean one.
        num_queries, num_gradients: (B,) passes of the model that each example went through, forward, and backward.
        num_clamped: (B,) values of each input that lay outside the domain's limits by more than rounding before they
            were clamped; None where nothing is clamped.
    """

    inputs: torch.Tensor
    found: torch.Tensor | None = None
    num_queries: torch.Tensor | None = None
    num_gradients: torch.Tensor | None = None
    num_clamped: torch.Tensor | None = None


class Model(Protocol):
    """The model under test: preprocessing is inside it, so that inputs stay in pixel space."""

    @property
    def device(self) -> torch.device:
        """Where inputs must be."""

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        """Return (B, classes) scores; differentiable in ``inputs``; row i depends on inputs[i] and seeds[i] alone.

        The rows of a coupled model (``evaluation.coupling``) depend on each other as well.
        """

    def through_solvers(self) -> Model:
        """Return the same model with gradients through whatever it solves apart from the graph, if it does."""

    @property
    def normalisation(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean and standard deviation that its preprocessing takes, (C, 1, 1) each, on its device."""


class Dataset(Protocol):
    """Examples in a fixed order."""

    @property
    def identity(self) -> DatasetIdentity:
        """Name, content digest and size."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> tuple[torch.Tensor, Any]: ...

    def batch(self, start: int, stop: int) -> Batch:
        """Return examples [start, stop).

        Raises:
            ExampleError: one of them cannot be read.
        """


@runtime_checkable
class ClassifiedDataset(Protocol):
    """A dataset that tells its number of classes once it is opened, where its declaration does not.

    Attributes:
        num_classes: number of classes; targets are below it.
    """

    num_classes: int


class Draws(Protocol):
    """Random numbers that belong to examples: row i is a function of example i and the stream alone."""

    @property
    def prediction_seeds(self) -> tuple[int, ...]:
        """One an example: those with which the model's final prediction is made."""

    def seeds(self, stream: Stream) -> tuple[int, ...]:
        """Return one 64-bit seed an example."""

    def uniform(self, stream: Stream, shape: Sequence[int]) -> torch.Tensor:
        """Return (B, *shape) float32 values in [0, 1)."""

    def normal(self, stream: Stream, shape: Sequence[int]) -> torch.Tensor:
        """Return (B, *shape) float32 values of the standard normal distribution."""

    def signs(self, stream: Stream, shape: Sequence[int]) -> torch.Tensor:
        """Return (B, *shape) float32 values, each -1 or 1 with the same probability."""

    def take(self, rows: Sequence[int]) -> Draws:
        """Return the draws of some of the examples."""


AskedFor = TypeVar("AskedFor", bound="PerturbationDeclaration", contravariant=True)


class Perturbation(Protocol[AskedFor]):
    """Makes inputs harder: declaration, examples, model and draws in, inputs of the same shape out."""

    def __call__(self, declaration: AskedFor, batch: Batch, model: Model, draws: Draws) -> Perturbed:
        """Return what was made of ``batch``; the harness checks shape, range and budget itself."""


class Executor(Protocol):
    """Runs shards somewhere and gives back what came of each, in any order."""

    def execute(self, shards: Iterable[Shard]) -> Iterator[Record | Failure]:
        """Yield one result a shard, until all are done or ``drain`` was called."""

    def drain(self) -> None:
        """Begin no further shard; those under way are finished and given back."""


class Store(Protocol):
    """Keeps what came of shards; several writers at once are safe."""

    def keys(self) -> set[str]:
        """Keys of all shards that have a whole record."""

    def put(self, result: Record | Failure) -> None:
        """Keep a result; a record takes the place of its shard's failure.

        Raises:
            StoreError: it could not be kept; nothing that was kept before is lost.
        """

    def manifests(self) -> Iterator[Manifest]:
        """Yield the description of every kept measurement, by key; no outcomes are read."""

    def records(self, select: Callable[[ShardHeader], bool]) -> Iterator[Record]:
        """Yield all whole records whose measurement ``select`` accepts, asked with the header of its manifest."""

    def records_of(self, measurement_keys: Collection[str]) -> Iterator[Record]:
        """Yield all whole records of some measurements, by key and start."""

    def failures(self) -> Iterator[Failure]:
        """All kept failures, by key."""


class AdversarialStore(Protocol):
    """Keeps the adversarial examples of shards. Any: their type is the store's (``store.safetensors_file``)."""

    def put(self, examples: Any) -> None:
        """Keep the examples of a shard unless they are there.

        Raises:
            StoreError: they could not be kept; nothing that was kept before is lost.
        """

    def get(self, measurement_key: str, shard_key: str) -> Any:
        """Return the examples of a shard; None where there are none."""
