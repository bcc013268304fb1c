"""Protocols of docs/protocols were committed before any record of their primary columns."""

import re
import subprocess
from collections.abc import Iterable
from datetime import date, datetime

import pytest
from conftest import ROOT
from paired_records import CLEAN, record

import robench
from robench.core.records import Manifest, Record
from robench.papers.archive import unpacked
from robench.reports.selection import needs
from robench.store import FolderStore

PROTOCOL = ROOT / "docs" / "protocols" / "cifar10-2.md"
PREFIX, ARCHIVE = "cifar10-s-", ROOT / "reports" / "cifar10-2.tar.xz"


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


@pytest.mark.parametrize(
    ("name", "time", "num_found"),
    [("cifar10-s-vit@5", "2026-11-29", 1), ("cifar10-s-vit@5", "2026-11-30", 0), ("cifar10-vit", "2026-11-29", 0)],
)
def test_an_early_record_is_found(name: str, time: str, num_found: int) -> None:
    early = record(CLEAN, "11", name, time=f"{time}T23:00:00+00:00")
    assert len(too_early([early], date(2026, 11, 30))) == num_found
