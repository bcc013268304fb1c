"""Two hundred simulated stores: every command calls the same models different."""

from __future__ import annotations

import pytest
from simulated_tables import check_same_marks


@pytest.mark.parametrize("num_seeds", [1, 5])
@pytest.mark.parametrize("seed", range(100))
def test_every_command_calls_the_same_models_different(seed: int, num_seeds: int) -> None:
    check_same_marks(100 + seed, num_seeds)
