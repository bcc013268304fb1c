"""Declarations of the training of models on images, or other inputs, in memory."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le, Lt

from robench.core.budgets import spelling_of
from robench.declarations.base import LARGEST, SEEDS, FieldProblem
from robench.domains import Domain
from robench.training.base import NO_PENALTY, Budget, Count, NotNegative, Proportion, SpectralWeights, TrainingBase


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageTraining(TrainingBase):
    """Fields of trainings on images in memory.

    Attributes:
        label_smoothing: fraction of the target spread over all classes.
        auxiliary_weight: weight of the layers' mean auxiliary loss beside the cross-entropy.
        spectral_penalty: weights of the squared largest singular values of the projections of queries, keys and values,
            summed over heads and layers, beside the cross-entropy (``spectral.py``); zeros for none.
        adversarial_epsilon: budget in l-infinity, in pixel units, of adversarial examples that replace the images in
            training (``optimization.py``); 0 for training on the images.
        adversarial_step_size: step length of the search for them, in pixel units; ``adversarial_num_steps``: number of
            steps.
        saved_as: type of the numbers in the file of weights. Half precision halves the file; accuracies of the entry
            are those of the rounded weights.
    """

    # Longest step over the budget.
    longest_step: ClassVar[int] = 1

    label_smoothing: Proportion = 0.0
    auxiliary_weight: NotNegative = 0.0
    spectral_penalty: SpectralWeights = NO_PENALTY
    adversarial_epsilon: Budget = Fraction(0)
    adversarial_step_size: Budget = Fraction(0)
    adversarial_num_steps: Annotated[int, Ge(0), Le(1000)] = 0
    saved_as: Literal["float32", "float16"] = "float32"

    @property
    def is_adversarial(self) -> bool:
        """Return whether adversarial examples replace the images."""
        return bool(self.adversarial_epsilon)

    @property
    def variant(self) -> str:
        """Return the budget of adversarial training, and the weights of a spectral penalty."""
        phrases = []
        if self.adversarial_epsilon:
            phrases.append(f"adversarial training within {spelling_of(self.adversarial_epsilon)}")
        if any(self.spectral_penalty):
            phrases.append(f"spectral penalty {', '.join(f'{each:g}' for each in self.spectral_penalty)}")
        return "; ".join(phrases)

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
class Training(ImageTraining):
    """Training by AdamW with linear warm-up and cosine decay on one dataset's training split.

    Attributes:
        batch_size: number of examples per step.
        learning_rate: peak learning rate; ``weight_decay``: weight decay of parameters with two or more axes.
        warmup_epochs: number of epochs over which the learning rate increases from zero.
        max_shift: maximum random shift of images in pixels in each direction, drawn in each epoch.
        noise_scale: standard deviation, in pixel units, of Gaussian noise drawn in each epoch.
    """

    kind: ClassVar[str] = "training"
    implementation: ClassVar[str] = "robench.training.embedded_impl:train"
    keeps_epochs: ClassVar[bool] = True

    dataset: str
    seed: Annotated[int, Ge(0), Lt(SEEDS)]
    num_epochs: Count
    batch_size: Count
    learning_rate: Annotated[float, Gt(0), Le(LARGEST)]
    weight_decay: NotNegative = 0.05
    warmup_epochs: Annotated[int, Ge(0), Le(LARGEST)] = 2
    max_shift: Annotated[int, Ge(0), Le(4096)] = 0
    noise_scale: NotNegative = 0.0

    @property
    def is_embedded(self) -> bool:
        """Return True."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class OneCycleTraining(ImageTraining):
    """Training by AdamW with one cycle of the learning rate, random crops and flips, resumed after any epoch.

    Attributes:
        num_epochs: number of epochs, the length of the cycle.
        batch_size: number of examples per step; the last step of an epoch has the rest.
        learning_rate: peak learning rate.
        warmup: proportion of all steps over which the learning rate rises linearly to its peak, before it falls to zero
            along half a cosine.
        weight_decay: weight decay of parameters with two or more axes, positions and tokens excluded.
        crop_padding: width in pixels of the black border that images get before they are cropped to their size at a
            random place.
        flip: whether half of the images are mirrored, left to right.
        noise_scale: standard deviation, in pixel units, of Gaussian noise added to the images of each step, which are
            not clipped then: models that are smoothed see such images (Cohen et al. 2019, arXiv:1902.02918).
        held_out: proportion of the training images that is not learned from, drawn by the seed: epochs are scored on
            it, and not on test images, so that recipes can be compared by these scores.
    """

    kind: ClassVar[str] = "one-cycle"
    implementation: ClassVar[str] = "robench.training.one_cycle_impl:train"
    keeps_epochs: ClassVar[bool] = True
    # The step of the fast recipe is 1.25 times the budget; beyond twice the budget a step has the same end.
    longest_step: ClassVar[int] = 2

    dataset: str
    seed: Annotated[int, Ge(0), Lt(SEEDS)]
    num_epochs: Count
    batch_size: Count
    learning_rate: Annotated[float, Gt(0), Le(LARGEST)]
    warmup: Annotated[float, Gt(0), Lt(1)] = 0.15
    weight_decay: NotNegative = 0.05
    crop_padding: Annotated[int, Ge(0), Le(4096)] = 0
    flip: bool = False
    noise_scale: NotNegative = 0.0
    held_out: Annotated[float, Ge(0), Lt(1)] = 0.0
