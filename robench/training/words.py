"""Base class of the declarations of training on texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt

from robench.datasets import DATASETS
from robench.declarations.base import LARGEST, SEEDS
from robench.training.base import Count, NotNegative, Share, TrainingBase

LEAST_COUNT = 3


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
    warmup_share: Share = 0.05
    auxiliary_weight: NotNegative = 0.0
    min_count: Count = LEAST_COUNT
    saved_as: Literal["float32", "float16"] = "float16"

    @property
    def is_embedded(self) -> bool:
        """Return whether the texts come with a library, as all do that are not below a data root."""
        dataset = DATASETS.get(self.dataset)
        return dataset is None or dataset.folder is None
