"""A model that changes the current folder of a worker process changes no path."""

from pathlib import Path

import pytest
from conftest import Robench
from test_working_folder import check_results, place

__all__ = ["place"]


def test_results_of_a_run_are_in_one_place(robench: Robench, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_results(robench, place, monkeypatch, ("--executor", "processes", "--workers", "1"))
