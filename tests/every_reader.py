"""Sets of several sizes or lengths, models of each task, and all commands that read what a run kept."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from conftest import Robench
from PIL import Image
from safetensors.torch import save_file
from series_files import CLASSES, labels_of, series_of, write_ts
from torch import nn

from robench.domains.code_points import decoded
from robench.tasks.language_modeling_impl import NO_TOKEN, tokens_of

COUNT, NUM_CLASSES = 5, 5
SIZES = ((40, 48), (33, 56), (48, 40), (40, 48), (36, 37))
WORDS = ["the", "old", "boat", "sailed", "past", "a", "quiet", "island", "while", "nobody", "looked"]
MODELS = ("one", "other")
IMAGES = "kind: image, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]"
# Network, preprocessing and task of the models of each set; the entries of the sets.
KINDS = {
    "photos": ("images", f"{{{IMAGES}, resize: 36, crop: 32}}", "classification"),
    "masked": ("masks", f"{{{IMAGES}}}", "segmentation"),
    "series": ("series", "{kind: normalise, inputs: series, mean: [0.0, 0.0], std: [1.0, 1.0]}", "classification"),
    "texts": ("texts", "{kind: none, inputs: texts}", "classification"),
    "prose": ("prose", "{kind: none, inputs: texts}", "language-modeling"),
}
SETS = """\
datasets:
  photos: {kind: image-folder, path: photos}
  masked: {kind: image-masks, path: images, masks: masks, num_classes: 5}
  series: {kind: ts, path: test.ts, train: test.ts}
  texts: {kind: csv, path: texts.csv, text_column: text}
  prose: {kind: csv, path: texts.csv, text_column: text, task: language-modeling}
checkpoints:
"""


class Images(nn.Module):
    """Logits of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(48, NUM_CLASSES))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)  # type: ignore[no-any-return]


class Masks(nn.Module):
    """Logits of each pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, NUM_CLASSES, 3, padding=1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layer(images)  # type: ignore[no-any-return]


class Series(nn.Module):
    """Logits of the sum over the steps of a series; padding is 0."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, len(CLASSES))

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        return self.layer(series.nan_to_num().sum(dim=1) / 7)  # type: ignore[no-any-return]


class Texts(nn.Module):
    """Logits of the words of a text."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(len(WORDS), NUM_CLASSES)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        counts = [[text.split().count(word) for word in WORDS] for text in decoded(points)]
        return self.layer(torch.tensor(counts, dtype=torch.float32))  # type: ignore[no-any-return]


class Prose(nn.Module):
    """Language model to which all words are equally probable, or nearly."""

    def __init__(self) -> None:
        super().__init__()
        self.loss = nn.Parameter(torch.rand(()) + 3)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        rows = [self.loss.expand(len(tokens_of(text))) for text in decoded(points)]
        return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=NO_TOKEN)


NETWORKS = {"images": Images, "masks": Masks, "series": Series, "texts": Texts, "prose": Prose}


def write_sets(folder: Path) -> Path:
    """Write all sets, two models for each, and their registry; return it."""
    draw = np.random.default_rng(0)
    for number, (height, width) in enumerate(SIZES):
        pixels = draw.integers(0, 256, (height, width, 3), dtype=np.uint8)
        mask = draw.integers(0, NUM_CLASSES, (height, width), dtype=np.uint8)
        for place, image in ((f"images/{number}", pixels), (f"masks/{number}", mask), (f"photos/{number}/0", pixels)):
            path = folder / f"{place}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(path)
    write_ts(folder / "test.ts", series_of(COUNT), labels_of(COUNT))
    with (folder / "texts.csv").open("w", newline="") as file:
        texts = [" ".join(draw.choice(WORDS, size)) for size in (3, 40, 7, 19, 64)]
        csv.writer(file).writerows([("text", "label"), *zip(texts, range(COUNT), strict=True)])
    entries = []
    for data, (network, preprocessing, task) in KINDS.items():
        for seed, model in enumerate(MODELS):
            torch.manual_seed(seed)
            save_file(NETWORKS[network]().state_dict(), folder / f"{data}-{model}.safetensors")
            target = f"{__name__}:{network.capitalize()}"
            entries.append(
                f"  {data}-{model}: {{architecture: {{kind: python, target: '{target}'}}, task: {task}, "
                f"weights: {{uri: {data}-{model}.safetensors, sha256: null}}, preprocessing: {preprocessing}}}\n"
            )
    (folder / "registry.yaml").write_text(SETS + "".join(entries))
    return folder / "registry.yaml"


def values_of(rows: Any) -> list[list[float | None]]:
    """Return the numbers of rows in JSON, None where one does not apply to a model; no example is missing."""
    cells = [list(row["cells"].values()) for row in rows]
    assert {cell["missing"] for row in cells for cell in row} == {0}
    assert [row for row in cells if row[0]["value"] is None] == []
    return [[cell["value"] for cell in row] for row in cells]


def check_readers(robench: Robench, folder: Path, suite: str, data: str, *asked: object) -> list[Any]:
    """Check that every command that reads results finds all that two models were measured on; return the rows.

    ``asked`` are the options that choose the suite.
    """
    models = [f"{data}-{each}" for each in MODELS]
    kept = ("--registry", folder / "registry.yaml", "--results", folder / "results")

    def answer(*command: object) -> Any:
        ended = robench(*command, *kept)
        assert ended.code == 0, (command, ended.stderr[-2000:], ended.stdout[-2000:])
        return json.loads(ended.stdout) if "json" in command or "--json" in command else ended.stdout

    rows = answer("report", *asked, "--format", "json")["rows"]
    assert [row["model"] for row in rows] == models
    assert {cell["num_examples"] for row in rows for cell in row["cells"].values()} == {COUNT}
    values = values_of(rows)
    compared = answer("compare", *models, *asked, "--json")["rows"]
    assert [[row[side]["value"] for row in compared] for side in ("first", "second")] == values
    board = sorted(
        answer("leaderboard", *asked, "--format", "json")["rows"], key=lambda row: models.index(row["model"])
    )
    assert values_of(board) == values
    answer("export", "tables", *asked, "--format", "csv", "--output", folder / "tables")
    with (folder / "tables" / "cells.csv").open() as file:
        cells = list(csv.DictReader(file))
    assert [float(cell["value"]) if cell["value"] else None for cell in cells] == [
        each for row in values for each in row
    ]
    with (folder / "tables" / "manifest.json").open() as file:
        measured = [each for each in json.load(file)["measurements"] if not each["is_audit"]]
    assert {cell["batch_size"] for cell in cells} == {str(each["batch_size"]) for each in measured}

    explained = answer("explain", models[0], *asked, "--json")["conditions"]
    assert {(view["num_in"], view["num_wanted"]) for view in explained} == {(COUNT, COUNT)}
    named = [option for model in models for option in ("--model", model)]
    answer("baseline", "write", folder / "baseline.parquet", *asked, *named)
    own = () if "--dataset" in asked else asked
    answer("check", "--baseline", folder / "baseline.parquet", *own)
    status = answer("status", *asked, "--json")
    assert {(each["model"], each["missing"]) for each in status} == {(model, 0) for model in models}
    assert answer("store", "gc", "--json", *own) == []
    return rows
