"""Tokens through a whole run: a module that computes ListOps stays right where an edit leaves values alone."""

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from listops_reference import value_of
from torch import nn

import robench
from robench.core.errors import DeclarationError, UsageError
from robench.domains.listops import text_of
from robench.store import FolderStore

SUITE: dict[str, Any] = {
    "name": "listops-edits",
    "version": 1,
    "task": "classification",
    "dataset": "listops-short",
    "seed": 0,
    "batch_size": 20,
    "conditions": [
        {"name": "clean"},
        {"name": "swap", "perturbation": {"kind": "token-swap", "rate": "1/5", "highest": 15}},
        {"name": "deletion", "perturbation": {"kind": "token-deletion", "rate": "1/5"}},
        {"name": "insertion", "perturbation": {"kind": "listops-insertion", "rate": "1/2"}},
        {"name": "extension", "perturbation": {"kind": "listops-extension", "factor": 2}},
    ],
    "metrics": ["top1_accuracy"],
}


class Calculator(nn.Module):
    """Logits (B, 10) of the value of each expression; of other sequences, which edits make, all zero."""

    takes_masks = True

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, inputs: torch.Tensor, mask_BN: torch.Tensor | None = None) -> torch.Tensor:
        assert mask_BN is not None
        assert torch.equal(mask_BN, inputs != 0)
        logits = torch.zeros(len(inputs), 10)
        for row, tokens in enumerate(inputs.tolist()):
            try:
                logits[row, value_of(text_of([token for token in tokens if token]))] = 5.0
            except (AssertionError, StopIteration, ValueError, IndexError):
                continue
        return logits * self.scale


def suite_in(folder: Path, **fields: object) -> Path:
    path = folder / "suite.yaml"
    path.write_text(yaml.safe_dump({**SUITE, **fields}))
    return path


def test_edits_that_leave_values_alone_leave_answers_alone(tmp_path: Path) -> None:
    report = robench.run(suite_in(tmp_path), {"calculator": Calculator()}, results=tmp_path / "results", limit=60)
    accuracy = {
        key.partition("/")[0]: cell.estimate.value for key, cell in report.rows[0].cells.items() if cell.estimate
    }
    assert [accuracy[name] for name in ("clean", "insertion", "extension")] == [1.0] * 3
    assert max(accuracy["swap"], accuracy["deletion"]) < 0.5
    records = FolderStore(tmp_path / "results").records(lambda header: True)
    changed = [outcome.num_changed for record in records for outcome in record.outcomes]
    # Of 300, those of the clean condition have none.
    assert 230 < sum(map(bool, changed)) <= 240


class Embedding(nn.Module):
    """Logits (B, 10) of learned vectors of up to ``num_positions`` tokens."""

    def __init__(self, num_positions: int) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(0)
        self.embed = nn.Embedding.from_pretrained(torch.randn(16, 10, generator=draw))
        self.positions = nn.Parameter(torch.rand(num_positions, 1, generator=draw))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        vectors = self.embed(inputs) * self.positions[: inputs.shape[1]] * (inputs > 0)[..., None]
        return vectors.sum(1)


SEARCH = {"kind": "gradient-token-swap", "rate": "1/5", "highest": 15, "num_queries": 60, "keeps_value": True}
LONGER = {"kind": "listops-extension", "factor": 2}


def test_tokens_are_swapped_by_the_gradients_of_a_module_in_memory(tmp_path: Path) -> None:
    conditions = [
        {"name": "clean"},
        {"name": "search", "perturbation": SEARCH},
        {"name": "longer", "perturbation": LONGER},
    ]
    suite = suite_in(tmp_path, conditions=conditions)
    report = robench.run(suite, {"own": Embedding(128)}, results=tmp_path / "results", limit=60)
    values = {key: cell.estimate.value for key, cell in report.rows[0].cells.items() if cell.estimate}
    assert values["search/top1_accuracy"] < values["clean/top1_accuracy"]
    records = list(FolderStore(tmp_path / "results").records(lambda header: header.condition == "search"))
    outcomes = [outcome for record in records for outcome in record.outcomes]
    assert 0 < max(outcome.num_changed or 0 for outcome in outcomes) <= 64 // 5
    assert all((outcome.num_gradients or 0) < (outcome.num_queries or 0) <= 60 for outcome in outcomes)


@pytest.mark.parametrize(
    ("module", "perturbation", "message"),
    [
        (Calculator(), SEARCH, "cannot be measured under condition 'it': its module has no embed"),
        (Embedding(64), LONGER, "cannot be measured under condition 'it': RuntimeError: The size of tensor a (128)"),
    ],
    ids=["no embed", "few positions"],
)
def test_modules_that_lack_what_a_condition_needs_are_refused(
    tmp_path: Path, module: nn.Module, perturbation: Any, message: str
) -> None:
    suite = suite_in(tmp_path, conditions=[{"name": "clean"}, {"name": "it", "perturbation": perturbation}])
    with pytest.raises(UsageError) as caught:
        robench.run(suite, {"own": module}, results=tmp_path / "results", limit=60)
    assert f"model 'own' {message}" in str(caught.value)
    assert not list((tmp_path / "results").rglob("*.parquet"))


@pytest.mark.parametrize(
    ("perturbation", "message"),
    [
        (
            {"kind": "fgsm", "epsilon": 1},
            "must be no fgsm on listops-short, whose inputs (tokens) have no small changes",
        ),
        (
            {"kind": "token-swap", "rate": 1, "highest": 99},
            "must be at most 15, the last token of dataset listops-short, got 99",
        ),
        ({"kind": "word-swap", "rate": 1}, "must serve texts, got dataset listops-short of tokens"),
    ],
)
def test_other_perturbations_are_refused_with_their_place(tmp_path: Path, perturbation: Any, message: str) -> None:
    suite = suite_in(tmp_path, conditions=[{"name": "wrong", "perturbation": perturbation}])
    with pytest.raises(DeclarationError) as caught:
        robench.run(suite, {"calculator": Calculator()}, results=tmp_path / "results", limit=60)
    assert message in str(caught.value)
