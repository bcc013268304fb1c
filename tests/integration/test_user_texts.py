"""Users' texts and functions of strings through whole runs."""

import csv
from collections.abc import Sequence
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from word_search_models import give_wordnet

import robench
from robench.core.errors import RobenchError, UsageError
from robench.domains.code_points import decoded
from robench.tasks.language_modeling_impl import NO_TOKEN, tokens_of

REGISTRY = """
datasets:
  reviews: {kind: csv, path: reviews.csv, text_column: text}
  prose: {kind: csv, path: reviews.csv, text_column: text, task: language-modeling}
"""
GOOD, BAD = ("a wonderful film about nothing", "a dreadful film about everything")


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    with (tmp_path / "reviews.csv").open("w", newline="") as file:
        rows = [(f"{GOOD} {number}" if number % 2 else f"{BAD} {number}", number % 2) for number in range(12)]
        csv.writer(file).writerows([("text", "label"), *rows])
    (tmp_path / "registry.yaml").write_text(REGISTRY)
    return tmp_path / "registry.yaml"


class Keyword:
    """Classifier of strings by a word that word swap and misspellings take away; it fails on anything else."""

    classes_ = np.array(["good", "bad"])

    def predict_proba(self, texts: Sequence[str]) -> Any:
        assert all(isinstance(each, str) and "\ufffd" not in each for each in texts)
        good = np.array(["wonderful" in each for each in texts], dtype=float)
        return np.stack([good, 1 - good], axis=1)


def logits(texts: list[str]) -> list[list[float]]:
    return [[1.0, 2.0 * ("wonderful" in each)] for each in texts]


def accuracies(report: Any) -> dict[str, list[float]]:
    return {row.model: [cell.estimate.value for cell in row.cells.values()] for row in report.rows}


def test_a_function_and_an_estimator_of_strings_are_measured_alike(registry: Path, tmp_path: Path) -> None:
    estimator = robench.wrap(Keyword(), classes=["bad", "good"], inputs="texts")
    keys = {"function": "keyword function", "estimator": "keyword estimator"}
    suite = robench.load_suite("texts-adv", dataset="reviews", registry=registry).only(["clean", "swap-30", "greedy"])
    models = {"function": logits, "estimator": estimator}
    found = accuracies(robench.run(suite, models, key=keys, registry=registry, results=tmp_path / "results"))
    clean, swapped, searched = found["function"]
    assert found["function"] == found["estimator"]
    # A search finds the only word that counts: in half of the texts, of one class.
    assert clean == 1
    assert searched == 0.5 <= swapped < 1


def test_searches_of_one_change_find_the_only_word_that_counts(
    registry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_wordnet(monkeypatch, tmp_path, {"wonderful": ("grand", "marvelous"), "film": ("movie",)})
    suite = robench.load_suite("texts-search", dataset="reviews", registry=registry)
    report = robench.run(suite, {"function": logits}, key="keyword", registry=registry, results=tmp_path / "results")
    clean, *searched = accuracies(report)["function"]
    assert clean == 1
    assert searched == [0.5] * 6


def test_a_function_that_fails_is_named(registry: Path, tmp_path: Path) -> None:
    with pytest.raises(RobenchError, match=r"function of texts returned the shape \(\d+,\), wanted \(\d+, classes\)"):
        robench.run(
            robench.load_suite("texts-adv", dataset="reviews", registry=registry).only(["clean"]),
            {"flat": lambda texts: [0.0] * len(texts)},
            key="flat",
            registry=registry,
            results=tmp_path / "results",
        )


class Uniform(nn.Module):
    """Language model to which all words are equally probable."""

    def __init__(self) -> None:
        super().__init__()
        self.words = [f"word{number}" for number in range(49)] + ["\n"]

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        rows = [torch.full((len(tokens_of(text)),), log(50)) for text in decoded(points)]
        return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=NO_TOKEN)


def test_language_models_are_measured_on_the_rows_of_a_table(registry: Path, tmp_path: Path) -> None:
    suite = robench.load_suite("texts-swap", dataset="prose", registry=registry).only(["clean", "swap-10"])
    report = robench.run(suite, {"uniform": Uniform()}, key="uniform", registry=registry, results=tmp_path / "results")
    cells = {key: cell.estimate.value for key, cell in report.rows[0].cells.items() if cell.estimate is not None}
    assert cells["clean/perplexity"] == pytest.approx(50)
    assert cells["swap-10/kept_damage"] == pytest.approx(0, abs=1e-6)


def test_other_inputs_of_wrap_are_refused() -> None:
    with pytest.raises(UsageError, match="inputs is 'images', expected series or texts"):
        robench.wrap(Keyword(), inputs="images")
