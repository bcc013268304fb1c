"""``--all-examples`` as a user runs it: what was measured under the suite's number is reused, and rows are marked."""

import json
from collections.abc import Callable
from pathlib import Path

from conftest import Robench

import robench as library

MODEL = ("--model", "digits-vit", "--executor", "serial")
ALL = ("--all-examples", "--limit", 50)
PGD = "  - {name: pgd, num_examples: 150, perturbation: {kind: pgd, epsilon: 8/255, step_size: 2/255, num_steps: 4}}\n"


def test_only_the_rest_is_measured(robench: Robench, small_suite: Callable[..., Path], tmp_path: Path) -> None:
    suite = small_suite(**{PGD: "", "150": "20", "batch_size: 50": "batch_size: 10"})
    given = ("--suite", suite, "--results", tmp_path / "r", "--json")
    stated = json.loads(robench("run", *given, *MODEL).stdout)
    missing = json.loads(robench("report", *given, "--all-examples").stdout)["rows"][0]
    assert {(cell["num_examples"], cell["missing"]) for cell in missing["cells"].values()} == {(20, 580)}
    assert missing["all_examples"] is True
    assert {row["missing"] for row in json.loads(robench("status", *given, "--all-examples").stdout)} == {580}
    ended = robench("run", *given, *MODEL, *ALL)
    # Of 5 shards of each of 2 conditions, 2 are reused.
    assert (ended.code, "4 of 10 shards" in ended.stderr) == (0, True), ended.stderr
    (row,) = json.loads(ended.stdout)["rows"]
    assert (row["limit"], row["all_examples"]) == (50, True)
    assert {cell["num_examples"] for cell in row["cells"].values()} == {50}
    assert json.loads(robench("report", *given).stdout) == stated
    report = library.build_report(library.load_suite(suite), results=tmp_path / "r", limit=50, all_examples=True)
    assert "digits-vit (first 50 of all examples)" in report.render("text")
