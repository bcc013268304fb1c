"""Classifiers of texts through a word-swap suite: the same outcomes however they are measured, and numbers by hand."""

import json
from pathlib import Path

import yaml
from conftest import Robench

from robench.store import FolderStore

SUITE = {
    "name": "short-eras",
    "version": 1,
    "description": "Two conditions on paragraphs.",
    "task": "classification",
    "dataset": "sotu-eras",
    "seed": 0,
    "batch_size": 10,
    "batches_per_shard": 1,
    "conditions": [
        {"name": "clean"},
        {"name": "swap", "perturbation": {"kind": "word-swap", "rate": 0.3}},
        {"name": "all", "perturbation": {"kind": "word-swap", "rate": 1, "keeps_stop_words": False}},
    ],
    "metrics": ["top1_accuracy"],
}
MODELS = ("--model", "sotu-eras-softmax", "--model", "sotu-eras-rpc")


def measured(robench: Robench, folder: Path, *options: object) -> list[tuple[object, ...]]:
    suite = folder.parent / "suite.yaml"
    suite.write_text(yaml.safe_dump(SUITE))
    ended = robench("run", "--suite", suite, *MODELS, "--results", folder, *options)
    assert ended.code == 0, ended.stderr
    records = FolderStore(folder).records(lambda header: True)
    return sorted((each.shard.key, *(str(outcome) for outcome in each.outcomes)) for each in records)


def test_one_epoch_is_trained_by_command(robench: Robench, tmp_path: Path) -> None:
    registry = tmp_path / "mine.yaml"
    entry = {
        "task": "classification",
        "architecture": {
            **{"backbone": "text-classifier", "vocabulary_size": 500, "num_classes": 2, "context": 8, "depth": 1},
            **{"dim": 8, "num_heads": 2, "feedforward": 8, "attention": {"kind": "softmax"}},
        },
        "weights": {"uri": "mine.safetensors", "sha256": None, "how_to_get": "Train it."},
        "preprocessing": {"kind": "none", "inputs": "texts"},
        "training": {
            **{"kind": "text-training", "dataset": "sotu-delivery", "seed": 0, "num_epochs": 1, "batch_size": 500},
            "learning_rate": 0.01,
        },
        "trained_on": "sotu-delivery",
        "training_data": "sotu-delivery",
        "source": "a test",
        "licence": "none",
        "expected": {"top1_accuracy": 0.5},
    }
    registry.write_text(yaml.safe_dump({"checkpoints": {"mine": entry}}))
    ended = robench("train", "--registry", registry, "mine")
    assert ended.code == 0, ended.stderr
    assert "% clean" in ended.stdout
    written = yaml.safe_load(registry.read_text())["checkpoints"]["mine"]
    assert len(written["weights"]["sha256"]) == 64
    assert 0.2 < written["expected"]["top1_accuracy"] < 0.9
    history = json.loads((tmp_path / "mine.history.json").read_text())
    assert history["epochs"][0]["validation"]["num_examples"] == 599
