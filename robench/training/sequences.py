"""Declaration of the training of models of time series and of sequences of tokens."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le, Lt

from robench.datasets import DATASETS
from robench.declarations.base import LARGEST, SEEDS, FieldProblem
from robench.training.base import Count, NotNegative, TrainingBase

Selection = Literal["last", "best-on-test", "best-on-split"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceTraining(TrainingBase):
    """Training of models of time series and of sequences of tokens, without weight decay.

    The defaults are those of the code of Primal-Attention for series of the UEA archive.

    Attributes:
        batch_size: number of examples per step; the last step of a pass has the rest.
        learning_rate: learning rate, or its peak; ``schedule``: the same at all steps, or one cycle with linear rise
            and fall (torch's ``OneCycleLR``, which moves the momentum too), as in the code of the Long-Range Arena's
            experiments.
        warmup_steps: number of steps over which the rate rises, with one cycle.
        steps_per_epoch: number of steps after which an epoch ends, null for a pass through the data.
        optimizer: RAdam (Liu et al. 2020, arXiv:1908.03265), Adam, or AdamW.
        clip_grad: maximum norm of a step's gradient, null for none.
        auxiliary_weight: weight of the layers' mean auxiliary loss beside the cross-entropy.
        evaluate_every: number of epochs from one scoring to the next; the last epoch is scored as well.
        selection: weights that are published: those of the ``last`` epoch; those of the scored epoch with the highest
            accuracy on the test split, the first of several (``best-on-test``), as published numbers of the UEA archive
            are; or on another split (``best-on-split``).
        settings: ``best-on-test`` where the entry's settings may be the best of a grid by test accuracy, as
            those of published scripts; training does not depend on it.
        held_out: proportion of the training split that is not learned from, drawn by the seed, which ``best-on-split``
            scores; 0 for the dataset's ``validation`` split.
        saved_as: type of the numbers in the file of weights.
    """

    kind: ClassVar[str] = "sequence-training"
    implementation: ClassVar[str] = "robench.training.sequences_impl:train"
    keeps_epochs: ClassVar[bool] = True

    dataset: str
    seed: Annotated[int, Ge(0), Lt(SEEDS)]
    num_epochs: Count
    batch_size: Count = 16
    learning_rate: Annotated[float, Gt(0), Le(LARGEST)] = 0.001
    schedule: Literal["constant", "one-cycle"] = "constant"
    warmup_steps: Annotated[int, Ge(0), Le(LARGEST)] = 0
    steps_per_epoch: Count | None = None
    optimizer: Literal["radam", "adam", "adamw"] = "radam"
    clip_grad: Annotated[float | None, Gt(0), Le(LARGEST)] = 4.0
    auxiliary_weight: NotNegative = 0.0
    evaluate_every: Count = 2
    selection: Selection = "last"
    settings: Literal["given", "best-on-test"] = "given"
    held_out: Annotated[float, Ge(0), Lt(1)] = 0.0
    saved_as: Literal["float32", "float16"] = "float32"

    @property
    def is_embedded(self) -> bool:
        """Return whether the data come with a library, as all do that are not below a data root."""
        dataset = DATASETS.get(self.dataset)
        return dataset is not None and dataset.folder is None

    @property
    def variant(self) -> str:
        """Return that the weights were selected on the test split, if they were."""
        return "selected on test" if "best-on-test" in (self.selection, self.settings) else ""

    @property
    def caveat(self) -> str:
        """Return that weights or settings were selected on the test split, if they were."""
        chosen = {
            "the weights are those of the epoch": self.selection,
            "the settings are those of the grid": self.settings,
        }
        if words := " and ".join(each for each, selection in chosen.items() if selection == "best-on-test"):
            split = "with the best accuracy on the test split, as in the paper's code"
            return f"selected on test: {words} {split}, so that accuracy there is not that of new data"
        return ""

    def contradictions(self) -> list[FieldProblem]:
        """Refuse a held-out part without its selection, and a warm-up that is not the beginning of one cycle."""
        problems: list[FieldProblem] = []
        if self.held_out and self.selection != "best-on-split":
            problems.append(("held_out", f"must be left out without selection best-on-split, got {self.held_out:g}"))
        if (self.schedule == "one-cycle") != bool(self.warmup_steps):
            wanted = "above 0 with" if self.schedule == "one-cycle" else "left out without"
            problems.append(("warmup_steps", f"must be {wanted} schedule one-cycle, got {self.warmup_steps}"))
        if self.schedule == "one-cycle" and self.steps_per_epoch is None:
            problems.append(("steps_per_epoch", "must be given with schedule one-cycle, got null"))
        num_steps = self.num_epochs * (self.steps_per_epoch or 0)
        if self.schedule == "one-cycle" and 0 < num_steps <= self.warmup_steps:
            wrong = f"must be below num_epochs times steps_per_epoch, {num_steps:,}, got"
            problems.append(("warmup_steps", f"{wrong} {self.warmup_steps:,}"))
        return problems
