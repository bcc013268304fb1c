"""``--precision``: measured beside results in float32, found when asked for, and never mixed with them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_models import Tiny

import robench as package
from robench.core.errors import UsageError
from robench.store import FolderStore

Robench = Any


def test_runs_in_two_precisions_share_a_folder_and_no_number(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    results = tmp_path / "results"
    about = "--suite", small_suite(**{"150": "50"}), "--results", results
    run = "run", *about, "--model", "digits-vit", "--device", "cpu", "--executor", "serial"
    half = robench(*run, "--precision", "bfloat16")
    assert half.code == 0
    assert "digits-vit (bfloat16)" in half.stdout
    assert "passes ran in bfloat16" in half.stdout

    # Nothing is found by who does not ask for it.
    none = robench("report", *about)
    assert none.code == 1
    assert "No results for suite 'small' (seed 0)" in none.stderr
    assert json.loads(robench("status", *about, "--json").stdout) == []
    missing = robench("report", *about, "--precision", "float16")
    assert "No results for suite 'small' (float16, seed 0)" in missing.stderr
    assert "--precision float16" in missing.stderr
    rows = json.loads(robench("status", *about, "--precision", "bfloat16", "--json").stdout)
    assert [(row["condition"], row["kept"]) for row in rows] == [("clean", 50), ("fgsm", 50), ("pgd", 50)]

    exact = robench(*run)
    assert "bfloat16" not in exact.stdout
    headers = [manifest.shard for manifest in FolderStore(results).manifests()]
    assert sorted(header.dtype for header in headers) == ["bfloat16"] * 3 + ["float32"] * 3
    # Each once more, from the store, as the runs printed them.
    assert robench("report", *about).stdout == exact.stdout
    assert robench("report", *about, "--precision", "bfloat16").stdout == half.stdout


def test_the_page_of_leaderboards_is_of_float32_alone(robench: Robench, tmp_path: Path) -> None:
    ended = robench(
        "report", "--suite", "digits-adv", "--results", tmp_path, "--format", "html", "--precision", "float16"
    )
    assert ended.code == 2
    assert "--format html is the page of 'robench leaderboard', which is of float32 alone" in ended.stderr


def test_the_api_takes_it_too(small_suite: Callable[..., Path], tmp_path: Path) -> None:
    suite, results = small_suite(), tmp_path / "results"
    given: dict[str, Any] = {"results": results, "limit": 50, "audit": False, "device": "cpu"}
    report = package.run(suite, {"mine": Tiny().eval()}, precision="float16", **given)
    assert report.precision == "float16"
    assert [row.title for row in report.rows] == ["mine (float16)"]
    read = package.build_report(suite, results=results, limit=50, precision="float16")
    assert [row.cells for row in read.rows] == [row.cells for row in report.rows]
    assert package.build_report(suite, results=results, limit=50).rows == ()
    with pytest.raises(UsageError, match=r"--precision must be one of float32, bfloat16, .*, got 'int4'"):
        package.run(suite, {"mine": Tiny()}, precision="int4", **given)
