"""A model that replaces functions of torch changes no number of a model beside it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from patching_models import BATCH_SIZE, Patching
from safetensors.torch import save_file

from robench.core.columns import Outcomes
from robench.store import FolderStore

ENTRY = """\
  {name}:
    architecture: {{backbone: python, target: 'patching_models:build', arguments: {{when: {when}}}}}
    weights: {{uri: weights.safetensors, sha256: null}}
    preprocessing: {{kind: image, mean: [0.3, 0.3, 0.3], std: [0.4, 0.4, 0.4]}}
"""
SUITE = f"""\
name: small
version: 1
seed: 0
dataset: digits
batch_size: {BATCH_SIZE}
conditions:
- {{name: clean, num_examples: 40}}
- {{name: fgsm, num_examples: 40, perturbation: {{kind: fgsm, epsilon: 8/255}}}}
metrics: [top1_accuracy]
"""
CLEAN = "digits-vit"
RUNS = {
    "serial": ("--executor", "serial"),
    "two workers": ("--workers", "2", "--no-audit"),
    "two workers with audits": ("--workers", "2"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("patching")
    save_file(Patching("never").state_dict(), made / "weights.safetensors")
    entries = [ENTRY.format(name=when, when=when) for when in ("never", "built", "always", "late")]
    entries += [ENTRY.format(name=f"{when}-said", when=when) + "    patches: true\n" for when in ("built", "always")]
    (made / "registry.yaml").write_text("checkpoints:\n" + "".join(entries))
    (made / "suite.yaml").write_text(SUITE)
    return made


def run(folder: Path, results: str, models: tuple[str, ...], *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "robench", "run", "--suite", "suite.yaml", "--registry", "registry.yaml"]
    command += [each for model in models for each in ("--model", model)]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    command += ["--results", results, *options]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def outcomes(folder: Path, results: str, model: str) -> dict[str, Outcomes]:
    """Return the outcomes of each shard of a model, by the shard's key."""
    records = FolderStore(folder / results).records(lambda shard: shard.checkpoint == model)
    return {record.shard.key: record.outcomes for record in records}


@pytest.fixture(scope="module")
def alone(folder: Path) -> dict[str, Outcomes]:
    assert run(folder, "alone", (CLEAN,), "--executor", "serial").returncode == 0
    return outcomes(folder, "alone", CLEAN)


@pytest.mark.parametrize("options", RUNS)
@pytest.mark.parametrize("when", ["built", "always", "late"])
def test_a_model_beside_a_patching_one_has_its_own_numbers_or_none(
    folder: Path, alone: dict[str, Outcomes], when: str, options: str
) -> None:
    results = f"{when} {options}"
    ended = run(folder, results, (when, CLEAN), *RUNS[options])
    found = outcomes(folder, results, CLEAN) if (folder / results).exists() else {}
    assert all(alone[key] == each for key, each in found.items())
    assert f"model '{when}' replaced torch." in ended.stderr
    # What the preflight check sees refuses the run. Later it costs the model's shards, and in a serial run the rest.
    assert ended.returncode == (1 if when == "late" else 2)
    assert bool(found) == (when == "late" and options != "serial")


def test_a_model_that_says_that_it_patches_is_measured_alone_in_its_process(
    folder: Path, alone: dict[str, Outcomes]
) -> None:
    models = ("built-said", "always-said", CLEAN)
    assert run(folder, "said", models, "--workers", "2").returncode == 0
    assert outcomes(folder, "said", CLEAN) == alone
    refused = run(folder, "refused", models, "--executor", "serial")
    assert refused.returncode == 2
    assert "model 'built-said' may replace functions of libraries (patches: true)" in refused.stderr
    assert run(folder, "one", ("built-said",), "--executor", "serial").returncode == 0
