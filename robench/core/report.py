"""Reports as values, before they are rendered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from robench.core.plugins import imported
from robench.core.rendered import PLAIN_STYLE, Rendered, Style
from robench.core.shard import EXACT_DTYPE

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas

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
        deviation: standard deviation over the seeds, where tables show it; or None.
        num_lacking: number of further training seeds, which were not measured.
        bias: mean of the bootstrap's resamples less the value, for numbers that are not a mean over examples; or None.
    """

    value: float
    low: float | None
    high: float | None
    num_examples: int
    unit: str = "share"
    of_seeds: tuple[float, ...] = ()
    deviation: float | None = None
    num_lacking: int = 0
    bias: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Number of a table, or how much of it is missing.

    Attributes:
        estimate: None unless every example is measured.
        num_examples: number of measured examples.
        missing: number of missing examples; None if unknown.
        is_applicable: whether the model can have such a number at all.
    """

    estimate: Estimate | None
    num_examples: int
    missing: int | None
    is_applicable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """Relation of a number to the best of its column.

    Attributes:
        p: two-sided p-value of the test against the best, in (0, 1]; None for the best, and where there is no test.
            ``adjusted``: the same times the number of columns of the suite and of other models, at most 1.
        is_close: not distinguishable from the best: tested, and ``adjusted`` is above 5 %; true of the best itself
            where any other number of the column was tested.
        test: name of the test.
    """

    is_best: bool
    p: float | None
    adjusted: float | None
    is_close: bool
    test: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Numbers of one model.

    Attributes:
        limit: number of examples, if only the first were requested.
        all_examples: whether all examples were requested in place of the number that the suite states.
        batch_size: batch size of a coupled model, whose numbers hold at it only; None for all others.
        precision: number format of the model's passes; None for float32.
        flags: checks of the numbers under attack, raised or not; None if nothing was checked.
        is_audited: whether the model was audited; otherwise its attacks are compared with each other alone.
        is_attacked: whether a number is under an attack whose signs of failure an audit looks for.
        seeds: names of the averaged checkpoints, one per training seed; empty for one checkpoint.
        weights: digest that identifies the weights (``ShardHeader.weights``); None for means and unmeasured models.
        ranks: by key of the column, of columns whose number the row has; empty where models were not compared.
        measurements: sorted keys of the measurements behind the cells, failed ones too; audits are not among them.
    """

    model: str
    cells: Mapping[str, Cell]
    limit: int | None = None
    notes: tuple[str, ...] = ()
    flags: tuple[Flag, ...] | None = None
    is_audited: bool = False
    is_attacked: bool = False
    batch_size: int | None = None
    seeds: tuple[str, ...] = ()
    weights: str | None = None
    ranks: Mapping[str, Rank] = field(default_factory=dict)
    precision: str | None = None
    all_examples: bool = False
    measurements: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Return the model's name, with its precision if that is not float32, such as ``vit (bfloat16)``."""
        return self.model if self.precision is None else f"{self.model} ({self.precision})"

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
        tests: names of the tests behind ranks, and what their p-values are multiplied by; empty where none were made.
        precision: number format of the passes of all models.
    """

    renderers: ClassVar[str] = "robench.reports:RENDERERS"
    frame: ClassVar[str] = "robench.reports.machine_readable:frame_of"
    fragment: ClassVar[str] = "robench.reports.grid:fragment"

    suite: str
    version: int
    seed: int
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    provenance: Mapping[str, str]
    notes: tuple[str, ...] = ()
    limited: Mapping[str, int] = field(default_factory=dict)
    tests: str = ""
    style: Style = PLAIN_STYLE
    precision: str = EXACT_DTYPE

    @property
    def is_complete(self) -> bool:
        """Return whether every cell has its number, except numbers that the model cannot have."""
        cells = [cell for row in self.rows for cell in row.cells.values()]
        return all(cell.estimate is not None or not cell.is_applicable for cell in cells)

    def to_frame(self, *, intervals: bool = False) -> pandas.DataFrame:
        """Return the numbers as a data frame, a row a model and a column a number.

        The index is ``model``, columns are the keys of the report's columns, such as ``pgd/top1_accuracy``. Numbers are
        unrounded, proportions in [0, 1], and NaN where examples are missing. With ``intervals`` columns have a second
        level: ``value``, ``low`` and ``high``, the bounds of the 95 % interval.
        """
        frame: pandas.DataFrame = imported(self.frame)(self, intervals=intervals)
        return frame

    def _repr_html_(self) -> str:
        """Return the table for a notebook, with its notes."""
        shown: str = imported(self.fragment)(self)
        return shown
