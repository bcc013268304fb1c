"""Results of one model under one suite, as comparisons read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from robench.core.errors import IncomparableError, UnknownNameError, UsageError
from robench.evaluation.actions import audits_of
from robench.reports.build import check_columns, readings_of, row_of, views_by_name
from robench.reports.selection import cover

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from robench.core.records import Provenance
    from robench.core.report import Cell, Row
    from robench.core.suite import Column, Suite
    from robench.metrics import Readings
    from robench.reports.results import Results
    from robench.reports.selection import Coverage


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResults:
    """All that is known of one model under one suite.

    Attributes:
        coverages: what is in of each condition, by its name.
        row: numbers, or what is missing of them, with notes and flags.
    """

    suite: Suite
    model: str
    coverages: Mapping[str, Coverage]
    row: Row

    def cell(self, column: Column) -> Cell:
        """Return the number of a column, or how much of it is missing."""
        return self.row.cells[column.key]

    def readings(self, column: Column) -> Readings:
        """Return the outcomes that a column reads; raises IncompleteError if examples are missing."""
        return readings_of(column, views_by_name(self.suite), self.coverages)

    @property
    def notes(self) -> list[str]:
        """Notes and raised flags, each with the model's name."""
        flags = [f"{flag.name}: {flag.finding}; {flag.advice}" for flag in self.row.raised]
        return [f"{self.model}: {note}" for note in (*self.row.notes, *flags)]

    @property
    def provenances(self) -> Iterable[Provenance]:
        """Provenance of every record."""
        return (record.provenance for coverage in self.coverages.values() for record in coverage.records)

    @property
    def fingerprints(self) -> dict[str, str]:
        """Fingerprint of the data of each condition that has a record, by the condition's name."""
        return {
            name: coverage.records[0].shard.dataset.fingerprint
            for name, coverage in self.coverages.items()
            if coverage.records
        }


def measured(suite: Suite, results: Results, model: str, limit: int | None) -> ModelResults:
    """Return the results of one model; of a model without results every cell is missing.

    Raises:
        UsageError, UnknownNameError: the limit is below 1, or a column names an unknown metric or condition.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"the limit must be at least 1 example, got {limit}; leave it out for all")
    check_columns(suite)
    found = results.of(model)
    coverages = cover(suite.conditions, found, dataset_sizes=results.sizes, limit=limit)
    audits = cover(audits_of(suite), found, dataset_sizes=results.sizes, limit=limit)
    row = row_of(suite, model, coverages, audits, limit, is_coupled=False)
    return ModelResults(suite=suite, model=model, coverages=coverages, row=row)


def check_known(suite: Suite, results: Results, model: str) -> None:
    """Refuse a model that has no results under a suite; raises UnknownNameError if it has none."""
    known = results.models()
    if model not in known:
        advice = f"Measure it with '{run_command(suite, model)}'."
        raise UnknownNameError("model with results", model, known, advice)


def run_command(suite: Suite, model: str) -> str:
    """Return the command that measures a model under a suite."""
    return f"robench run --suite {suite.name} --model {model}{' --all-examples' * suite.all_examples}"


def check_same_data(first: ModelResults, second: ModelResults) -> None:
    """Refuse two models that were measured on different data, by an IncomparableError."""
    others = second.fingerprints
    for name, fingerprint in first.fingerprints.items():
        if others.get(name, fingerprint) != fingerprint:
            raise IncomparableError(
                f"condition {name!r}: {first.model} was measured on data with the fingerprint {fingerprint[:12]}, "
                f"{second.model} on {others[name][:12]}; measure both on the same data"
            )
