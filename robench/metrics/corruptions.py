"""Declarations of errors and accuracies under corruptions: by type, and over a family."""

from __future__ import annotations

from robench.metrics.intervals import BOOTSTRAP
from robench.metrics.metric import Metric

CORRUPTION_ERROR = Metric(
    name="corruption_error",
    title="corruption error",
    unit="ratio",
    task="classification",
    interval=BOOTSTRAP,
    scope="type",
    needs_reference=True,
    reads=(),
    implementation="robench.metrics.corruptions_impl:corruption_error",
    contributions="robench.metrics.corruptions_impl:corruption_error_contributions",
    lower_is_better=True,
)
MEAN_CORRUPTION_ERROR = Metric(
    name="mean_corruption_error",
    title="mCE",
    unit="ratio",
    task="classification",
    interval=BOOTSTRAP,
    scope="family",
    needs_reference=True,
    reads=(),
    implementation="robench.metrics.corruptions_impl:mean_corruption_error",
    contributions="robench.metrics.corruptions_impl:mean_corruption_error_contributions",
    lower_is_better=True,
)
RELATIVE_MEAN_CORRUPTION_ERROR = Metric(
    name="relative_mean_corruption_error",
    title="relative mCE",
    unit="ratio",
    task="classification",
    interval=BOOTSTRAP,
    scope="family",
    needs_clean=True,
    needs_reference=True,
    reads=(),
    implementation="robench.metrics.corruptions_impl:relative_mean_corruption_error",
    contributions="robench.metrics.corruptions_impl:relative_contributions",
    lower_is_better=True,
)
MEAN_ERROR = Metric(
    name="mean_error",
    title="mean error",
    unit="share",
    task="classification",
    interval=BOOTSTRAP,
    scope="family",
    reads=(),
    implementation="robench.metrics.corruptions_impl:mean_error",
    contributions="robench.metrics.corruptions_impl:mean_error_contributions",
    lower_is_better=True,
)
MEAN_TOP1_ACCURACY = Metric(
    name="mean_top1_accuracy",
    title="mean top-1 accuracy",
    unit="share",
    task="classification",
    interval=BOOTSTRAP,
    scope="family",
    reads=(),
    implementation="robench.metrics.corruptions_impl:mean_top1_accuracy",
    contributions="robench.metrics.corruptions_impl:mean_top1_contributions",
)
MEAN_TOP5_ACCURACY = Metric(
    name="mean_top5_accuracy",
    title="mean top-5 accuracy",
    unit="share",
    task="classification",
    interval=BOOTSTRAP,
    scope="family",
    reads_scores=True,
    reads=("correct_top5",),
    implementation="robench.metrics.corruptions_impl:mean_top5_accuracy",
    contributions="robench.metrics.corruptions_impl:mean_top5_contributions",
)
CORRUPTION_TOP1_ACCURACY = Metric(
    name="corruption_top1_accuracy",
    title="top-1 accuracy",
    unit="share",
    task="classification",
    interval=BOOTSTRAP,
    scope="type",
    reads=(),
    implementation="robench.metrics.corruptions_impl:mean_top1_accuracy",
    contributions="robench.metrics.corruptions_impl:mean_top1_contributions",
)
CORRUPTION_TOP5_ACCURACY = Metric(
    name="corruption_top5_accuracy",
    title="top-5 accuracy",
    unit="share",
    task="classification",
    interval=BOOTSTRAP,
    scope="type",
    reads_scores=True,
    reads=("correct_top5",),
    implementation="robench.metrics.corruptions_impl:mean_top5_accuracy",
    contributions="robench.metrics.corruptions_impl:mean_top5_contributions",
)
