"""``make cifar10``: each gain on its page is the difference of two reports."""

from __future__ import annotations

import re
import runpy
from typing import TYPE_CHECKING, Any

from conftest import ROOT

import robench
from robench.papers.archive import unpacked

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "cifar10_findings.py"))


def test_every_gain_is_the_difference_of_two_reports(tmp_path: Path) -> None:
    SCRIPT["write"](tmp_path)
    names = {"README.md", "budget.svg", "corruptions.svg", "cost.svg"}
    names |= {f"leaderboard.{suffix}" for suffix in ("html", "md", "csv")}
    assert {path.name for path in tmp_path.iterdir()} == names
    rows = [line.split(" | ") for line in (tmp_path / "README.md").read_text().splitlines() if line.startswith("| cif")]
    assert len(rows) >= sum(map(len, SCRIPT["COLUMNS"].values()))
    with unpacked(SCRIPT["ARCHIVE"]) as results:
        for model, baseline, label, *printed, gain, verdict, _bounds, _needed in rows:
            first, second = (float(each.partition(" ")[0]) for each in printed)
            sign = -1 if "error" in label else 1
            assert abs(float(gain) - sign * (first - second)) < 0.151
            if verdict == "one seed":
                suite = re.search(r"\((cifar10-\S+)\)", label)[1]  # type: ignore[index]
                report = robench.build_report(suite, [model.removeprefix("| "), baseline], results=results)
                keys = [each.key for each in report.columns if label.startswith(f"{each.label} (")]
                (key,) = {*keys} & {*SCRIPT["COLUMNS"][suite]}
                values = [row.cells[key].estimate.value for row in report.rows]  # type: ignore[union-attr]
                assert [first, second] == [float(f"{100 * value:.1f}") for value in values]
