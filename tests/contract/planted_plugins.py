"""Plug-ins with one mistake each, as declarations without torch; what computes them is in ``planted_plugins_impl``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from robench.attacks.base import BoundedAttack, Count, SearchingAttack
from robench.attention.base import AttentionBase
from robench.datasets.base import EmbeddedImages
from robench.declarations.base import PerturbationBase
from robench.metrics import Metric

IMPL = "planted_plugins_impl"


# Attacks. The first of each family is honest, and the others inherit all but what they get wrong.
@dataclass(frozen=True, slots=True, kw_only=True)
class HonestAttack(BoundedAttack):
    kind: ClassVar[str] = "planted"
    implementation: ClassVar[str] = f"{IMPL}:honest_attack"

    num_steps: Count = 3


class ExceedsBudget(HonestAttack):
    implementation = f"{IMPL}:exceeds_budget"


class ExceedsBudgetByRounding(HonestAttack):
    implementation = f"{IMPL}:exceeds_budget_by_rounding"


class LeavesTheBox(HonestAttack):
    implementation = f"{IMPL}:leaves_the_box"


class MovesPadding(HonestAttack):
    implementation = f"{IMPL}:moves_padding"


class DrawsFromTorch(HonestAttack):
    implementation = f"{IMPL}:draws_from_torch"


class DrawsFromNumpy(HonestAttack):
    implementation = f"{IMPL}:draws_from_numpy"


class DrawsFromRandom(HonestAttack):
    implementation = f"{IMPL}:draws_from_random"


class SeedsTorch(HonestAttack):
    implementation = f"{IMPL}:seeds_torch"


class DependsOnNeighbours(HonestAttack):
    implementation = f"{IMPL}:depends_on_neighbours"


class DependsOnItsPlace(HonestAttack):
    implementation = f"{IMPL}:depends_on_its_place"


class ReturnsFloat64(HonestAttack):
    implementation = f"{IMPL}:returns_float64"


class ReturnsAnotherShape(HonestAttack):
    implementation = f"{IMPL}:returns_another_shape"


class WritesIntoTheBatch(HonestAttack):
    implementation = f"{IMPL}:writes_into_the_batch"


class HasMemory(HonestAttack):
    implementation = f"{IMPL}:has_memory"


class Descends(HonestAttack):
    implementation = f"{IMPL}:descends"


class HidesPasses(HonestAttack):
    implementation = f"{IMPL}:hides_passes"


class RepeatsItsAddress(HonestAttack):
    implementation = f"{IMPL}:repeats_its_address"


class UsesThePrediction(HonestAttack):
    implementation = f"{IMPL}:uses_the_prediction"


class MovesAtZero(HonestAttack):
    implementation = f"{IMPL}:moves_at_zero"


class ClimbsLogits(HonestAttack):
    implementation = f"{IMPL}:climbs_logits"


class Raises(HonestAttack):
    implementation = f"{IMPL}:raises"


class NotThere(HonestAttack):
    implementation = f"{IMPL}:nothing_of_this_name"


class AcceptsAnything(HonestAttack):
    def __post_init__(self) -> None:
        """Check nothing."""


class NeverEqual(HonestAttack):
    __hash__ = HonestAttack.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutBounds(HonestAttack):
    strength: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverStops(SearchingAttack):
    kind: ClassVar[str] = "planted"
    implementation: ClassVar[str] = f"{IMPL}:honest_attack"

    num_steps: Count = 3


# Corruptions.
@dataclass(frozen=True, slots=True, kw_only=True)
class HonestCorruption(PerturbationBase):
    kind: ClassVar[str] = "planted"
    implementation: ClassVar[str] = f"{IMPL}:honest_corruption"

    severity: Annotated[int, Ge(1), Le(5)]

    @property
    def corruption(self) -> tuple[str, int] | None:
        """Type and severity."""
        return self.kind, self.severity


class OutOfRange(HonestCorruption):
    implementation = f"{IMPL}:out_of_range"


class CorruptsInDouble(HonestCorruption):
    implementation = f"{IMPL}:corrupts_in_double"


class DimsByTheBatch(HonestCorruption):
    implementation = f"{IMPL}:dims_by_the_batch"


class CorruptsGlobally(HonestCorruption):
    implementation = f"{IMPL}:corrupts_globally"


class CorruptsInPlace(HonestCorruption):
    implementation = f"{IMPL}:corrupts_in_place"


class CutsACorner(HonestCorruption):
    implementation = f"{IMPL}:cuts_a_corner"


class KnowsNoSeverity(HonestCorruption):
    implementation = f"{IMPL}:knows_no_severity"


class DoesNothing(HonestCorruption):
    implementation = f"{IMPL}:does_nothing"


class AsksTheModel(HonestCorruption):
    implementation = f"{IMPL}:asks_the_model"


class NamesNoSeverity(HonestCorruption):
    @property
    def corruption(self) -> tuple[str, int] | None:
        """Nothing."""
        return None


# Attention.
@dataclass(frozen=True, slots=True, kw_only=True)
class HonestAttention(AttentionBase):
    kind: ClassVar[str] = "planted"
    implementation: ClassVar[str] = f"{IMPL}:HonestModule"


class MixesRows(HonestAttention):
    implementation = f"{IMPL}:MixesRows"


class ClaimsToMix(HonestAttention):
    @property
    def is_coupled(self) -> bool:
        """A claim."""
        return True


class DropsATokens(HonestAttention):
    implementation = f"{IMPL}:DropsATokens"


class ReturnsDouble(HonestAttention):
    implementation = f"{IMPL}:ReturnsDouble"


class DividesByZero(HonestAttention):
    implementation = f"{IMPL}:DividesByZero"


class DrawsNoise(HonestAttention):
    implementation = f"{IMPL}:DrawsNoise"


class WritesIntoTokens(HonestAttention):
    implementation = f"{IMPL}:WritesIntoTokens"


class KeepsAHiddenState(HonestAttention):
    implementation = f"{IMPL}:KeepsAHiddenState"


class HasADeadParameter(HonestAttention):
    implementation = f"{IMPL}:HasADeadParameter"


class ShowsOtherWeights(HonestAttention):
    implementation = f"{IMPL}:ShowsOtherWeights"


class DeclaresNoParameters(HonestAttention):
    implementation = f"{IMPL}:DeclaresNoParameters"


# Datasets.
HONEST_DATASET = EmbeddedImages(
    name="planted",
    title="Noise",
    task="classification",
    num_classes=3,
    num_examples=12,
    source="tests",
    licence="none",
    image_size=4,
    maker=f"{IMPL}:honest_dataset",
)
DATASETS_WITH_A_BUG = {
    name: replace(HONEST_DATASET, maker=f"{IMPL}:{name}")
    for name in (
        "twice_the_same_id",
        "in_its_own_order",
        "in_255_levels",
        "in_double_precision",
        "with_a_class_too_many",
        "of_another_name",
        "one_example_short",
        "drawn_at_random",
        "batch_of_other_images",
        "that_lends_its_memory",
        "with_short_batches",
        "without_a_digest",
        "with_whatever_it_read_ahead",
        "that_raises_when_it_reads_ahead",
    )
}


# Metrics.
HONEST_METRIC = Metric(
    name="planted",
    title="planted",
    unit="share",
    task="classification",
    scope="condition",
    implementation=f"{IMPL}_metrics:honest_metric",
    contributions=f"{IMPL}_metrics:honest_contributions",
)
METRICS_WITH_A_BUG = {
    name: replace(HONEST_METRIC, implementation=f"{IMPL}_metrics:{name}")
    for name in (
        "in_per_cent",
        "outside_its_interval",
        "of_nothing",
        "by_the_first_example",
        "that_sorts_in_place",
        "that_draws",
        "as_a_float",
        "of_another_unit",
        "of_half_of_them",
        "of_any_task",
        "not_a_number",
    )
} | {
    "with_torch": replace(HONEST_METRIC, implementation=f"{IMPL}:with_torch"),
    "of_other_contributions": replace(HONEST_METRIC, contributions=f"{IMPL}_metrics:other_contributions"),
}
