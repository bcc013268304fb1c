"""Detection of coupling: rows of a batch that influence each other, for example through batch statistics.

Each row's logits and input gradient are compared between passes that differ only in the other rows: its batch, the
batch permuted, and a batch filled with copies of the row. All passes have the same number of rows, because kernels
round differently for other sizes, and each row keeps its seed, so that a model that draws random numbers per example is
not coupled. A model is coupled if logits differ by more than 1e-4 of their range, or gradients by more than 1e-3.

A permutation reveals rows that depend on their position or their neighbours, copies reveal rows that depend on the
contents of the batch. Copies need one pass for each row that is tested, all others four passes together: the last is of
the unchanged batch once more, and shows a model that changes with its calls or with time.

The gradient is that of the cross-entropy, summed over rows, toward each row's least likely class and in float64: toward
the true class, the gradient of a confident row is little more than rounding errors. The unchanged batch is passed
twice: a model that draws from a global generator differs there as well, and is coupled only if it differs several times
more in other batches. On a CPU, all of robench's own digits checkpoints differ by exactly 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from robench.attacks.backends.shown import undisturbed
from robench.core.flags import COUPLED_ROWS, Observations
from robench.core.protocols import Model

LOGITS_LIMIT = 1e-4
GRADIENTS_LIMIT = 1e-3
NOISE_FACTOR = 4.0
# Over the whole range of a pixel, a gradient of this many ranges of the logits changes nothing: only rounding errors.
FLAT = 1e-6
# Successive calls that are compared with each other, at any distance.
NUM_CALLS = 8


@dataclass(frozen=True, slots=True)
class Difference:
    """Largest differences of any row between two passes.

    Attributes:
        logits: as a proportion of the range of all logits; 1 where only one of the two is finite.
        gradients: as a proportion of the norm of the row's gradient, or of 1e-6 of the logits' range if that is larger;
            None for a model without gradients.
    """

    logits: float
    gradients: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Coupling:
    """Influence of the rows of a batch on each other.

    Attributes:
        num_rows: number of rows of each pass.
        among_others: differences between passes with different other rows.
        repeated: differences between two passes of the same batch; 0 unless the model is random.
        later: differences between the first pass of the batch and one after all others.
    """

    num_rows: int
    among_others: Difference
    repeated: Difference
    later: Difference | None = None

    @property
    def excess(self) -> float:
        """Return the largest difference as a multiple of its limit; 0 of a model that changes by itself."""
        return 0.0 if self.changes else self._excess_of(self.among_others)

    @property
    def is_coupled(self) -> bool:
        """Return whether a difference exceeds its limit."""
        return self.excess > 1

    @property
    def changes(self) -> bool:
        """Return whether the same batch has other outputs later, though not at once."""
        return self.later is not None and self._excess_of(self.later) > 1

    def _excess_of(self, found: Difference) -> float:
        logits = found.logits / max(LOGITS_LIMIT, NOISE_FACTOR * self.repeated.logits)
        gradients = (found.gradients or 0.0) / max(GRADIENTS_LIMIT, NOISE_FACTOR * (self.repeated.gradients or 0.0))
        return max(logits, gradients)

    @property
    def finding(self) -> str:
        """Return the measurement in a sentence."""
        if self.changes and self.later is not None:
            return (
                f"some passes later the logits of the same batch differ by up to {self.later.logits:.2%} of their "
                "range: the model changes with its calls or with time"
            )
        logits, gradients = self.among_others.logits, self.among_others.gradients
        by_gradients = "has no gradients" if gradients is None else f"its gradients by {gradients:.1%}"
        return (
            f"with other rows beside it, a row's logits change by up to {logits:.2%} of their range (limit "
            f"{LOGITS_LIMIT:.2%}) and {by_gradients} (limit {GRADIENTS_LIMIT:.1%}), in batches of {self.num_rows}"
        )


@dataclass(frozen=True, slots=True)
class _Pass:
    """Outputs of one pass: (B, classes) logits and (B, D) gradients, None if there are none."""

    logits: Tensor
    gradients: Tensor | None


def measure_coupling(
    model: Model, inputs: Tensor, seeds: Sequence[int], num_copied: int | None = None
) -> Coupling | None:
    """Measure the influence of rows on each other; None for fewer than two rows.

    There is one prediction seed for each row of inputs (B, ...). The first ``num_copied`` rows (None for all) are
    compared with copies of themselves, each in a separate pass.
    """
    num_rows = len(inputs)
    if num_rows < 2:
        return None
    rows = torch.arange(num_rows)
    base = _pass(model, inputs, seeds, rows)
    labels = base.logits.argmin(1)
    repeated = _difference(base, _pass(model, inputs, seeds, rows, labels), rows)
    others = [_moved(num_rows), *(row.expand(num_rows) for row in rows[:num_copied])]
    found = [_difference(base, _pass(model, inputs, seeds, each, labels), each) for each in others]
    gradients = [each.gradients for each in found if each.gradients is not None]
    among_others = Difference(max(each.logits for each in found), max(gradients, default=None))
    later = _difference(base, _pass(model, inputs, seeds, rows, labels), rows)
    return Coupling(num_rows=num_rows, among_others=among_others, repeated=repeated, later=later)


def difference_of_calls(model: Model, inputs: Tensor, seeds: Sequence[int]) -> float:
    """Return by how much successive answers to inputs (B, ...) differ, as a proportion of the range of outputs.

    It is 0 where all are equal, and where no two of them are, as of a model that draws random numbers from a generator
    of its own.
    """
    answers = successive_answers(model, inputs, seeds)
    differences = [answer_difference(first, second) for first, second in combinations(answers, 2)]
    return max(differences) if min(differences) <= LOGITS_LIMIT else 0.0


def successive_answers(model: Model, inputs: Tensor, seeds: Sequence[int]) -> list[Tensor]:
    """Return the outputs (B, K) of successive calls, the later half of them with gradients."""
    return [answer(model, inputs, seeds, has_gradients=number >= NUM_CALLS // 2) for number in range(NUM_CALLS)]


def answer(model: Model, inputs: Tensor, seeds: Sequence[int], *, has_gradients: bool = False) -> Tensor:
    """Return a model's outputs (B, K); the generators of torch, numpy and Python always begin at the same state."""
    with undisturbed(inputs.device, 0), torch.set_grad_enabled(has_gradients):
        is_real = has_gradients and inputs.is_floating_point()
        return _as_rows(model.outputs(inputs.clone().requires_grad_(is_real), seeds)).detach().double()


def answer_difference(first: Tensor, second: Tensor) -> float:
    """Return the largest difference of two answers (B, K) to the same inputs, as a proportion of their range."""
    return _difference(_Pass(first, None), _Pass(second, None), torch.arange(len(first))).logits


def measure_padding(model: Model, batch: Tensor, alone: Sequence[Tensor], seeds: Sequence[int]) -> Coupling:
    """Measure how outputs for inputs (B, ...), padded to one length, differ from those of each alone, (1, ...)."""
    rows = torch.arange(len(batch))
    base = _pass(model, batch, seeds, rows)
    repeated = _difference(base, _pass(model, batch, seeds, rows), rows)
    found = [
        _difference(base, _pass(model, single, seeds[row : row + 1], rows[:1]), rows[row : row + 1]).logits
        for row, single in enumerate(alone)
    ]
    return Coupling(num_rows=len(batch), among_others=Difference(max(found), None), repeated=repeated)


def _moved(num_rows: int) -> Tensor:
    """Return the first drawn order that leaves no row in its place.

    It is random because a rotation would keep neighbours together, and a reversal opposite rows.
    """
    generator, rows = torch.Generator().manual_seed(0), torch.arange(num_rows)
    order = rows
    while bool((order == rows).any()):
        order = torch.randperm(num_rows, generator=generator)
    return order


def coupling_observed(coupling: Coupling | None) -> Observations:
    """Return the largest difference as a multiple of its limit, with the finding; none of a single row."""
    found = [] if coupling is None else [coupling]
    columns = tuple(each.excess for each in found), tuple(each.finding for each in found)
    return Observations(check=COUPLED_ROWS, columns=columns)


def _pass(model: Model, inputs: Tensor, seeds: Sequence[int], rows: Tensor, labels: Tensor | None = None) -> _Pass:
    """Pass the chosen rows with their seeds and labels, by default the least likely classes."""
    chosen, of_rows = inputs[rows.to(inputs.device)], [seeds[row] for row in rows.tolist()]
    try:
        with torch.enable_grad():
            logits = _as_rows(model.outputs(chosen.requires_grad_(), of_rows))
    except Exception:  # the model's logits may be available even if differentiation raises an error
        with torch.no_grad():
            logits = _as_rows(model.outputs(chosen.detach(), of_rows))
    labels = logits.argmin(1) if labels is None else labels[rows.to(labels.device)]
    return _Pass(logits.detach().double(), _gradients(logits, chosen, labels))


def _as_rows(outputs: Tensor) -> Tensor:
    """Return outputs (B, ...) as (B, K), for any task."""
    return outputs.reshape(len(outputs), -1)


def _gradients(logits: Tensor, inputs: Tensor, labels: Tensor) -> Tensor | None:
    if not logits.requires_grad:
        return None
    try:
        with torch.enable_grad():
            # The softmax of a single output is constant.
            is_single = logits.shape[1] == 1
            loss = logits.double().sum() if is_single else cross_entropy(logits.double(), labels, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, inputs, allow_unused=True)
    except Exception:  # if the backward pass raises any error, there are no gradients to compare
        return None
    return None if gradient is None else gradient.flatten(1).double()


def _difference(base: _Pass, other: _Pass, rows: Tensor) -> Difference:
    """Compare each row of a pass with the corresponding row of the base; of wider outputs the first ones.

    Outputs of variable length, such as losses of words, are as wide as the longest row of their batch.
    """
    rows, width = rows.to(base.logits.device), min(base.logits.shape[1], other.logits.shape[1])
    logits = _subtracted(base.logits[rows, :width], other.logits[:, :width])
    seen = torch.cat([base.logits.flatten(), other.logits.flatten()])
    seen = seen[seen.isfinite()]
    span = float(seen.max() - seen.min()) if len(seen) else 0.0
    by_logits = _proportion(logits.amax(1), torch.full_like(logits[:, 0], span))
    if base.gradients is None or other.gradients is None:
        return Difference(by_logits, None)
    wanted = base.gradients[rows]
    norms = torch.maximum(_norms(wanted), _norms(other.gradients)).clamp(min=FLAT * span)
    return Difference(by_logits, _proportion(_subtracted(wanted, other.gradients).norm(dim=1), norms))


def _subtracted(wanted: Tensor, found: Tensor) -> Tensor:
    """Return absolute differences: 0 if both are the same or NaN, infinite if only one of them is a number."""
    is_same = (wanted == found) | (wanted.isnan() & found.isnan())
    return torch.where(is_same, 0.0, (wanted - found).abs().nan_to_num(nan=torch.inf, posinf=torch.inf))


def _norms(gradients: Tensor) -> Tensor:
    norms: Tensor = gradients.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).norm(dim=1)
    return norms


def _proportion(differences: Tensor, of: Tensor) -> float:
    """Return the largest quotient; 0 over 0 is 0, and non-finite values count as 1."""
    quotients = torch.where(differences == 0, 0.0, differences / of)
    return float(quotients.nan_to_num(nan=1.0, posinf=1.0).max())
