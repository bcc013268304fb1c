"""Base classes of the declarations of training, host settings, and progress reports."""

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, cast

from annotated_types import Ge, Gt, Le, Lt

from robench.core.budgets import spelling_of
from robench.datasets import DATASETS
from robench.declarations.base import LARGEST, SEEDS, DeclarationBase, FieldProblem
from robench.domains import Domain

Count = Annotated[int, Ge(1), Le(LARGEST)]
NotNegative = Annotated[float, Ge(0), Le(LARGEST)]
Proportion = Annotated[float, Ge(0), Le(1)]
Budget = Annotated[Fraction, Ge(0), Le(LARGEST)]
LEAST_COUNT = 3


class TrainingBase(DeclarationBase):
    """Declaration of the training of a published checkpoint, with which it can be repeated.

    The implementation is a function ``(checkpoint, host, on_epoch) -> dict[str, Tensor]``: the state dict on the CPU. A
    declaration has the fields ``dataset``, ``num_epochs`` and ``seed``.

    Attributes:
        dataset: name of the dataset whose training split is learned.
        num_epochs: number of passes through it.
        seed: seed of the initial weights and of all random numbers of the training.
    """

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
    def total_epochs(self) -> int:
        """Return the number of epochs of the whole training."""
        return self.num_epochs

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
class ImageTraining(TrainingBase):
    """Fields of trainings on images in memory.

    Attributes:
        label_smoothing: fraction of the target spread over all classes.
        auxiliary_weight: weight of the layers' mean auxiliary loss beside the cross-entropy.
        adversarial_epsilon: budget in l-infinity, in pixel units, of adversarial examples that replace the images in
            training (``augmentation.py``); 0 for training on the images.
        adversarial_step_size: step length of the search for them, in pixel units; ``adversarial_num_steps``: number of
            steps.
        saved_as: type of the numbers in the file of weights. Half precision halves the file; accuracies of the entry
            are those of the rounded weights.
    """

    # Longest step over the budget.
    longest_step: ClassVar[int] = 1

    label_smoothing: Proportion = 0.0
    auxiliary_weight: NotNegative = 0.0
    adversarial_epsilon: Budget = Fraction(0)
    adversarial_step_size: Budget = Fraction(0)
    adversarial_num_steps: Annotated[int, Ge(0), Le(1000)] = 0
    saved_as: Literal["float32", "float16"] = "float32"

    @property
    def variant(self) -> str:
        """Return the budget of adversarial training."""
        if not self.adversarial_epsilon:
            return ""
        return f"adversarial training within {spelling_of(self.adversarial_epsilon)}"

    def problems_in(self, domain: Domain) -> list[FieldProblem]:
        """Return the problem of adversarial budgets that are larger than the range of the domain's inputs."""
        names = ("adversarial_epsilon", "adversarial_step_size")
        problems = [(name, domain.budget_problem("linf", getattr(self, name))) for name in names]
        return [(name, problem) for name, problem in problems if problem]

    def contradictions(self) -> list[FieldProblem]:
        """Adversarial examples need a budget, a step that is not too long, and a number of steps; or none of them."""
        epsilon, step_size = self.adversarial_epsilon, self.adversarial_step_size
        fields = (epsilon, step_size, self.adversarial_num_steps)
        if any(fields) and not all(fields):
            names = "adversarial_epsilon, adversarial_step_size and adversarial_num_steps"
            return [("", f"{names} must all be positive, or all be left out, got {', '.join(map(str, fields))}")]
        if step_size > self.longest_step * epsilon:
            times = "" if self.longest_step == 1 else f"{self.longest_step} times "
            message = f"must be at most {times}adversarial_epsilon {epsilon}, got {step_size}"
            return [("adversarial_step_size", message)]
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Device and resources of a training.

    Attributes:
        micro_batch_size: number of examples per forward pass; gradients add up to those of a whole batch. None for the
            whole batch. It affects only the last bits, and models that normalise over a batch.
        decode_workers: number of processes that decode and augment images, 0 for the current one; the result does not
            depend on it.
        state_path: file from which an interrupted training resumes, None for none.
    """

    data_root: Path | None
    device: str = "cpu"
    micro_batch_size: int | None = None
    decode_workers: int = 0
    state_path: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationScores:
    """Scores after an epoch on the evaluation split, without smoothing, mixing or augmentation.

    Attributes:
        top1_accuracy: a proportion in [0, 1]; None of a language model. ``loss_nats``: mean cross-entropy.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class WordTraining(TrainingBase):
    """Training by AdamW with linear warm-up and cosine decay on one dataset's training texts.

    The vocabulary is made of the training texts: the words that occur at least ``min_count`` times, by frequency, ties
    by first occurrence, and at most as many as the model has.

    Attributes:
        batch_size: number of texts, or of a language model's windows, per step.
        min_count: number of occurrences from which a word is in the vocabulary.
        learning_rate: peak learning rate; ``weight_decay``: weight decay of matrices, embeddings excluded.
        warmup_share: part of all steps over which the learning rate increases from zero.
        auxiliary_weight: weight of the layers' mean auxiliary loss beside the loss, such as the balance of experts.
        saved_as: type of the numbers in the file of weights.
    """

    dataset: str
    seed: Annotated[int, Ge(0), Lt(SEEDS)]
    num_epochs: Count
    batch_size: Count
    learning_rate: Annotated[float, Gt(0), Le(LARGEST)]
    weight_decay: NotNegative = 0.05
    warmup_share: Proportion = 0.05
    auxiliary_weight: NotNegative = 0.0
    min_count: Count = LEAST_COUNT
    saved_as: Literal["float32", "float16"] = "float16"

    @property
    def is_embedded(self) -> bool:
        """Return whether the texts come with a library, as all do that are not below a data root."""
        dataset = DATASETS.get(self.dataset)
        return dataset is None or dataset.folder is None
