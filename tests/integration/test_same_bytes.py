"""The same outcomes, byte for byte, whoever measures them, in whatever order; tests/slow has more runs, and kills."""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Robench
from killed_runs import sorted_outcomes
from safetensors.torch import save_file
from series_files import ended_by_nan, series_of

import robench as package
from robench.declare import read_registry
from robench.domains.series_impl import lengths, padded
from robench.models.build import build
from robench.store import FolderStore


def test_workers_and_another_order_give_the_same_bytes_as_one_run(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    suite = small_suite(**{"num_examples: 150": "num_examples: 40", "batch_size: 50": "batch_size: 20"})
    options = ("run", "--suite", suite, "--model", "digits-vit")
    serial, limited, workers = ((*options, "--results", tmp_path / name) for name in ("serial", "limited", "workers"))
    assert robench(*serial, "--executor", "serial").code == 0
    assert robench(*limited, "--executor", "serial", "--limit", 30).code == 0
    assert robench(*limited, "--executor", "serial").code == 0
    assert robench(*workers, "--executor", "processes", "--workers", 1).code == 0
    outcomes = sorted_outcomes(tmp_path / "serial")
    assert len(outcomes) == 6
    assert sorted_outcomes(tmp_path / "limited") == sorted_outcomes(tmp_path / "workers") == outcomes


SERIES = """
datasets:
  waves: {kind: npz, domain: series, path: waves.npz}
checkpoints:
  small:
    architecture:
      {backbone: series, num_steps: 12, num_channels: 2, num_classes: 3, dim: 8, num_heads: 2, depth: 1, feedforward: 8}
    weights: {uri: small.safetensors, sha256: null}
    preprocessing: {kind: none, inputs: series}
"""
SERIES_SUITE = """
name: by-SIZE
version: 1
seed: 0
batch_size: SIZE
dataset: waves
conditions:
  - {name: clean}
  - {name: noise, perturbation: {kind: series-corruption, type: noise, severity: 3}}
  - {name: pgd, perturbation: {kind: pgd, epsilon: 0.15, step_size: 0.04, num_steps: 5, stop: at_success}}
  - {name: apgd, perturbation: {kind: apgd, epsilon: 0.15, num_steps: 8}}
  - {name: square, perturbation: {kind: square-series, epsilon: 0.15, num_queries: 20, p_init: 0.8, stop: at_success}}
metrics: [top1_accuracy]
audit: false
"""


def write_series(folder: Path) -> None:
    """Write 18 series of 3 to 12 steps, and a registry with a model ``small`` that gets them right."""
    (registry := folder / "registry.yaml").write_text(SERIES)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        save_file(build(read_registry(registry)["small"].architecture).state_dict(), folder / "small.safetensors")
    series = [each / [1, 10] - 3 for each in series_of(18, longest=12)]
    inputs = padded([torch.from_numpy(each).float() for each in series], 12)
    targets = package.load_checkpoint("small", registry=registry).outputs(inputs).argmax(1)
    assert len(set(lengths(inputs).tolist())) > 5
    np.savez(folder / "waves.npz", targets=targets.numpy(), inputs=ended_by_nan(series))


def measured(folder: Path, batch_size: int, executor: str, workers: int = 1) -> Path:
    """Measure the suite of series, and return the folder of its results."""
    (suite := folder / f"{batch_size}.yaml").write_text(SERIES_SUITE.replace("SIZE", str(batch_size)))
    results, registry = folder / f"{executor}-{batch_size}", folder / "registry.yaml"
    package.run(suite, "small", registry=registry, results=results, executor=executor, workers=workers, device="cpu")
    return results


def by_example(results: Path) -> dict[tuple[str, str, str], Any]:
    """Return each field of the outcome of each example of each condition."""
    records = FolderStore(results).records(lambda header: True)
    return {
        (record.shard.condition, each.example_id, name): value
        for record in records
        for each in record.outcomes
        for name, value in asdict(each).items()
    }


@pytest.fixture(scope="module")
def serial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results in batches of six series, beside which the registry is."""
    folder = tmp_path_factory.mktemp("series")
    write_series(folder)
    return measured(folder, 6, "serial")


def test_series_of_unequal_length_have_the_same_outcomes_in_other_batches(serial: Path) -> None:
    outcomes = by_example(serial)
    fooled = Counter(place[0] for place, value in outcomes.items() if place[2] == "correct_top1" and not value)
    assert fooled["clean"] == 0
    assert all(0 < fooled[name] < 18 for name in ("noise", "pgd", "apgd", "square"))
    for batch_size in (5, 18):
        # Products of matrices round differently for other numbers of rows on some processors.
        assert by_example(measured(serial.parent, batch_size, "serial")) == pytest.approx(outcomes, abs=1e-4)


@pytest.mark.slow
def test_two_workers_give_the_same_outcomes_of_series_as_one_run(serial: Path) -> None:
    assert sorted_outcomes(measured(serial.parent, 6, "processes", workers=2)) == sorted_outcomes(serial)
