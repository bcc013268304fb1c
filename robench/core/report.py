"""The table before it is text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robench.core.flags import Flag
    from robench.core.suite import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A number with its uncertainty.

    Attributes:
        low, high: bounds of the 95 % interval, in the unit of ``value``; None where undefined.
        unit: ``share`` for shares in [0, 1]; ``ratio`` to a reference's errors, 1 for as many; per cent exists in
            renderers alone.
        of_seeds: of a mean over training seeds, the value of each; empty for one checkpoint.
    """

    value: float
    low: float | None
    high: float | None
    num_examples: int
    unit: str = "share"
    of_seeds: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One number of a table, or how much of it is missing.

    Attributes:
        estimate: None unless every example is in.
        num_examples: examples that are in.
        missing: examples that are not; None where not even their number is known.
    """

    estimate: Estimate | None
    num_examples: int
    missing: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """All numbers of one model.

    Attributes:
        limit: where only the first examples were asked for.
        batch_size: of a coupled model, whose numbers hold at this batch size only; None for all others.
        flags: signs that numbers under attack cannot be believed, raised or not; None where nothing was checked.
        seeds: names of the checkpoints, one a training seed, whose mean the row is; empty for one checkpoint.
    """

    model: str
    cells: Mapping[str, Cell]
    limit: int | None = None
    notes: tuple[str, ...] = ()
    flags: tuple[Flag, ...] | None = None
    batch_size: int | None = None
    seeds: tuple[str, ...] = ()

    @property
    def raised(self) -> tuple[Flag, ...]:
        """The flags that are raised."""
        return tuple(flag for flag in self.flags or () if flag.is_raised)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A leaderboard: rows of cells under columns, with what the numbers rest on.

    Attributes:
        notes: sentences about the whole table, such as that it is of a smoke run.
    """

    suite: str
    version: int
    seed: int
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    provenance: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether every cell has its number."""
        return all(cell.estimate is not None for row in self.rows for cell in row.cells.values())
