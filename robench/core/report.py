"""Reports as values, before they are rendered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from robench.core.rendered import Rendered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robench.core.flags import Flag
    from robench.core.suite import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Number with its uncertainty.

    Attributes:
        low, high: bounds of the 95 % interval, in the unit of ``value``; None where undefined.
        unit: ``share`` for proportions in [0, 1]; ``ratio`` for errors relative to a reference's; only renderers use
            per cent. Other units are printed as they are.
        of_seeds: values of the single training seeds, for a mean over them; empty for one checkpoint.
    """

    value: float
    low: float | None
    high: float | None
    num_examples: int
    unit: str = "share"
    of_seeds: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Number of a table, or how much of it is missing.

    Attributes:
        estimate: None unless every example is measured.
        num_examples: number of measured examples.
        missing: number of missing examples; None if unknown.
    """

    estimate: Estimate | None
    num_examples: int
    missing: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Numbers of one model.

    Attributes:
        limit: number of examples, if only the first were requested.
        batch_size: batch size of a coupled model, whose numbers hold at it only; None for all others.
        flags: checks of the numbers under attack, raised or not; None if nothing was checked.
        seeds: names of the averaged checkpoints, one per training seed; empty for one checkpoint.
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
        """Return the raised flags."""
        return tuple(flag for flag in self.flags or () if flag.is_raised)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Rendered):
    """Leaderboard: rows of cells under columns, with what the numbers are based on.

    Attributes:
        notes: sentences about the whole table, such as that it is of a smoke run.
        limited: limit of each model that has no row because only the first examples were measured, by name; the
            largest one, if there are several.
    """

    renderers: ClassVar[str] = "robench.reports:RENDERERS"

    suite: str
    version: int
    seed: int
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    provenance: Mapping[str, str]
    notes: tuple[str, ...] = ()
    limited: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Return whether every cell has its number."""
        return all(cell.estimate is not None for row in self.rows for cell in row.cells.values())
