"""The GPU battery, at tiny sizes on a CPU: every measurement is there, or the reason why it is not."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from conftest import ROOT

from robench.attention import ATTENTIONS
from robench.corruptions import TYPES

if TYPE_CHECKING:
    from pathlib import Path


def test_everything_is_measured_or_skipped_with_the_reason(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "gpu_battery.py"), "--tiny", "--minutes", "60"]
    done = subprocess.run([*command, "--device", "cpu", "--output", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "gpu.json").read_text())
    parts = {name: part["rows"] for name, part in document["parts"].items()}
    assert [row["name"] for row in parts["corruptions"]] == list(TYPES)
    assert {row["name"].split()[0] for row in parts["mechanisms"]} == set(ATTENTIONS)
    assert len(parts["mechanisms"]) == 4 * len(ATTENTIONS)
    rows = [row for part in parts.values() for row in part]
    assert [row for row in rows if "failed" in row] == []
    assert {row["skipped"] for row in rows if "skipped" in row} == {
        "a CPU does not count allocations",
        "at tiny sizes other precisions are those of softmax alone",
        "the device has no TF32",
    }
    assert [row["other_predictions"] for row in parts["outcomes"]] == [0, 0, 0]
    assert all(row["gain"] > 0 for row in parts["attacks"])
    page = (tmp_path / "gpu.md").read_text()
    assert page.count("\n## ") == len(parts)
