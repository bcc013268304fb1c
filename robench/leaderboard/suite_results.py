"""Results of one suite as a leaderboard needs them: its report, and beside it what no report holds.

The outcomes of one model at a time are read; contributions and proportions of them are kept.
"""

from collections.abc import Collection, Iterable, Mapping

from robench.comparison.pairing import Testable
from robench.core.protocols import Store
from robench.core.report import Report, Row
from robench.core.suite import Suite
from robench.leaderboard.board import BoardColumn, BoardSuite, ConditionProvenance
from robench.leaderboard.curves import Accuracies, mean_of, severity_accuracies
from robench.metrics import METRICS, title_of, unit_of
from robench.reports.build import readings_of, views_by_name
from robench.reports.notes import releases_and_devices
from robench.reports.results import Stored
from robench.reports.selection import Coverage, cover


class SuiteResults:
    """Results of one suite in a store.

    Attributes:
        measured: provenance by model and key of the condition.
        testable: what tests are about, by key of the column and model: contributions of the examples to a complete
            number, or the numbers of training seeds.
    """

    def __init__(
        self,
        suite: Suite,
        store: Store,
        report: Report,
        *,
        limit: int | None,
        measurements: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        self.suite = suite
        self.report = report
        self.measured: dict[str, dict[str, tuple[ConditionProvenance, ...]]] = {}
        self.testable: dict[str, dict[str, Testable]] = {}
        self._accuracies: dict[str, Accuracies] = {}
        self._views = views_by_name(suite)
        results = Stored(suite, store, measurements, report.seed, report.precision)
        for row in self.report.rows:
            for checkpoint in row.seeds or (row.model,):
                found = results.of(checkpoint)
                coverages = cover(suite.conditions, found, dataset_sizes=results.sizes, limit=limit)
                self._add(row, checkpoint, coverages)

    @property
    def rows(self) -> Mapping[str, Row]:
        """Rows of the report by model."""
        return {row.model: row for row in self.report.rows}

    def accuracies_of(self, rows: Iterable[Row]) -> dict[str, Accuracies]:
        """Return the proportion of verdicts that hold by model, and by family, type and severity of corruption."""
        seeds = {row.model: [name for name in row.seeds or (row.model,) if name in self._accuracies] for row in rows}
        return {model: mean_of([self._accuracies[name] for name in names]) for model, names in seeds.items() if names}

    def board_suite(self) -> BoardSuite:
        """Return the suite as the leaderboard has it."""
        return BoardSuite(
            name=self.suite.name,
            version=self.suite.version,
            seed=self.report.seed,
            description=self.suite.description,
            batch_size=self.suite.batch_size,
            provenance={**self.report.provenance, "precision": self.report.precision},
            notes=self.report.notes,
        )

    def _key(self, name: str) -> str:
        return f"{self.suite.name}/{name}"

    def _add(self, row: Row, checkpoint: str, coverages: Mapping[str, Coverage]) -> None:
        measured = self.measured.setdefault(row.model, {})
        for name, coverage in coverages.items():
            if coverage.records:
                key = self._key(name)
                measured[key] = (*measured.get(key, ()), _measured(checkpoint, coverage))
        self._accuracies[checkpoint] = severity_accuracies(self.suite, coverages)
        for column in self.suite.columns:
            estimate = row.cells[column.key].estimate
            if estimate is not None:
                # Means over seeds differ by more than examples, so that pairing examples would say nothing of them.
                found = estimate.of_seeds or METRICS[column.metric].contributed(
                    readings_of(column, self._views, coverages)
                )
                if found is not None:
                    self.testable.setdefault(self._key(column.key), {})[row.model] = found


def columns_of_suite(suite: Suite, *, several: bool) -> list[BoardColumn]:
    """Return the columns of a suite, its name in their labels where there are several suites."""
    views = views_by_name(suite)
    return [
        BoardColumn(
            key=f"{suite.name}/{column.key}",
            suite=suite.name,
            label=f"{suite.name}: {column.label}" if several else column.label,
            column=column,
            measurements=tuple(
                dict.fromkeys(f"{suite.name}/{views[name].condition.name}" for name in column.conditions)
            ),
            metric=title_of(column),
            unit=unit_of(column),
            interval=METRICS[column.metric].interval,
            lower_is_better=METRICS[column.metric].lower_is_better,
            num_columns=len(suite.columns),
        )
        for column in suite.columns
    ]


def _measured(checkpoint: str, coverage: Coverage) -> ConditionProvenance:
    shard = coverage.records[0].shard
    versions, devices = releases_and_devices(record.provenance for record in coverage.records)
    return ConditionProvenance(
        checkpoint=checkpoint,
        condition=coverage.condition,
        budget=shard.budget,
        dataset=shard.dataset.name,
        fingerprint=shard.dataset.fingerprint,
        dataset_size=shard.dataset.num_examples,
        measurement_key=shard.measurement_key,
        weights_digest=shard.weights_digest,
        seed=shard.seed,
        batch_size=shard.batch_size,
        num_examples=coverage.num_in,
        missing=coverage.missing,
        devices=devices,
        versions=versions,
        finished_at=max(record.provenance.finished_at for record in coverage.records),
    )
