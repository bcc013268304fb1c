"""The stated coverage of the bootstrap over texts, simulated with texts of unequal lengths and difficulties."""

from __future__ import annotations

import re

import numpy as np
import pytest

from robench.core.columns import Outcomes
from robench.metrics import METRICS, Readings
from robench.metrics.language import INTERVAL
from robench.tasks.language_modeling import LanguageOutcome

NUM_SIMULATIONS = 1500
TRUTH_NATS = 4.5


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
        found = METRICS["perplexity"].compute(Readings(measured=(Outcomes.of(rows),)))
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= np.exp(TRUTH_NATS) <= found.high
    assert 100 * covered / NUM_SIMULATIONS == pytest.approx(stated[num_texts], abs=1.5)
