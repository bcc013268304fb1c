"""``robench explain`` and ``robench export images``: sentences, outcomes and pictures are those of the run."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import MeasuredStore, Robench
from PIL import Image

import robench as package
from robench.core.suite import Suite
from robench.declare import find_checkpoints, find_suite
from robench.exports.pictures import Pictured
from robench.runs import RunRequest
from robench.runs.pictured import pictured, views_named
from robench.store import FolderStore
from robench.store.adversarial import ONE_BUDGET

VIT = ("--model", "digits-vit", "--executor", "serial")
SWEEP = {
    "  - {name: fgsm, num_examples: 150, perturbation: {kind: fgsm, epsilon: 8/255}}": (
        "  - {name: fgsm, num_examples: 150, perturbation: {kind: fgsm, epsilons: [4/255, 8/255]}}"
    )
}


def drawn(suite: Suite, *names: str, **options: object) -> list[Pictured]:
    request = RunRequest(suites=(suite,), checkpoints=tuple(find_checkpoints(["digits-vit"])))
    return pictured(request, views_named(suite, names), **options)  # type: ignore[arg-type]


def test_pictures_are_the_inputs_and_answers_of_a_run(measured_store: MeasuredStore) -> None:
    suite, store = find_suite(str(measured_store.suite)), FolderStore(measured_store.results)
    kept = {}
    for record in store.records(lambda header: header.title.startswith("digits-vit / pgd")):
        examples = store.adversarial.get(record.shard.measurement_key, record.shard.key)
        assert examples is not None
        for row, outcome in enumerate(record.outcomes):
            kept[outcome.example_id] = examples.points[ONE_BUDGET][row], outcome
    # Of the first and the last batch, in the order in which they were asked for.
    ids = package.load_dataset("digits").ids
    asked = [ids[149], ids[3], ids[0]]
    found = drawn(suite, "pgd", examples=asked)
    assert [each.example_id for each in found] == asked
    for each in found:
        (attacked,) = each.shots
        points, outcome = kept[each.example_id]
        assert (attacked.pixels == points).all()
        assert attacked.prediction == str(outcome.prediction)  # type: ignore[attr-defined]
        assert attacked.confidence == outcome.confidence  # type: ignore[attr-defined]
        assert attacked.is_right == outcome.correct_top1  # type: ignore[attr-defined]
        assert attacked.linf == outcome.linf
        clean, label = package.load_dataset("digits")[ids.index(each.example_id)]
        assert (each.clean.pixels == clean.numpy()).all()
        assert each.target == str(label)


def test_a_sweep_is_drawn_at_every_budget_or_at_the_named_one(small_suite: Callable[..., Path]) -> None:
    suite = find_suite(str(small_suite(**SWEEP)))
    (both,), (one,) = drawn(suite, "fgsm"), drawn(suite, "fgsm@4/255")
    assert [shot.name for shot in both.shots] == ["fgsm@4/255", "fgsm@8/255"]
    assert [shot.name for shot in one.shots] == ["fgsm@4/255"]
    assert (one.shots[0].pixels == both.shots[0].pixels).all()
    assert [np.abs(shot.pixels - both.clean.pixels).max() for shot in both.shots] == [
        pytest.approx(4 / 255),
        pytest.approx(8 / 255),
    ]


def test_files_of_the_command(robench: Robench, small_suite: Callable[..., Path], tmp_path: Path) -> None:
    out = tmp_path / "pictures"
    ended = robench(
        "export", "images", "--suite", small_suite(), "--model", "digits-vit", "--condition", "pgd", "--count", 3,
        "--output", out,
    )  # fmt: skip
    assert ended.code == 0
    assert f"wrote 11 files to {out}" in ended.stderr
    assert len(list((out / "pgd").iterdir())) == len(list((out / "pgd-difference").iterdir())) == 3
    rows = list(csv.DictReader((out / "predictions.csv").open()))
    (first, *_), found = rows[1:], drawn(find_suite(str(small_suite())), "pgd")
    assert (first["example"], first["prediction"]) == (found[0].example_id, found[0].shots[0].prediction)
    image = np.asarray(Image.open(out / first["file"])).astype(float).transpose(2, 0, 1)
    assert np.abs(image - 255 * found[0].shots[0].pixels).max() <= 0.501
    # No results folder is made.
    assert not (tmp_path / "results").exists()


def test_of_results_exactly_what_was_measured_is_drawn(
    robench: Robench, measured_store: MeasuredStore, tmp_path: Path
) -> None:
    suite, results = measured_store.suite, measured_store.results
    asked = ("export", "images", "--suite", suite, "--model", "digits-vit", "--condition", "pgd", "--count", 2)
    ended = robench(*asked, "--results", results, "--output", tmp_path / "o")
    assert ended.code == 0
    first = next(
        row for row in csv.DictReader((tmp_path / "o" / "predictions.csv").open()) if row["condition"] == "pgd"
    )
    kept = {
        each.example_id: each
        for r in FolderStore(results).records(lambda header: header.title.startswith("digits-vit / pgd"))
        for each in r.outcomes
    }
    assert int(first["prediction"]) == kept[first["example"]].prediction
    other = robench(*asked, "--results", results, "--seed", 7, "--output", tmp_path / "other")
    assert other.code == 2
    assert "the results have no pgd of 'digits-vit' with these weights, data and settings" in other.stderr
    empty = robench(*asked, "--results", tmp_path / "none", "--output", tmp_path / "other")
    assert empty.code == 2
    assert "none has no results of 'digits-vit'" in empty.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--condition", "pgdd"), "Did you mean 'pgd'?"),
        (
            ("--condition", "pgd", "--example", "digits/x"),
            "dataset 'digits' has no example 'digits/x'; ids",
        ),
        (("--condition", "pgd", "--model", "nobody"), "unknown model 'nobody'"),
    ],
)
def test_what_cannot_be_drawn_is_said(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    ended = robench(
        "export", "images", "--suite", small_suite(), "--model", "digits-vit", "--output", tmp_path / "o", *arguments
    )
    assert ended.code == 2
    assert said in ended.stderr
    assert not (tmp_path / "o").exists()


def test_texts_have_no_pictures(robench: Robench, tmp_path: Path) -> None:
    ended = robench(
        "export", "images", "--suite", "sotu-swap", "--model", "sotu-lm", "--condition", "swap-4",
        "--output", tmp_path / "o",
    )  # fmt: skip
    assert ended.code == 2
    assert "examples of sotu are texts; pictures are made of images alone" in ended.stderr


def test_conditions_of_several_datasets_are_refused(robench: Robench, tmp_path: Path) -> None:
    ended = robench(
        "export", "images", "--suite", "digits-shift", "--model", "digits-vit", "--condition", "digits-a",
        "--condition", "digits-r", "--output", tmp_path / "o",
    )  # fmt: skip
    assert ended.code == 2
    assert "conditions are of different datasets, digits-a and digits-r, whose examples are not" in ended.stderr


@pytest.mark.slow
def test_clean_examples_of_a_shifted_dataset_are_drawn_alone() -> None:
    (found,) = drawn(find_suite("digits-shift"), "digits-r")
    assert found.shots == ()
    assert found.example_id == package.load_dataset("digits-r").ids[0]
    assert (found.clean.pixels == package.load_dataset("digits-r")[0][0].numpy()).all()


def test_one_examples_outcomes_are_those_kept(robench: Robench, measured_store: MeasuredStore, tmp_path: Path) -> None:
    suite, results = measured_store.suite, measured_store.results
    command = ("explain", "digits-vit", "--suite", suite, "--results", results)
    turned = json.loads(robench(*command, "--json").stdout)["conditions"][2]["turned"][0]
    picture = tmp_path / "example.png"
    ended = robench(*command, "--json", "--example", turned, "--picture", picture)
    assert ended.code == 0
    outcomes = json.loads(ended.stdout)["outcomes"]
    table = package.outcomes(str(suite), "digits-vit", results=results).to_pylist()
    assert len(outcomes) == 3
    for name, outcome in outcomes.items():
        (kept,) = [row for row in table if (row["condition"], row["example_id"]) == (name, turned)]
        assert {field: kept[field] for field in outcome if field in kept} == {
            field: value for field, value in outcome.items() if field in kept
        }
    assert outcomes["clean"]["correct_top1"]
    assert not outcomes["pgd"]["correct_top1"]
    # Clean, and two conditions with their changes: five columns of digits of 32 pixels, enlarged four times.
    assert Image.open(picture).size == (5 * (128 + 6) + 6, 128 + 2 * 15 + 6 + 15 + 6)
    text = robench(*command, "--example", turned).stdout
    assert f"Example {turned}:" in text
    assert text.splitlines()[-1].startswith("pgd ")


@pytest.mark.slow
def test_a_limited_run_is_explained_at_its_limit(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    command = ("--suite", small_suite(), "--results", tmp_path / "r")
    assert robench("run", *command, *VIT, "--limit", 50).code == 0
    ended = robench("explain", "digits-vit", *command)
    assert ended.code == 0
    assert "first 50 examples of each condition" in ended.stdout
    assert "50 of 50" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("digits-vitt",), "unknown model with results of the suite 'digits-vitt'. Did you mean 'digits-vit'?"),
        (("digits-vit", "--picture", "x.png"), "--picture draws one example; name it with --example"),
    ],
)
def test_what_cannot_be_explained_is_said(
    robench: Robench, measured_store: MeasuredStore, arguments: tuple[str, ...], said: str
) -> None:
    ended = robench("explain", *arguments, "--suite", measured_store.suite, "--results", measured_store.results)
    assert (ended.code, ended.stdout) == (2, "")
    assert said in ended.stderr


def test_no_results_are_one_sentence(robench: Robench, small_suite: Callable[..., Path], tmp_path: Path) -> None:
    ended = robench("explain", "digits-vit", "--suite", small_suite(), "--results", tmp_path / "none")
    assert (ended.code, ended.stdout) == (1, "")
    assert "there are no results of suite 'small'; measure them with 'robench run'" in ended.stderr


def test_tables_are_exported_where_variables_give_every_option(
    robench: Robench, measured_store: MeasuredStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"SUITE": measured_store.suite, "RESULTS": measured_store.results, "OUTPUT": tmp_path / "tables"}
    for name, value in given.items():
        monkeypatch.setenv(f"ROBENCH_{name}", str(value))
    assert robench("export").code == 0
    assert (tmp_path / "tables" / "outcomes.parquet").is_file()
