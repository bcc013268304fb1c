"""Paired permutation test: under the null hypothesis the two models of a pair are exchangeable on every example.

Each draw swaps both models' values on a random half of the examples. All that is known of an example is swapped
together: every condition, severity and prediction of it, in all samples of a metric. The p-value counts the draw that
was observed, p = (1 + number of draws at least as extreme) / (1 + number of draws), so that the test has its size
exactly (Phipson and Smyth 2010, "Permutation p-values should never be zero").

The draws belong to the examples: their seed is a hash of all ids, so that the order of outcomes does not matter, and
all columns over the same examples use the same swaps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from robench.core.identity import key_of
from robench.core.seeds import Stream, stream_seed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from robench.comparison.pairing import Paired

NUM_DRAWS = 9_999
# Values that are held at once, in each of some arrays.
_VALUES_AT_ONCE = 4_000_000
# Differences within this part of the observed one are ties: sums in another order differ by rounding.
_ROUNDING = 1e-9


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
    else:
        found = [_differences(paired, swapped) for swapped in draws]
    return Permuted(paired.difference, np.concatenate(found))


def swaps(ids: Sequence[NDArray[Any]], num_draws: int = NUM_DRAWS) -> Iterator[list[NDArray[np.bool_]]]:
    """Yield which examples are swapped, some draws at a time: for each sample truth values (rows, N).

    An id that is in several samples is one example.
    """
    everyone, places = np.unique(np.concatenate(list(ids)), return_inverse=True)
    ends = np.cumsum([len(each) for each in ids])[:-1]
    of_samples = np.split(places, ends)
    seed = stream_seed(int(key_of(everyone.tolist()), 16), Stream(purpose="paired permutation"))
    generator = np.random.PCG64(seed)
    num_words = -(-len(everyone) // 64)
    rows = max(1, min(num_draws, _VALUES_AT_ONCE // len(everyone)))
    for start in range(0, num_draws, rows):
        num_rows = min(rows, num_draws - start)
        # Raw words, which no release of numpy draws otherwise.
        words = generator.random_raw(num_rows * num_words).astype("<u8")
        bits = np.unpackbits(words.view(np.uint8).reshape(num_rows, 8 * num_words), axis=1).astype(np.bool_)
        yield [bits[:, places_of] for places_of in of_samples]


def _differences(paired: Paired, swapped: Sequence[NDArray[np.bool_]]) -> NDArray[np.float64]:
    pairs = list(zip(paired.samples, swapped, strict=True))
    return paired.differences(
        [np.where(swap, sample.second, sample.first) for sample, swap in pairs],
        [np.where(swap, sample.first, sample.second) for sample, swap in pairs],
    )
