"""``robench leaderboard``: files, folders, formats and what it refuses."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from leaderboard_examples import ADV, SHIFT, adv_suite, fill, shift_suite

from robench.leaderboard import RENDERERS, SUFFIXES
from robench.papers.archive import packed
from robench.store import FolderStore

Robench = Any


@pytest.fixture
def asked(tmp_path: Path) -> list[object]:
    """Options for two suites of which a store has results."""
    for name, suite in (("adv", ADV), ("shift", SHIFT)):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(suite))
    store = FolderStore(tmp_path / "results")
    fill(store, adv_suite(), {"digits-vit": 0.5, "digits-symvit": 0.6})
    fill(store, shift_suite(), {"digits-vit": 0.5})
    suites = ("--suite", tmp_path / "adv.yaml", "--suite", tmp_path / "shift.yaml")
    return ["leaderboard", *suites, "--results", tmp_path / "results"]


def test_a_page_goes_into_a_file(robench: Robench, asked: list[object], tmp_path: Path) -> None:
    path = tmp_path / "new" / "board.html"
    ended = robench(*asked, "--output", path)
    assert (ended.code, ended.stdout) == (0, "")
    assert f"wrote {path}" in ended.stderr
    assert path.read_text().startswith("<!doctype html>")
    first = path.read_bytes()
    assert robench(*asked, "--output", path).code == 0
    assert path.read_bytes() == first


def test_all_formats_go_into_a_folder(robench: Robench, asked: list[object], tmp_path: Path) -> None:
    folder = tmp_path / "boards"
    folder.mkdir()
    formats = [option for name in RENDERERS for option in ("--format", name)]
    assert robench(*asked, *formats, "--output", folder).code == 0
    tables = {f"leaderboard{suffix}" for suffix in SUFFIXES.values()}
    assert {path.name for path in folder.iterdir()} == {*tables, "manifest.json"}
    document = json.loads((folder / "leaderboard.json").read_text())
    assert [suite["name"] for suite in document["suites"]] == ["adv", "shift"]
    assert [row["model"] for row in document["rows"]] == ["digits-symvit", "digits-vit"]
    assert document["rows"][0]["entry"]["attention"] == "symmetric"


def test_the_manifest_has_keys_and_digests_and_is_the_same_twice(
    robench: Robench, asked: list[object], tmp_path: Path
) -> None:
    folder = tmp_path / "boards"
    folder.mkdir()
    assert robench(*asked, "--format", "csv", "--format", "md", "--output", folder).code == 0
    text = (folder / "manifest.json").read_text()
    manifest = json.loads(text)
    assert manifest["files"] == {
        name: {"sha256": hashlib.sha256((folder / name).read_bytes()).hexdigest()}
        for name in ("leaderboard.csv", "leaderboard.md")
    }
    assert [(suite["name"], suite["version"]) for suite in manifest["suites"]] == [("adv", 1), ("shift", 2)]
    kept = {each.shard.measurement_key: each.shard for each in FolderStore(tmp_path / "results").manifests()}
    listed = {each["measurement_key"]: each for each in manifest["measurements"]}
    assert set(listed) == {key for key, shard in kept.items() if shard.checkpoint in {"digits-vit", "digits-symvit"}}
    for key, shard in kept.items():
        found = listed[key]
        assert (found["model"], found["weights_digest"]) == (shard.checkpoint, shard.weights_digest)
        assert (found["dataset"], found["fingerprint"]) == (shard.dataset.name, shard.dataset.fingerprint)
        assert "finished_at" not in found
    assert str(tmp_path) not in text
    assert robench(*asked, "--format", "csv", "--format", "md", "--output", folder).code == 0
    assert (folder / "manifest.json").read_text() == text


def test_one_format_is_printed_without_a_file(robench: Robench, asked: list[object]) -> None:
    ended = robench(*asked, "--format", "json", "--model", "digits-vit")
    assert [row["model"] for row in json.loads(ended.stdout)["rows"]] == ["digits-vit"]


def test_several_formats_need_a_folder(robench: Robench, asked: list[object], tmp_path: Path) -> None:
    ended = robench(*asked, "--format", "md", "--format", "csv", "--output", tmp_path / "none")
    assert ended.code == 2
    assert "several formats need an existing folder; create one and name it with --output FOLDER" in ended.stderr


def test_a_file_that_cannot_be_written_is_named(robench: Robench, asked: list[object], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = robench(*asked, "--output", tmp_path / "file" / "board.html")
    assert ended.code == 2
    assert "board.html cannot be written" in ended.stderr


def test_no_results_are_said(robench: Robench, asked: list[object], tmp_path: Path) -> None:
    ended = robench(*asked[:-1], tmp_path / "empty", "--output", tmp_path / "board.html")
    assert (ended.code, ended.stdout) == (1, "")
    assert "No results for adv, version 1; shift, version 2" in ended.stderr
    assert "so no table: measure them with 'robench run --suite" in ended.stderr
    assert not (tmp_path / "board.html").exists()


def test_archives_with_the_results_are_named(robench: Robench, asked: list[object], tmp_path: Path) -> None:
    for name, results in (("filled", tmp_path / "results"), ("empty", tmp_path / "none")):
        (tmp_path / f"{name}.tar.xz").write_bytes(packed(results))
    ended = robench(*asked[:-1], tmp_path / "empty.tar.xz")
    assert ended.code == 1
    assert "so no table: they are in filled.tar.xz beside it." in ended.stderr
    (tmp_path / "filled.tar.xz").unlink()
    assert "no archive beside it has them either" in robench(*asked[:-1], tmp_path / "empty.tar.xz").stderr


def test_seeds_become_one_row(robench: Robench, asked: list[object], tmp_path: Path) -> None:
    fill(FolderStore(tmp_path / "results"), adv_suite(), {"digits-vit@1": 0.4})
    ended = robench(*asked[:3], "--results", tmp_path / "results", "--format", "json", "--all-seeds")
    rows = {row["model"]: row for row in json.loads(ended.stdout)["rows"]}
    assert rows["digits-vit"]["seeds"] == ["digits-vit", "digits-vit@1"]
    assert len(rows["digits-vit"]["cells"]["adv/clean/top1_accuracy"]["of_seeds"]) == 2


def test_costs_are_columns_by_rule(robench: Robench, asked: list[object]) -> None:
    ended = robench(*asked, "--format", "json", "--costs", "--rule", "linear")
    assert ended.code == 0
    document = json.loads(ended.stdout)
    assert [column["label"] for column in document["columns"]][-2:] == ["parameters (M)", "multiply-adds (linear, G)"]
    symvit = document["rows"][0]
    assert symvit["cells"]["costs/parameters"]["value"] == pytest.approx(0.13153)
    without = json.loads(robench(*asked, "--format", "json").stdout)
    assert [row["cells"].keys() for row in without["rows"]] == [
        {key for key in row["cells"] if not key.startswith("costs/")} for row in document["rows"]
    ]
