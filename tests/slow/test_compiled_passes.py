"""Compiled passes of every mechanism, and a run with machine code: equal for any number of workers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from test_precision import STOPPED
from torch._dynamo.utils import counters

import robench as package
from robench.attention import ATTENTIONS
from robench.core.errors import ContractError
from robench.declarations.preprocessing import ImagePreprocessing
from robench.models import precision
from robench.models.loaded import LoadedModel
from robench.models.vit import Vit
from robench.models.vit_impl import build_vit
from robench.store import FolderStore

Robench = Any

PREPROCESSING = ImagePreprocessing(mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
# They draw random subsets of tokens for each example.
DRAWING = {"mom", "fourier-mom"}
FIELDS = {
    "linformer": {"projection_length": 4},
    "nystrom": {"num_landmarks": 2},
    "performer": {"num_features": 8},
    "primal": {"num_directions": 4},
}


def gradient_of(model: LoadedModel, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    leaf = inputs.clone().requires_grad_(True)
    outputs = model.outputs(leaf, tuple(range(len(leaf))))
    return outputs.detach(), torch.autograd.grad(outputs.logsumexp(1).sum(), leaf)[0]


@pytest.mark.parametrize("kind", sorted(ATTENTIONS.builtin))
def test_every_mechanism_can_be_compiled_or_says_why_not(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "COMPILER", "aot_eager")
    architecture = Vit(
        image_size=16,
        patch_size=4,
        num_classes=10,
        depth=2,
        dim=16,
        num_heads=2,
        attention=ATTENTIONS[kind](**FIELDS.get(kind, {})),
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = LoadedModel(build_vit(architecture), PREPROCESSING)
        inputs = torch.rand(5, 3, 16, 16)
    fast = model.in_precision("float32-compiled")
    if kind in DRAWING:
        with pytest.raises(ContractError, match="draws random numbers"):
            gradient_of(fast, inputs)
        return
    (outputs, gradient), (expected, exact) = gradient_of(fast, inputs), gradient_of(model, inputs)
    torch.testing.assert_close(outputs, expected, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(gradient, exact, atol=1e-4, rtol=1e-2)
    for again, before in zip(gradient_of(fast, inputs), (outputs, gradient), strict=True):
        assert torch.equal(again, before)


def test_a_run_is_the_same_with_any_number_of_workers(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    suite = small_suite(**{"150": "100"})
    printed, found = [], []
    for workers in (1, 2):
        results = tmp_path / str(workers)
        executor = "serial" if workers == 1 else "processes"
        chosen = "--executor", executor, *(("--workers", 2) if workers == 2 else ())
        about = "--suite", suite, "--results", results, "--precision", "float32-compiled"
        ended = robench("run", *about, "--model", "digits-vit", "--device", "cpu", *chosen)
        assert ended.code == 0, ended.stderr
        assert "digits-vit (float32-compiled)" in ended.stdout
        assert "passes ran in float32-compiled (torch.compile)" in ended.stdout
        printed.append(robench("report", *about).stdout)
        records = FolderStore(results).records(lambda header: True)
        found.append({record.shard.key: record.outcomes for record in records})
    assert printed[0] == printed[1]
    assert found[0] == found[1]
    assert len(found[0]) == 6


def test_attacks_that_stop_early_run_with_machine_code(tmp_path: Path) -> None:
    (tmp_path / "stopped.yaml").write_text(STOPPED)
    results = tmp_path / "results"
    before = counters["stats"]["unique_graphs"]
    package.run(
        tmp_path / "stopped.yaml",
        "digits-vit",
        precision="float32-compiled",
        results=results,
        limit=96,
        device="cpu",
        executor="serial",
    )
    assert counters["stats"]["unique_graphs"] - before == 4
    headers = [manifest.shard for manifest in FolderStore(results).manifests()]
    assert {header.condition for header in headers} == {"clean", "pgd", "square", "fab", "apgd"}
