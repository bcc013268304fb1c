"""A policy from its training to its table: the same bytes serially, with workers, and after a limit."""

from pathlib import Path

import numpy as np
import torch
from conftest import Robench
from killed_runs import check_kills_of, sorted_outcomes
from torch import Tensor, nn

import robench as package
from robench.declarations.preprocessing import NoPreprocessing
from robench.declare import find_checkpoints, find_suites
from robench.models.loading import load_model
from robench.runs.pictured import views_named
from robench.runs.request import RunRequest
from robench.runs.watched import watched
from robench.store import FolderStore


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
  short: {kind: environment, id: Pendulum-v1, max_steps: 60, num_episodes: 7, target_return: -20}
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
    check_kills_of(robench, [str(each) for each in options[1:]], tmp_path, num_kills=2)
    outcomes = sorted_outcomes(tmp_path / "serial")
    assert outcomes == sorted_outcomes(tmp_path / "killed")
    assert outcomes == sorted_outcomes(tmp_path / "workers")
    assert len(outcomes) == 9
    records = FolderStore(tmp_path / "serial").records(lambda header: header.condition == "mad")
    (found,) = (each for each in records if each.shard.start == 3)
    checkpoints = tuple(find_checkpoints(["small"], [registry]))
    request = RunRequest(suites=tuple(find_suites([str(suite)], [registry])), checkpoints=checkpoints)
    clean, attacked = watched(request, views_named(request.suites[0], ["mad"]), number=4)
    assert np.array_equal(clean.states, clean.seen)
    assert attacked.returns[-1] == found.outcomes.column("total_return")[1] != clean.returns[-1]
    deviations = load_model(checkpoints[0], torch.device("cpu")).module.get_buffer("observation_std")
    assert 0.1 < (np.abs(attacked.seen - attacked.states) / deviations.numpy()).max() < 0.2001
    drawn = tmp_path / "episode.svg"
    ended = robench("figure", "episode", *options[1:], "--condition", "mad", "--number", 4, "--output", drawn)
    assert ended.code == 0, ended.stderr
    assert "mad, as seen" in drawn.read_text()
    assert robench("figure", "episode", *options[1:], "--number", 7, "--output", drawn).code == 2
    report = package.run(
        suite, {"mine": (Still(), NoPreprocessing(inputs="episodes"))}, registry=registry, progress=False
    )
    found = report.rows[0].cells["clean/mean_return"].estimate
    assert found is not None
    assert found.num_examples == 7
