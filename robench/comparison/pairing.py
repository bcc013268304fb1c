"""Contributions of two models to one number, paired by example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from robench.core.errors import IncomparableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from robench.metrics.contributions import Contributions, Statistic


@dataclass(frozen=True, slots=True, eq=False)
class PairedSample:
    """Values of two models on the same examples.

    Attributes:
        ids: ids of the examples (N,).
        first, second: value (N,) of each example for each model.
        purpose: purpose of the bootstrap's draws.
    """

    ids: NDArray[Any]
    first: NDArray[np.float64]
    second: NDArray[np.float64]
    purpose: str


@dataclass(frozen=True, slots=True, eq=False)
class Paired:
    """All that the number of two models depends on, by example.

    Attributes:
        samples: one sample for most metrics, see ``Contributions``.
        statistic: function of one model's values that gives its number.
        is_mean: whether the number is the mean of one value per example.
        is_binary: whether it is the mean of one binary outcome per example.
    """

    samples: tuple[PairedSample, ...]
    statistic: Statistic
    is_mean: bool
    is_binary: bool

    def differences(
        self, first: Sequence[NDArray[np.float64]], second: Sequence[NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """Return the first number less the second for each row of values (rows, N) of each sample.

        It is 0 where both are infinite, and NaN where a number is undefined.
        """
        one, other = self.statistic(first), self.statistic(second)
        with np.errstate(invalid="ignore"):
            return np.where(one == other, 0.0, one - other)

    @property
    def difference(self) -> float:
        """Difference of the first model's number and the second's."""
        first = [sample.first[None] for sample in self.samples]
        return float(self.differences(first, [sample.second[None] for sample in self.samples])[0])

    @property
    def verdicts(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Binary outcomes of both models; of binary numbers only."""
        (sample,) = self.samples
        return sample.first > 0, sample.second > 0


def pair(first: Contributions, second: Contributions, where: str) -> Paired:
    """Return the contributions of two models to one column, paired by example id.

    Args:
        first: contributions to the first model's number.
        second: contributions to the second's, of the same metric.
        where: name of the column in messages.

    Raises:
        IncomparableError: the examples are not the same.
    """
    samples = []
    for one, other in zip(first.samples, second.samples, strict=True):
        order, places = np.argsort(one.ids, kind="stable"), np.argsort(other.ids, kind="stable")
        if len(order) != len(places) or not np.array_equal(one.ids[order], other.ids[places]):
            raise IncomparableError(_difference_of(one.ids, other.ids, where))
        samples.append(
            PairedSample(
                one.ids[order],
                one.values[order].astype(np.float64),
                other.values[places].astype(np.float64),
                one.purpose,
            )
        )
    return Paired(
        tuple(samples), first.statistic, first.is_mean and second.is_mean, first.is_binary and second.is_binary
    )


def _difference_of(first: NDArray[Any], second: NDArray[Any], where: str) -> str:
    strangers = np.setxor1d(first, second).tolist()
    return (
        f"{where}: the two models were measured on different examples ({len(strangers)} are in one and not in the "
        f"other, first {strangers[0]!r}); measure both on the same data"
    )
