"""Planes stored as single lines, so that adding a shifted copy is one pass over memory."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class ShiftedPlanes:
    """Planes with a margin, from which windows (height, width) are added.

    Attributes:
        lines: (P, rows * stride), each a plane with its margin, row after row.
        stride: width with the margin; height, width: of a window.
    """

    lines: torch.Tensor
    stride: int
    height: int
    width: int

    @classmethod
    def of(cls, padded: torch.Tensor, height: int, width: int) -> ShiftedPlanes:
        """Return planes (..., rows, stride) for windows of that size."""
        return cls(padded.reshape(-1, padded.shape[-2] * padded.shape[-1]), padded.shape[-1], height, width)

    def zeros(self) -> torch.Tensor:
        """Return lines (P, N) to add windows to; rows are a stride apart, and values between them are undefined."""
        return self.lines.new_zeros(len(self.lines), self._length)

    def add_to(self, total: torch.Tensor, down: int, right: int, weight: float) -> None:
        """Add the windows at this offset from the margin's corner, times ``weight``."""
        start = down * self.stride + right
        total.add_(self.lines[:, start : start + self._length], alpha=weight)

    def rows(self, down: int) -> torch.Tensor:
        """Return lines (P, height * stride) of the windows' rows with their margins to the left and right."""
        return self.lines[:, down * self.stride : (down + self.height) * self.stride]

    def windows(self, total: torch.Tensor) -> torch.Tensor:
        """Return lines (P, N) as planes (P, height, width)."""
        return total.as_strided((len(total), self.height, self.width), (self._length, self.stride, 1))

    @property
    def _length(self) -> int:
        return (self.height - 1) * self.stride + self.width
