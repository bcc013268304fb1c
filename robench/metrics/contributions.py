"""Values of single examples that decide a metric's number, conditions joined by example id, and bins of confidences.

Paired tests swap contributions, and bootstraps resample them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from robench.core.errors import IncompleteError
from robench.core.ids import order_of, strangers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from robench.core.columns import Outcomes

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
        values: values (N,), truth values or floats; or (N, ...), where their sums decide the number.
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
        is_of_sums: whether the statistic takes the sums (rows, ...) of values (N, ...) over the examples in place of
            the values. Resamples then weight examples by a Dirichlet distribution, and every example keeps a weight.
    """

    samples: tuple[Sample, ...]
    statistic: Statistic = mean_of_rows
    is_of_sums: bool = False

    @property
    def is_mean(self) -> bool:
        """Return whether the number is the mean of one value per example."""
        return self.statistic is mean_of_rows and len(self.samples) == 1

    @property
    def is_binary(self) -> bool:
        """Return whether the number is the mean of one binary outcome per example."""
        return self.is_mean and self.samples[0].values.dtype.kind == "b"

    @property
    def number(self) -> float:
        """Number that the contributions make, up to rounding."""
        values = [sample.values[None].astype(float) for sample in self.samples]
        return float(self.statistic([each.sum(1) for each in values] if self.is_of_sums else values)[0])


NUM_BINS = 15


def bins_of(confidences: NDArray[np.float64], *, equal_mass: bool = False) -> NDArray[np.int64]:
    """Return the bin (N,) of each confidence (N,), from 0 to 14; bins have their upper ends."""
    import numpy as np

    edges = np.linspace(0, 1, NUM_BINS + 1)[1:-1]
    return np.searchsorted(np.percentile(confidences, 100 * edges) if equal_mass else edges, confidences)


def ids_of(outcomes: Outcomes, where: str) -> NDArray[Any]:
    """Return the ids of a condition's examples, in its order; ``where`` names the condition in messages.

    Raises:
        IncompleteError: there are none, or an example is duplicated.
    """
    if not len(outcomes):
        raise IncompleteError(f"{where} has no outcomes; measure an example first")
    ids = outcomes.ids
    if (num_different := len(set(ids.tolist()))) < len(ids):
        raise IncompleteError(
            f"{where} has {len(ids)} outcomes of {num_different} examples; "
            "an example may occur once, check the ids of the dataset"
        )
    return ids


def aligned(ids: NDArray[Any], outcomes: Outcomes, where: str) -> Outcomes:
    """Return outcomes in the order of ``ids``, the examples of the previous conditions; ``where`` names the condition.

    Raises:
        IncompleteError: there are none, an example is duplicated, or an example is in one but not in the other.
    """
    import numpy as np

    others = ids_of(outcomes, where)
    if np.array_equal(ids, others):
        return outcomes
    if unpaired := strangers(ids, others):
        raise IncompleteError(
            f"{len(unpaired)} examples are in {where} or in the conditions before it, and not in both (first "
            f"{unpaired[0]!r}); the number wants the same images everywhere, give the conditions the same "
            "num_examples"
        )
    places = np.empty(len(ids), np.int64)
    places[order_of(ids)] = order_of(others)
    return outcomes.take(places)
