"""Descriptor of metrics, and the outcomes that they read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from robench.core.errors import ContractError, IncompleteError, described
from robench.core.library_watch import OWN
from robench.core.providers import title_of
from robench.core.report import Estimate
from robench.core.user_code import what_was_raised
from robench.declarations.base import imported
from robench.metrics.intervals import INTERVAL as WILSON

if TYPE_CHECKING:
    from collections.abc import Mapping

    from robench.core.columns import Outcomes
    from robench.metrics.contributions import Contributions

# Unit of metrics of distances, for which tables have that of the dataset's domain, such as pixels.
DISTANCE = "distance"
Scope = Literal["condition", "threat-model", "detection", "search", "distance", "radius", "type", "family", "class"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """Metric of outcomes, without torch and numpy until it is computed.

    Attributes:
        name: name in YAML; ``title``: name for readers.
        unit: unit of its estimates, see ``core.report.Estimate``.
        task: task whose outcomes it reads, a key of ``tasks.TASKS``.
        scope: set of conditions that each of its columns reads. ``condition``: one condition, or one budget of a sweep.
            ``threat-model``: the clean condition, and every attack within the threat model. ``detection``: examples out
            of distribution, and their negatives. ``search``: one minimum-norm attack. ``distance``: the same, within
            each distance that the condition states. ``radius``: clean examples, within each distance. ``type``: five
            severities of one type of corruption. ``family``: all types of corruption of one family. ``class``: one
            condition, by class of its dataset.
        implementation: ``module:function`` that computes it, a pure function from ``Readings`` to an ``Estimate``.
        reads_scores: whether it reads more than the prediction, the only field recorded by attacks with early stopping.
        reads: optional fields of outcomes that it reads; None if unknown, so that it may read any.
        interval: name of the method of its bounds in tables; empty for a metric without bounds.
        needs_clean: whether it reads images without corruption; of the scope ``family``.
        needs_reference: whether its unit is a reference's errors, which not every family has.
        takes_any_severity: whether it averages over the severities that there are, and needs not all five; of the scope
            ``family``.
        of_changes: whether it is about what a perturbation changed and left, so that clean conditions have no column of
            it.
        lower_is_better: whether a smaller number is the better one, as of errors.
        may_be_negative: whether a score below 0 is possible, as of returns.
        contributions: ``module:function`` from ``Readings`` to the ``Contributions`` of single examples, which paired
            tests are about; None computes the metric anew for every draw of a test.
    """

    name: str
    title: str
    unit: str
    task: str
    scope: Scope
    implementation: str
    reads_scores: bool = False
    reads: tuple[str, ...] | None = None
    interval: str = WILSON
    needs_clean: bool = False
    needs_reference: bool = False
    takes_any_severity: bool = False
    of_changes: bool = False
    lower_is_better: bool = False
    may_be_negative: bool = False
    contributions: str | None = None

    def compute(self, readings: Readings) -> Estimate:
        """Return the metric's number.

        Raises:
            IncompleteError: there are no outcomes, or those of two conditions do not belong together.
            ContractError: they are not of the metric's task or scope; or a third-party metric raised an error, or
                returned no estimate in its unit.
        """
        if self.implementation.startswith(f"{OWN}."):
            estimate: Estimate = imported(self.implementation)(readings)
            return estimate
        return self._foreign_estimate(readings)

    def contributed(self, readings: Readings) -> Contributions | None:
        """Return the contributions of single examples to the number; None if the metric does not state them.

        Raises like ``compute``.
        """
        if self.contributions is None:
            return None
        if self.contributions.startswith(f"{OWN}."):
            own: Contributions = imported(self.contributions)(readings)
            return own
        # Imported here, since it needs numpy.
        from robench.metrics.contributions import Contributions

        found = self._foreign_result(self.contributions, readings)
        if not isinstance(found, Contributions):
            title = title_of("metric", self, self.name)
            raise ContractError(
                f"{title} returned a {type(found).__name__}, wanted robench.metrics.contributions.Contributions"
            )
        return found

    def _foreign_estimate(self, readings: Readings) -> Estimate:
        title = title_of("metric", self, self.name)
        estimate = self._foreign_result(self.implementation, readings)
        if not isinstance(estimate, Estimate):
            raise ContractError(f"{title} returned a {type(estimate).__name__}, wanted robench.core.report.Estimate")
        if estimate.unit != self.unit:
            raise ContractError(f"{title} returned an estimate in {estimate.unit!r}, wanted its unit {self.unit!r}")
        return estimate

    def _foreign_result(self, path: str, readings: Readings) -> object:
        # Imported here, since most metrics are robench's.
        from robench.core.containment import Contained

        try:
            with Contained():
                return imported(path)(readings)
        except IncompleteError:
            raise
        # Broad because it is code of others.
        except Exception as error:
            title = title_of("metric", self, self.name)
            raise ContractError(f"{title} raised {described(what_was_raised(error))}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """Outcomes that one column reads, by the role of each condition.

    Attributes:
        measured: outcomes of the conditions that the column reports, in its order: one condition, or all attacks.
        clean: outcomes without perturbation, if the column has such a condition.
        negatives: outcomes of the in-distribution examples of out-of-distribution detection.
        corrupted: outcomes by type and severity of corruption.
        family: name of the family of the corruptions, such as ``imagenet-c``.
        norm: norm of a minimum-norm attack. ``within``: distance of the column, in units of the inputs.
        of_class: class that the column is about.
    """

    measured: tuple[Outcomes, ...] = ()
    clean: Outcomes | None = None
    negatives: Outcomes | None = None
    corrupted: Mapping[str, Mapping[int, Outcomes]] = field(default_factory=dict)
    family: str = ""
    norm: str | None = None
    within: float | None = None
    of_class: int | None = None
