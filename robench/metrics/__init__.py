"""Metrics by the names used in suites: each module declares some and computes them, and imports numpy when it does."""

from robench.core.plugins import Plugins
from robench.core.suite import Column
from robench.metrics.accuracy import TOP1_ACCURACY, TOP5_ACCURACY
from robench.metrics.calibration import CALIBRATION_METRICS
from robench.metrics.certificates import CERTIFIED_ACCURACY
from robench.metrics.control import CONTROL_METRICS
from robench.metrics.corruptions import CORRUPTION_METRICS
from robench.metrics.detection import DETECTION_METRICS
from robench.metrics.distances import ACCURACY_AT_DISTANCE, MEDIAN_DISTANCE
from robench.metrics.language import LANGUAGE_METRICS
from robench.metrics.metric import Metric, Readings, Scope
from robench.metrics.robust_accuracy import ROBUST_ACCURACY
from robench.metrics.segmentation import SEGMENTATION_METRICS
from robench.metrics.several_predictions import MEAN_ACCURACY, WORST_ACCURACY

_BUILTIN: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        TOP1_ACCURACY,
        TOP5_ACCURACY,
        MEAN_ACCURACY,
        WORST_ACCURACY,
        ROBUST_ACCURACY,
        ACCURACY_AT_DISTANCE,
        MEDIAN_DISTANCE,
        *CALIBRATION_METRICS,
        CERTIFIED_ACCURACY,
        *CONTROL_METRICS,
        *CORRUPTION_METRICS,
        *DETECTION_METRICS,
        *LANGUAGE_METRICS,
        *SEGMENTATION_METRICS,
    )
}
METRICS = Plugins("metric", _BUILTIN, base=Metric, instances=True, by_target=True)

__all__ = ["METRICS", "Metric", "Readings", "Scope", "title_of", "unit_of"]


def unit_of(column: Column) -> str:
    """Return the unit of a column's numbers; see ``core.report.Estimate``."""
    return column.unit or METRICS[column.metric].unit


def title_of(column: Column) -> str:
    """Return the title of a column's metric, with the unit of distances, such as ``median distance (pixels)``."""
    title = METRICS[column.metric].title
    return f"{title} ({column.unit})" if column.unit else title
