"""``robench store``: two machines' folders merged are the folder of one run; damage is found."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # likewise
import pytest
from conftest import MeasuredStore, Robench
from edited_records import resealed, text_of

from robench.cli import progress
from robench.store.sealed import seal

RUN = ("--executor", "serial", "--no-audit")
BOTH = ("--model", "digits-vit", "--model", "digits-symvit")


def test_two_folders_give_the_report_of_one_run(
    robench: Robench, measured_store: MeasuredStore, tmp_path: Path
) -> None:
    suite, models = measured_store.suite, measured_store.models
    for model in models:
        assert robench("run", "--suite", suite, "--model", model, *RUN, "--results", tmp_path / model).code == 0
    both = [option for model in models for option in ("--model", model)]
    ended = robench("store", "merge", *(tmp_path / model for model in models), "--results", tmp_path / "all")
    assert ended.code == 0
    assert "conflicts (the first record stays): 0" in ended.stdout
    reports = [
        json.loads(robench("report", "--suite", suite, "--results", results, "--json").stdout)
        for results in (measured_store.results, tmp_path / "all")
    ]
    assert reports[0] == reports[1]
    planned = robench("run", "--suite", suite, *both, *RUN, "--results", tmp_path / "all", "--dry-run", "--json")
    assert json.loads(planned.stdout)["todo"] == 0


def test_damage_is_1_and_named(
    robench: Robench, measured_store: MeasuredStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = measured_store.copied(tmp_path / "r")
    assert robench("store", "verify", "--results", results).code == 0
    path = next(results.rglob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-1])
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    ended = robench("store", "verify", "--results", results, "--json")
    assert ended.code == 1
    found = json.loads(ended.stdout)
    assert found["damaged"] == [str(path)]
    assert found["sound"]["records"] == 17
    assert "was set aside" in ended.stderr
    assert "verifying: 10 files" in ended.stderr


@pytest.mark.slow
def test_a_compacted_folder_gives_the_same_reports_and_a_run_goes_on_from_it(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    suite, results = small_suite(), tmp_path / "r"
    run = ["run", "--suite", suite, "--model", "digits-vit", *RUN, "--results", results]
    assert robench(*run, "--limit", "100").code == 0
    compacted = robench("store", "compact", "--results", results, "--json")
    assert json.loads(compacted.stdout) == {"packed": 3, "files": 6, "left": 0}
    assert robench(*run).code == 0
    documents = [("report", "--suite", suite, "--json"), ("status", "--suite", suite, "--json"), ("status", "--json")]
    before = [robench(*document, "--results", results).stdout for document in documents]
    ended = robench("store", "compact", "--results", results)
    assert "packed: 6 files of 3 measurements into 3" in ended.stdout
    assert [robench(*document, "--results", results).stdout for document in documents] == before
    assert json.loads(robench(*run, "--dry-run", "--json").stdout)["todo"] == 0
    assert len(list(results.rglob("*.parquet"))) == 3


def test_what_is_not_there_is_said(robench: Robench, tmp_path: Path) -> None:
    ended = robench("store", "verify", "--results", tmp_path / "none")
    assert (ended.code, ended.stdout) == (2, "")
    assert "there is no results folder" in ended.stderr
    assert robench("store", "compact", "--results", tmp_path / "none").code == 2
    ended = robench("store", "merge", tmp_path / "none", "--results", tmp_path / "all")
    assert (ended.code, ended.stdout) == (2, "")
    assert "there is no results folder" in ended.stderr


@pytest.mark.slow
def test_what_nothing_needs_is_listed_and_moved_aside(
    robench: Robench, measured_store: MeasuredStore, tmp_path: Path
) -> None:
    suite, results = measured_store.suite, measured_store.copied(tmp_path / "r")
    with_suite = robench("store", "gc", "--suite", suite, "--results", results, "--json")
    assert (with_suite.code, json.loads(with_suite.stdout)) == (0, [])
    listed = robench("store", "gc", "--results", results)
    assert listed.code == 0
    assert "no suite has the condition (seed 0)" in listed.stdout
    assert "4 measurements are not needed; --apply moves them aside" in listed.stderr
    planned = ("run", "--suite", suite, "--model", "digits-vit", *RUN, "--results", results, "--dry-run", "--json")
    assert json.loads(robench(*planned).stdout)["todo"] == 0
    applied = robench("store", "gc", "--results", results, "--apply")
    assert f"moved 8 folders to {results / 'unused'}" in applied.stderr
    assert json.loads(robench(*planned).stdout)["todo"] == 6
    assert "0 measurements are not needed" in robench("store", "gc", "--results", results).stderr


def test_an_edited_record_and_an_edited_manifest_are_found_and_a_run_heals_both(
    robench: Robench, measured_store: MeasuredStore, tmp_path: Path
) -> None:
    suite, results = measured_store.suite, measured_store.copied(tmp_path / "r")
    run = ("run", "--suite", suite, *BOTH, *RUN, "--results", results)
    report = ("report", "--suite", suite, "--results", results, "--json")
    before = json.loads(robench(*report).stdout)["rows"]
    record, manifest = next(results.rglob("*.parquet")), sorted(results.rglob("_manifest.json"))[-1]
    table = pq.read_table(record)
    place = table.schema.get_field_index("prediction")
    predictions = [(each + 1) % 10 for each in table.column("prediction").to_pylist()]
    table = table.set_column(place, table.schema.field(place), pa.array(predictions))
    record.write_bytes(resealed(table, json.loads(table.schema.metadata[b"robench"])))
    manifest.write_bytes(seal(text_of(json.loads(manifest.read_bytes()) | {"provenance": None}).encode()))
    ended = robench("store", "verify", "--results", results)
    assert (ended.code, "damaged: 2" in ended.stdout) == (1, True)
    assert f"{record.name} is damaged: its correct_top1 of example" in ended.stderr
    assert "_manifest.json is damaged: its envelope lacks 'provenance'" in ended.stderr
    assert robench(*run).code == 0
    assert json.loads(robench(*report).stdout)["rows"] == before
    assert robench("store", "verify", "--results", results).code == 0


def test_a_manifest_with_another_seed_hides_no_measurement_from_a_run(
    robench: Robench, measured_store: MeasuredStore, tmp_path: Path
) -> None:
    suite, results = measured_store.suite, measured_store.copied(tmp_path / "r")
    run = ("run", "--suite", suite, *BOTH, *RUN, "--results", results)
    report = ("report", "--suite", suite, "--results", results, "--json")
    before = json.loads(robench(*report).stdout)["rows"]
    for manifest in results.rglob("_manifest.json"):
        members = json.loads(manifest.read_bytes())
        members["shard"]["seed"] = 7
        manifest.write_bytes(seal(text_of(members).encode()))
    ended = robench(*run)
    assert ended.code == 0
    assert "its seed is 7, and its measurement_key is of 0" in ended.stderr
    assert json.loads(robench(*report).stdout)["rows"] == before
