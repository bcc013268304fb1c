"""A domain of robench's users, time series without limits, from an npz file through attacks to a report.

Everything that is specific to images (limits, grey levels, three channels) would show here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn

import robench
from robench.core.errors import DeclarationError, UsageError
from robench.declarations.preprocessing import Normalisation
from robench.domains import DOMAINS, Domain

if TYPE_CHECKING:
    from pathlib import Path

SERIES = Domain(
    name="test-series",
    title="Series (T, C)",
    implementation="robench.domains.real_valued:RealValued",
    axes=("time", "channels"),
    is_real_valued=True,
    unit="millivolt",
)
SUITE = """
name: waves-adv
version: 1
seed: 0
batch_size: 8
dataset: waves
conditions:
  - {name: clean}
  - {name: pgd, perturbation: {kind: pgd, epsilon: 2, step_size: 1/2, num_steps: 8}}
  - {name: fgsm, perturbation: {kind: fgsm, epsilon: 3, norm: l2, space: normalised}}
  - {name: noise, perturbation: {kind: gaussian-noise, epsilon: 1}}
  - name: cw
    perturbation: {kind: cw, num_steps: 60, num_search_steps: 5, initial_c: 10.0, learning_rate: 1.0}
    distances: [2]
  - {name: fab, perturbation: {kind: fab, norm: l2, num_steps: 5}}
metrics: [top1_accuracy, median_distance, accuracy_at_distance]
"""


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    builtin: Any = DOMAINS.builtin
    monkeypatch.setitem(builtin, SERIES.name, SERIES)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Series of two classes, which differ in the frequency of a wave of height 8, with values beyond [-1, 1]."""
    draw = np.random.default_rng(0)
    targets = np.arange(24) % 2
    time = np.linspace(0, 2 * np.pi, 20)[:, None]
    waves = 8 * np.sin((1 + 2 * targets[:, None, None]) * time) + 0.3 * draw.normal(size=(24, 20, 2))
    np.savez(tmp_path / "waves.npz", inputs=waves, targets=targets)
    (tmp_path / "registry.yaml").write_text("datasets:\n  waves: {kind: npz, path: waves.npz, domain: test-series}\n")
    (tmp_path / "suite.yaml").write_text(SUITE)
    return tmp_path


def model() -> tuple[nn.Module, Normalisation]:
    """Return a classifier that correlates both channels with the two waves."""
    time = torch.linspace(0, 2 * torch.pi, 20)
    net = nn.Sequential(nn.Flatten(), nn.Linear(40, 2, bias=False))
    waves = torch.stack([torch.sin(time), torch.sin(3 * time)])
    net[1].weight.data = waves[..., None].expand(-1, -1, 2).flatten(1).contiguous()
    return net, Normalisation(inputs=SERIES.name, mean=(0.5, -0.5), std=(5.0, 6.0))


def test_series_are_measured_as_images_are(folder: Path) -> None:
    report = robench.run(
        str(folder / "suite.yaml"), {"net": model()}, registry=folder / "registry.yaml", results=folder / "results"
    )
    (row,) = report.rows
    value = {key: cell.estimate.value for key, cell in row.cells.items() if cell.estimate is not None}
    assert value["clean/top1_accuracy"] == value["noise/top1_accuracy"] == 1
    # An attack that clipped to [0, 1], or whose budget was bounded by 1, would not reach this.
    assert value["pgd/top1_accuracy"] == 1
    assert 1 < value["cw/median_distance"] <= value["fab/median_distance"] * 1.5
    assert value["cw@l2 2/accuracy_at_distance"] == 1
    labels = [column.label for column in report.columns]
    assert "cw median distance (millivolts)" in labels


def test_what_is_of_images_is_refused_before_a_run(folder: Path) -> None:
    square = SUITE.replace("kind: gaussian-noise, epsilon: 1", "kind: square, epsilon: 1, num_queries: 3, p_init: 0.5")
    (folder / "suite.yaml").write_text(square)
    with pytest.raises(
        DeclarationError, match=r"must be no square on waves, whose inputs .* have the axes time, channels"
    ):
        robench.run(str(folder / "suite.yaml"), {"net": model()}, registry=folder / "registry.yaml")


def test_a_model_of_another_number_of_channels_is_refused_before_a_run(folder: Path) -> None:
    one = Normalisation(inputs=SERIES.name, mean=(0.0,), std=(1.0,))
    with pytest.raises(UsageError, match=r"inputs must be test-series \(batch, time, 1\), got \(2, 20, 2\)"):
        robench.run(str(folder / "suite.yaml"), {"net": (model()[0], one)}, registry=folder / "registry.yaml")
