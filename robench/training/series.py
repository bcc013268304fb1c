"""Declaration of the training of models of time series."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le, Lt

from robench.declarations.base import LARGEST, SEEDS, FieldProblem
from robench.training.base import Count, NotNegative, TrainingBase

Selection = Literal["last", "best-on-test", "best-on-split"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesTraining(TrainingBase):
    """Training at a constant learning rate, without weight decay, as in the code of Primal-Attention for UEA series.

    Attributes:
        batch_size: number of series per step; the last step of an epoch has the rest.
        learning_rate: learning rate of all steps.
        optimizer: RAdam (Liu et al. 2020, arXiv:1908.03265) or Adam.
        clip_grad: maximum norm of a step's gradient, null for none.
        auxiliary_weight: weight of the layers' mean auxiliary loss beside the cross-entropy.
        evaluate_every: number of epochs from one scoring to the next; the last epoch is scored as well.
        selection: weights that are published: those of the ``last`` epoch; those of the scored epoch with the highest
            accuracy on the test split, the first of several (``best-on-test``), as published numbers of the UEA archive
            are; or on a part of the training split that is not learned from (``best-on-split``).
        held_out: proportion of the training split that ``best-on-split`` scores, drawn by the seed.
        saved_as: type of the numbers in the file of weights.
    """

    kind: ClassVar[str] = "series-training"
    implementation: ClassVar[str] = "robench.training.series_impl:train"
    keeps_epochs: ClassVar[bool] = True

    dataset: str
    seed: Annotated[int, Ge(0), Lt(SEEDS)]
    num_epochs: Count
    batch_size: Count = 16
    learning_rate: Annotated[float, Gt(0), Le(LARGEST)] = 0.001
    optimizer: Literal["radam", "adam"] = "radam"
    clip_grad: Annotated[float | None, Gt(0), Le(LARGEST)] = 4.0
    auxiliary_weight: NotNegative = 0.0
    evaluate_every: Count = 2
    selection: Selection = "last"
    held_out: Annotated[float, Ge(0), Lt(1)] = 0.0
    saved_as: Literal["float32", "float16"] = "float32"

    @property
    def variant(self) -> str:
        """Return that the weights were selected on the test split, if they were."""
        return "selected on test" if self.selection == "best-on-test" else ""

    def contradictions(self) -> list[FieldProblem]:
        """Refuse a held-out part without its selection, and the selection without one."""
        if (self.selection == "best-on-split") == bool(self.held_out):
            return []
        wanted = "above 0 with" if self.selection == "best-on-split" else "left out without"
        return [("held_out", f"must be {wanted} selection best-on-split, got {self.held_out:g}")]
