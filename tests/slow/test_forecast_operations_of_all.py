"""Operations of all models of the papers' tables beside torch's counter on a real pass of each, on the CPU."""

import json

import pytest
from conftest import ROOT
from forecast_examples import counted_by_torch

from robench.declare import read_registry, shipped_registry
from robench.papers.forecast import shipped_operations

ENTRIES = read_registry(shipped_registry())
SHIPPED = json.loads((ROOT / "reports" / "published" / "operations.json").read_text())["models"]


@pytest.mark.parametrize("name", sorted(name for name, each in SHIPPED.items() if "inference" in each))
def test_shipped_operations_are_those_of_a_real_pass(name: str) -> None:
    found = shipped_operations(ENTRIES[name])
    assert found is not None
    # On the CPU alone, median-of-means attention sums the kernels of its subsets by products of matrices.
    tolerance = 0.02 if name.endswith("-mom") else 0.01
    assert found.inference == pytest.approx(counted_by_torch(ENTRIES[name]), rel=tolerance)
