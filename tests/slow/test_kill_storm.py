"""Runs that are killed at random moments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conftest import ROOT
from killed_runs import check_kills_of, check_that_kills_change_no_byte, model_options

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Robench

SUITES = ROOT / "suites"


def test_a_run_killed_twenty_times_ends_with_the_same_bytes(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    check_that_kills_change_no_byte(robench, small_suite, tmp_path, num_kills=20)


def test_language_models_killed_six_times_have_the_same_outcomes(robench: Robench, tmp_path: Path) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text((SUITES / "sotu-swap.yaml").read_text().replace("batches_per_shard: 3", "batches_per_shard: 1"))
    options = ["--suite", str(suite), "--limit", "4", *model_options(("sotu-lm", "sotu-rpc-lm"))]
    check_kills_of(robench, options, tmp_path, num_kills=6)
