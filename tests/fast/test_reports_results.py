"""A report from a store is the one from its records, with the outcomes of one model at a time."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from examples import CHECKPOINT, MEASUREMENT, PROVENANCE, failure_of, outcome_of, record_of
from robench.core.records import Failure, Record
from robench.core.shard import DatasetIdentity, Shard
from robench.core.suite import Condition, Suite
from robench.declare import parse_suite
from robench.reports import build_report, report_of_store
from robench.store import FolderStore, MemoryStore

MODELS = ("a", "b", "c")
NUM_EXAMPLES, SHARD_SIZE = 40, 10


@pytest.fixture(scope="module")
def suite() -> Suite:
    fgsm = {"name": "fgsm", "num_examples": NUM_EXAMPLES, "perturbation": {"kind": "fgsm", "epsilon": "8/255"}}
    return parse_suite(
        {
            "name": "two",
            "version": 1,
            "seed": 0,
            "dataset": "digits",
            "batch_size": SHARD_SIZE,
            "conditions": [{"name": "clean", "num_examples": NUM_EXAMPLES}, fgsm],
            "metrics": ["top1_accuracy", "robust_accuracy"],
            "audit": False,
        }
    )


def shard_of(model: str, condition: Condition, start: int, size: int = NUM_EXAMPLES) -> Shard:
    measurement = replace(
        MEASUREMENT,
        checkpoint=replace(CHECKPOINT, name=model),
        condition=condition,
        weights_digest=model * 64,
        dataset=DatasetIdentity(name="digits", fingerprint="f", num_examples=size),
        batch_size=SHARD_SIZE,
    )
    return Shard(measurement=measurement, start=start, stop=start + SHARD_SIZE)


def results_of(suite: Suite) -> list[Record | Failure]:
    results: list[Record | Failure] = []
    for number, model in enumerate(MODELS):
        for condition in suite.conditions:
            for start in range(0, NUM_EXAMPLES, SHARD_SIZE):
                header = shard_of(model, condition, start).header
                if (model, condition.name, start) == ("b", "fgsm", 10):
                    results.append(failure_of(header))
                    continue
                rows = [
                    outcome_of(f"digits-{place:05d}", place % (number + 2) > 0)
                    for place in range(start, start + SHARD_SIZE)
                ]
                results.append(record_of(header, rows))
    return results


class Watched(MemoryStore):
    """A store that says whose records are asked for together."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[set[str]] = []

    def records_of(self, measurement_keys: Collection[str]) -> Iterator[Record]:
        found = list(super().records_of(measurement_keys))
        self.asked.append({record.shard.checkpoint for record in found})
        return iter(found)


def filled(store: FolderStore | MemoryStore, suite: Suite) -> FolderStore | MemoryStore:
    for result in results_of(suite):
        store.put(result)
    return store


@pytest.fixture(scope="module")
def folder(suite: Suite, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("results")
    filled(FolderStore(folder), suite)
    return folder


@pytest.mark.parametrize("models", [None, ["c", "a"], ["absent"]])
@pytest.mark.parametrize("limit", [None, 20])
def test_it_is_the_report_of_the_same_values(
    suite: Suite, folder: Path, models: list[str] | None, limit: int | None
) -> None:
    results = results_of(suite)
    records = [each for each in results if isinstance(each, Record)]
    failures = [each for each in results if isinstance(each, Failure)]
    wanted = build_report(suite, records, failures, models=models, limit=limit)
    assert report_of_store(suite, FolderStore(folder), models=models, limit=limit) == wanted
    assert report_of_store(suite, filled(MemoryStore(), suite), models=models, limit=limit) == wanted


def test_one_model_is_in_memory_at_a_time(suite: Suite) -> None:
    store = filled(Watched(), suite)
    assert isinstance(store, Watched)
    assert len(report_of_store(suite, store).rows) == len(MODELS)
    assert store.asked == [{model} for model in MODELS]


def test_measurements_that_the_suite_does_not_need_are_not_read(suite: Suite) -> None:
    store = filled(Watched(), suite)
    assert isinstance(store, Watched)
    other = shard_of("z", replace(suite.conditions[1], name="other", num_predictions=3), 0).header
    store.put(record_of(other, [outcome_of("digits-00000")]))
    assert [row.model for row in report_of_store(suite, store).rows] == [*MODELS]
    assert {"z"} not in store.asked


def test_keys_may_say_which_measurements_are_a_models(suite: Suite) -> None:
    store = filled(MemoryStore(), suite)
    keys = {"renamed": {shard_of("c", condition, 0).header.measurement_key for condition in suite.conditions}}
    (row,) = report_of_store(suite, store, measurements=keys).rows
    (known,) = report_of_store(suite, store, models=["c"]).rows
    assert (row.model, row.cells) == ("renamed", known.cells)


def test_the_size_of_a_dataset_is_the_one_measured_last(suite: Suite) -> None:
    store = filled(MemoryStore(), suite)
    larger = shard_of("z", replace(suite.conditions[0], num_predictions=3), 0, size=NUM_EXAMPLES - 1).header
    later = replace(PROVENANCE, finished_at="2026-12-01T00:00:00+00:00")
    store.put(record_of(larger, [outcome_of("digits-00000")], later))
    (row,) = report_of_store(suite, store, models=["absent"]).rows
    assert row.cells["clean/top1_accuracy"].missing == NUM_EXAMPLES - 1
