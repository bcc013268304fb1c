"""Analyses of the weights of attention."""

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
