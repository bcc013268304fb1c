"""Declaration of the training of models on embedded data."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le, Lt

from robench.core.spelling import spelling_of
from robench.declarations.base import LARGEST, SEEDS, FieldProblem
from robench.training.base import Count, NotNegative, Share, TrainingBase

Pixels = Annotated[Fraction, Ge(0), Le(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Training(TrainingBase):
    """Training by AdamW with linear warm-up and cosine decay on one dataset's training split.

    Attributes:
        batch_size: number of examples per step.
        learning_rate: peak learning rate; ``weight_decay``: weight decay of parameters with two or more axes.
        warmup_epochs: number of epochs over which the learning rate increases from zero.
        max_shift: maximum random shift of images in pixels in each direction, drawn in each epoch.
        noise_scale: standard deviation, in pixel units, of Gaussian noise drawn in each epoch.
        label_smoothing: fraction of the target spread over all classes.
        auxiliary_weight: weight of the layers' mean auxiliary loss beside the cross-entropy.
        adversarial_epsilon: budget in l-infinity, in pixel units, of adversarial examples that replace the images in
            training (``adversarial.py``); 0 for training on the images.
        adversarial_step_size: step length of the search for them, in pixel units; ``adversarial_num_steps``: number of
            steps.
        saved_as: type of the numbers in the file of weights. Half precision halves the file; accuracies of the entry
            are those of the rounded weights.
    """

    kind: ClassVar[str] = "training"
    implementation: ClassVar[str] = "robench.training.embedded_impl:train"

    dataset: str
    seed: Annotated[int, Ge(0), Lt(SEEDS)]
    num_epochs: Count
    batch_size: Count
    learning_rate: Annotated[float, Gt(0), Le(LARGEST)]
    weight_decay: NotNegative = 0.05
    warmup_epochs: Annotated[int, Ge(0), Le(LARGEST)] = 2
    max_shift: Annotated[int, Ge(0), Le(4096)] = 0
    noise_scale: NotNegative = 0.0
    label_smoothing: Share = 0.0
    auxiliary_weight: NotNegative = 0.0
    adversarial_epsilon: Pixels = Fraction(0)
    adversarial_step_size: Pixels = Fraction(0)
    adversarial_num_steps: Annotated[int, Ge(0), Le(1000)] = 0
    saved_as: Literal["float32", "float16"] = "float32"

    @property
    def is_embedded(self) -> bool:
        """Return True."""
        return True

    @property
    def variant(self) -> str:
        """Return the budget and steps of adversarial training."""
        if not self.adversarial_epsilon:
            return ""
        return f"adversarial training within {spelling_of(self.adversarial_epsilon)}"

    def contradictions(self) -> list[FieldProblem]:
        """Adversarial examples need a budget, a step no longer than it, and a number of steps; or none of them."""
        fields = (self.adversarial_epsilon, self.adversarial_step_size, self.adversarial_num_steps)
        if any(fields) and not all(fields):
            names = "adversarial_epsilon, adversarial_step_size and adversarial_num_steps"
            return [("", f"{names} must all be positive, or all be left out, got {', '.join(map(str, fields))}")]
        if self.adversarial_step_size > self.adversarial_epsilon:
            message = (
                f"must be at most adversarial_epsilon {self.adversarial_epsilon}, got {self.adversarial_step_size}"
            )
            return [("adversarial_step_size", message)]
        return []
