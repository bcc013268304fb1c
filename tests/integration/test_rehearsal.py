"""``--random-weights``: entries without weights run, reproducibly, marked, and in no table but their own."""

from collections.abc import Callable
from pathlib import Path

import pytest

import robench as package
from robench.core.errors import UsageError, WeightsError
from robench.store import FolderStore

REGISTRY = """
checkpoints:
  unpublished:
    task: classification
    architecture: {backbone: vit, image_size: 32, patch_size: 8, dim: 24, depth: 2, num_heads: 2, num_classes: 10,
                   attention: {kind: softmax}}
    weights: {uri: random, sha256: null}
    preprocessing: {kind: image, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}
    trained_on: digits
    source: a paper
    licence: not stated
    expected: {top1_accuracy: 0.99}
"""


@pytest.mark.slow
def test_an_entry_without_weights_is_measured_and_kept_out_of_tables(
    small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "own.yaml").write_text(REGISTRY)
    suite, registry, results = small_suite(), tmp_path / "own.yaml", tmp_path / "r"
    with pytest.raises(WeightsError, match="the weights of unpublished are missing"):
        package.run(suite, "unpublished", registry=registry, results=results)
    one, other = (
        package.run(suite, "unpublished", registry=registry, results=folder, limit=4, random_weights=True)
        for folder in (results, tmp_path / "other")
    )
    assert [row.model for row in one.rows] == ["unpublished+random-weights"]
    assert one == other
    assert "random weights: a rehearsal, whose numbers say nothing about the model" in one.render("text")
    first, second = (
        {record.shard.key: record.outcomes for record in FolderStore(folder / "rehearsal").records(lambda _: True)}
        for folder in (results, tmp_path / "other")
    )
    assert first
    assert first == second
    for folder in (results, results / "rehearsal"):
        assert package.build_report(suite, registry=registry, results=folder).rows == ()
        assert package.build_leaderboard([suite], registry=registry, results=folder).rows == ()


def test_what_has_weights_already_and_further_seeds_are_refused(small_suite: Callable[..., Path]) -> None:
    from torch import nn

    with pytest.raises(UsageError, match="model 'mine' is in memory and has its weights already"):
        package.run(small_suite(), {"mine": nn.Flatten()}, random_weights=True)
    with pytest.raises(UsageError, match="random weights have no training seeds: leave out all_seeds"):
        package.run(small_suite(), "digits-vit", random_weights=True, all_seeds=True)
