"""Twins made from nothing, killed on the way, are those of the committed archive, where the CPU is of the same kind."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from conftest import ROOT

from robench.core.outcomes import Outcome
from robench.core.records import Record
from robench.declare import read_registry
from robench.papers.archive import unpacked
from robench.store import FolderStore

# A table, rows of its twins, and the files of their weights.
TWINS = [("rpc:1", ("symvit", "rpc-symvit-4iter-layer1"), "digits-*"), ("twicing:4", ("sotu-lm",), "sotu-*lm*")]
PARTS = ("robench", "checkpoints.yaml", "checkpoints", "suites", "reports")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The files of a clone."""
    folder = tmp_path / "clone"
    for name in PARTS:
        source, target = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    return folder


def begin(clone: Path, table: str, rows: tuple[str, ...], results: Path) -> subprocess.Popen[str]:
    chosen = [word for row in rows for word in ("--rows", row)]
    command = ["reproduce", table, "--twin", *chosen, "--seeds", "1", "--results", str(results), "--json"]
    return subprocess.Popen(
        [sys.executable, "-m", "robench", *command],
        cwd=clone,
        env={**os.environ, "PYTHONPATH": str(clone)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def killed_when(running: subprocess.Popen[str], is_time: Callable[[], bool]) -> None:
    while not is_time():
        assert running.poll() is None, running.communicate()[1]
        time.sleep(0.1)
    running.kill()
    running.communicate()


def by_example(records: list[Record]) -> dict[tuple[str, str, str | None], Outcome]:
    return {
        (record.shard.measurement_key, outcome.example_id, outcome.epsilon): outcome
        for record in records
        for outcome in record.outcomes
    }


@pytest.mark.parametrize(("table", "rows", "pattern"), TWINS)
def test_twice_killed_twins_are_the_committed_ones(
    clone: Path, tmp_path: Path, table: str, rows: tuple[str, ...], pattern: str
) -> None:
    weights = list((clone / "checkpoints").glob(f"{pattern}.safetensors"))
    assert weights
    for path in weights:
        path.unlink()
    results = tmp_path / "results"
    killed_when(begin(clone, table, rows, results), lambda: any((results / "training").glob("*.history.json")))
    killed_when(begin(clone, table, rows, results), lambda: any(results.glob("records/*/*.parquet")))
    kept = {path: path.read_bytes() for path in results.glob("weights/*.safetensors")}
    assert len(kept) == len(rows)
    ended = begin(clone, table, rows, results)
    printed, said = ended.communicate()
    assert ended.returncode == 0, said
    assert {path: path.read_bytes() for path in results.glob("weights/*.safetensors")} == kept
    numbers = [cell for row in json.loads(printed)["rows"] for cell in row["cells"].values()]
    assert numbers
    assert all(cell["measured"] is not None for cell in numbers)
    made = read_registry(results / "reproduced.yaml")
    shipped = read_registry(ROOT / "checkpoints.yaml")
    same = {name for name, each in made.items() if each.weights.sha256 == shipped[each.entry].weights.sha256}
    if not same:
        pytest.skip("this CPU trains other weights than the registry's, as other kinds of CPU and releases of torch do")
    found = by_example(
        [each for each in FolderStore(results).records(lambda header: True) if each.shard.checkpoint in same]
    )
    with unpacked(ROOT / "reports" / "archive.tar.xz") as folder:
        committed = by_example(list(FolderStore(folder).records(lambda header: True)))
    assert found
    assert found.keys() <= committed.keys()
    # The archive has the columns alone that tables read; it may be of a CPU that rounds confidences differently.
    for key, outcome in found.items():
        wanted = {name: value for name, value in asdict(committed[key]).items() if value is not None}
        for name, value in wanted.items():
            measured = getattr(outcome, name)
            assert measured == (pytest.approx(value, abs=1e-5) if isinstance(value, float) else value), (key, name)
