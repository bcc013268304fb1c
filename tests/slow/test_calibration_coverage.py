"""The stated coverage of the interval of an ECE in simulations, and torchmetrics beside robench's numbers."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from robench.core.columns import Outcomes, Values
from robench.metrics import METRICS, Readings
from robench.metrics.calibration import INVERTED
from robench.tasks.classification import ClassificationOutcome

REPEATS = 200
ACCURACIES = {
    "calibrated": lambda confidence: confidence,
    "slightly overconfident": lambda confidence: confidence**1.1,
    "overconfident": lambda confidence: confidence**1.6,
    "both": lambda confidence: (confidence + 0.06 * np.sin(12 * confidence)).clip(0, 1),
}


def outcomes_of(confidences: np.ndarray, right: np.ndarray) -> Outcomes:
    """Return outcomes of which calibration alone is of interest."""
    count = len(right)
    columns = {
        "example_id": Values(np.array([f"a/{place:06d}" for place in range(count)], np.dtypes.StringDType())),
        "target": Values(np.zeros(count, np.int64)),
        "prediction": Values(np.where(right, 0, 1)),
        "correct_top1": Values(right),
        "confidence": Values(confidences),
    }
    return Outcomes(ClassificationOutcome, columns, count)


@pytest.mark.parametrize("count", [100, 2000])
@pytest.mark.parametrize("kind", ACCURACIES)
def test_the_interval_covers_the_population_as_often_as_stated(kind: str, count: int) -> None:
    least, most = map(int, re.findall(r"covers (\d+) to (\d+) %", INVERTED)[0])
    accuracy, generator = ACCURACIES[kind], np.random.default_rng(0)
    confidences = generator.beta(5, 1.2, 2_000_000).clip(0.1, 1)
    bins = np.ceil(15 * confidences).astype(int)
    wanted = np.abs(np.bincount(bins, accuracy(confidences) - confidences)).sum() / len(confidences)
    covered = 0
    for _ in range(REPEATS):
        drawn = generator.beta(5, 1.2, count).clip(0.1, 1)
        found = METRICS["ece"].compute(
            Readings(measured=(outcomes_of(drawn, generator.random(count) < accuracy(drawn)),))
        )
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= wanted + 1e-9 and wanted <= found.high
    # Two standard errors of a simulated proportion.
    assert least - 4 <= 100 * covered / REPEATS <= most + 2


def test_torchmetrics_gives_the_same_error(tmp_path: Path) -> None:
    """Its bins have their lower ends, which no confidence here is; its class sums in float32."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path)]
    subprocess.run([*pip, "torchmetrics", "lightning-utilities"], check=True)
    sys.path.insert(0, str(tmp_path))
    try:
        import torch
        from torchmetrics.classification import (  # type: ignore[import-not-found]  # installed above
            MulticlassCalibrationError,
        )
        from torchmetrics.functional.classification.calibration_error import (  # type: ignore[import-not-found]  # likewise
            _ce_compute,
        )
    finally:
        sys.path.remove(str(tmp_path))
    generator = torch.Generator().manual_seed(0)
    for case in range(100):
        num_classes = 2 + case % 9
        proportions = (3 * torch.randn(200, num_classes, generator=generator, dtype=torch.float64)).softmax(1)
        targets = torch.randint(num_classes, (200,), generator=generator)
        theirs = MulticlassCalibrationError(num_classes, n_bins=15, norm="l1")
        confidences, predictions = proportions.max(1)
        outcomes = outcomes_of(confidences.numpy(), (predictions == targets).numpy())
        found = METRICS["ece"].compute(Readings(measured=(outcomes,)))
        assert found.value == pytest.approx(float(theirs(proportions, targets)), abs=1e-6), case
        in_double = _ce_compute(confidences, (predictions == targets).double(), 15)
        assert found.value == pytest.approx(float(in_double), abs=1e-9), case
