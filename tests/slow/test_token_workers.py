"""Classifiers of tokens in worker processes: searches by gradients and longer sequences give the same outcomes."""

from pathlib import Path

import torch
import yaml
from conftest import Robench
from safetensors.torch import save_file
from test_tokens_run import LONGER, SEARCH, SUITE

from robench.models.build import build
from robench.models.tokens import Tokens
from robench.store import FolderStore

SIZES = {"vocabulary_size": 16, "num_steps": 128, "num_classes": 10, "dim": 16, "num_heads": 2, "feedforward": 16}
CONDITIONS = [
    {"name": "clean"},
    {"name": "search", "perturbation": SEARCH},
    {"name": "longer", "perturbation": LONGER},
]


def write_registry(folder: Path, name: str, **fields: int) -> Path:
    """Write random weights of a classifier of short ListOps, and a registry file with its entry."""
    sizes = SIZES | fields
    torch.manual_seed(0)
    module = build(Tokens(**sizes))  # type: ignore[arg-type]  # fields of sizes
    save_file(
        {key: value + 0.2 * torch.randn_like(value) for key, value in module.state_dict().items()},
        folder / f"{name}.safetensors",
    )
    entry = {
        "task": "classification",
        "architecture": {"backbone": "token-classifier", **sizes},
        "weights": {"uri": f"{name}.safetensors", "sha256": None},
        "preprocessing": {"kind": "none", "inputs": "tokens"},
        "training_data": "none",
        "source": "a test",
        "licence": "none",
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"checkpoints": {name: entry}}))
    return path


def write_suite(folder: Path) -> Path:
    path = folder / "suite.yaml"
    path.write_text(yaml.safe_dump({**SUITE, "conditions": CONDITIONS, "batches_per_shard": 1}))
    return path


def test_workers_change_no_outcome(robench: Robench, tmp_path: Path) -> None:
    registry, suite = write_registry(tmp_path, "mine"), write_suite(tmp_path)

    def measured(name: str, *options: object) -> list[tuple[object, ...]]:
        ended = robench(
            *("run", "--suite", suite, "--registry", registry, "--model", "mine", "--limit", 60),
            *("--results", tmp_path / name, *options),
        )
        assert ended.code == 0, ended.stderr
        records = FolderStore(tmp_path / name).records(lambda header: True)
        return sorted((each.shard.key, *(str(outcome) for outcome in each.outcomes)) for each in records)

    serial = measured("serial", "--executor", "serial")
    assert serial == measured("two", "--workers", 2)
    assert len(serial) == 3 * 3


def test_a_model_with_fewer_positions_is_refused_before_anything_is_measured(robench: Robench, tmp_path: Path) -> None:
    registry, suite = write_registry(tmp_path, "short", num_steps=64), write_suite(tmp_path)
    ended = robench(
        *("run", "--suite", suite, "--registry", registry, "--model", "short", "--limit", 60),
        *("--results", tmp_path / "results"),
    )
    assert ended.code == 2
    assert (
        "model 'short' cannot be measured under condition 'longer': the model takes sequences of up to 64 tokens, got"
        in (" ".join(ended.stderr.split()))
    )
    assert not list((tmp_path / "results").rglob("*.parquet"))
