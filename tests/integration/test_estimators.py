"""Classifiers with scikit-learn's interface through whole runs: the series they get, labels, and what they refuse."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import robench
from robench.core.errors import UsageError
from robench.core.report import Report
from robench.declarations.preprocessing import NoPreprocessing

SUITE = """
name: waves
version: 1
seed: 0
batch_size: 10
dataset: waves
conditions:
  - {name: clean}
  - {name: noise, perturbation: {kind: series-corruption, type: noise, severity: 5}}
  - {name: square, perturbation: {kind: square-series, epsilon: 1, num_queries: 60, p_init: 0.8}}
  - {name: pgd, perturbation: {kind: pgd, epsilon: 1, step_size: 1/2, num_steps: 2}}
metrics: [top1_accuracy]
"""
LABELS = ("slow", "fast")


class NearestMean:
    """Classifier by the mean change between steps, fitted to 0.2 for slow series and to 1 for fast ones."""

    classes_ = np.array(["fast", "slow"])

    def predict_proba(self, series: Any) -> Any:
        changes = np.array([np.abs(np.diff(each, axis=1)).mean() for each in series])
        assert all(each.shape[0] == 2 and np.abs(each).max() < 100 for each in series)
        fast = 1 / (1 + np.exp(-8 * (changes - 0.6)))
        return np.stack([fast, 1 - fast], axis=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    draw = np.random.default_rng(0)
    lines = ["@classLabel true slow fast", "@data"]
    for number in range(20):
        steps = np.arange(6 + number % 5)
        # Channels of one wave and its quarter shift.
        angles = (0.2 if number % 2 == 0 else 1.6) * steps + draw.uniform(0, 6)
        channels = [np.sin(angles), np.cos(angles)]
        lines.append(":".join([*(",".join(map(str, each.round(4))) for each in channels), LABELS[number % 2]]))
    (tmp_path / "waves.ts").write_text("\n".join(lines))
    (tmp_path / "registry.yaml").write_text("datasets:\n  waves: {kind: ts, path: waves.ts}\n")
    (tmp_path / "suite.yaml").write_text(SUITE)
    return tmp_path


def measured(folder: Path, conditions: list[str]) -> Report:
    model = robench.wrap(NearestMean(), classes=LABELS)
    registry = folder / "registry.yaml"
    return robench.run(
        robench.load_suite(folder / "suite.yaml", registry=registry).only(conditions),
        {"nearest": (model, NoPreprocessing(inputs="series"))},
        key="nearest mean",
        registry=registry,
        results=folder / "results",
    )


def test_an_estimator_is_measured_under_corruptions_and_without_gradients(folder: Path) -> None:
    report = measured(folder, ["clean", "noise", "square"])
    (row,) = report.rows
    found = {key: cell.estimate.value for key, cell in row.cells.items() if cell.estimate is not None}
    assert found["clean/top1_accuracy"] == 1
    assert found["square/top1_accuracy"] < found["noise/top1_accuracy"] + 0.3 < 1.3


def test_labels_are_those_of_the_dataset_in_its_order() -> None:
    series = np.stack([np.cumsum(np.full((2, 8), step), axis=1) for step in (0.1, 1.5)])
    logits = robench.wrap(NearestMean(), classes=LABELS)(_tensor(series))
    assert logits.argmax(1).tolist() == [0, 1]
    assert robench.wrap(NearestMean(), classes=LABELS[::-1])(_tensor(series)).argmax(1).tolist() == [1, 0]


def _tensor(series: Any) -> Any:
    import torch

    return torch.from_numpy(series.swapaxes(1, 2)).float()


def test_estimators_without_probabilities_or_with_other_labels_are_refused() -> None:
    class Unfitted:
        pass

    with pytest.raises(UsageError, match="estimator Unfitted has no classes_; give a fitted classifier"):
        robench.wrap(Unfitted())  # type: ignore[arg-type]  # what is tested
    with pytest.raises(UsageError, match="has the labels fast, slow, wanted 0, 1: give classes"):
        robench.wrap(NearestMean())


def test_attacks_with_gradients_fail_with_a_reason_and_the_rest_is_measured(folder: Path) -> None:
    (row,) = measured(folder, ["clean", "pgd"]).rows
    estimates = {key: cell.estimate for key, cell in row.cells.items()}
    assert estimates["pgd/top1_accuracy"] is None
    assert any("the model has no gradients by its inputs; take corruptions" in note for note in row.notes)
