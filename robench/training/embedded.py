"""Declaration of the training of models on embedded data."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt, Le, Lt

from robench.declarations.base import LARGEST, SEEDS
from robench.training.base import Count, ImageTraining, NotNegative


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
