"""Addresses of an attack's passes, and their counts for each example of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from robench.core.errors import ContractError
from robench.core.seeds import Stream
from robench.devices import is_asynchronous, to_device

# Passes between two looks at whether outputs are finite, on devices that a look waits for.
CHECKED_EVERY = 100


@dataclass(frozen=True, slots=True)
class Address:
    """Address of passes within an attack.

    Attributes:
        parts: parts of the attack, from the outermost: member of an ensemble, target of a search; () for none.
        search: number of the search, None if passes are not allowed; ``step``: number of the step within it.
    """

    parts: tuple[str, ...] = ()
    search: int | None = None
    step: int = 0

    def stream(self, number: int) -> Stream:
        """Return the random stream of the pass with this number at this address."""
        purpose = "/".join(("victim", *self.parts))
        if self.search is None:
            raise ContractError(
                f"an attack made a pass without an address (part {purpose}): take problem.at(search=..., step=...)"
            )
        return Stream(purpose=purpose, restart=self.search, step=self.step, query=number)


class Ledger:
    """Counts of forward and backward passes of each example of a batch, in total and at the current address.

    It also watches that outputs are finite: on a CPU pass by pass, on other devices, where each look waits for all that
    is queued, once in ``CHECKED_EVERY`` passes and at the end (``require_finite``).
    """

    def __init__(self, num_examples: int) -> None:
        self.num_queries = torch.zeros(num_examples, dtype=torch.int64)
        self.num_gradients = torch.zeros(num_examples, dtype=torch.int64)
        self._num_passes: dict[Address, Tensor] = {}
        self._is_finite: list[Tensor] = []
        # The rows of each backward pass, and whether their gradients are zero: joined at the end, so as not to wait.
        self._zeros: list[tuple[Tensor, Tensor]] = []

    def number(self, address: Address, rows: Tensor) -> Tensor:
        """Return the number of earlier passes (B,) of each row at an address, and count one more.

        Counts are per example, independent of the others.
        """
        counts = self._num_passes.setdefault(address, torch.zeros(len(self.num_queries), dtype=torch.int64))
        numbers = counts.index_select(0, rows)
        counts.index_copy_(0, rows, numbers + 1)
        return numbers

    def count(self, rows: Tensor, *, queries: int = 0, gradients: int = 0) -> None:
        """Add passes of these rows."""
        for total, number in ((self.num_queries, queries), (self.num_gradients, gradients)):
            if number:
                total.index_add_(0, rows, torch.full_like(rows, number))

    def watch_gradient(self, rows: Tensor, gradient: Tensor) -> None:
        """Note for which of these rows the gradient (B, ...) of a pass by the inputs is zero everywhere."""
        self._zeros.append((rows, ~gradient.flatten(1).any(1)))

    @property
    def num_zero_gradients(self) -> Tensor | None:
        """Return the number (B,) of backward passes of each example with a gradient of zero; None if none were seen."""
        if not self._zeros:
            return None
        rows, zeros = (torch.cat(parts) for parts in zip(*self._zeros, strict=True))
        counts = torch.zeros(len(self.num_gradients), dtype=torch.int64, device=zeros.device)
        return counts.index_add_(0, to_device(rows, zeros.device), zeros.long())

    def watch(self, outputs: Tensor) -> None:
        """Check the outputs of a pass, now or later; raises like ``require_finite``."""
        self._is_finite.append(torch.isfinite(outputs).all())
        if not is_asynchronous(outputs) or len(self._is_finite) >= CHECKED_EVERY:
            self.require_finite()

    def require_finite(self) -> None:
        """Refuse outputs of the passes since the last check that are NaN or infinite.

        Raises:
            ContractError: they are.
        """
        is_finite, self._is_finite = self._is_finite, []
        if is_finite and not bool(_all_of(is_finite)):
            raise ContractError("the model returned NaN or infinite outputs for inputs of an attack")


def _all_of(flags: Sequence[Tensor]) -> Tensor:
    return flags[0] if len(flags) == 1 else torch.stack(list(flags)).all()
