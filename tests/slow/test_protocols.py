"""Protocols of docs/protocols were committed before any record of their primary columns."""

import re
import subprocess
from collections.abc import Iterable, Mapping
from datetime import date, datetime

import pytest
from conftest import ROOT
from paired_records import CLEAN, record

import robench
from robench.core.records import Manifest, Record
from robench.declare import find_checkpoints
from robench.papers.archive import unpacked
from robench.reports.selection import needs
from robench.store import FolderStore

PROTOCOL = ROOT / "docs" / "protocols" / "cifar10-2.md"
SEEDS = range(5, 17)


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


def too_early(measured: Iterable[Record | Manifest], seeds: Mapping[str, int | None], stated: date) -> list[str]:
    """Measurements of the protocol's new seeds that ended before it was stated."""
    return [
        each.shard.title
        for each in measured
        if seeds.get(each.shard.checkpoint) in SEEDS
        and datetime.fromisoformat(each.provenance.finished_at).date() < stated
    ]


def test_no_record_of_its_new_seeds_is_older_than_the_protocol() -> None:
    suite, stated = robench.load_suite("cifar10-2"), stated_on()
    wanted = needs(suite, seed=suite.seed)
    with unpacked(ROOT / "reports" / "cifar10.tar.xz") as folder:
        primary = [each for each in FolderStore(folder).manifests() if wanted(each.shard)]
    # The first edition has the same attack, of its own seeds.
    assert primary
    checkpoints = find_checkpoints([each.shard.checkpoint for each in primary])
    seeds = {each.name: None if each.training is None else each.training.seed for each in checkpoints}
    assert too_early(primary, seeds, stated) == []


@pytest.mark.parametrize(
    ("seed", "time", "num_found"), [(5, "2026-11-29", 1), (5, "2026-11-30", 0), (4, "2026-11-29", 0)]
)
def test_an_early_record_is_found(seed: int, time: str, num_found: int) -> None:
    early = record(CLEAN, "11", "model", time=f"{time}T23:00:00+00:00")
    assert len(too_early([early], {"model": seed}, date(2026, 11, 30))) == num_found
