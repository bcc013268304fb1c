"""Adversarial images of 8 bits a value: whole levels within the budget, scored as files have them, kept and written."""

import csv
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_models import write_few
from torch import nn
from user_data import scans

import robench
from robench.attacks.levels import as_read, as_written
from robench.attacks.pgd import Pgd
from robench.core.errors import DeclarationError, RobenchError
from robench.datasets import DATASETS
from robench.store import FolderStore
from robench.store.adversarial import ONE_BUDGET, decode_examples

EIGHT = {"pixels": "8bit"}
GENERATOR = torch.Generator().manual_seed(5)
MODULE = nn.Sequential(nn.Flatten(), nn.Linear(192, 4), nn.Tanh(), nn.Linear(4, 3)).requires_grad_(False)
IMAGES = torch.randint(0, 256, (24, 3, 8, 8), generator=GENERATOR)
for each in MODULE.parameters():
    each.copy_(torch.randn(each.shape, generator=GENERATOR) / each.shape[-1] ** 0.5)
LABELS = MODULE(IMAGES / 255).argmax(1)
SUITE = """
name: eight
version: 1
seed: 0
task: classification
batch_size: 8
conditions:
  - {name: clean}
  - {name: pgd, perturbation: {kind: pgd, epsilon: 7/510, relative_step: 1/3, num_steps: 5, random_start: true}}
  - {name: nearest, perturbation: {kind: fab, num_steps: 9, pixels: 8bit}}
metrics: [top1_accuracy]
"""
# Classes are those of the nearest mean, almost.
MEANS = torch.from_numpy(scans(24, 16)[0]).flatten(1).repeat(1, 3).reshape(6, 4, -1).float().mean(0) / 255
WEIGHT = MEANS - MEANS.mean(0)
WHOLE = ("--condition", "pgd", "--condition", "nearest")


def test_levels_are_the_whole_ones_from_the_clean_level_to_the_point() -> None:
    tenths = [each for each in range(-50, 51) if abs(each) % 10 != 5]
    clean = torch.arange(256)[:, None].repeat(1, len(tenths))
    points = ((clean + torch.tensor(tenths).double() / 10) / 255).clamp(0, 1).float()
    wanted = (clean + torch.tensor([int(each / 10) for each in tenths])).clamp(0, 255).double()
    assert torch.equal(as_written(clean / 255, points).double(), wanted)
    read = as_read(clean / 255, as_written(clean / 255, points))
    assert bool(((read - clean / 255).abs() <= (points - clean / 255).abs() + 1e-6).all())
    nearest = (255 * points.double()).round()
    assert torch.equal(as_written(clean / 255, points, is_nearest=True).double(), nearest)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("pgd", {"epsilon": 8 / 255, "num_steps": 10}),
        ("pgd", {"epsilon": 5.5 / 255, "num_steps": 10, "random_start": True}),
        ("pgd", {"epsilon": 0.5, "norm": "l2", "num_steps": 10}),
        ("apgd", {"epsilon": 6, "norm": "l1", "num_steps": 10}),
        ("uniform-noise", {"epsilon": 7 / 255}),
        ("fab", {"num_steps": 10}),
        ("cw", {"num_steps": 20, "num_search_steps": 3, "initial_c": 1.0, "learning_rate": 0.02}),
        (
            "autoattack",
            {"epsilon": 0.04, "variant": "custom", "members": [{"kind": "fab", "num_steps": 5}]},
        ),
    ],
)
def test_every_attack_returns_whole_levels_within_its_budget_and_success_of_their_file(
    kind: str, fields: dict[str, Any]
) -> None:
    made = robench.attack(kind, **fields, **EIGHT)(MODULE, IMAGES / 255, LABELS)
    written = (255 * made.inputs.double()).round()
    torch.testing.assert_close(255 * made.inputs.double(), written, atol=1e-4, rtol=0)
    assert made.success is not None
    assert torch.equal(made.success, MODULE((written / 255).float()).argmax(1) != LABELS)
    distances = getattr(made, str(fields.get("norm", "linf")))
    assert float(distances.max()) <= float(fields.get("epsilon", 1)) + 1e-6
    if kind in {"fab", "cw"}:
        real = robench.attack(kind, **fields)(MODULE, IMAGES / 255, LABELS)
        of_files = MODULE((255 * real.inputs).round() / 255).argmax(1) != LABELS
        assert torch.equal(made.success, of_files)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "pgd", "clip": "none"}, "clip: must be box with pixels 8bit, got none"),
        (
            {"kind": "autoattack", "variant": "custom", "members": [{"kind": "fgsm", "epsilon": 0.1, **EIGHT}]},
            r"members: must have pixels real, whose points the ensemble rounds, got 8bit in members\[0\]",
        ),
    ],
)
def test_contradictions_are_refused(fields: dict[str, Any], message: str) -> None:
    steps = {"num_steps": 2} if fields["kind"] == "pgd" else {}
    with pytest.raises(DeclarationError, match=message):
        robench.attack(epsilon=0.1, **steps, **fields, **EIGHT)


def test_images_between_levels_and_series_are_refused() -> None:
    with pytest.raises(RobenchError, match=r"clean images must have values of 8 bits .* got 0.1, .* between 25/255"):
        robench.attack("fgsm", epsilon=0.1, **EIGHT)(MODULE, torch.full((2, 3, 8, 8), 0.1), LABELS[:2])
    pgd = Pgd(epsilon=Fraction(1, 10), step_size=Fraction(1, 10), num_steps=1, pixels="8bit")
    (problem,) = pgd.problems_on(DATASETS["japanese-vowels"])
    assert problem[0] == "pixels"
    assert str(pgd.threat_model) == "linf-1/10-8bit"


@pytest.mark.parametrize("suite", ["digits", "eight"])
def test_what_cannot_be_kept_as_levels_is_refused_before_anything_is_measured(
    robench: Any, tmp_path: Path, suite: str
) -> None:
    text = SUITE.replace(", pixels: 8bit", "" if suite == "eight" else ", pixels: 8bit")
    (tmp_path / "suite.yaml").write_text(text)
    few = write_few(tmp_path, torch.randn(4, 768))
    asked = few if suite == "eight" else ("--dataset", "digits", "--model", "digits-vit")
    ended = robench(
        *("run", "--suite", tmp_path / "suite.yaml", *asked, "--keep-adversarial", "uint8"),
        *("--results", tmp_path / "results", "--no-audit"),
    )
    assert ended.code == 2
    wanted = "or give it pixels: 8bit" if suite == "eight" else "clean images must have values of 8 bits"
    assert wanted in ended.stderr
    assert not list(tmp_path.rglob("*.parquet"))


def test_kept_levels_are_what_was_scored_and_score_the_same_again(robench: Any, tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(SUITE)
    few, weight = write_few(tmp_path, WEIGHT), WEIGHT
    asked = ("--suite", tmp_path / "suite.yaml", *few, "--results", tmp_path / "results")
    assert robench("run", *asked, "--keep-adversarial", "uint8", "--no-audit", "--executor", "serial").code == 0
    answers = {}
    for path in (tmp_path / "results" / "adversarial").rglob("*.safetensors"):
        kept = decode_examples(path.read_bytes())
        points = kept.points[ONE_BUDGET]
        assert points.dtype == np.uint8
        # The model, written out.
        logits = (points.reshape(len(points), -1) / np.float32(255)) @ weight.numpy().T + [0.01, 0, 0, 0]
        answers |= dict(zip(((kept.shard.condition, each) for each in kept.ids), logits.argmax(1), strict=True))
    outcomes = [
        (record.shard.condition, row)
        for record in FolderStore(tmp_path / "results").records(lambda header: header.condition != "clean")
        for row in record.outcomes
    ]
    assert len(outcomes) == len(answers) == 48
    for condition, row in outcomes:
        assert row.prediction == answers[condition, row.example_id]
        assert row.linf * 255 == pytest.approx(round(row.linf * 255), abs=1e-3)
        assert condition != "pgd" or row.linf <= 3 / 255 + 1e-6
    ended = robench("rescore", *asked)
    assert ended.code == 0, ended.stderr


def test_the_answer_to_the_written_file_is_beside_that_to_what_was_scored(robench: Any, tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(SUITE.replace(", pixels: 8bit", ""))
    few, weight = write_few(tmp_path, WEIGHT), WEIGHT
    out = tmp_path / "out"
    asked = ("--suite", tmp_path / "suite.yaml", *few, *WHOLE, "--count", 24, "--output", out)
    assert robench("export", "images", *asked).code == 0
    rows = list(csv.DictReader((out / "predictions.csv").open()))
    assert len(rows) == 3 * 24
    for row in rows:
        image = np.asarray(Image.open(out / row["file"]).convert("RGB")).transpose(2, 0, 1).reshape(-1)
        answer = ((image / 255) @ weight.numpy().T + [0.01, 0, 0, 0]).argmax()
        assert row["prediction_of_file"] == str(answer)
        assert row["correct_of_file"] == str(str(answer) == row["target"]).lower()
    assert any(row["prediction"] != row["prediction_of_file"] for row in rows if row["condition"] == "nearest")
