"""Analyses of the weights of attention, row by row."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from robench.analyses.base import AnalysisBase, Part, Statistic


@dataclass(frozen=True, slots=True, kw_only=True)
class Entropy(AnalysisBase):
    """Entropy of the weights of each token, the mean over tokens; of weights that are signed, of their sizes."""

    kind: ClassVar[str] = "entropy"
    implementation: ClassVar[str] = "robench.analyses.weights_impl:entropy"
    title: ClassVar[str] = "how widely each token's attention is spread"
    needs: ClassVar[tuple[Part, ...]] = ("weights",)
    statistics: ClassVar[Mapping[str, Statistic]] = {
        "entropy": Statistic(meaning="entropy of attention", unit="nats", axes=("layer", "head")),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionDistance(AnalysisBase):
    """Distance of a token from the tokens it attends to, the mean by the sizes of its weights.

    Of images it is the Euclidean distance between centres of patches, in patches, without class and distillation
    tokens; of other inputs it is |i - j|, in tokens.

    Source: Dosovitskiy et al. 2021, arXiv:2010.11929, figure 7, which has it in pixels: times the size of a patch.
    """

    kind: ClassVar[str] = "attention-distance"
    implementation: ClassVar[str] = "robench.analyses.weights_impl:attention_distance"
    title: ClassVar[str] = "how far from each token its attention reaches"
    needs: ClassVar[tuple[Part, ...]] = ("weights",)
    statistics: ClassVar[Mapping[str, Statistic]] = {
        "distance": Statistic(meaning="mean distance", unit="patches or tokens", axes=("layer", "head")),
    }
