"""Base class of the declarations of training on embedded texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le, Lt

from robench.declarations.base import LARGEST, SEEDS
from robench.training.base import Count, NotNegative, Share, TrainingBase


@dataclass(frozen=True, slots=True, kw_only=True)
class WordTraining(TrainingBase):
    """Training by AdamW with linear warm-up and cosine decay on one dataset's training texts.

    The vocabulary is made of the training texts: the words that occur at least ``min_count`` times, by frequency, ties
    by first occurrence, and at most as many as the model has.

    Attributes:
        learning_rate: peak learning rate; ``weight_decay``: weight decay of matrices, embeddings excluded.
        warmup_share: part of all steps over which the learning rate increases from zero.
        saved_as: type of the numbers in the file of weights.
    """

    is_embedded: ClassVar[bool] = True

    dataset: str
    seed: Annotated[int, Ge(0), Lt(SEEDS)]
    num_epochs: Count
    batch_size: Count
    learning_rate: Annotated[float, Gt(0), Le(LARGEST)]
    weight_decay: NotNegative = 0.05
    warmup_share: Share = 0.05
    min_count: Count = 3
    saved_as: Literal["float32", "float16"] = "float16"
