"""The published models of CIFAR-10 on the real images: attacks beside other libraries', audits, resumed trainings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from cifar_package import data_root, package

import robench
from robench.declare import find_checkpoints
from robench.evaluation.actions import AUDIT_EXAMPLES, Audit
from robench.evaluation.audit import audit

__all__ = ["data_root", "package"]

NUM_EXAMPLES = 100
# Settings at which the libraries' own defaults are the same attack.
ATTACKS = {
    "fgsm": ("{kind: fgsm, epsilon: 1/255", "torchattacks"),
    "pgd": (
        "{kind: pgd, epsilon: 1/255, step_size: 1/1020, num_steps: 20, random_start: true, returns: last",
        "torchattacks",
    ),
    "square": ("{kind: square, epsilon: 2/255, num_queries: 1000, p_init: 0.8", "torchattacks"),
    "autoattack": ("{kind: autoattack, variant: standard, epsilon: 1/255", "autoattack"),
}
PLAIN = ["cifar10-vit", "cifar10-rpc-symvit"]


def suite(path: Path, attacks: Sequence[str]) -> Path:
    conditions = [f"  - {{name: clean, num_examples: {NUM_EXAMPLES}}}"]
    for name in attacks:
        declared, library = ATTACKS[name]
        for backend in ("robench", library):
            perturbation = f"{declared}, backend: {backend}}}"
            conditions.append(
                f"  - {{name: {name}-{backend}, num_examples: {NUM_EXAMPLES}, perturbation: {perturbation}}}"
            )
    lines = ["name: beside", "version: 1", "seed: 0", "dataset: cifar-10", "batch_size: 50", "audit: false"]
    path.write_text("\n".join([*lines, "conditions:", *conditions, "metrics: [top1_accuracy]"]) + "\n")
    return path


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_as_strong_as_the_librarys(attack: str, data_root: Path, tmp_path: Path) -> None:
    report = robench.run(
        suite(tmp_path / "beside.yaml", [attack]), ["cifar10-vit"], data_root=data_root, results=tmp_path / "results"
    )
    cells = report.rows[0].cells
    own, others = (cells[f"{attack}-{backend}/top1_accuracy"].estimate for backend in ("robench", ATTACKS[attack][1]))
    assert own is not None
    assert others is not None
    assert 0 < own.value < cells["clean/top1_accuracy"].estimate.value  # type: ignore[union-attr]  # nothing is missing
    # One image.
    assert own.value <= others.value + 1 / NUM_EXAMPLES + 1e-9


class Planted:
    """A model behind a change of its inputs."""

    def __init__(self, model: Any, change: Any) -> None:
        self.device, self.normalisation = model.device, model.normalisation
        self._model, self._change = model, change

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        outputs: torch.Tensor = self._model.outputs(self._change(inputs, seeds), seeds)
        return outputs


def rounded(inputs: torch.Tensor, seeds: Sequence[int] | None) -> torch.Tensor:
    return (inputs * 15).round() / 15


def noisy(inputs: torch.Tensor, seeds: Sequence[int] | None) -> torch.Tensor:
    assert seeds is not None
    noise = [torch.randn(inputs.shape[1:], generator=torch.Generator().manual_seed(seed % 2**63)) for seed in seeds]
    return inputs + 0.1 * torch.stack(noise)


def raised(model: Any, data_root: Path) -> set[str]:
    dataset = robench.load_dataset("cifar-10", data_root=data_root)
    flags = audit(model, dataset.batch(0, AUDIT_EXAMPLES), dataset.identity, Audit().epsilon)
    return {flag.name for flag in flags if flag.is_raised}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_models_raise_no_flag(name: str, data_root: Path) -> None:
    assert raised(robench.load_checkpoint(name), data_root) == set()


@pytest.mark.parametrize(
    ("change", "flags"),
    [(rounded, {"zero gradients", "unavailable gradients"}), (noisy, {"random victim", "unstable predictions"})],
)
def test_planted_obfuscations_do(change: Any, flags: set[str], data_root: Path) -> None:
    assert flags <= raised(Planted(robench.load_checkpoint("cifar10-vit"), change), data_root)


def test_the_expected_accuracy_is_that_of_the_file(data_root: Path) -> None:
    dataset = robench.load_dataset("cifar-10", data_root=data_root)
    for checkpoint in find_checkpoints(PLAIN):
        model = robench.load_checkpoint(checkpoint.name)
        with torch.no_grad():
            batches = [dataset.batch(start, start + 500) for start in range(0, 10_000, 500)]
            right = sum(int((model.outputs(each.inputs).argmax(1) == each.targets).sum()) for each in batches)
        assert right / 10_000 == pytest.approx(checkpoint.expected["top1_accuracy"], abs=2e-4)
