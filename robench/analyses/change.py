"""Analyses of the change of attention and tokens by a perturbation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from robench.analyses.base import AnalysisBase, Part, Statistic, Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionChange(AnalysisBase):
    """Distance by which a perturbation moves the attention of each head, and the tokens between blocks.

    Attention moves by the total variation distance of each token's weights, the mean over tokens: 0 if none move, 1 if
    all go to other tokens; of weights that are signed, of their sizes. Tokens move by the length of their change over
    their own; layer 0 is what enters the first block.
    """

    kind: ClassVar[str] = "attention-change"
    implementation: ClassVar[str] = "robench.analyses.change_impl:attention_change"
    title: ClassVar[str] = "how far a perturbation moves attention and tokens"
    subject: ClassVar[Subject] = "change"
    needs: ClassVar[tuple[Part, ...]] = ("weights", "tokens")
    statistics: ClassVar[Mapping[str, Statistic]] = {
        "attention_change": Statistic(meaning="total variation distance", axes=("layer", "head")),
        "token_change": Statistic(meaning="change (0: embedding)", axes=("layer",)),
    }
