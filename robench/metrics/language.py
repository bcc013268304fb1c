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
PERPLEXITY = Metric(
    name="perplexity",
    title="perplexity",
    unit="perplexity",
    task="language-modeling",
    interval=INTERVAL,
    scope="condition",
    reads=(),
    implementation=f"{_IMPL}:perplexity",
    contributions=f"{_IMPL}:perplexity_contributions",
    lower_is_better=True,
)
TOKEN_LOSS = Metric(
    name="token_loss",
    title="loss (nats)",
    unit="nats",
    task="language-modeling",
    interval=INTERVAL,
    scope="condition",
    reads=(),
    implementation=f"{_IMPL}:token_loss",
    contributions=f"{_IMPL}:token_loss_contributions",
    lower_is_better=True,
)
BITS_PER_TOKEN = Metric(
    name="bits_per_token",
    title="bits per token",
    unit="bits",
    task="language-modeling",
    interval=INTERVAL,
    scope="condition",
    reads=(),
    implementation=f"{_IMPL}:bits_per_token",
    contributions=f"{_IMPL}:bits_contributions",
    lower_is_better=True,
)
KEPT_PERPLEXITY = Metric(
    name="kept_perplexity",
    title="perplexity of kept words",
    unit="perplexity",
    task="language-modeling",
    interval=INTERVAL,
    scope="condition",
    reads=("kept_loss_nats", "num_kept"),
    implementation=f"{_IMPL}:kept_perplexity",
    contributions=f"{_IMPL}:kept_contributions",
    of_changes=True,
    lower_is_better=True,
)
SWAPPED_PERPLEXITY = Metric(
    name="swapped_perplexity",
    title="perplexity of swapped words",
    unit="perplexity",
    task="language-modeling",
    interval=INTERVAL,
    scope="condition",
    reads=("kept_loss_nats", "num_kept"),
    implementation=f"{_IMPL}:swapped_perplexity",
    contributions=f"{_IMPL}:swapped_contributions",
    of_changes=True,
    lower_is_better=True,
)
LANGUAGE_METRICS = (PERPLEXITY, TOKEN_LOSS, BITS_PER_TOKEN, KEPT_PERPLEXITY, SWAPPED_PERPLEXITY)
