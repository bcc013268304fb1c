"""The same outcomes, byte for byte, whoever measures them, in whatever order; tests/slow has more runs, and kills."""

from __future__ import annotations

from typing import TYPE_CHECKING

from killed_runs import sorted_outcomes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Robench


def test_workers_and_another_order_give_the_same_bytes_as_one_run(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    suite = small_suite(**{"num_examples: 150": "num_examples: 40", "batch_size: 50": "batch_size: 20"})
    options = ("run", "--suite", suite, "--model", "digits-vit")
    serial, limited, workers = ((*options, "--results", tmp_path / name) for name in ("serial", "limited", "workers"))
    assert robench(*serial, "--executor", "serial").code == 0
    assert robench(*limited, "--executor", "serial", "--limit", 30).code == 0
    assert robench(*limited, "--executor", "serial").code == 0
    assert robench(*workers, "--executor", "processes", "--workers", 1).code == 0
    outcomes = sorted_outcomes(tmp_path / "serial")
    assert len(outcomes) == 6
    assert sorted_outcomes(tmp_path / "limited") == sorted_outcomes(tmp_path / "workers") == outcomes
