"""The numbers of reports/demo.json, from which the leaderboards of docs are, are measured anew."""

import json
from pathlib import Path

import pytest
from conftest import ROOT, Robench

DEMO_REPORT = ROOT / "reports" / "demo.json"


def test_the_report_of_the_demo_is_what_is_measured(robench: Robench, tmp_path: Path) -> None:
    """Numbers may differ by a few images between kinds of CPU, whose arithmetic differs in the last bits."""
    wanted = json.loads(DEMO_REPORT.read_text())["rows"][-1]
    seed = wanted["seeds"][2]
    assert seed == "digits-rpc-symvit@2"
    ended = robench("run", "--suite", "digits-adv", "--model", seed, "--workers", 2, "--results", tmp_path, "--json")
    (row,) = json.loads(ended.stdout)["rows"]
    assert row["cells"].keys() == wanted["cells"].keys()
    for key, cell in row["cells"].items():
        assert cell["value"] == pytest.approx(wanted["cells"][key]["of_seeds"][2], abs=0.01), key
