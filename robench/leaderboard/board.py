"""Leaderboards before they are text: rows of models, columns of one or several suites, and their provenance."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from robench.comparison.pairing import PairTest
from robench.core.inert import is_link
from robench.core.rendered import PLAIN_STYLE, Rendered, Style
from robench.core.report import Row
from robench.core.suite import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardSuite:
    """Suite of a leaderboard.

    Attributes:
        provenance: releases, kinds of device, seed and kinds of interval behind its numbers.
    """

    name: str
    version: int
    seed: int
    description: str
    batch_size: int
    provenance: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Name and version."""
        return f"{self.name}, version {self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardColumn:
    """Column of one suite, or of costs.

    Attributes:
        key: the suite's name and the column's key, joined by a slash.
        suite: empty of a column of costs, which has neither ranks nor tests.
        label: the column's label; with the suite's name before it where there are several suites.
        measurements: keys of ``BoardRow.measured`` that the column is computed from.
        metric: title of the metric; ``unit``: of its estimates; ``interval``: method of its bounds.
        num_columns: number of columns of the suite, by which p-values are multiplied.
    """

    key: str
    suite: str
    label: str
    column: Column
    measurements: tuple[str, ...]
    metric: str
    unit: str
    interval: str
    lower_is_better: bool
    num_columns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionProvenance:
    """Provenance of the outcomes of one condition of one checkpoint.

    Attributes:
        checkpoint: name of the checkpoint, which is the row's unless that is a mean over seeds.
        budget: budget of the attack as its suite spells it; None without one, or with several.
        num_examples: number of examples with an outcome; ``missing``: without one, None if unknown.
        finished_at: time when the last of the outcomes was kept, UTC, ISO 8601.
    """

    checkpoint: str
    condition: str
    budget: str | None
    dataset: str
    fingerprint: str
    dataset_size: int
    measurement_key: str
    weights_digest: str
    seed: int
    batch_size: int
    num_examples: int
    missing: int | None
    devices: tuple[str, ...]
    versions: Mapping[str, str]
    finished_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Description of a model by its registry entry, in words for readers and filters.

    Attributes:
        family: kind of the backbone; ``attention``: kind of the mechanism, with its reading where it is not the
            default; ``architecture``: backbone with its size.
        paper, code, weights: where they were published: addresses, or other texts.
    """

    family: str
    attention: str
    architecture: str
    training_data: str = ""
    source: str = ""
    licence: str = ""
    paper: str = ""
    code: str = ""
    weights: str = ""

    @property
    def links(self) -> dict[str, str]:
        """Return the addresses of paper, code and weights by the names of their fields; other texts are left out."""
        texts = {"paper": self.paper, "code": self.code, "weights": self.weights}
        return {name: text for name, text in texts.items() if is_link(text)}


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRow(Row):
    """Row of a leaderboard, whose cells and ranks are by key of the column.

    Attributes:
        entry: None for a model that no registry has.
        measured: provenance by suite and condition, joined by a slash, of each checkpoint; conditions without outcomes
            are left out.
        flag_suites: the suites whose results raise each flag or not.
        rank: rank in the column of ``Settings.sort`` within its group, ``comparison.pairing.ordinals``; ``unranked``:
            why it has none.
        group: group in which its numbers are ranked and marked; empty where there is one alone.
    """

    entry: Entry | None = None
    measured: Mapping[str, tuple[ConditionProvenance, ...]] = field(default_factory=dict)
    flag_suites: tuple[tuple[str, ...], ...] = ()
    rank: int | None = None
    unranked: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Point of a line; ``value`` is None where the number is missing, bounds where there is no interval."""

    x: float
    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Lines of several models over one axis.

    Attributes:
        group: charts of one group belong together, such as all types of corruption of a family.
        ticks: places on the axis with their labels, ascending; ``columns``: keys of the columns behind them, if any.
        unit: unit of the numbers, as of metrics.
    """

    group: str
    title: str
    x_label: str
    y_label: str
    ticks: tuple[tuple[float, str], ...]
    lines: Mapping[str, tuple[Point, ...]]
    x_unit: str = ""
    columns: tuple[str, ...] = ()
    is_logarithmic: bool = False
    unit: str = "share"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a leaderboard that is published.

    Attributes:
        title: empty for the names of the suites; ``note``: text below it.
        headline: keys of the columns that come first; empty for all.
        sort: key of the column by which rows are sorted and ranked; None for rows by name, without ranks.
        groups: patterns of models by group, in their order; see ``mechanisms.grouped``.
    """

    title: str = ""
    note: str = ""
    headline: tuple[str, ...] = ()
    sort: str | None = None
    is_worst_first: bool = False
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


# Of a leaderboard without a file of settings.
PLAIN = Settings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaderboard(Rendered):
    """Table over one or several suites.

    Attributes:
        pairs: tests by key of the column and places of both rows, counted from 0; empty above
            ``comparison.pairing.MOST_PAIRED_ROWS`` rows.
        curves: metrics against the budget or distance; ``left_out``: conditions with a budget that are in none, and
            why. ``lengths``: metrics against the number of steps or queries; ``profiles``: accuracy against the
            severity of a corruption; ``grades``: metrics against the strength of other perturbations.
        limited: limit of each model that a suite left out, as of ``core.report.Report``.
        by_mechanism: the same with a row for each entry over its training seeds, which is ranked; None where no entry
            has several.
    """

    renderers: ClassVar[str] = "robench.leaderboard:RENDERERS"

    suites: tuple[BoardSuite, ...]
    columns: tuple[BoardColumn, ...]
    rows: tuple[BoardRow, ...]
    pairs: Mapping[str, Mapping[tuple[int, int], PairTest]] = field(default_factory=dict)
    curves: tuple[Chart, ...] = ()
    left_out: tuple[str, ...] = ()
    lengths: tuple[Chart, ...] = ()
    profiles: tuple[Chart, ...] = ()
    grades: tuple[Chart, ...] = ()
    settings: Settings = PLAIN
    style: Style = PLAIN_STYLE
    limited: Mapping[str, int] = field(default_factory=dict)
    by_mechanism: "Leaderboard | None" = None

    @property
    def shown(self) -> "Leaderboard":
        """Leaderboard for readers: a row a mechanism."""
        return self.by_mechanism or self

    @property
    def groups(self) -> Mapping[str, tuple[BoardRow, ...]]:
        """Rows by group, in their order."""
        return {
            group: tuple(row for row in self.rows if row.group == group) for group in (row.group for row in self.rows)
        }

    @property
    def title(self) -> str:
        """Title of the settings, or names and versions of the suites."""
        return self.settings.title or self.suite_titles

    @property
    def suite_titles(self) -> str:
        """Names and versions of the suites."""
        return "; ".join(suite.title for suite in self.suites)

    @property
    def headline(self) -> tuple[BoardColumn, ...]:
        """Columns that are shown first: those of the settings, in their order, or all."""
        columns = {column.key: column for column in self.columns}
        return tuple(columns[key] for key in self.settings.headline if key in columns) or self.columns

    @property
    def further(self) -> tuple[BoardColumn, ...]:
        """Return all other columns."""
        first = {column.key for column in self.headline}
        return tuple(column for column in self.columns if column.key not in first)

    def headline_first(self) -> "Leaderboard":
        """Return the leaderboard with the columns of its headline before the others."""
        return replace(self, columns=(*self.headline, *self.further))
