"""Declaration of the training of classifiers on labelled texts."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Lt

from robench.core.checkpoint import Weights
from robench.declarations.base import FieldProblem
from robench.training.base import LEAST_COUNT, Proportion, WordTraining


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTraining(WordTraining):
    """Training of classifiers on labelled texts; the scores of each epoch are those of the validation split.

    Attributes:
        unknown_rate: probability with which a word is replaced by the unknown word, drawn in each epoch.
        loss: ``cross-entropy`` of the logits, or of their softmax in place of the logits (``double-softmax``), as in
            the code of MomentumSMoE.
        label_smoothing: fraction of the target spread over all classes.
        initial_weights: weights of a language model of the same sizes, with which a causal classifier starts
            (``text_impl.py``). The vocabulary then is the language model's, and ``min_count`` is not used.
    """

    kind: ClassVar[str] = "text-training"
    implementation: ClassVar[str] = "robench.training.text_impl:train"

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
