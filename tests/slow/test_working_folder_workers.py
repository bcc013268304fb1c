"""A model that changes the current folder of a worker process changes no path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from test_working_folder import check_results, place

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from conftest import Robench

__all__ = ["place"]


def test_results_of_a_run_are_in_one_place(robench: Robench, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_results(robench, place, monkeypatch, ("--executor", "processes", "--workers", "1"))
