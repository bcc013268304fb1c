"""Declarations of the metrics of language models."""

from __future__ import annotations

from robench.metrics.intervals import NUM_RESAMPLES
from robench.metrics.metric import Metric

_IMPL = "robench.metrics.language_impl"
# The coverage is simulated by tests/slow/test_language_coverage.py.
INTERVAL = (
    f"percentile bootstrap 95 %, {NUM_RESAMPLES} resamples of whole texts, which covers about 93 % with 30 texts and "
    "94 % with 60; none below 30"
)
_KEPT = ("kept_loss_nats", "num_kept")


def _metric(name: str, title: str, unit: str, *, reads: tuple[str, ...] = (), of_changes: bool = False) -> Metric:
    return Metric(
        name=name,
        title=title,
        unit=unit,
        task="language-modeling",
        interval=INTERVAL,
        scope="condition",
        reads=reads,
        implementation=f"{_IMPL}:{name}",
        contributions=f"{_IMPL}:{name}_contributions",
        of_changes=of_changes,
        lower_is_better=True,
    )


LANGUAGE_METRICS = (
    _metric("perplexity", "perplexity", "perplexity"),
    _metric("token_loss", "loss (nats)", "nats"),
    _metric("bits_per_token", "bits per token", "bits"),
    _metric("kept_perplexity", "perplexity of kept words", "perplexity", reads=_KEPT, of_changes=True),
    _metric("swapped_perplexity", "perplexity of swapped words", "perplexity", reads=_KEPT, of_changes=True),
)
