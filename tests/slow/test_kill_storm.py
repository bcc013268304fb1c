"""Twenty kills at random moments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from killed_runs import check_that_kills_change_no_byte

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Robench


def test_a_run_killed_twenty_times_ends_with_the_same_bytes(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    check_that_kills_change_no_byte(robench, small_suite, tmp_path, num_kills=20)
