"""Values of single examples that decide a metric's number: what paired tests swap and bootstraps resample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Values of each sample (rows, examples), to the number that each row makes (rows,).
Statistic = Callable[[Sequence["NDArray[np.float64]"]], "NDArray[np.float64]"]


def mean_of_rows(samples: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the mean of each row of the only sample."""
    (values,) = samples
    means: NDArray[np.float64] = values.mean(-1)
    return means


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Examples that are drawn from one population, with a value each.

    Attributes:
        ids: ids of the examples (N,), each once.
        values: values (N,), truth values or floats.
        name: name of the population where a metric has several, such as ``positives``.
    """

    ids: NDArray[Any]
    values: NDArray[Any]
    name: str = ""

    @property
    def purpose(self) -> str:
        """Purpose of the bootstrap's draws: samples of one metric are resampled independently of each other."""
        return f"bootstrap of {self.name}" if self.name else "bootstrap"


@dataclass(frozen=True, slots=True, eq=False)
class Contributions:
    """All that a metric's number depends on, by example.

    Attributes:
        samples: one sample for most metrics; two of detection, whose examples are of two datasets.
        statistic: function of the samples' values that gives the number; the mean unless stated.
    """

    samples: tuple[Sample, ...]
    statistic: Statistic = mean_of_rows

    @property
    def is_mean(self) -> bool:
        """Return whether the number is the mean of one value per example."""
        return self.statistic is mean_of_rows and len(self.samples) == 1

    @property
    def is_binary(self) -> bool:
        """Return whether the number is the mean of one binary outcome per example."""
        return self.is_mean and self.samples[0].values.dtype == np.bool_

    @property
    def number(self) -> float:
        """Number that the contributions make, up to rounding."""
        return float(self.statistic([sample.values[None].astype(np.float64) for sample in self.samples])[0])
