"""aeon's ROCKET on BasicMotions, in an environment of its own: a classifier that is neither a paper's nor robench's.

Ruiz et al. 2021, doi:10.1007/s10618-020-00727-3, find ROCKET among the four most accurate classifiers of the archive.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, Robench

PROGRAM = """
import json, sys
from pathlib import Path

from aeon.classification.convolution_based import RocketClassifier

import robench
from robench.datasets import open_dataset
from robench.declarations.preprocessing import NoPreprocessing

inputs = NoPreprocessing(inputs="series")
training = open_dataset("basic-motions", data_root=Path("data"), preprocessing=inputs, split="train")
batch = training.batch(0, len(training))
rocket = RocketClassifier(n_kernels=2000, random_state=0)
rocket.fit(batch.inputs.double().numpy().swapaxes(1, 2), batch.targets.numpy())
model = {"rocket": (robench.wrap(rocket, classes=range(4)), inputs)}
found = {}
for suite in ("series-c", "series-adv"):
    report = robench.run(suite, model, dataset="basic-motions", data_root="data", results="results", key="rocket")
    cells = report.rows[0].cells
    found |= {key: cell.estimate.value for key, cell in cells.items() if cell.estimate is not None}
Path("found.json").write_text(json.dumps(found))
"""


def test_rocket_is_measured_under_corruptions_and_attacks_without_gradients(robench: Robench, tmp_path: Path) -> None:
    ended = robench("data", "prepare", "basic-motions", "--data-root", tmp_path / "data")
    if ended.code:
        pytest.skip(ended.stderr)
    # aeon needs older releases of numba and pandas than the lock has.
    packages = [sys.executable, "-m", "pip", "install", "--quiet", "--target", tmp_path / "site", "aeon", "pandas<3.1"]
    installed = subprocess.run(packages, capture_output=True, text=True, check=False)
    if installed.returncode:
        pytest.skip(f"aeon cannot be installed here: {installed.stderr[-300:]}")
    subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path / 'site'}{os.pathsep}{ROOT}"},
        check=True,
    )
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["clean/top1_accuracy"] >= 0.975
    assert found["basic-motions-c/mean_error"] == pytest.approx(0.15, abs=0.05)
    assert found["square/top1_accuracy"] < found["noise/top1_accuracy"] - 0.05
    assert not any(key.startswith(("pgd", "apgd", "fgsm")) for key in found)
