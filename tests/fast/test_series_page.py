"""What docs/series.md says of trainings is what their histories have; docs/tables.md counts the committed tables."""

from __future__ import annotations

import json
import re
from statistics import fmean

from conftest import ROOT


def test_the_page_of_tables_counts_what_the_committed_tables_have_measured() -> None:
    manifest = json.loads((ROOT / "reports" / "tables" / "manifest.json").read_text())
    said = re.search(
        r"Of the ([\d,]+) printed numbers (\d+) are measured: (\d+) \[counts\].*?(\d+) accuracies .*? and (\d+) on",
        (ROOT / "docs" / "tables.md").read_text(),
        re.DOTALL,
    )
    assert said is not None
    printed, measured, *parts = (int(each.replace(",", "")) for each in said.groups())
    assert (printed, measured) == (manifest["printed"], manifest["measured"])
    assert sum(parts) == measured


def test_what_selection_on_test_adds_is_that_of_the_histories() -> None:
    added = {}
    for path in (ROOT / "checkpoints").glob("japanese-vowels-[pt]*.history.json"):
        scored = [each["validation"] for each in json.loads(path.read_text())["epochs"] if each["validation"]]
        accuracies = [each["top1_accuracy"] for each in scored]
        added[path.name.removesuffix(".history.json")] = 100 * (max(accuracies) - accuracies[-1])
    said = re.search(
        r"adds (\d\.\d\d) points on average over\s+(\d+) trainings, and at most (\d\.\d) \(`([\w.-]+)@(\d)`\)",
        (ROOT / "docs" / "series.md").read_text(),
    )
    assert said is not None
    largest = max(added, key=lambda name: added[name])
    assert (float(said[1]), int(said[2])) == (round(fmean(added.values()), 2), len(added))
    assert (float(said[3]), f"{said[4]}-seed{said[5]}") == (round(added[largest], 1), largest)
