"""``--precision``: measured beside results in float32, found when asked for, and never mixed with them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import Tiny

import robench as package
from robench.core.errors import UsageError
from robench.declarations.preprocessing import ImagePreprocessing
from robench.evaluation.arithmetic import arithmetic_for
from robench.models.loaded import LoadedModel
from robench.store import FolderStore

Robench = Any


def test_runs_in_two_precisions_share_a_folder_and_no_number(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    results = tmp_path / "results"
    about = "--suite", small_suite(**{"150": "50"}), "--results", results
    run = "run", *about, "--model", "digits-vit", "--device", "cpu", "--executor", "serial"
    half = robench(*run, "--precision", "bfloat16")
    assert half.code == 0
    assert "digits-vit (bfloat16)" in half.stdout
    assert "passes ran in bfloat16" in half.stdout

    # Nothing is found by who does not ask for it.
    none = robench("report", *about)
    assert none.code == 1
    assert "No results for suite 'small' (seed 0)" in none.stderr
    assert json.loads(robench("status", *about, "--json").stdout) == []
    missing = robench("report", *about, "--precision", "float16")
    assert "No results for suite 'small' (float16, seed 0)" in missing.stderr
    assert "--precision float16" in missing.stderr
    rows = json.loads(robench("status", *about, "--precision", "bfloat16", "--json").stdout)
    assert [(row["condition"], row["kept"]) for row in rows] == [("clean", 50), ("fgsm", 50), ("pgd", 50)]

    exact = robench(*run)
    assert "bfloat16" not in exact.stdout
    headers = [manifest.shard for manifest in FolderStore(results).manifests()]
    assert sorted(header.dtype for header in headers) == ["bfloat16"] * 3 + ["float32"] * 3
    # Each once more, from the store, as the runs printed them.
    assert robench("report", *about).stdout == exact.stdout.partition("\n\n")[2]
    assert robench("report", *about, "--precision", "bfloat16").stdout == half.stdout.partition("\n\n")[2]


def test_the_page_of_leaderboards_is_of_float32_alone(robench: Robench, tmp_path: Path) -> None:
    ended = robench(
        "report", "--suite", "digits-adv", "--results", tmp_path, "--format", "html", "--precision", "float16"
    )
    assert ended.code == 2
    assert "--format html is the page of 'robench leaderboard', which is of float32 alone" in ended.stderr


def test_the_api_takes_it_too(small_suite: Callable[..., Path], tmp_path: Path) -> None:
    suite, results = small_suite(), tmp_path / "results"
    given: dict[str, Any] = {"results": results, "limit": 50, "audit": False, "device": "cpu"}
    report = package.run(suite, {"mine": Tiny().eval()}, precision="float16", **given)
    assert report.precision == "float16"
    assert [row.title for row in report.rows] == ["mine (float16)"]
    read = package.build_report(suite, results=results, limit=50, precision="float16")
    assert [row.cells for row in read.rows] == [row.cells for row in report.rows]
    assert package.build_report(suite, results=results, limit=50).rows == ()
    with pytest.raises(UsageError, match=r"--precision must be one of float32, bfloat16, .*, got 'int4'"):
        package.run(suite, {"mine": Tiny()}, precision="int4", **given)


def test_tf32_is_refused_where_there_is_none(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    asked = (
        "run",
        "--suite",
        small_suite(),
        "--model",
        "digits-vit",
        "--results",
        tmp_path / "results",
        "--device",
        "cpu",
    )
    ended = robench(*asked, "--precision", "tf32")
    assert ended.code == 2
    assert "needs an NVIDIA GPU of compute capability 8.0 or later (Ampere), and cpu has no TF32" in ended.stderr
    assert list((tmp_path / "results").rglob("*.json")) == []


def test_tf32_is_for_forward_and_backward_passes_and_what_ran_before_is_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("robench.models.loaded.check_device", lambda *given: None)
    model = LoadedModel(Tiny(), ImagePreprocessing(mean=(0.5,) * 3, std=(0.5,) * 3))
    cuda, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    for precision, is_allowed in (("tf32", True), ("tf32-compiled", True), ("float32-compiled", False)):
        with arithmetic_for(model.in_precision(precision)):
            assert (cuda.allow_tf32, cudnn.allow_tf32) == (is_allowed, is_allowed)
    with arithmetic_for(model):
        assert (cuda.allow_tf32, cudnn.allow_tf32) == (False, False)


STOPPED = """\
name: stopped
version: 1
seed: 0
dataset: digits
batch_size: 32
batches_per_shard: 1
conditions:
  - {name: clean}
  - {name: pgd, perturbation: {kind: pgd, epsilon: 8/255, step_size: 2/255, num_steps: 4, stop: at_success}}
  - {name: square, perturbation: {kind: square, epsilon: 16/255, num_queries: 12, p_init: 0.8, stop: at_success}}
  - {name: fab, perturbation: {kind: fab, epsilon: 16/255, num_steps: 3, stop: at_success}}
  - {name: apgd, perturbation: {kind: apgd, epsilon: 16/255, num_steps: 4, num_restarts: 2, stop: at_success}}
metrics: [robust_accuracy]
audit: false
"""


def test_compiled_passes_survive_attacks_that_stop_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs: list[int] = []

    def traced(graph: torch.fx.GraphModule, inputs: list[object]) -> Callable[..., object]:
        graphs.append(len(graph.graph.nodes))
        return graph.forward

    monkeypatch.setattr("robench.models.precision.COMPILER", traced)
    suite = tmp_path / "stopped.yaml"
    suite.write_text(STOPPED)
    given: dict[str, Any] = {"results": tmp_path / "results", "limit": 96, "device": "cpu", "executor": "serial"}
    package.run(suite, "digits-vit", precision="float32-compiled", **given)
    headers = [manifest.shard for manifest in FolderStore(tmp_path / "results").manifests()]
    assert {header.condition for header in headers} == {"clean", "pgd", "square", "fab", "apgd"}
    # Passes of 32, 16, 8 and 4 rows, whatever the attack, its gradients and the shard.
    assert len(graphs) == 4
