"""A policy from its training to its table: the same bytes serially, with workers, and after a limit."""

from pathlib import Path

import torch
from conftest import Robench
from killed_runs import sorted_outcomes
from torch import Tensor, nn

import robench as package
from robench.declarations.preprocessing import NoPreprocessing


class Still(nn.Module):
    """Policy that does nothing."""

    def forward(self, window: Tensor) -> Tensor:
        return torch.zeros(len(window), 1) + 0 * window[:, -1, :1]


SUITE = """
name: short
version: 1
seed: 0
task: control
dataset: short
batch_size: 3
audit: false
conditions:
  - {name: clean}
  - {name: noise, perturbation: {kind: episode-shift, type: observation-noise, severity: 3}}
  - {name: mad, perturbation: {kind: observation-attack, epsilon: 0.2, num_steps: 2}}
metrics: [mean_return, worst_decile, early_ends, mean_score]
"""
REGISTRY = """
datasets:
  short: {kind: environment, id: Pendulum-v1, max_steps: 15, num_episodes: 7, target_return: -20}
checkpoints:
  small:
    task: control
    architecture:
      {backbone: decision-transformer, num_observations: 3, num_actions: 1, dim: 8, num_heads: 2, feedforward: 8,
       depth: 1, context: 4}
    weights: {uri: small.safetensors, sha256: null}
    preprocessing: {kind: none, inputs: episodes}
    training:
      {kind: decision-training, dataset: pendulum, trajectories: pendulum-offline-medium, seed: 0, num_epochs: 2,
       steps_per_epoch: 5, batch_size: 4, warmup_steps: 5}
"""


def test_a_policy_is_trained_and_played_with_the_same_bytes_wherever_it_runs(robench: Robench, tmp_path: Path) -> None:
    (suite := tmp_path / "suite.yaml").write_text(SUITE)
    (registry := tmp_path / "registry.yaml").write_text(REGISTRY)
    ended = robench("train", "small", "--registry", registry)
    assert ended.code == 0, ended.stderr
    assert "small: clean return" in ended.stdout
    options = ("run", "--suite", suite, "--registry", registry, "--model", "small")
    ended = robench(*options, "--results", tmp_path / "serial", "--executor", "serial")
    assert ended.code == 0, ended.stderr
    assert "mad normalised score" in ended.stdout
    robench(*options, "--results", tmp_path / "workers", "--executor", "serial", "--limit", 3)
    assert robench(*options, "--results", tmp_path / "workers", "--executor", "processes", "--workers", 1).code == 0
    outcomes = sorted_outcomes(tmp_path / "serial")
    assert outcomes == sorted_outcomes(tmp_path / "workers")
    assert len(outcomes) == 9
    report = package.run(
        suite, {"mine": (Still(), NoPreprocessing(inputs="episodes"))}, registry=registry, progress=False
    )
    found = report.rows[0].cells["clean/mean_return"].estimate
    assert found is not None
    assert found.num_examples == 7
