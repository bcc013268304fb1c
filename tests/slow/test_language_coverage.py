"""The stated coverage of the bootstrap over texts, simulated with texts of unequal lengths and difficulties."""

import re

import numpy as np
import pytest

from robench.core.columns import Outcomes
from robench.metrics import METRICS, Readings
from robench.metrics.language import INTERVAL
from robench.tasks.language_modeling import LanguageOutcome

NUM_SIMULATIONS = 1500
TRUTH_NATS = 4.5
RISE_NATS = 0.13


@pytest.mark.parametrize("num_texts", [30, 60])
def test_the_interval_covers_the_true_perplexity_as_often_as_stated(num_texts: int) -> None:
    stated = {int(n): int(share) for share, n in re.findall(r"(\d+) %? ?(?:% )?with (\d+)", INTERVAL)}
    generator = np.random.default_rng(0)
    covered = 0
    for _ in range(NUM_SIMULATIONS):
        # Lengths spread as those of presidents' addresses, 1,300 to 34,000 words.
        lengths = np.exp(generator.normal(9, 0.7, num_texts)).astype(int)
        means = TRUTH_NATS + generator.normal(0, 0.25, num_texts)
        rows = [
            LanguageOutcome(example_id=f"a/{place}", loss_nats=float(n * mean), num_tokens=int(n))
            for place, (n, mean) in enumerate(zip(lengths, means, strict=True))
        ]
        covered += is_covered("perplexity", rows, np.exp(TRUTH_NATS))
    assert 100 * covered / NUM_SIMULATIONS == pytest.approx(stated[num_texts], abs=1.5)


@pytest.mark.parametrize(("num_texts", "stated"), [(30, 91), (60, 93)])
def test_the_interval_covers_the_true_damage_to_kept_words_as_docs_language_says(num_texts: int, stated: int) -> None:
    generator = np.random.default_rng(1)
    covered = 0
    for _ in range(NUM_SIMULATIONS):
        lengths = np.exp(generator.normal(9, 0.7, num_texts)).astype(int)
        clean = TRUTH_NATS + generator.normal(0, 0.25, num_texts)
        # As on the addresses: 14 % at a swap of 4 %, of which texts differ by a sixth.
        rises = RISE_NATS * (1 + generator.normal(0, 1 / 6, num_texts))
        rows = [
            LanguageOutcome(
                example_id=f"a/{place}",
                loss_nats=float(n * (mean + rise)),
                num_tokens=int(n),
                kept_loss_nats=float(n * (mean + rise)),
                num_kept=int(n),
                clean_kept_loss_nats=float(n * mean),
            )
            for place, (n, mean, rise) in enumerate(zip(lengths, clean, rises, strict=True))
        ]
        covered += is_covered("kept_damage", rows, 100 * np.expm1(RISE_NATS))
    assert 100 * covered / NUM_SIMULATIONS == pytest.approx(stated, abs=1.5)


def is_covered(metric: str, rows: list[LanguageOutcome], truth: float) -> bool:
    """Return whether the interval of a metric contains the true value."""
    found = METRICS[metric].compute(Readings(measured=(Outcomes.of(rows),)))
    assert found.low is not None
    assert found.high is not None
    return bool(found.low <= truth <= found.high)
