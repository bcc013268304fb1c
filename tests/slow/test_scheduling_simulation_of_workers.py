"""A run ends near its capacity with any number of workers, slow or dying ones among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from test_scheduling_simulation import LAYOUTS, paper, test_a_run_ends_within_three_percent_and_a_unit_of_its_capacity

if TYPE_CHECKING:
    import pytest

__all__ = ["paper", "test_a_run_ends_within_three_percent_and_a_unit_of_its_capacity"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("workers", LAYOUTS.values(), ids=list(LAYOUTS))
