"""Protocols of docs/protocols were committed before any record of their primary columns."""

import json
import re
import subprocess
from collections.abc import Iterable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from cifar10_findings import run
from cifar10_second import MODELS, NUM_SEEDS, Second, command
from conftest import ROOT
from numpy.typing import NDArray
from paired_records import CLEAN, record
from scipy import stats

import robench
from robench.core.records import Manifest, Record
from robench.papers.archive import unpacked
from robench.reports.selection import needs
from robench.store import FolderStore

PROTOCOL = ROOT / "docs" / "protocols" / "cifar10-2.md"
PREFIX, ARCHIVE = "cifar10-s-", ROOT / "reports" / "cifar10-2.tar.xz"


ATTACKS, NUM_CORRUPTED = ("pgd-1", "apgd-1"), 15 * 5
# Outcomes of single examples by checkpoint, then condition, then id.
Right = dict[str, dict[str, dict[str, bool]]]


def stated_on() -> date:
    """The date that the page states, which its first commit confirms where there is a history."""
    (text,) = re.findall(r"^Stated on (\d{4}-\d\d-\d\d),", PROTOCOL.read_text(), re.MULTILINE)
    command = ["git", "log", "--format=%cs", "--diff-filter=A", "--", str(PROTOCOL)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    is_shallow = subprocess.run(
        ["git", "rev-parse", "--is-shallow-repository"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    if found and is_shallow.strip() == "false":
        assert found[-1] == text
    return date.fromisoformat(text)


def too_early(measured: Iterable[Record | Manifest], stated: date) -> list[str]:
    """Measurements of the protocol's models that ended before it was stated."""
    return [
        each.shard.title
        for each in measured
        if each.shard.checkpoint.startswith(PREFIX)
        and datetime.fromisoformat(each.provenance.finished_at).date() < stated
    ]


@pytest.mark.skipif(not ARCHIVE.exists(), reason="no seed is measured yet")
def test_no_record_of_its_models_is_older_than_the_protocol() -> None:
    suite = robench.load_suite("cifar10-2")
    wanted = needs(suite, seed=suite.seed)
    with unpacked(ARCHIVE) as folder:
        primary = [each for each in FolderStore(folder).manifests() if wanted(each.shard)]
    assert primary
    assert all(each.shard.checkpoint.startswith(PREFIX) for each in primary)
    assert too_early(primary, stated_on()) == []


def right_ones(results: Path) -> Right:
    """What the files of an archive say, read without robench."""
    found: Right = {}
    for manifest in results.glob("records/*/_manifest.json"):
        shard = json.loads(manifest.read_text())["shard"]
        table = pq.read_table(next(manifest.parent.glob("*.parquet")), columns=["example_id", "correct_top1"])
        of = dict(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))
        found.setdefault(shard["checkpoint"], {})[shard["condition"]] = of
    return found


def primary_numbers(right: dict[str, dict[str, bool]]) -> tuple[float, float, float]:
    """Clean, corrupted and attacked accuracy of a checkpoint, as the protocol defines them."""
    first, second = (right[name] for name in ATTACKS)
    assert first.keys() == second.keys()
    corrupted = [of for name, of in right.items() if not name.startswith("clean") and name not in ATTACKS]
    assert [len(each) for each in (right["clean"], first, *corrupted)] == [10_000, 2000] + [1000] * NUM_CORRUPTED
    return (
        float(np.mean([*right["clean"].values()])),
        float(np.mean([[*of.values()] for of in corrupted])),
        float(np.mean([first[name] and second[name] for name in first])),
    )


@pytest.mark.skipif(not ARCHIVE.exists(), reason="no seed is measured yet")
def test_its_numbers_and_tests_are_those_of_numpy_and_scipy_on_its_files() -> None:
    with unpacked(ARCHIVE) as folder:
        second, right = Second(folder), right_ones(folder)
        numbers = np.array([[primary_numbers(right[of[seed]]) for seed in second.seeds] for of in second.checkpoints])
        for place, values in enumerate(second.columns.values()):
            assert values.mean(axis=2) == pytest.approx(numbers[..., place], abs=1e-12)
        if len(second.seeds) < NUM_SEEDS:
            return
        compared = json.loads(run(*command(second), "--results", str(folder), "--format", "json"))
    for place, column in enumerate(compared["columns"]):
        check_column(column, numbers[..., place])


def check_column(column: dict[str, Any], numbers: NDArray[np.float64]) -> None:
    """Compare a column of the comparison with Dunnett's test of scipy on numbers (models, seeds)."""
    control, *others = numbers
    wanted = stats.dunnett(*others, control=control, rng=np.random.default_rng(0))
    for gain, model, own, p_value in zip(column["models"], MODELS[1:], others, wanted.pvalue, strict=True):
        assert gain["model"] == model
        assert gain["difference"]["value"] == pytest.approx(own.mean() - control.mean())
        assert gain["p"] == pytest.approx(p_value, abs=2e-3)


@pytest.mark.parametrize(
    ("name", "time", "num_found"),
    [("cifar10-s-vit@5", "2026-11-29", 1), ("cifar10-s-vit@5", "2026-11-30", 0), ("cifar10-vit", "2026-11-29", 0)],
)
def test_an_early_record_is_found(name: str, time: str, num_found: int) -> None:
    early = record(CLEAN, "11", name, time=f"{time}T23:00:00+00:00")
    assert len(too_early([early], date(2026, 11, 30))) == num_found
