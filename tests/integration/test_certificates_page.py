"""Numbers of docs/certificates.md are those of the archive, where no attack breaks a certificate."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from conftest import ROOT

import robench
from robench.core.columns import Outcomes
from robench.core.report import Report
from robench.papers.archive import unpacked
from robench.reports import report_of_store
from robench.store import FolderStore, MemoryStore

PAGE = (ROOT / "docs" / "certificates.md").read_text()
SUITE = robench.load_suite("cifar10-certified")
ROWS = {
    "softmax": "cifar10-noise-vit-smoothed-0.25",
    "RPC": "cifar10-noise-rpc-symvit-smoothed-0.25",
    "Primal": "cifar10-noise-primal-vit-smoothed-0.25",
    "robust KDE": "cifar10-noise-rkde-vit-smoothed-0.25",
    "softmax, trained without noise": "cifar10-vit-smoothed-0.25",
}
COLUMNS = [column.key for column in SUITE.columns]


@pytest.fixture(scope="module")
def store() -> Iterator[FolderStore]:
    with unpacked(ROOT / "reports" / "certificates.tar.xz") as folder:
        yield FolderStore(folder)


@pytest.fixture(scope="module")
def report(store: FolderStore) -> Report:
    return report_of_store(SUITE, store)


@pytest.mark.parametrize("label", ROWS)
def test_each_number_of_the_page_is_that_of_the_archive(report: Report, label: str) -> None:
    (row,) = (each for each in report.rows if each.model == ROWS[label])
    (cells,) = re.findall(rf"^\| {label} \|(.*)\|$", PAGE, re.MULTILINE)
    estimates = [row.cells[key].estimate for key in COLUMNS]
    assert [cell.strip() for cell in cells.split("|")] == [
        f"{100 * estimate.value:.1f}" for estimate in estimates if estimate is not None
    ]
    assert [estimate.num_examples for estimate in estimates if estimate is not None] == [200] * 5 + [100] * 2


@pytest.mark.parametrize("name", ROWS.values())
def test_no_attack_finds_another_class_within_a_certified_radius(store: FolderStore, name: str) -> None:
    clean = outcomes_of(store, name, "clean")
    rows = {each: row for row, each in enumerate(clean.column("example_id").tolist())}
    for radius in (0.25, 0.5):
        outcomes = outcomes_of(store, name, f"pgd-{radius}")
        places = [rows[each] for each in outcomes.column("example_id").tolist()]
        is_certified = (clean.filled("certified_radius", 0.0) >= radius)[places]
        differs = outcomes.column("prediction") != clean.column("prediction")[places]
        assert is_certified.sum() > (10 if "noise" in name else 0)
        assert (outcomes.column("l2") <= radius * (1 + 1e-5)).all()
        assert not (differs & is_certified & ~outcomes.column("abstained")).any()


@pytest.mark.parametrize("has_distances", [True, False])
def test_reports_raise_no_doubt_nor_do_unknown_distances(store: FolderStore, *, has_distances: bool) -> None:
    given = MemoryStore()
    for each in store.records(lambda shard: True):
        given.put(each if has_distances else replace(each, outcomes=each.outcomes.replaced(l2=None)))
    for row in report_of_store(SUITE, given).rows:
        found = [each for each in row.flags or () if each.name == "contradicted certificates"]
        assert len(found) == 2
        assert not any(each.is_raised for each in found)


def outcomes_of(store: FolderStore, name: str, condition: str) -> Outcomes:
    (record,) = store.records(lambda shard: (shard.checkpoint, shard.condition) == (name, condition))
    return record.outcomes
