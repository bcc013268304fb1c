"""Declarations of the training of language models and classifiers on texts."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, Self

from annotated_types import Ge, Gt, Le, Lt

from robench.core.checkpoint import Weights
from robench.datasets import DATASETS
from robench.declarations.base import LARGEST, SEEDS, FieldProblem
from robench.training.base import NO_PENALTY, Count, NotNegative, Proportion, SpectralWeights, TrainingBase

LEAST_COUNT = 3
USUAL_WARMUP = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class WordTraining(TrainingBase):
    """Training by AdamW with linear warm-up and cosine decay on one dataset's training texts.

    The vocabulary is made of the training texts: the words that occur at least ``min_count`` times, by frequency, ties
    by first occurrence, and at most as many as the model has. A model of word pieces takes those of a file.

    Attributes:
        num_epochs: number of passes through the texts.
        batch_size: number of texts, or of a language model's windows, per step; the last of an epoch has the rest.
        min_count: number of occurrences from which a word is in the vocabulary.
        learning_rate: peak learning rate; ``weight_decay``: weight decay of matrices, embeddings excluded.
        num_steps: number of steps after which training ends, in the last epoch; null for whole epochs.
        warmup_share: part of all steps over which the learning rate increases from zero.
        warmup_steps: number of these steps, in place of ``warmup_share``.
        schedule: learning rate after the warm-up. ``cosine-after-warmup``: half a cosine from the peak down to zero;
            ``cosine``: half a cosine over all steps, the warm-up's included, as in the code of Transformer-XL;
            ``constant``: the peak.
        clip_grad: maximum norm of a step's gradient, null for none.
        auxiliary_weight: weight of the layers' mean auxiliary loss beside the loss, such as the balance of experts.
        spectral_penalty: weights of the squared largest singular values of the projections of queries, keys and values,
            summed over heads and layers, beside the loss (``spectral.py``); zeros for none.
        saved_as: type of the numbers in the file of weights.
        vocabulary: file of word pieces, one a line (``vocab.txt`` of a BERT model), of a model that reads them.
    """

    dataset: str
    seed: Annotated[int, Ge(0), Lt(SEEDS)]
    num_epochs: Count
    batch_size: Count
    learning_rate: Annotated[float, Gt(0), Le(LARGEST)]
    weight_decay: NotNegative = 0.05
    num_steps: Count | None = None
    warmup_share: Proportion = USUAL_WARMUP
    warmup_steps: Annotated[int | None, Ge(0), Le(LARGEST)] = None
    schedule: Literal["cosine-after-warmup", "cosine", "constant"] = "cosine-after-warmup"
    clip_grad: Annotated[float | None, Gt(0), Le(LARGEST)] = 1.0
    auxiliary_weight: NotNegative = 0.0
    spectral_penalty: SpectralWeights = NO_PENALTY
    min_count: Count = LEAST_COUNT
    saved_as: Literal["float32", "float16"] = "float16"
    vocabulary: Weights | None = None

    @property
    def is_embedded(self) -> bool:
        """Return whether the texts come with a library, as all do that are not below a data root."""
        dataset = DATASETS.get(self.dataset)
        return dataset is None or dataset.folder is None

    def shortened(self, num_epochs: int) -> Self:
        """Return the training with the given total number of whole epochs."""
        return replace(self, num_epochs=num_epochs, num_steps=None)

    def contradictions(self) -> list[FieldProblem]:
        """Refuse two lengths of the warm-up, and a number of steps where epochs differ in theirs."""
        problems = []
        if self.warmup_steps is not None and self.warmup_share != USUAL_WARMUP:
            problems.append(("warmup_share", f"must be left out beside warmup_steps, got {self.warmup_share:g}"))
        if self.num_steps is not None and self.is_embedded:
            wrong = f"must be left out for {self.dataset}, whose epochs differ in their number of steps, got"
            problems.append(("num_steps", f"{wrong} {self.num_steps}"))
        if self.vocabulary is not None and self.min_count != LEAST_COUNT:
            problems.append(("min_count", f"must be left out beside vocabulary, got {self.min_count}"))
        return problems


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageTraining(WordTraining):
    """Training of language models on windows of texts, ``batch_size`` windows of the model's context a step.

    An epoch passes all windows, in random order, which begin at a new random place in each epoch. The scores of each
    epoch are the mean loss of the first words of the validation split, in windows without overlap.
    """

    kind: ClassVar[str] = "language-training"
    implementation: ClassVar[str] = "robench.training.texts_impl:train"
    keeps_epochs: ClassVar[bool] = True
    takes_precision: ClassVar[bool] = True


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
    takes_precision: ClassVar[bool] = True

    unknown_rate: Annotated[float, Ge(0), Lt(1)] = 0.0
    loss: Literal["cross-entropy", "double-softmax"] = "cross-entropy"
    label_smoothing: Proportion = 0.0
    initial_weights: Weights | None = None

    def contradictions(self) -> list[FieldProblem]:
        """Refuse a vocabulary beside that of the initial weights, and what all trainings on texts refuse."""
        # Named, since slots make another class of this one.
        problems = WordTraining.contradictions(self)
        if self.initial_weights is not None and self.min_count != LEAST_COUNT:
            wrong = f"must be left out, since the vocabulary is that of initial_weights, got {self.min_count}"
            problems.append(("min_count", wrong))
        if self.initial_weights is not None and self.vocabulary is not None:
            problems.append(("vocabulary", "must be left out, since it is that of initial_weights"))
        return problems
