"""A model whose rows influence each other, from its registry entry to its marked numbers."""

import csv
import io
import json
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
import yaml
from conftest import Ended, Robench
from safetensors.torch import save_file
from torch import nn

import robench as package
from robench.cli.list_command import CATALOGUE
from robench.reports import RENDERERS
from robench.store import FolderStore

SOURCE = """
from torch import nn, ones, zeros
from torch.nn.functional import batch_norm

class Normed(nn.Module):
    def __init__(self, on_batch):
        super().__init__()
        self.on_batch = on_batch
        self.pixels = nn.Sequential(nn.AvgPool2d(4), nn.Flatten())
        self.mean, self.variance = nn.Parameter(zeros(192)), nn.Parameter(ones(192))
        self.layers = nn.Sequential(nn.Linear(192, 64), nn.GELU(), nn.Linear(64, 10))

    def forward(self, images):
        pixels = self.pixels(images)
        if self.on_batch:
            return self.layers(batch_norm(pixels, None, None, training=True, eps=0.01))
        return self.layers(batch_norm(pixels, self.mean, self.variance, eps=0.01))

def build(on_batch=True):
    return Normed(on_batch)
"""
ENTRY = """\
  NAME:
    architecture: {backbone: python, target: 'coupled_model:build', arguments: {on_batch: ON_BATCH}}
    weights: {uri: weights.safetensors, sha256: null}
    preprocessing: {kind: image, mean: [0.0, 0.0, 0.0], std: [1.0, 1.0, 1.0]}
    FURTHER
"""
SUITE = """\
name: rows
version: 1
seed: 0
dataset: digits
batch_size: BATCH_SIZE
conditions:
  - {name: clean, num_examples: 60}
  - {name: pgd, num_examples: 60, perturbation: {kind: pgd, epsilon: 16/255, step_size: 4/255, num_steps: 10}}
metrics: [top1_accuracy]
audit: false
"""
MODELS = {"mine": ("true", "coupled: true"), "plain": ("false", "licence: MIT"), "silent": ("true", "licence: MIT")}


@cache
def trained() -> dict[str, torch.Tensor]:
    """Return weights that fit both: learned with batch statistics, and those of the whole training set beside them."""
    scope: dict[str, object] = {}
    exec(SOURCE, scope)
    build: Callable[[], nn.Module] = scope["build"]  # type: ignore[assignment]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model, batch = build(), package.load_dataset("digits").batch(100, 500)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        for _ in range(60):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(batch.inputs), batch.targets).backward()
            optimizer.step()
    pixels = batch.inputs.unflatten(2, (8, 4)).unflatten(4, (8, 4)).mean((3, 5)).flatten(1)
    state = {**model.state_dict(), "mean": pixels.mean(0), "variance": pixels.var(0)}
    return {name: value.detach().contiguous() for name, value in state.items()}


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("coupled_model", None)
    (tmp_path / "coupled_model.py").write_text(SOURCE)
    save_file(trained(), tmp_path / "weights.safetensors")
    entries = [
        ENTRY.replace("NAME", name).replace("ON_BATCH", on_batch).replace("FURTHER", further)
        for name, (on_batch, further) in MODELS.items()
    ]
    path = tmp_path / "registry.yaml"
    path.write_text("checkpoints:\n" + "".join(entries))
    return path


def suite_of(folder: Path, batch_size: int = 20, **replaced: str) -> Path:
    text = SUITE.replace("BATCH_SIZE", str(batch_size))
    for old, new in replaced.items():
        assert old in text
        text = text.replace(old, new)
    path = folder / f"rows-{batch_size}.yaml"
    path.write_text(text)
    return path


@pytest.fixture
def run(robench: Robench, registry: Path, tmp_path: Path) -> Callable[..., Ended]:
    def run(suite: Path, *further: object, model: str = "mine") -> Ended:
        asked = ("run", "--suite", suite, "--registry", registry, "--model", model, "--executor", "serial")
        return robench(*asked, "--results", tmp_path / "r", *further)

    return run


def accuracies(stdout: str) -> dict[str, float]:
    ((row,),) = (json.loads(stdout)["rows"],)
    return {key.partition("/")[0]: 100 * cell["value"] for key, cell in row["cells"].items()}


def test_it_is_refused_before_anything_is_measured_with_what_was_found_and_what_to_do(
    run: Callable[..., Ended], tmp_path: Path
) -> None:
    ended = run(suite_of(tmp_path), model="silent")
    assert (ended.code, ended.stdout) == (2, "")
    for part in ("'silent' couples the rows", "limit 0.01%", "evaluation-mode statistics", "`coupled: true`"):
        assert part in ended.stderr
    assert not list((tmp_path / "r").rglob("*.parquet"))


def test_a_model_on_running_statistics_is_measured_without_a_mark(run: Callable[..., Ended], tmp_path: Path) -> None:
    ended = run(suite_of(tmp_path), "--json", model="plain")
    assert ended.code == 0
    (row,) = json.loads(ended.stdout)["rows"]
    assert "batch_size" not in row
    assert "notes" not in row


@pytest.mark.slow
def test_its_accuracy_under_attack_depends_on_the_batch_size_and_that_of_the_same_weights_does_not(
    run: Callable[..., Ended], tmp_path: Path
) -> None:
    found = {
        model: [accuracies(run(suite_of(tmp_path, size), "--json", model=model).stdout)["pgd"] for size in (4, 60)]
        for model in ("mine", "plain")
    }
    assert max(found["mine"]) - min(found["mine"]) > 5
    assert len(set(found["plain"])) == 1


def test_its_numbers_are_marked_in_every_format_from_the_records_alone(
    robench: Robench, run: Callable[..., Ended], tmp_path: Path
) -> None:
    suite = suite_of(tmp_path)
    run(suite)
    run(suite, model="plain")
    texts = {
        name: robench("report", "--suite", suite, "--results", tmp_path / "r", "--format", name).stdout
        for name in RENDERERS
    }
    mine, plain = json.loads(texts.pop("json"))["rows"]
    assert (mine["batch_size"], plain.get("batch_size")) == (20, None)
    assert "every number holds at batch size 20 only" in mine["notes"][0]
    lines = csv.DictReader(io.StringIO(texts.pop("csv")))
    assert {(line["model"], line["batch_size"]) for line in lines} == {("mine", "20"), ("plain", "")}
    assert sorted(texts) == ["html", "latex", "md", "text"]
    for text in texts.values():
        assert "mine (batch size 20)" in text
        assert "every number holds at batch size 20 only" in text
        assert "plain (" not in text


def test_a_limited_row_has_both_marks(run: Callable[..., Ended], tmp_path: Path) -> None:
    assert "mine (first 20, batch size 20)" in run(suite_of(tmp_path), "--limit", 20).stdout


def test_records_that_were_kept_before_the_entry_said_so_are_marked_by_the_run(
    run: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key is the same, so that they are not measured again."""
    monkeypatch.setattr("robench.runs.fit.measure_coupling", lambda *arguments: None)
    suite = suite_of(tmp_path)
    assert "batch size" not in run(suite, model="silent").stdout
    written = {path: path.read_bytes() for path in (tmp_path / "r").rglob("*.parquet")}
    assert "mine (batch size 20)" in run(suite, model="mine").stdout
    assert {path: path.read_bytes() for path in (tmp_path / "r").rglob("*.parquet")} == written
    records = FolderStore(tmp_path / "r").records(lambda shard: True)
    assert {record.shard.coupled for record in records} == {False}


@pytest.mark.slow
def test_the_audit_flags_it_though_it_is_permitted(
    robench: Robench, run: Callable[..., Ended], registry: Path, tmp_path: Path
) -> None:
    suite = suite_of(tmp_path, **{"audit: false": "audit: true", "num_examples: 60": "num_examples: 20"})
    ended = run(suite, "--json")
    assert ended.code == 0
    flags = {flag["name"]: flag for flag in json.loads(ended.stdout)["rows"][0]["flags"]}
    assert flags["coupled rows"]["is_raised"]
    assert flags["coupled rows"]["value"] > flags["coupled rows"]["limit"] == 1
    shown = robench("report", "--suite", suite, "--results", tmp_path / "r").stdout
    assert "coupled rows: with other rows beside it" in shown


def test_the_examples_that_were_made_against_it_name_its_batch_size(
    robench: Robench, registry: Path, tmp_path: Path
) -> None:
    suite = suite_of(tmp_path, **{"num_examples: 60": "num_examples: 20"})
    asked = ("transfer", "--suite", suite, "--registry", registry, "--condition", "pgd", "--executor", "serial")
    asked = (*asked, "--model", "mine", "--target", "plain", "--results", tmp_path / "r")
    text = robench(*asked).stdout
    assert "from mine (batch size 20)" in text
    assert "plain (" not in text
    assert json.loads(robench(*asked, "--json").stdout)["provenance"]["coupled sources"] == "mine (batch size 20)"
    assert "pgd from mine (batch size 20)" in robench(*asked, "--format", "csv").stdout


def test_show_and_list_have_the_field(robench: Robench, registry: Path) -> None:
    (entry,) = yaml.safe_load_all(robench("show", "mine", "--registry", registry).stdout)
    assert entry["coupled"] is True
    shown = {each["name"]: each["coupled"] for each in CATALOGUE["models"]([registry])}
    coupled = [name for name, is_coupled in shown.items() if is_coupled]
    of_arena = [name for name in coupled if re.fullmatch(r"lra-[a-z]+-nystromformer(-alibi|-bilateral)?", name)]
    assert len(of_arena) == 15
    assert [name for name in coupled if name not in of_arena] == ["digits-nystrom-released-vit", "mine"]
