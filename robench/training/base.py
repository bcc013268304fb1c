"""Base classes of the declarations of training, host settings, and progress reports."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, cast

from annotated_types import Ge, Le

from robench.core.shard import EXACT_DTYPE
from robench.declarations.base import LARGEST, DeclarationBase, FieldProblem
from robench.domains import Domain
from robench.training.epoch_files import EpochFiles

Count = Annotated[int, Ge(1), Le(LARGEST)]
NotNegative = Annotated[float, Ge(0), Le(LARGEST)]
Proportion = Annotated[float, Ge(0), Le(1)]
Budget = Annotated[Fraction, Ge(0), Le(LARGEST)]
# Weights of the queries', keys' and values' projections.
SpectralWeights = tuple[NotNegative, NotNegative, NotNegative]
NO_PENALTY: SpectralWeights = (0.0, 0.0, 0.0)
TrainingPrecision = Literal["float32", "bfloat16"]


class TrainingBase(DeclarationBase):
    """Declaration of the training of a published checkpoint, with which it can be repeated.

    The implementation is a function ``(checkpoint, host, on_epoch) -> dict[str, Tensor]``: the state dict on the CPU.
    It raises DeclarationError for entries that do not fit, MissingDataError where data are absent, UsageError for a
    stored state of another training, and ContractError where the loss diverges.

    Attributes:
        dataset: name of the dataset whose training split is learned.
        num_epochs: number of passes through it.
        seed: seed of the initial weights and of all random numbers of the training.
        keeps_epochs: whether the implementation writes the weights after each epoch to ``host.epoch_files``.
        takes_precision: whether the implementation computes in ``host.precision``.
    """

    keeps_epochs: ClassVar[bool] = False
    takes_precision: ClassVar[bool] = False

    dataset: str
    num_epochs: int
    seed: int

    @property
    def is_embedded(self) -> bool:
        """Return whether the data are embedded in a library.

        Training then needs no data on disk, computes on the CPU in whole batches and replaces the weights that come
        with robench.
        """
        return False

    @property
    def is_adversarial(self) -> bool:
        """Return whether the model is trained on adversarial examples."""
        return False

    @property
    def total_epochs(self) -> int:
        """Return the number of epochs of the whole training."""
        return self.num_epochs

    @property
    def caveat(self) -> str:
        """Return a sentence that tables show with the numbers of these weights; usually empty."""
        return ""

    @property
    def variant(self) -> str:
        """Return a phrase that tells this training from the usual one of its kind; empty for the usual one."""
        return ""

    def problems_in(self, domain: Domain) -> list[FieldProblem]:
        """Return why the training does not go with inputs of a domain, each with its field."""
        return []

    def shortened(self, num_epochs: int) -> Self:
        """Return the training with the given total number of epochs."""
        # Any: a declaration is a dataclass, which its base class cannot express.
        return cast("Self", replace(cast("Any", self), num_epochs=num_epochs))

    def seeded(self, seed: int) -> Self:
        """Return the training with another seed."""
        return cast("Self", replace(cast("Any", self), seed=seed))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """Progress within an epoch of a training, before its first step and after each.

    Attributes:
        epoch: number of the epoch, from 1, of ``num_epochs``.
        num_done: number of its examples that are learned, of ``num_examples``, None where that is not known.
        loss_nats: returns the loss of the last step, for which it may wait for the device; None before the first.
        is_resumed: whether this is where an interrupted training resumes.
    """

    epoch: int
    num_epochs: int
    num_done: int
    num_examples: int | None
    loss_nats: Callable[[], float] | None = None
    is_resumed: bool = False


def unheard(report: StepReport) -> None:
    """Do nothing; a function of a module, since hosts are sent to processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Device and resources of a training.

    Attributes:
        micro_batch_size: number of examples per forward pass; gradients add up to those of a whole batch. None for the
            whole batch. It affects only the last bits, and models that normalise over a batch.
        decode_workers: number of processes that decode and augment images, 0 for the current one; the result does not
            depend on it.
        precision: numbers of matrix products and convolutions in the passes of training, float32 or bfloat16 (mixed
            precision). Weights, their gradients, losses and validation are float32.
        state_path: file from which an interrupted training resumes, None for none.
        epoch_files: files of the weights that would be published after each epoch, None for none.
        on_step: called before the first step and after each.
    """

    data_root: Path | None
    device: str = "cpu"
    micro_batch_size: int | None = None
    decode_workers: int = 0
    precision: TrainingPrecision = EXACT_DTYPE
    state_path: Path | None = None
    epoch_files: EpochFiles | None = None
    on_step: Callable[[StepReport], None] = unheard


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationScores:
    """Scores after an epoch on the evaluation split, without smoothing, mixing or augmentation.

    Attributes:
        top1_accuracy: a proportion in [0, 1], of pixels for masks; None of a language model.
        loss_nats: mean cross-entropy.
        num_examples: number of examples; of a language model of words.
    """

    top1_accuracy: float | None
    loss_nats: float
    num_examples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochReport:
    """Progress of a training: completed epochs of ``num_epochs``, and the epoch's mean loss and speed.

    Attributes:
        loss_nats: loss of the optimiser, including label smoothing, mixing and auxiliary losses.
        validation: scores of the weights that would be published after this epoch; None without validation data.
    """

    epoch: int
    num_epochs: int
    loss_nats: float
    examples_per_second: float
    validation: ValidationScores | None = None
