"""The archive of results: smaller than what it is made of, with the same numbers."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from papers_examples import records, suite

from robench.core.columns import Values
from robench.core.protocols import Store
from robench.core.records import Record
from robench.core.shard import shard_key
from robench.metrics import METRICS
from robench.papers import archived
from robench.papers.archive import digest_of_results, fields_read
from robench.reports import RENDERERS
from robench.reports.build import report_of_store
from robench.store import FolderStore, MemoryStore

MODELS = ("digits-symvit", "digits-vit")
SUITES = {"digits-shift": suite("digits-shift")}


def store_of(*models: str) -> MemoryStore:
    store = MemoryStore()
    for number, model in enumerate(models):
        for record in records("digits-shift", model, 2 + number):
            store.put(record)
    return store


def archive_of(store: Store, *models: str) -> list[Record]:
    return list(archived({"digits-shift": models}, SUITES, store, list(store.manifests())))


def report(store: Store) -> str:
    return RENDERERS["json"](report_of_store(SUITES["digits-shift"], store))


def test_reports_of_the_archive_are_those_of_the_results(tmp_path: Path) -> None:
    store = store_of(*MODELS)
    archive = FolderStore(tmp_path)
    for record in archive_of(store, *MODELS):
        archive.put(record)
    assert report(archive) == report(store)
    assert json.loads(report(archive))["rows"][0]["cells"]["clean/top1_accuracy"]["value"] == 0.9


def test_a_measurement_is_one_file() -> None:
    found = archive_of(store_of("digits-vit"), "digits-vit")
    assert len(found) == len({each.shard.measurement_key for each in found})
    for record in found:
        shard = record.shard
        assert (shard.start, shard.stop, len(record.outcomes)) == (0, 20, 20)
        assert shard.key == shard_key(shard.measurement_key, 0, 20)
        assert (record.provenance.seconds, record.provenance.finished_at) == (3.0, "2026-01-01T00:00:14")


def test_only_what_columns_read_is_kept() -> None:
    by_dataset = {each.shard.dataset.name: each.outcomes for each in archive_of(store_of("digits-vit"), "digits-vit")}
    for dataset, outcomes in by_dataset.items():
        assert outcomes.values("loss_nats") is None
        assert outcomes.values("linf") is None
        assert outcomes.values("num_queries") is None
        # Letters are told from digits by confidence; no other number reads it.
        assert (outcomes.values("confidence") is not None) == (dataset in ("digits", "digits-o"))
        assert outcomes.known("correct_top5").all() == (dataset != "digits-o")


def test_answers_of_smoothed_models_stay_readable(tmp_path: Path) -> None:
    """An abstention is wrong, although its class is the right one."""
    store, archive = MemoryStore(), FolderStore(tmp_path)
    for each in (record for record in records("digits-shift", "digits-vit") if record.shard.dataset.name == "digits"):
        abstains = np.arange(len(each.outcomes)) == 0
        smoothed = each.outcomes.replaced(
            prediction=Values(each.outcomes.column("target")),
            correct_top1=Values(~abstains),
            correct_top5=None,
            votes=Values(np.full(len(abstains), 900)),
            abstained=Values(abstains),
            certified_radius=Values(np.full(len(abstains), 0.25), abstains),
        )
        store.put(replace(each, outcomes=smoothed))
    for record in archive_of(store, "digits-vit"):
        archive.put(record)
    assert report(FolderStore(tmp_path)) == report(store)


def test_what_an_archive_left_out_is_missing_and_no_error() -> None:
    store = MemoryStore()
    for each in archive_of(store_of("digits-vit"), "digits-vit"):
        store.put(replace(each, outcomes=each.outcomes.replaced(correct_top5=None)))
    (row,) = report_of_store(SUITES["digits-shift"], store).rows
    assert row.cells["clean/top1_accuracy"].estimate is not None
    assert row.cells["clean/top5_accuracy"].estimate is None
    (note,) = (each for each in row.notes if "some outcomes have no correct_top5" in each)
    assert note.startswith("clean top-5 accuracy")


def test_models_that_no_table_names_stay_out() -> None:
    assert {each.shard.checkpoint for each in archive_of(store_of(*MODELS), "digits-vit")} == {"digits-vit"}
    assert archive_of(store_of("digits-vit"), "digits-symvit") == []


@pytest.mark.parametrize("changes", [{"device": "cuda"}, {"versions": {"torch": "3"}}])
def test_shards_that_were_made_otherwise_stay_apart(changes: dict[str, object]) -> None:
    store = MemoryStore()
    for record in records("digits-shift", "digits-vit"):
        is_first = record.shard.start == 0
        store.put(record if is_first else replace(record, provenance=replace(record.provenance, **changes)))
    found = archive_of(store, "digits-vit")
    assert {(each.shard.start, each.shard.stop) for each in found} == {(0, 7), (7, 14), (14, 20)}
    assert all(each.outcomes.values("loss_nats") is None for each in found)


def test_a_gap_stays_a_gap() -> None:
    store = MemoryStore()
    for record in records("digits-shift", "digits-vit"):
        if record.shard.start != 7:
            store.put(record)
    found = archive_of(store, "digits-vit")
    assert {(each.shard.start, each.shard.stop) for each in found} == {(0, 7), (14, 20)}


def test_adding_twice_changes_nothing(tmp_path: Path) -> None:
    archive = FolderStore(tmp_path)
    digests = []
    for _ in range(2):
        for record in archive_of(store_of("digits-vit"), "digits-vit"):
            archive.put(record)
        digests.append(digest_of_results(tmp_path))
    assert digests[0] == digests[1]


def test_the_digest_is_of_what_is_kept(tmp_path: Path) -> None:
    archive = FolderStore(tmp_path)
    empty = digest_of_results(tmp_path)
    found = archive_of(store_of("digits-vit"), "digits-vit")
    archive.put(found[0])
    one = digest_of_results(tmp_path)
    (tmp_path / "README.md").write_text("about")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "x-1").write_text("x")
    assert digest_of_results(tmp_path) == one
    archive.put(found[1])
    assert len({empty, one, digest_of_results(tmp_path)}) == 3


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_says_which_fields_it_reads(name: str) -> None:
    assert METRICS[name].reads is not None


def test_a_metric_that_does_not_say_may_read_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    metric = replace(METRICS["top1_accuracy"], reads=None)
    monkeypatch.setattr("robench.papers.archive.METRICS", {**METRICS, "top1_accuracy": metric})
    assert set(fields_read(SUITES["digits-shift"]).values()) >= {None}
    found = archive_of(store_of("digits-vit"), "digits-vit")
    assert any(each.outcomes.values("loss_nats") is not None for each in found)
