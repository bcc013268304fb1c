"""Ctrl-C drains a run with workers, and SIGUSR1 gives up what workers have under way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from test_interrupts import check_drained, check_given_up

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Robench

WORKER = ("processes", "--workers", "1")


def test_one_interrupt_drains_and_the_same_command_goes_on(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    check_drained(robench, small_suite, tmp_path, WORKER)


def test_sigusr1_gives_up_what_is_under_way_and_the_same_command_goes_on(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    check_given_up(robench, small_suite, tmp_path, WORKER)
