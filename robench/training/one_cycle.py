"""Declaration of the training of models on images that fit into memory, with one cycle of the learning rate."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Gt, Le, Lt

from robench.declarations.base import LARGEST, SEEDS
from robench.training.base import Count, ImageTraining, NotNegative


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
    """

    kind: ClassVar[str] = "one-cycle"
    implementation: ClassVar[str] = "robench.training.one_cycle_impl:train"
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
