"""Analyses with one mistake each, as declarations without torch; what computes them is in ``planted_analyses_impl``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from robench.analyses.base import AnalysisBase, Part, Statistic, Subject

IMPL = "planted_analyses_impl"


@dataclass(frozen=True, slots=True, kw_only=True)
class HonestAnalysis(AnalysisBase):
    kind: ClassVar[str] = "planted"
    implementation: ClassVar[str] = f"{IMPL}:honest"
    title: ClassVar[str] = "largest weights"
    needs: ClassVar[tuple[Part, ...]] = ("weights",)
    statistics: ClassVar[Mapping[str, Statistic]] = {
        "largest": Statistic(meaning="largest weight", axes=("layer", "head"))
    }


class LeavesOneOut(HonestAnalysis):
    implementation = f"{IMPL}:leaves_one_out"


class ForgetsHeads(HonestAnalysis):
    implementation = f"{IMPL}:forgets_heads"


class CountsInIntegers(HonestAnalysis):
    implementation = f"{IMPL}:counts_in_integers"


class DividesByZero(HonestAnalysis):
    implementation = f"{IMPL}:divides_by_zero"


class MixesExamples(HonestAnalysis):
    implementation = f"{IMPL}:mixes_examples"


class WritesIntoWeights(HonestAnalysis):
    implementation = f"{IMPL}:writes_into_weights"


class DrawsNumbers(HonestAnalysis):
    implementation = f"{IMPL}:draws_numbers"


class ReadsValues(HonestAnalysis):
    implementation = f"{IMPL}:reads_values"


class LacksALabel(HonestAnalysis):
    statistics: ClassVar[Mapping[str, Statistic]] = {
        "largest": Statistic(meaning="largest weight", axes=("layer", "x"))
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class HonestFormula(AnalysisBase):
    kind: ClassVar[str] = "planted"
    implementation: ClassVar[str] = f"{IMPL}:parabola"
    title: ClassVar[str] = "a parabola"
    subject: ClassVar[Subject] = "formula"
    statistics: ClassVar[Mapping[str, Statistic]] = {
        "square": Statistic(meaning="square", axes=("x",), x="number", is_of_examples=False)
    }


class WithoutPlaces(HonestFormula):
    implementation = f"{IMPL}:without_places"
