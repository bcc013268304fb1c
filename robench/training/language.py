"""Declaration of the training of language models on texts."""

from dataclasses import dataclass
from typing import ClassVar

from robench.training.base import WordTraining


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageTraining(WordTraining):
    """Training of language models on windows of texts, ``batch_size`` windows of the model's context a step.

    An epoch passes all windows, which begin at a new random place in each epoch. The scores of each epoch are the mean
    loss of the first words of the validation split, in windows without overlap.
    """

    kind: ClassVar[str] = "language-training"
    implementation: ClassVar[str] = "robench.training.language_impl:train"
