"""``robench run`` and ``report``: what is printed, kept, left out and measured again."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import MeasuredStore, Robench
from safetensors.torch import save_file

from robench.store import FolderStore

CELL = {"value", "low", "high", "num_examples", "missing"}
VIT = ("--model", "digits-vit", "--executor", "serial")


def document(stdout: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(stdout)
    return loaded


def test_json_has_the_documented_form(robench: Robench, measured_store: MeasuredStore) -> None:
    asked = ("--suite", measured_store.suite, "--model", "digits-vit", "--results", measured_store.results, "--json")
    ended = robench("run", *asked, "--executor", "serial")
    assert ended.code == 0
    report = document(ended.stdout)
    assert (report["suite"], report["version"]) == ("small", 1)
    (row,) = report["rows"]
    assert row["model"] == "digits-vit"
    assert "limit" not in row
    assert list(row["cells"]) == [
        *(f"{c}/{m}" for c in ("clean", "fgsm", "pgd") for m in ("top1_accuracy", "top5_accuracy")),
        "linf-8/255/robust_accuracy",
    ]
    for cell in row["cells"].values():
        assert cell.keys() == CELL
        assert 0 <= cell["low"] <= cell["value"] <= cell["high"] <= 1
        assert (cell["num_examples"], cell["missing"]) == (150, 0)
    assert document(robench("report", *asked).stdout) == report
    robust = row["cells"]["linf-8/255/robust_accuracy"]["value"]
    assert robust <= min(row["cells"][f"{name}/top1_accuracy"]["value"] for name in ("clean", "fgsm", "pgd"))


def test_every_kept_outcome_is_within_its_budget(measured_store: MeasuredStore) -> None:
    largest: dict[str, float] = {}
    for record in FolderStore(measured_store.results).records(lambda header: True):
        moved = [outcome.linf or 0.0 for outcome in record.outcomes]
        largest[record.shard.condition] = max(largest.get(record.shard.condition, 0.0), *moved)
    assert largest["clean"] == 0.0
    assert 0.99 * 8 / 255 < largest["fgsm"] <= 8 / 255
    assert 0.99 * 8 / 255 < largest["pgd"] <= 8 / 255


def test_limited_rows_are_marked_and_left_out_of_reports(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    suite, results = small_suite(), tmp_path / "r"
    limited = robench("run", "--suite", suite, *VIT, "--limit", 70, "--results", results, "--json")
    assert limited.code == 0
    (row,) = document(limited.stdout)["rows"]
    assert row["limit"] == 70
    assert {(cell["num_examples"], cell["missing"]) for cell in row["cells"].values()} == {(70, 0)}
    assert document(robench("report", "--suite", suite, "--json", "--results", results).stdout)["rows"] == []
    again = robench("report", "--suite", suite, "--json", "--limit", 70, "--results", results)
    assert document(again.stdout)["rows"] == [row]
    full = robench("run", "--suite", suite, *VIT, "--results", results)
    assert full.code == 0
    assert "6 of 9 shards" in full.stderr
    (whole,) = document(robench("report", "--suite", suite, "--json", "--results", results).stdout)["rows"]
    assert "limit" not in whole


def test_a_limit_measures_whole_batches_and_later_runs_the_rest_alike(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    suite = small_suite(**{"batch_size: 50": "batch_size: 50\nbatches_per_shard: 3"})
    asked, parts, whole = ("run", "--suite", suite, *VIT, "--json"), tmp_path / "parts", tmp_path / "whole"
    limited = robench(*asked, "--results", parts, "--limit", 70)
    assert "limit 70: passes have whole batches, so that up to 100 examples of a condition" in limited.stderr
    ended = robench(*asked, "--results", parts)
    assert "0 of 3 shards" in ended.stderr
    assert (ended.code, ended.stdout) == (0, robench(*asked, "--results", whole).stdout)
    stored = [[*FolderStore(folder).records(lambda shard: True)] for folder in (parts, whole)]
    ranges = [(each.shard.start, each.shard.stop) for each in stored[0]]
    assert sorted(ranges) == 3 * [(0, 100)] + 3 * [(100, 150)]
    outcomes = [{(each.shard.condition, str(row)) for each in found for row in each.outcomes} for found in stored]
    assert len(outcomes[0]) == 450
    assert outcomes[0] == outcomes[1]


def test_chosen_conditions_are_those_of_the_whole_suite(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    suite, results = small_suite(), tmp_path / "r"
    asked = ("--suite", suite, *VIT, "--results", results, "--json")
    chosen = robench("run", *asked, "--condition", "[cf]*", "--examples", 50)
    (row,) = document(chosen.stdout)["rows"]
    # Robust accuracy reads clean images too.
    assert {key.split("/")[0] for key in row["cells"]} == {"clean", "fgsm"}
    assert (chosen.code, row["limit"]) == (0, 50)
    whole = robench("run", *asked, "--examples", 50)
    assert "2 of 3 shards" in whole.stderr
    (full,) = document(whole.stdout)["rows"]
    assert {key: full["cells"][key]["value"] for key in row["cells"]} == {
        key: cell["value"] for key, cell in row["cells"].items()
    }


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("pgx",), "unknown condition 'pgx'. Did you mean 'pgd'?"),
        (("x*",), "unknown condition 'x*'"),
        (("noise", "clean"), "unknown condition 'noise'"),
    ],
)
def test_conditions_that_match_nothing_are_refused(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path, names: tuple[str, ...], message: str
) -> None:
    options = [word for name in names for word in ("--condition", name)]
    ended = robench("run", "--suite", small_suite(), *VIT, "--results", tmp_path / "r", *options)
    assert (ended.code, (tmp_path / "r").exists()) == (2, False)
    assert message in ended.stderr


def test_a_dry_run_measures_and_writes_nothing(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    ended = robench("run", "--suite", small_suite(), *VIT, "--results", tmp_path / "r", "--dry-run", "--json")
    plan = json.loads(ended.stdout)
    assert (ended.code, plan["shards"], plan["todo"], plan["examples"]) == (0, 9, 9, 450)
    assert plan["titles"][0] == "digits-vit / clean / examples 0-49"
    assert not (tmp_path / "r").exists()


def test_another_seed_is_another_row_of_numbers(
    robench: Robench, measured_store: MeasuredStore, tmp_path: Path
) -> None:
    suite, results = measured_store.suite, measured_store.copied(tmp_path / "r")
    assert robench("run", "--suite", suite, *VIT, "--seed", 1, "--results", results, "--limit", 50).code == 0
    found = FolderStore(results).records(lambda header: header.title.startswith("digits-vit / pgd"))
    records = [record for record in found if record.shard.start == 0]
    assert sorted(record.shard.seed for record in records) == [0, 1]
    assert records[0].outcomes != records[1].outcomes
    assert (
        f"No results for suite 'small' (seed 2) in {results}"
        in robench("report", "--suite", suite, "--seed", 2, "--results", results).stderr
    )


def test_options_come_from_variables_too(
    robench: Robench, measured_store: MeasuredStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {
        "SUITE": str(measured_store.suite), "MODEL": "digits-vit", "LIMIT": "50", "EXECUTOR": "serial",
        "RESULTS": str(measured_store.results), "JSON": "1",
    }  # fmt: skip
    for name, value in settings.items():
        monkeypatch.setenv(f"ROBENCH_{name}", value)
    ended = robench("run")
    assert (ended.code, document(ended.stdout)["rows"][0]["limit"]) == (0, 50)


def test_a_copy_of_a_checkpoint_under_another_name_gets_its_own_row(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    registry = tmp_path / "registry.yaml"
    registry.write_text(COPY.replace("WEIGHTS", str(checkpoint_file())))
    models = ("--model", "digits-vit", "--model", "copy", "--registry", registry)
    command = ("run", "--suite", small_suite(), *models, "--executor", "serial", "--limit", 50)
    first, second = document(robench(*command, "--results", tmp_path / "r", "--json").stdout)["rows"]
    assert (first["model"], second["model"]) == ("digits-vit", "copy")
    assert first["cells"] == second["cells"]


COPY = """\
checkpoints:
  copy:
    architecture:
      {backbone: vit, image_size: 32, patch_size: 8, num_classes: 10, depth: 4, dim: 64, num_heads: 4, mlp_ratio: 2}
    weights: {uri: WEIGHTS, sha256: null}
    preprocessing: {kind: image, mean: [0.305, 0.305, 0.305], std: [0.35, 0.35, 0.35]}
"""


def checkpoint_file() -> Path:
    from robench.declare import shipped_folder

    return shipped_folder() / "checkpoints" / "digits-vit.safetensors"


@pytest.mark.parametrize("name", ["text", "md", "csv", "json", "latex", "html"])
def test_every_format_is_written_from_the_store_alone(
    robench: Robench, measured_store: MeasuredStore, name: str
) -> None:
    asked = ("--suite", measured_store.suite, "--results", measured_store.results)
    ended = robench("report", *asked, "--format", name, "--limit", 50)
    assert ended.code == 0
    assert "digits-vit" in ended.stdout
    assert ended.stderr == ""


def test_the_table_of_a_run_is_that_of_the_report_with_the_best_marked(
    robench: Robench, measured_store: MeasuredStore
) -> None:
    models = ("--model", "digits-vit", "--model", "digits-symvit")
    asked = ["--suite", measured_store.suite, *models, "--limit", 50, "--results", measured_store.results]
    ran, reported = robench("run", *asked), robench("report", *asked)
    assert ran.code == reported.code == 0
    headline, _, table = ran.stdout.partition("\n\n")
    assert headline.startswith("2 models on 50 examples of digits: clean, fgsm, pgd. Beside digits-vit: digits-symvit ")
    assert table == reported.stdout
    assert "All was measured before, and nothing was left to do." in ran.stderr
    assert "digits-symvit (first 50)" in table
    assert "Where no model is marked, none is distinguishable from the best" in table


def test_two_suites_give_two_tables_and_share_their_shards(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    one, two = small_suite("one"), small_suite("two")
    ended = robench("run", "--suite", one, "--suite", two, *VIT, "--limit", 50, "--results", tmp_path / "r", "--json")
    first, second = json.loads(ended.stdout)
    assert (first["suite"], second["suite"]) == ("one", "two")
    assert first["rows"] == second["rows"]
    assert len(list((tmp_path / "r").rglob("*.parquet"))) == 3


def test_two_files_whose_suites_have_one_name_are_refused(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    first = small_suite()
    second = tmp_path / "copy.yaml"
    second.write_text(first.read_text())
    ended = robench("run", "--suite", first, "--suite", second, *VIT, "--results", tmp_path / "r")
    assert (ended.code, ended.stdout) == (2, "")
    assert "two of the suites are named small" in ended.stderr


def test_a_model_whose_code_changed_is_measured_again(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its weights are the same bytes, so that nothing else would tell the two apart."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    # Not within [0, 1], as probabilities are.
    weights = {"weight": 2 * torch.eye(10, 3 * 32 * 32), "bias": torch.zeros(10)}
    save_file(weights, tmp_path / "weights.safetensors")
    registry = tmp_path / "registry.yaml"
    registry.write_text(PYTHON)
    command = ("run", "--suite", small_suite(), "--registry", registry, "--model", "mine", "--limit", 50)
    for sign in ("", "-"):
        (tmp_path / "changing_model.py").write_text(LINEAR.replace("SIGN", sign))
        sys.modules.pop("changing_model", None)
        assert robench(*command, "--executor", "serial", "--results", tmp_path / "r").code == 0
    records = FolderStore(tmp_path / "r").records(lambda header: header.condition == "clean")
    losses = [[outcome.loss_nats for outcome in record.outcomes] for record in records]  # type: ignore[attr-defined]
    assert len(losses) == 2
    assert losses[0] != losses[1]


PYTHON = """\
checkpoints:
  mine:
    architecture: {backbone: python, target: 'changing_model:build'}
    weights: {uri: weights.safetensors, sha256: null}
    preprocessing: {kind: image, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}
"""
LINEAR = """
import torch

class Linear(torch.nn.Linear):
    def forward(self, images):
        return SIGNsuper().forward(images.flatten(1))

def build():
    return Linear(3 * 32 * 32, 10)
"""


def test_a_serial_run_loads_a_model_once(robench: Robench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from robench.models import loading

    built: list[str] = []
    build = loading.build

    def counted(architecture: Any, *arguments: Any) -> Any:
        built.append(architecture.kind)
        return build(architecture, *arguments)

    monkeypatch.setattr(loading, "build", counted)
    chosen = ("--suite", "digits-adv", "--model", "digits-vit", "--limit", 1, "--no-audit", "--executor", "serial")
    assert robench("run", *chosen, "--results", tmp_path / "r").code == 0
    assert built == ["vit"]
