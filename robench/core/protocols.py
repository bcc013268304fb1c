"""The plug points: what a victim, a dataset, a perturbation, an executor and a store must offer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    import torch

    from robench.core.records import Failure, Manifest, Record
    from robench.core.seeds import Stream
    from robench.core.shard import DatasetIdentity, Shard, ShardHeader
    from robench.core.suite import ThreatModel


class Declaration(Protocol):
    """What a plug-in is asked for: a frozen dataclass that checks itself; equal fields, equal behaviour.

    Attributes:
        kind: the name in YAML.
        version: raised when the implementation changes its numbers; part of every key.
    """

    kind: ClassVar[str]
    version: ClassVar[int]


class PerturbationDeclaration(Declaration, Protocol):
    """Declaration of a perturbation: the questions that generic code asks of one, each with its neutral answer.

    Attributes:
        is_clean: inputs are left as they are, so that outcomes are clean ones.
        is_attack: inputs are changed against the model, or within a budget as an attack's.
        is_minimum_norm: an attack without a budget, which looks for the nearest adversarial example.
        is_iterated: an attack of many gradient steps, expected to beat those of one step and those without gradients.
        is_single_step: an attack of one gradient step.
        is_gradient_free: an attack within a budget that asks the model for no gradient.
        can_warm_start: an attack whose first search can begin at a given point.
        makes_inputs: inputs are changed, so that those that are scored are stored nowhere else.
    """

    is_clean: ClassVar[bool] = False
    is_attack: ClassVar[bool] = False
    is_minimum_norm: ClassVar[bool] = False
    is_iterated: ClassVar[bool] = False
    is_single_step: ClassVar[bool] = False
    is_gradient_free: ClassVar[bool] = False
    can_warm_start: ClassVar[bool] = False
    makes_inputs: ClassVar[bool] = True

    @classmethod
    def implemented(cls) -> Any:
        """Import and return the implementation, a ``Perturbation`` or what the family has in its place."""

    @property
    def threat_model(self) -> ThreatModel | None:
        """What the attacker may do; None where nothing bounds the perturbation, or where it has several budgets."""
        return None

    @property
    def epsilon_name(self) -> str | None:
        """The exact budget, such as ``4/255``; None where there is no threat model."""
        return None if self.threat_model is None else str(self.threat_model.epsilon)

    @property
    def search_norm(self) -> str | None:
        """Norm in which a minimum-norm attack measures; None for everything else."""
        return None

    @property
    def at_budgets(self) -> Sequence[PerturbationDeclaration]:
        """The attack at each of several budgets, ascending; empty where there is one budget or none."""
        return ()

    @property
    def budgets_are_linked(self) -> bool:
        """Whether the attack at one budget uses what came of a smaller one."""
        return False

    @property
    def corruption(self) -> tuple[str, int] | None:
        """Type and severity of a corruption that is made on the fly; None for everything else."""
        return None

    @property
    def drawn_as(self) -> str:
        """Kind by whose name random numbers are drawn."""
        return self.kind

    @property
    def batch_dependence(self) -> str:
        """Name of what depends on who shares a batch, such as ``pgd by foolbox``; empty where nothing does."""
        return ""

    @property
    def stops_at_success(self) -> bool:
        """Whether examples are left alone once they are fooled."""
        return False

    @property
    def returns_published_point(self) -> bool:
        """Whether the point that the attack's own published code leaves is returned."""
        return False

    @property
    def keeps_scores(self) -> bool:
        """Whether top-5, loss and confidence are kept beside the verdict.

        An attack that leaves what is fooled did not do its worst; its scores are kept only where the point that its
        published code leaves is asked for by name.
        """
        return not self.stops_at_success or self.returns_published_point

    @property
    def clip(self) -> str:
        """Limits of what is returned: ``box``, ``unit`` or ``none``, as in ``ThreatModel``."""
        return "box"

    @property
    def backend(self) -> str:
        """Library whose code runs."""
        return "robench"

    def distance_problem(self) -> str:
        """Return what keeps a minimum-norm attack from telling how far examples are from falling, such as ``with ...``.

        See ``metrics.distances_impl`` for what its numbers rely on.
        """
        return ""

    def is_same_at_another_budget(self, other: PerturbationDeclaration) -> bool:
        """Return whether ``other`` is the same attack but for its budget, and what scales with it."""
        return False

    def is_twice_as_long_as(self, other: PerturbationDeclaration) -> bool:
        """Return whether ``other`` is the same attack with at most half as many steps."""
        return False


class DatasetDeclaration(Declaration, Protocol):
    """Declaration of a dataset: what can be known of one before it is opened."""

    @property
    def name(self) -> str:
        """Name in conditions, headers and tables."""

    @property
    def task(self) -> str:
        """Name of the task."""

    @property
    def num_classes(self) -> int | None:
        """Number of classes of a model; None where only the files tell."""

    @property
    def num_examples(self) -> int | None:
        """Size of the evaluation split; None where only the files tell."""

    @property
    def class_subset(self) -> str | None:
        """Name of the classes to which predictions are confined; None for all."""

    @property
    def is_out_of_distribution(self) -> bool:
        """Whether no class is right."""

    @property
    def corruption(self) -> str | None:
        """Type of published corrupted examples; None for all else."""

    @property
    def severity(self) -> int | None:
        """Severity of published corrupted examples; None for all else."""

    @property
    def clean(self) -> str | None:
        """Name of the dataset of the same examples without corruption; None for all else."""

    @classmethod
    def implemented(cls) -> Any:
        """Import and return the function that opens the dataset; Any: its type is that of the family of datasets."""


class Architecture(Declaration, Protocol):
    """Declaration of a model.

    Attributes:
        runs_user_code: the model is code of the user's own.
    """

    runs_user_code: ClassVar[bool]

    @property
    def couples_rows(self) -> bool | None:
        """Whether rows of a batch influence each other; None where the code is not robench's."""

    def code_digest(self) -> str | None:
        """Return the SHA-256 of the user's code that builds the model, None where there is none."""


class Recipe(Declaration, Protocol):
    """Declaration of how a model was trained.

    Attributes:
        is_embedded: the data are embedded in a library, and the weights come with robench.
    """

    is_embedded: ClassVar[bool]

    @property
    def dataset(self) -> str:
        """Name of the dataset."""

    def shortened(self, num_epochs: int) -> Self:
        """Return the recipe with so many epochs in all."""

    @classmethod
    def implemented(cls) -> Any:
        """Import and return the function that trains; Any: its type is that of the family of recipes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Examples as a victim meets them.

    Attributes:
        ids: one id an example; ``inputs``: (B, ...), images in [0, 1]; ``targets``: (B, ...), classes as int64.
    """

    ids: tuple[str, ...]
    inputs: torch.Tensor
    targets: torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Perturbed:
    """What a perturbation made of a batch.

    Attributes:
        inputs: (B, ...), in the shape of the batch's.
        found: (B,) truth values, whether a search for the nearest adversarial example found one; None where a budget
            is given instead. Where it found none, the input is the clean one.
        num_queries, num_gradients: (B,) passes of the victim that each example went through, forward, and backward.
        num_clamped: (B,) values of each input that lay outside [0, 1] by more than rounding before they were clamped;
            None where nothing is clamped.
    """

    inputs: torch.Tensor
    found: torch.Tensor | None = None
    num_queries: torch.Tensor | None = None
    num_gradients: torch.Tensor | None = None
    num_clamped: torch.Tensor | None = None


class Victim(Protocol):
    """The model under test: preprocessing is inside it, so that inputs stay in pixel space."""

    @property
    def device(self) -> torch.device:
        """Where inputs must be."""

    def logits(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        """Return (B, classes) scores; differentiable in ``inputs``; row i depends on inputs[i] and seeds[i] alone.

        The rows of a coupled model (``evaluation.coupling``) depend on each other as well.
        """

    def through_solvers(self) -> Victim:
        """Return the same victim with gradients through whatever it solves apart from the graph, if it does."""

    @property
    def normalisation(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean and standard deviation that its preprocessing takes, (C, 1, 1) each, on its device."""


class Dataset(Protocol):
    """Examples in a fixed order."""

    @property
    def identity(self) -> DatasetIdentity:
        """Name, content digest and size."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]: ...

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
        """One an example: those with which the victim's final prediction is made."""

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


AskedFor = TypeVar("AskedFor", bound=PerturbationDeclaration, contravariant=True)


class Perturbation(Protocol[AskedFor]):
    """Makes inputs harder: declaration, examples, victim and draws in, inputs of the same shape out."""

    def __call__(self, declaration: AskedFor, batch: Batch, victim: Victim, draws: Draws) -> Perturbed:
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
