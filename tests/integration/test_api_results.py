"""Leaderboards and papers' tables from Python are those of the commands."""

import re
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
import yaml
from conftest import ROOT
from leaderboard_examples import ADV, SHIFT, adv_suite, fill, shift_suite

import robench
from robench.core.errors import UnknownNameError, UsageError
from robench.store import FolderStore

ARCHIVE = ROOT / "reports" / "archive.tar.xz"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two suites, and a store with results of both."""
    tmp_path: Path = tmp_path_factory.mktemp("api")
    for name, suite in (("adv", ADV), ("shift", SHIFT)):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(suite))
    store = FolderStore(tmp_path / "results")
    fill(store, adv_suite(), {"digits-vit": 0.5, "digits-vit@1": 0.7, "digits-symvit": 0.6})
    fill(store, shift_suite(), {"digits-vit": 0.5})
    return tmp_path


def test_a_leaderboard_is_that_of_the_command(robench: Any, folder: Path) -> None:
    suites = [folder / "adv.yaml", folder / "shift.yaml"]
    board = _package().build_leaderboard(suites, ["digits-vit", "digits-symvit"], results=folder / "results")
    assert [suite.name for suite in board.suites] == ["adv", "shift"]
    board.save(folder / "board.html")
    options = [each for path in suites for each in ("--suite", path)]
    models = ("--model", "digits-vit", "--model", "digits-symvit")
    done = robench("leaderboard", *options, *models, "--results", folder / "results")
    assert (folder / "board.html").read_text() == done.stdout


def test_one_suite_and_one_model_are_names_alone(folder: Path) -> None:
    board = _package().build_leaderboard(str(folder / "adv.yaml"), "digits-symvit", results=folder / "results")
    assert [row.model for row in board.rows] == ["digits-symvit"]
    everyone = _package().build_leaderboard(folder / "adv.yaml", results=folder / "results")
    assert {row.model for row in everyone.rows} == {"digits-vit", "digits-vit@1", "digits-symvit"}


def test_rows_over_seeds_are_means(folder: Path) -> None:
    board = _package().build_leaderboard(folder / "adv.yaml", "digits-vit", results=folder / "results", all_seeds=True)
    (row,) = board.rows
    assert row.model == "digits-vit"
    assert row.seeds == ("digits-vit", *(f"digits-vit@{seed}" for seed in range(1, 5)))


def test_tables_and_suites_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a table is PAPER:NUMBER, such as rpc:1, got 'rpc'"):
        _package().paper_table("rpc", results=tmp_path)
    with pytest.raises(UnknownNameError):
        _package().paper_table("rpc:99", results=tmp_path)
    with pytest.raises(UsageError, match="no model of rpc:7 has a twin on small data"):
        _package().twin_table("rpc:7", results=tmp_path)
    with pytest.raises(UnknownNameError):
        _package().build_leaderboard("digits-advv", results=tmp_path)


def _package() -> Any:
    """The package, since ``robench`` is the fixture of the command here."""
    return robench


def test_a_report_is_that_of_the_command(robench: Any, folder: Path) -> None:
    options = {"sort": "pgd/top1_accuracy", "columns": ["*top1*", "robust_accuracy"]}
    report = _package().build_report(folder / "adv.yaml", results=folder / "results", **options)
    chosen = ("--sort", "pgd/top1_accuracy", "--columns", "*top1*", "--columns", "robust_accuracy")
    asked = ("--suite", folder / "adv.yaml", "--results", folder / "results", *chosen)
    assert robench("report", *asked, "--format", "md").stdout == report.render("md")
    values = report.to_frame()["pgd/top1_accuracy"].tolist()
    assert values == sorted(values, reverse=True)
    page = robench("report", *asked, "--format", "html").stdout
    # A row a model, over its training seeds.
    board = _package().build_leaderboard(folder / "adv.yaml", results=folder / "results")
    means = {row.model: row.cells["adv/pgd/top1_accuracy"].estimate.value for row in board.shown.rows}
    found = re.findall(r'<tr><th scope="row">([^ <]+)', page.split("<section")[0])
    assert found == sorted(means, key=lambda model: -means[model])
    assert "<script>" in page
    refused = robench("report", *asked[:-1], "pgdd")
    assert (refused.code, refused.stdout) == (2, "")
    assert "no column is named 'pgdd'" in refused.stderr


def test_outcomes_are_those_of_the_export(robench: Any, folder: Path) -> None:
    suites = [folder / "adv.yaml", folder / "shift.yaml"]
    table = _package().outcomes(suites, results=folder / "results")
    options = [each for path in suites for each in ("--suite", path)]
    ended = robench("export", *options, "--results", folder / "results", "--output", folder / "tables")
    assert ended.code == 0
    exported = pyarrow.parquet.read_table(folder / "tables" / "outcomes.parquet")
    assert table.column_names == exported.column_names
    assert table.to_pylist() == exported.to_pylist()
    of_one = _package().outcomes(suites[0], "digits-vit", results=folder / "results")
    frame = of_one.to_pandas()
    assert set(frame["model"]) == {"digits-vit"}
    assert set(frame["condition"]) == {"clean", "fgsm", "pgd", "pgd-half"}
    accuracy = frame[frame.condition == "pgd"].correct_top1.mean()
    report = _package().build_report(suites[0], "digits-vit", results=folder / "results")
    assert accuracy == pytest.approx(report.to_frame().loc["digits-vit", "pgd/top1_accuracy"])


def test_an_archive_is_no_empty_folder(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"results must be a folder, got the file .*archive.tar.xz; unpack"):
        _package().outcomes(folder / "adv.yaml", results=ARCHIVE)


def test_outcomes_of_an_empty_folder_have_their_columns(folder: Path) -> None:
    table = _package().outcomes(folder / "adv.yaml", results=folder / "nothing")
    assert table.num_rows == 0
    assert {"model", "dataset", "condition", "budget", "example_id"} <= set(table.column_names)
