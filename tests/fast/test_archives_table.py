"""The table of committed archives counts what they hold, and has a row for those alone that exist."""

import json
import shutil
import tarfile
from pathlib import Path

import archives_table
import pytest
from conftest import ROOT

DEMO = ROOT / "reports" / "demo.tar.xz"
CLEAN = {"shard": {"dataset": {"name": "digits"}, "perturbation_key": "44940eb051eba9ab482a1181024a97e1"}}


def test_manifests_are_those_that_tarfile_reads() -> None:
    with tarfile.open(DEMO) as archive:
        names = [name for name in archive.getnames() if name.endswith("_manifest.json")]
        wanted = [json.loads(file.read()) for name in names if (file := archive.extractfile(name))]
    assert archives_table.headers(DEMO) == wanted
    assert len(wanted) == 21


def test_archives_that_exist_have_a_row(tmp_path: Path) -> None:
    assert len(list(archives_table.table(tmp_path))) == 2
    shutil.copy(DEMO, tmp_path / "texts.tar.xz")
    (row,) = list(archives_table.table(tmp_path))[2:]
    assert row.endswith("| `digits-adv` | 3 | 3 | 21 | 0.3 | [film reviews](texts-results.md) |")
    shutil.copy(DEMO, tmp_path / "other.tar.xz")
    with pytest.raises(ValueError, match=r"must say what reads other.tar.xz"):
        list(archives_table.table(tmp_path))


def test_measurements_that_name_a_suite_leave_the_others_to_the_fewest() -> None:
    named = [CLEAN | {"provenance": {"suite": name}} for name in ("digits-sweep", "gone")]
    assert archives_table.suites_of(named) == ["digits-sweep", "gone"]
    # Every suite of the digits has clean images, so that a named one accounts for them.
    unnamed = CLEAN | {"provenance": {}}
    assert archives_table.suites_of([*named, unnamed]) == ["digits-sweep", "gone"]
    assert len(archives_table.suites_of([unnamed])) == 1
    unknown = {"shard": CLEAN["shard"] | {"perturbation_key": "0" * 32}, "provenance": {}}
    with pytest.raises(ValueError, match="no suite needs 1 measurements"):
        archives_table.suites_of([unnamed, unknown])
