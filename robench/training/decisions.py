"""Declaration of the training of policies on sets of trajectories."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le, Lt

from robench.core.errors import did_you_mean
from robench.datasets.trajectories import OFFLINE_SETS
from robench.declarations.base import LARGEST, SEEDS, FieldProblem
from robench.training.base import Count, NotNegative, TrainingBase


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionTraining(TrainingBase):
    """Training of a policy to predict the actions of a set of trajectories, by AdamW at a constant rate.

    The defaults are those of the Decision Transformer's code (Chen et al. 2021), with the learning rate of the code of
    Primal-Attention.

    Attributes:
        dataset: name of the environment in which the policy is measured.
        trajectories: name of the set of trajectories.
        num_epochs: number of epochs; ``steps_per_epoch``: number of steps of each.
        batch_size: number of windows of a step, drawn from episodes in proportion to their lengths.
        learning_rate: learning rate after the warm-up; ``warmup_steps``: number of steps over which it rises linearly.
        weight_decay: of all parameters; ``clip_grad``: maximum norm of a step's gradient, null for none.
        auxiliary_weight: weight of the layers' mean auxiliary loss beside the squared error of actions.
        saved_as: type of the numbers in the file of weights.
    """

    kind: ClassVar[str] = "decision-training"
    implementation: ClassVar[str] = "robench.training.decisions_impl:train"
    keeps_epochs: ClassVar[bool] = True

    dataset: str
    trajectories: str
    seed: Annotated[int, Ge(0), Lt(SEEDS)]
    num_epochs: Count = 100
    steps_per_epoch: Count = 1000
    batch_size: Count = 64
    learning_rate: Annotated[float, Gt(0), Le(LARGEST)] = 1e-3
    warmup_steps: Annotated[int, Ge(0), Le(LARGEST)] = 10_000
    weight_decay: NotNegative = 1e-4
    clip_grad: Annotated[float | None, Gt(0), Le(LARGEST)] = 0.25
    auxiliary_weight: NotNegative = 0.0
    saved_as: Literal["float32", "float16"] = "float32"

    @property
    def is_embedded(self) -> bool:
        """Return whether the trajectories are generated."""
        return self.trajectories in OFFLINE_SETS and OFFLINE_SETS[self.trajectories].folder is None

    def contradictions(self) -> list[FieldProblem]:
        """Refuse a set of trajectories that does not exist."""
        if self.trajectories in OFFLINE_SETS:
            return []
        hint = did_you_mean(self.trajectories, OFFLINE_SETS)
        return [("trajectories", f"must be a set of trajectories, got {self.trajectories!r}.{hint}")]
