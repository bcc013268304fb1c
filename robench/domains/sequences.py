"""Sequences of several lengths in one batch: values of padding after their ends, and rules of those without numbers."""

from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar

from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

from robench.core.errors import ContractError
from robench.domains.base import Domain


class Symbols:
    """Base of the rules of sequences of symbols, such as texts, which have no smallest and largest value.

    Attributes:
        name: the symbols, for messages; ``remedy``: what to do in place of a perturbation of numbers.
    """

    name: ClassVar[str]
    remedy: ClassVar[str]

    def __init__(self, domain: Domain) -> None:
        del domain  # None of its fields is a setting of the rules.

    @property
    def limits(self) -> tuple[float, float]:
        """Refuse: symbols are not numbers. Raises ContractError: always."""
        raise ContractError(f"{self.name} have no smallest and largest value; {self.remedy}")

    def half_range(self, inputs: Tensor) -> Fraction:
        """Refuse, as for ``limits``. Raises ContractError: always."""
        raise ContractError(f"{self.name} have no range; {self.remedy}")


def padded(sequences: Sequence[Tensor], value: float, num_places: int = 0) -> Tensor:
    """Return sequences (T, ...) as one batch (B, N, ...), as long as the longest, or ``num_places`` if that is more.

    Places after the end of a sequence hold ``value``.
    """
    batch = pad_sequence(list(sequences), batch_first=True, padding_value=value)
    missing = max(0, num_places - batch.shape[1])
    return pad(batch, (*(0, 0) * (batch.ndim - 2), 0, missing), value=value)


def check_padding(is_padding: Tensor, subject: str, noun: str, unit: str = "") -> None:
    """Refuse padding (B, ..., N) before the end of a sequence, and with ``unit`` sequences of padding alone.

    Messages begin with ``subject``, such as ``dataset 'waves' gave``, and have the first wrong row. ``noun`` names one
    sequence there, such as ``a series``; ``unit`` is what its places hold, such as ``step``.
    """
    is_early, is_empty = is_padding[..., :-1] & ~is_padding[..., 1:], is_padding.all(-1)
    if bool(is_early.any()):
        row = int(is_early.nonzero()[0, 0])
        raise ContractError(f"{subject} padding within {noun} in row {row} of a batch, wanted it after its end alone")
    if unit and bool(is_empty.any()):
        row = int(is_empty.nonzero()[0, 0])
        raise ContractError(f"{subject} {noun} without {unit}s in row {row} of a batch, wanted at least one {unit}")
