"""Audits as part of a run: kept like any outcome, the same in a worker, and shown where raised."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_models import write_registry

import robench as package
from robench.core.flags import Flag
from robench.store import FolderStore

Robench = Any
AUDITED = {"audit: false": "audit: true", "num_examples: 150": "num_examples: 50"}
MODELS = ("--model", "honest", "--model", "noisy")


def kept(results: Path) -> dict[tuple[str, int], tuple[Flag, ...]]:
    return {
        (record.shard.checkpoint, record.shard.start): record.flags
        for record in FolderStore(results).records(lambda shard: shard.condition == "audit-digits")
    }


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of two models under a small suite with audits."""
    folder = tmp_path_factory.mktemp("audited")
    suite = {
        "name": "small",
        "version": 1,
        "seed": 0,
        "dataset": "digits",
        "batch_size": 50,
        "conditions": [
            {"name": "clean", "num_examples": 50},
            {"name": "fgsm", "num_examples": 50, "perturbation": {"kind": "fgsm", "epsilon": "8/255"}},
        ],
        "metrics": ["top1_accuracy"],
    }
    (folder / "small.yaml").write_text(json.dumps(suite))
    registry = write_registry(folder)
    package.run(
        folder / "small.yaml",
        [MODELS[1], MODELS[3]],
        registry=registry,
        results=folder / "results",
        audit="full",
        device="cpu",
        executor="serial",
    )
    return folder


@pytest.mark.slow
def test_every_model_has_the_flags_of_its_audit_and_raised_ones_are_told(robench: Robench, audited: Path) -> None:
    ended = robench("report", "--suite", audited / "small.yaml", "--results", audited / "results")
    lines = {line.split()[0]: line for line in ended.stdout.splitlines() if line.startswith(("honest", "noisy"))}
    assert lines["honest"].endswith("none")
    assert lines["noisy"].endswith("raised")
    assert re.search(r"- noisy: random victim: \d+ repeated predictions differ by at most", ended.stdout)
    assert "average gradients over draws (num_draws)" in ended.stdout
    found = kept(audited / "results")
    assert found.keys() == {(model, start) for model in ("honest", "noisy") for start in (0, 8, 16, 24)}
    assert all(len(flags) >= 15 for flags in found.values())
    assert "examples (--audit full: all)" not in ended.stdout


@pytest.mark.slow
def test_another_suite_on_the_same_data_shares_the_audits(robench: Robench, audited: Path) -> None:
    suite = audited / "other.yaml"
    suite.write_text((audited / "small.yaml").read_text().replace("8/255", "4/255").replace('"small"', '"other"'))
    models = ("--registry", audited / "registry.yaml", *MODELS)
    ended = robench("run", "--suite", suite, *models, "--results", audited / "results", "--dry-run", "--json")
    plan = json.loads(ended.stdout)
    assert (plan["shards"], plan["kept"]) == (6, 4)
    assert not any("audit" in title for title in plan["titles"])


def test_a_run_without_audits_says_that_there_are_none(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    suite = small_suite(**AUDITED, **{"  - {name: pgd, num_examples: 50": "  - {name: noise, num_examples: 50"})
    ended = robench(
        "run",
        "--suite",
        suite,
        "--model",
        "digits-vit",
        "--results",
        tmp_path,
        "--device",
        "cpu",
        "--executor",
        "serial",
        "--no-audit",
        "--json",
    )
    (row,) = json.loads(ended.stdout)["rows"]
    # Conditions are compared all the same.
    assert [flag["name"] for flag in row["flags"]] == ["single step beats iterations"]
    assert kept(tmp_path) == {}
