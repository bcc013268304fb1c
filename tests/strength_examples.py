"""The script of ``make strength`` for tests."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from conftest import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

NUM_EXAMPLES = 20


@pytest.fixture(scope="module")
def strength() -> Iterator[Any]:
    """The script, which imports its neighbours by their bare names."""
    scripts = str(ROOT / "scripts")
    sys.path.insert(0, scripts)
    import strength

    yield strength
    sys.path.remove(scripts)
