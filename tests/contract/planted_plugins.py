"""Plug-ins with one mistake each, as declarations without torch; what computes them is in ``planted_plugins_impl``."""

import re
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from robench.attacks.base import BoundedAttack, Count, SearchingAttack
from robench.attention.base import AttentionBase
from robench.datasets.base import EmbeddedImages
from robench.declarations.base import PerturbationBase
from robench.declarations.supports import Patches
from robench.metrics import Metric

IMPL = "planted_plugins_impl"


# Attacks. The first of each family is honest, and the others inherit all but what they get wrong.
@dataclass(frozen=True, slots=True, kw_only=True)
class HonestAttack(BoundedAttack):
    kind: ClassVar[str] = "planted"
    implementation: ClassVar[str] = f"{IMPL}:honest_attack"

    num_steps: Count = 3


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


class PeeksAtScores(HonestAttack):
    implementation = f"{IMPL}:peeks_at_scores"
    sees_labels_alone = True


class LeavesThePatch(HonestAttack):
    support = Patches(size=2)  # type: ignore[assignment]


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


class ClaimsToMix(HonestAttention):
    @property
    def is_coupled(self) -> bool:
        """A claim."""
        return True


def with_mistakes(honest: type, names: str) -> None:
    """Declare a class for each name, whose implementation has that name, of functions in small letters."""
    for name in names.split():
        function = name if honest is HonestAttention else re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()
        fields = {"__module__": __name__, "implementation": f"{IMPL}:{function}"}
        globals()[name] = type(name, (honest,), fields)


with_mistakes(
    HonestAttack,
    """
    ExceedsBudget ExceedsBudgetByRounding LeavesTheBox MovesPadding DrawsFromTorch DrawsFromNumpy DrawsFromRandom
    SeedsTorch DependsOnNeighbours DependsOnItsPlace ReturnsFloat64 ReturnsAnotherShape WritesIntoTheBatch HasMemory
    Descends HidesPasses RepeatsItsAddress UsesThePrediction MovesAtZero ClimbsLogits Raises
    """,
)
with_mistakes(
    HonestCorruption,
    """
    OutOfRange CorruptsInDouble DimsByTheBatch CorruptsGlobally CorruptsInPlace CutsACorner KnowsNoSeverity
    DoesNothing AsksTheModel
    """,
)
with_mistakes(
    HonestAttention,
    """
    MixesRows DropsATokens ReturnsDouble DividesByZero DrawsNoise WritesIntoTokens KeepsAHiddenState
    HasADeadParameter ShowsOtherWeights DeclaresNoParameters
    """,
)


# Datasets.
HONEST_DATASET = EmbeddedImages(
    name="planted", title="Noise", task="classification", num_classes=3, num_examples=12, source="tests",
    licence="none", image_size=4, maker=f"{IMPL}:honest_dataset",
)  # fmt: skip
DATASETS_WITH_A_BUG = {
    name: replace(HONEST_DATASET, maker=f"{IMPL}:{name}")
    for name in (
        "twice_the_same_id", "in_its_own_order", "in_255_levels", "in_double_precision", "with_a_class_too_many",
        "of_another_name", "one_example_short", "drawn_at_random", "batch_of_other_images", "that_lends_its_memory",
        "with_short_batches", "without_a_digest", "with_whatever_it_read_ahead", "that_raises_when_it_reads_ahead",
    )
}  # fmt: skip


# Metrics.
HONEST_METRIC = Metric(
    name="planted", title="planted", unit="share", task="classification", scope="condition",
    implementation=f"{IMPL}_metrics:honest_metric", contributions=f"{IMPL}_metrics:honest_contributions",
)  # fmt: skip
METRICS_WITH_A_BUG = {
    name: replace(HONEST_METRIC, implementation=f"{IMPL}_metrics:{name}")
    for name in (
        "in_per_cent", "outside_its_interval", "of_nothing", "by_the_first_example", "that_sorts_in_place",
        "that_draws", "as_a_float", "of_another_unit", "of_half_of_them", "of_any_task", "not_a_number",
    )
} | {
    "with_torch": replace(HONEST_METRIC, implementation=f"{IMPL}:with_torch"),
    "of_other_contributions": replace(HONEST_METRIC, contributions=f"{IMPL}_metrics:other_contributions"),
}  # fmt: skip
