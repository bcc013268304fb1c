"""Declarations of errors under corruptions: by type, and over a family."""

from __future__ import annotations

from robench.metrics.intervals import BOOTSTRAP
from robench.metrics.metric import Metric

CORRUPTION_ERROR = Metric(
    name="corruption_error",
    title="corruption error",
    unit="ratio",
    task="classification",
    interval=BOOTSTRAP,
    lower_is_better=True,
    scope="type",
    needs_reference=True,
    implementation="robench.metrics.corruptions_impl:corruption_error",
)
MEAN_CORRUPTION_ERROR = Metric(
    name="mean_corruption_error",
    title="mCE",
    unit="ratio",
    task="classification",
    interval=BOOTSTRAP,
    lower_is_better=True,
    scope="family",
    needs_reference=True,
    implementation="robench.metrics.corruptions_impl:mean_corruption_error",
)
RELATIVE_MEAN_CORRUPTION_ERROR = Metric(
    name="relative_mean_corruption_error",
    title="relative mCE",
    unit="ratio",
    task="classification",
    interval=BOOTSTRAP,
    lower_is_better=True,
    scope="family",
    needs_clean=True,
    needs_reference=True,
    implementation="robench.metrics.corruptions_impl:relative_mean_corruption_error",
)
MEAN_ERROR = Metric(
    name="mean_error",
    title="mean error",
    unit="share",
    task="classification",
    interval=BOOTSTRAP,
    lower_is_better=True,
    scope="family",
    implementation="robench.metrics.corruptions_impl:mean_error",
)
