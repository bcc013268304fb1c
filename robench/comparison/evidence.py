"""Tests of whether two models' numbers differ by chance: McNemar's of binary outcomes, else a permutation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from robench.comparison.intervals import Difference, difference_of
from robench.comparison.pairing import Paired, pair
from robench.comparison.permutation import NUM_DRAWS, Permuted, permuted
from robench.comparison.swapped_outcomes import permuted_readings
from robench.metrics.paired import discordant, exact_p_value, tail_p_value

if TYPE_CHECKING:
    from robench.metrics import Metric, Readings

MCNEMAR = "exact McNemar"
PERMUTATION = "paired permutation"


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Two models' numbers on the same examples, ready to be tested.

    Attributes:
        lower_is_better: whether a smaller number is the better one.
        paired: contributions of both; None of a metric that does not state them.
        drawn: differences under random swaps; None of binary outcomes, whose test is exact.
    """

    lower_is_better: bool
    paired: Paired | None
    drawn: Permuted | None

    @property
    def test(self) -> str:
        """Name of the test."""
        return MCNEMAR if self.drawn is None else PERMUTATION

    @property
    def difference(self) -> Difference:
        """Difference of the first number and the second, with its interval."""
        if self.paired is not None:
            return difference_of(self.paired)
        assert self.drawn is not None
        return Difference(value=self.drawn.observed, low=None, high=None, method="none")

    @property
    def p_value(self) -> float:
        """Two-sided p-value that the numbers differ by chance alone, in (0, 1]."""
        if self.drawn is not None:
            return self.drawn.two_sided
        assert self.paired is not None
        return exact_p_value(*self.paired.verdicts)

    @property
    def worse_p_value(self) -> float:
        """One-sided p-value that the second model is worse than the first by chance alone, in (0, 1]."""
        if self.drawn is not None:
            return self.drawn.less if self.lower_is_better else self.drawn.greater
        only_first, only_second = self.flips
        return tail_p_value(only_first, only_first + only_second)

    @property
    def flips(self) -> tuple[int, int]:
        """Number of examples that only the first model is right about, and only the second; of binary outcomes."""
        assert self.paired is not None
        return discordant(*self.paired.verdicts)

    @property
    def flipped_ids(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Ids of the same examples, sorted."""
        assert self.paired is not None
        first, second = self.paired.verdicts
        ids = self.paired.samples[0].ids
        return tuple(ids[first & ~second].tolist()), tuple(ids[second & ~first].tolist())

    def probability_of_loss_above(self, loss: float) -> float:
        """Return the probability that chance alone makes the second model worse by more than ``loss``.

        Chance swaps both models on every example, which leaves the number of examples that changed as it is.
        """
        if self.drawn is not None:
            losses = -self.drawn.drawn if self.lower_is_better else self.drawn.drawn
            return float((~(losses <= loss + 1e-12)).mean())
        assert self.paired is not None
        num_changed, num_examples = sum(self.flips), len(self.paired.samples[0].ids)
        # The fewest newly wrong examples w for which w - (changed - w) exceeds the loss.
        fewest = int((loss * num_examples + num_changed + 1e-9) // 2) + 1
        return tail_p_value(fewest, num_changed) if fewest <= num_changed else 0.0


def evidence_of(metric: Metric, first: Readings, second: Readings, where: str, num_draws: int = NUM_DRAWS) -> Evidence:
    """Return the evidence on one column.

    Args:
        metric: metric of the column.
        first: outcomes that the column reads of the first model.
        second: outcomes that it reads of the second.
        where: name of the column in messages.
        num_draws: number of draws of a permutation.

    Raises:
        IncomparableError: the examples are not the same.
        IncompleteError, ContractError: as of the metric.
    """
    one, other = metric.contributed(first), metric.contributed(second)
    if one is None or other is None:
        return Evidence(metric.lower_is_better, None, permuted_readings(metric, first, second, num_draws))
    return evidence_of_pair(pair(one, other, where), lower_is_better=metric.lower_is_better, num_draws=num_draws)


def evidence_of_pair(paired: Paired, *, lower_is_better: bool, num_draws: int = NUM_DRAWS) -> Evidence:
    """Return the evidence on a column whose contributions are paired; see ``evidence_of``."""
    return Evidence(lower_is_better, paired, None if paired.is_binary else permuted(paired, num_draws))
