"""The script of ``make strength`` for tests."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import ROOT

NUM_EXAMPLES = 20


@pytest.fixture(scope="module")
def strength() -> Iterator[Any]:
    """The script, which imports its neighbours by their bare names."""
    scripts = str(ROOT / "scripts")
    sys.path.insert(0, scripts)
    import strength

    yield strength
    sys.path.remove(scripts)
