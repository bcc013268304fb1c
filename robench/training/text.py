"""Declaration of the training of classifiers on embedded texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Lt

from robench.training.base import NotNegative, Share
from robench.training.words import WordTraining


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTraining(WordTraining):
    """Training of classifiers on labelled texts; the scores of each epoch are those of the validation split.

    Attributes:
        unknown_rate: probability with which a word is replaced by the unknown word, drawn in each epoch.
        label_smoothing: fraction of the target spread over all classes.
        auxiliary_weight: weight of the layers' mean auxiliary loss beside the cross-entropy.
    """

    kind: ClassVar[str] = "text-training"
    implementation: ClassVar[str] = "robench.training.text_impl:train"

    unknown_rate: Annotated[float, Ge(0), Lt(1)] = 0.0
    label_smoothing: Share = 0.0
    auxiliary_weight: NotNegative = 0.0
