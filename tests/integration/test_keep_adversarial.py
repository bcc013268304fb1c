"""``robench run --keep-adversarial``: what is kept beside the outcomes, when, and that nothing else changes."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Ended, MeasuredStore, Robench

import robench as package
from robench.core.outcomes import Outcome
from robench.store import AdversarialExamples, FolderStore
from robench.store.adversarial import ONE_BUDGET, decode_examples

VIT = ("--model", "digits-vit", "--executor", "serial", "--no-audit")
KEEP = ("--keep-adversarial", "float32")


def files(results: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((results / "adversarial").rglob("*.safetensors"))}


def times(results: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in results.rglob("*") if path.is_file()}


def outcomes(results: Path) -> dict[str, tuple[Outcome, ...]]:
    return {record.shard.key: record.outcomes for record in FolderStore(results).records(lambda header: True)}


def kept_of(results: Path, condition: str) -> list[AdversarialExamples]:
    found = [decode_examples(content) for content in files(results).values()]
    return sorted(
        (each for each in found if each.shard.condition == condition), key=lambda examples: examples.shard.start
    )


def test_nothing_but_a_file_a_shard_is_added(robench: Robench, measured_store: MeasuredStore, tmp_path: Path) -> None:
    command, kept = ("run", "--suite", measured_store.suite, *VIT), measured_store.results
    plain = robench(*command, "--results", tmp_path / "plain")
    keeping = robench(*command, *KEEP, "--results", kept)
    assert (keeping.code, keeping.stdout) == (0, plain.stdout)
    assert "9 of 9 shards" in keeping.stderr
    assert outcomes(tmp_path / "plain").items() <= outcomes(kept).items()
    assert not (tmp_path / "plain" / "adversarial").exists()
    # Three shards of fgsm and of pgd, of two models; clean images are kept nowhere.
    assert len(files(kept)) == 12
    assert {path.removesuffix(".safetensors") for path in files(kept)} < outcomes(kept).keys()


def test_the_kept_images_are_those_that_fooled_the_model(measured_store: MeasuredStore) -> None:
    dataset, victim = package.load_dataset("digits"), package.load_checkpoint("digits-vit")
    recorded_in: Any = outcomes(measured_store.results)
    of_model = [each for each in kept_of(measured_store.results, "pgd") if each.shard.checkpoint == "digits-vit"]
    assert len(of_model) == 3
    for examples in of_model:
        clean = dataset.batch(examples.shard.start, examples.shard.stop)
        points = clean.inputs.new_tensor(examples.points[ONE_BUDGET])
        recorded = recorded_in[examples.shard.key]
        assert examples.ids == clean.ids == tuple(outcome.example_id for outcome in recorded)
        assert victim.outputs(points).argmax(1).tolist() == [outcome.prediction for outcome in recorded]
        moved = (points.double() - clean.inputs.double()).abs().flatten(1).amax(1).tolist()
        assert moved == [outcome.linf for outcome in recorded]


@pytest.mark.slow
def test_the_same_command_again_measures_and_writes_nothing(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    command = ("run", "--suite", small_suite(), *VIT, *KEEP, "--results", tmp_path / "r", "--limit", 50)
    first, before = robench(*command), times(tmp_path / "r")
    again = robench(*command)
    assert (again.stdout, again.code) == (first.stdout, 0)
    assert times(tmp_path / "r") == before
    assert "3 of 3 shards" in again.stderr


def test_a_shard_without_its_file_is_measured_again_and_gives_the_same(
    robench: Robench, measured_store: MeasuredStore, tmp_path: Path
) -> None:
    results = measured_store.copied(tmp_path / "r")
    command = ("run", "--suite", measured_store.suite, *VIT, "--results", results)
    shutil.rmtree(results / "adversarial")
    records = times(results / "records")
    plan = json.loads(robench(*command, *KEEP, "--dry-run", "--json").stdout)
    assert (plan["kept"], plan["todo"]) == (3, 6)
    keeping = robench(*command, *KEEP)
    assert keeping.code == 0
    assert "other outcomes" not in keeping.stderr
    whole = files(tmp_path / "r")
    assert len(whole) == 6
    lost = next((tmp_path / "r" / "adversarial").rglob("*.safetensors"))
    lost.unlink()
    assert "9 of 9 shards" in robench(*command).stderr
    again = robench(*command, *KEEP)
    assert "8 of 9 shards" in again.stderr
    assert "WARNING" not in again.stderr
    assert files(tmp_path / "r") == whole
    assert times(tmp_path / "r" / "records") == records


def test_float16_is_a_measurement_of_its_own_that_moves_images_less_and_halves_the_files(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    suite = small_suite(**{"num_examples: 150": ONE_BATCH})
    command = ("run", "--suite", suite, *VIT, "--results", tmp_path / "r", "--keep-adversarial")
    assert robench(*command, "float32").code == 0
    exact, large = outcomes(tmp_path / "r"), files(tmp_path / "r")
    ended = robench(*command, "float16")
    assert ended.code == 0
    # What is clean was measured already.
    assert "1 of 3 shards" in ended.stderr
    rounded = {key: made for key, made in outcomes(tmp_path / "r").items() if key not in exact}
    small = {name: content for name, content in files(tmp_path / "r").items() if name not in large}
    assert len(rounded) == len(small) == 2
    assert sum(map(len, small.values())) < 0.52 * sum(map(len, large.values()))
    furthest = max(outcome.linf or 0.0 for made in rounded.values() for outcome in made)
    assert 0.99 * 8 / 255 < furthest <= 8 / 255
    for examples in kept_of(tmp_path / "r", "pgd"):
        assert examples.points[ONE_BUDGET].dtype in (np.float16, np.float32)


@pytest.mark.slow
def test_a_sweep_is_kept_a_tensor_a_budget(robench: Robench, small_suite: Callable[..., Path], tmp_path: Path) -> None:
    suite = small_suite(
        **{"{kind: fgsm, epsilon: 8/255}": "{kind: fgsm, epsilons: [2/255, 6/255]}", "num_examples: 150": ONE_BATCH}
    )
    assert robench("run", "--suite", suite, *VIT, *KEEP, "--results", tmp_path / "r").code == 0
    (examples,) = kept_of(tmp_path / "r", "fgsm")
    assert list(examples.points) == ["2/255", "2/85"]


ONE_BATCH = "num_examples: 50"


@pytest.mark.slow
def test_what_cannot_be_kept_is_told_and_ends_with_1(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    command = ("run", "--suite", small_suite(**{"num_examples: 150": ONE_BATCH}), *VIT, "--results", tmp_path / "r")
    assert robench(*command).code == 0
    (record,) = FolderStore(tmp_path / "r").records(lambda header: header.condition == "pgd")
    (tmp_path / "r" / "adversarial").mkdir()
    (tmp_path / "r" / "adversarial" / record.shard.measurement_key).write_text("in the way")
    ended = robench(*command, *KEEP)
    # The table is complete, and yet what was asked for is not there.
    assert ended.code == 1
    assert "could not be written" in ended.stderr
    assert "1 shards failed" in ended.stderr


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_measured(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "adversarial").write_text("in the way")
    ended = robench("run", "--suite", small_suite(), *VIT, *KEEP, "--results", tmp_path / "r")
    assert (ended.code, ended.stdout) == (2, "")
    assert "cannot be written: Not a directory" in ended.stderr


NEAREST = "{kind: cw, num_steps: 2, num_search_steps: 1, initial_c: 1.0, learning_rate: 0.01}"


@pytest.fixture
def nearest(small_suite: Callable[..., Path]) -> Path:
    replaced = {"{kind: fgsm, epsilon: 8/255}": NEAREST, "num_examples: 150": ONE_BATCH}
    return small_suite(**replaced)


@pytest.mark.slow
def test_float16_is_refused_to_searches_for_the_nearest(robench: Robench, nearest: Path, tmp_path: Path) -> None:
    command = ("run", "--suite", nearest, *VIT, "--results", tmp_path / "r", "--keep-adversarial")
    ended: Ended = robench(*command, "float16")
    assert (ended.code, ended.stdout) == (2, "")
    assert "condition 'fgsm' of suite 'small' (cw)" in ended.stderr
    assert "--keep-adversarial float32" in ended.stderr
    assert robench(*command, "float32").code == 0
    (examples,) = kept_of(tmp_path / "r", "fgsm")
    assert examples.found[ONE_BUDGET].dtype == np.bool_


@pytest.mark.slow
def test_python_programs_can_ask_for_it_too(small_suite: Callable[..., Path], tmp_path: Path) -> None:
    suite = small_suite(**{"num_examples: 150": ONE_BATCH})
    package.run(
        suite, ["digits-vit"], results=tmp_path / "r", audit=False, keep_adversarial="float16", executor="serial"
    )
    assert len(files(tmp_path / "r")) == 2
