"""Declarations of the training of language models and classifiers on texts."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le, Lt

from robench.core.checkpoint import Weights
from robench.datasets import DATASETS
from robench.declarations.base import LARGEST, SEEDS, FieldProblem
from robench.training.base import Count, NotNegative, Proportion, TrainingBase

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
    warmup_share: Proportion = 0.05
    auxiliary_weight: NotNegative = 0.0
    min_count: Count = LEAST_COUNT
    saved_as: Literal["float32", "float16"] = "float16"

    @property
    def is_embedded(self) -> bool:
        """Return whether the texts come with a library, as all do that are not below a data root."""
        dataset = DATASETS.get(self.dataset)
        return dataset is None or dataset.folder is None


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageTraining(WordTraining):
    """Training of language models on windows of texts, ``batch_size`` windows of the model's context a step.

    An epoch passes all windows, which begin at a new random place in each epoch. The scores of each epoch are the mean
    loss of the first words of the validation split, in windows without overlap.
    """

    kind: ClassVar[str] = "language-training"
    implementation: ClassVar[str] = "robench.training.texts_impl:train"
    keeps_epochs: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTraining(WordTraining):
    """Training of classifiers on labelled texts; the scores of each epoch are those of the validation split.

    Attributes:
        unknown_rate: probability with which a word is replaced by the unknown word, drawn in each epoch.
        loss: ``cross-entropy`` of the logits, or of their softmax in place of the logits (``double-softmax``), as in
            the code of MomentumSMoE.
        label_smoothing: fraction of the target spread over all classes.
        initial_weights: weights of a language model of the same sizes, with which a causal classifier starts
            (``texts_impl.py``). The vocabulary then is the language model's, and ``min_count`` is not used.
    """

    kind: ClassVar[str] = "text-training"
    implementation: ClassVar[str] = "robench.training.texts_impl:train"
    keeps_epochs: ClassVar[bool] = True

    unknown_rate: Annotated[float, Ge(0), Lt(1)] = 0.0
    loss: Literal["cross-entropy", "double-softmax"] = "cross-entropy"
    label_smoothing: Proportion = 0.0
    initial_weights: Weights | None = None

    def contradictions(self) -> list[FieldProblem]:
        """Refuse a vocabulary beside that of the initial weights."""
        if self.initial_weights is not None and self.min_count != LEAST_COUNT:
            wrong = f"must be left out, since the vocabulary is that of initial_weights, got {self.min_count}"
            return [("min_count", wrong)]
        return []
