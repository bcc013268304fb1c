"""Paired permutation test: under the null hypothesis the two models of a pair are exchangeable on every example.

Contributions of both models are paired by example id. Each draw swaps both models' values on a random half of the
examples. All that is known of an example is swapped together: every condition, severity and prediction of it, in all
samples of a metric. The p-value counts the draw that was observed, p = (1 + number of draws at least as extreme) / (1 +
number of draws), so that the test has its size exactly (Phipson and Smyth 2010, "Permutation p-values should never be
zero").

The draws belong to the examples: their seed is a hash of all ids, so that the order of outcomes does not matter, and
all columns over the same examples use the same swaps.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robench.core.errors import IncomparableError
from robench.core.identity import key_of
from robench.core.ids import distinct, order_of, strangers
from robench.core.seeds import Stream, stream_seed
from robench.metrics.contributions import Contributions, Statistic

NUM_DRAWS = 9_999
# Values that are held at once, in each of some arrays.
_VALUES_AT_ONCE = 4_000_000
# Differences within this part of the observed one are ties: sums in another order differ by rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class PairedSample:
    """Values of two models on the same examples.

    Attributes:
        first, second: value (N,) of each example for each model, or values (N, ...) whose sums decide.
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
        is_binary: whether it is the mean of one binary outcome per example.
        is_of_sums: whether the statistic takes sums over the examples; see ``Contributions``.
    """

    samples: tuple[PairedSample, ...]
    statistic: Statistic
    is_mean: bool
    is_binary: bool
    is_of_sums: bool = False

    def differences(
        self, first: Sequence[NDArray[np.float64]], second: Sequence[NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """Return the first number less the second for each row of each sample's values (rows, N) or sums (rows, ...).

        It is 0 where both are infinite, and NaN where a number is undefined.
        """
        one, other = self.statistic(first), self.statistic(second)
        with np.errstate(invalid="ignore"):
            return np.where(one == other, 0.0, one - other)

    @property
    def difference(self) -> float:
        """Difference of the first model's number and the second's."""
        first, second = ([getattr(each, name)[None] for each in self.samples] for name in ("first", "second"))
        if self.is_of_sums:
            first, second = ([each.sum(1) for each in values] for values in (first, second))
        return float(self.differences(first, second)[0])

    @property
    def verdicts(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Binary outcomes of both models; of binary numbers only."""
        (sample,) = self.samples
        return sample.first > 0, sample.second > 0


@dataclass(frozen=True, slots=True, eq=False)
class Permuted:
    """Observed difference, and the difference in each draw of swaps."""

    observed: float
    drawn: NDArray[np.float64]

    @property
    def two_sided(self) -> float:
        """P-value that the numbers differ by chance alone, in (0, 1]."""
        return self._p_value(np.abs(self.drawn), abs(self.observed))

    @property
    def less(self) -> float:
        """P-value that the first number is smaller by chance alone, in (0, 1]."""
        return self._p_value(-self.drawn, -self.observed)

    @property
    def greater(self) -> float:
        """P-value that the first number is larger by chance alone, in (0, 1]."""
        return self._p_value(self.drawn, self.observed)

    def _p_value(self, drawn: NDArray[np.float64], observed: float) -> float:
        slack = 0.0 if np.isinf(observed) else _ROUNDING * abs(observed)
        # An undefined difference counts as extreme, which can only make a p-value larger.
        is_milder = drawn < observed - slack
        return (1 + int(np.count_nonzero(~is_milder))) / (1 + len(drawn))


def pair(first: Contributions, second: Contributions, where: str) -> Paired:
    """Return contributions of two models to one column, called ``where``, paired by example id.

    Raises IncomparableError if the examples are not the same.
    """
    samples = []
    for one, other in zip(first.samples, second.samples, strict=True):
        order, places = order_of(one.ids), order_of(other.ids)
        if len(order) != len(places) or not np.array_equal(one.ids[order], other.ids[places]):
            raise IncomparableError(_difference_of(one.ids, other.ids, where))
        values = _as_wide(one.values[order].astype(np.float64), other.values[places].astype(np.float64))
        samples.append(PairedSample(one.ids[order], *values, one.purpose))
    return Paired(
        tuple(samples),
        first.statistic,
        first.is_mean and second.is_mean,
        first.is_binary and second.is_binary,
        first.is_of_sums,
    )


def _as_wide(
    first: NDArray[np.float64], second: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return arrays (N, ...) of one shape: a model may have counts of more classes than another; missing ones are 0."""

    def padded(values: NDArray[np.float64], like: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.pad(values, [(0, max(0, b - a)) for a, b in zip(values.shape, like.shape, strict=True)])

    return padded(first, second), padded(second, first)


def _difference_of(first: NDArray[Any], second: NDArray[Any], where: str) -> str:
    unpaired = strangers(first, second)
    return (
        f"{where}: the two models were measured on different examples ({len(unpaired)} are in one and not in the "
        f"other, first {unpaired[0]!r}); measure both on the same data"
    )


def permuted(paired: Paired, num_draws: int = NUM_DRAWS) -> Permuted:
    """Return the differences of ``num_draws`` random swaps of both models' values."""
    ids = [sample.ids for sample in paired.samples]
    draws = swaps(ids, num_draws)
    if paired.is_mean:
        (sample,) = paired.samples
        gaps = (sample.first - sample.second) / len(sample.ids)
        decided = np.flatnonzero(gaps)
        # A swap turns a gap's sign.
        found = [gaps.sum() - 2 * (swapped[:, decided] * gaps[decided]).sum(1) for (swapped,) in draws]
    elif paired.is_of_sums:
        found = [_swapped_sums(paired, swapped) for swapped in draws]
    else:
        found = [_swapped_differences(paired, swapped) for swapped in draws]
    return Permuted(paired.difference, np.concatenate(found))


def swaps(ids: Sequence[NDArray[Any]], num_draws: int = NUM_DRAWS) -> Iterator[list[NDArray[np.bool_]]]:
    """Yield which examples are swapped, some draws at a time: for each sample truth values (rows, N).

    An id that is in several samples is one example.
    """
    everyone = distinct(ids)
    place_of = {name: place for place, name in enumerate(everyone.tolist())}
    of_samples = [np.array([place_of[name] for name in each.tolist()], np.int64) for each in ids]
    seed = stream_seed(int(key_of(everyone.tolist()), 16), Stream(purpose="paired permutation"))
    generator = np.random.PCG64(seed)
    num_words = -(-len(everyone) // 64)
    rows = max(1, min(num_draws, _VALUES_AT_ONCE // len(everyone)))
    for start in range(0, num_draws, rows):
        num_rows = min(rows, num_draws - start)
        # Raw words, which no release of numpy draws otherwise.
        words = generator.random_raw(num_rows * num_words).astype("<u8")
        bits = np.unpackbits(words.view(np.uint8).reshape(num_rows, 8 * num_words), axis=1).astype(np.bool_)
        yield [bits[:, positions_of] for positions_of in of_samples]


def _swapped_differences(paired: Paired, swapped: Sequence[NDArray[np.bool_]]) -> NDArray[np.float64]:
    pairs = list(zip(paired.samples, swapped, strict=True))
    return paired.differences(
        [np.where(swap, sample.second, sample.first) for sample, swap in pairs],
        [np.where(swap, sample.first, sample.second) for sample, swap in pairs],
    )


def _swapped_sums(paired: Paired, swapped: Sequence[NDArray[np.bool_]]) -> NDArray[np.float64]:
    first, second = [], []
    for sample, swap in zip(paired.samples, swapped, strict=True):
        gaps = (sample.second - sample.first).reshape(len(sample.ids), -1)
        moved = (swap.astype(np.float64) @ gaps).reshape(len(swap), *sample.first.shape[1:])
        first.append(sample.first.sum(0) + moved)
        second.append(sample.second.sum(0) - moved)
    return paired.differences(first, second)
