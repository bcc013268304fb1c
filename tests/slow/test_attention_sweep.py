"""Every law of attention mechanisms at every setting that has a reference."""

import pytest
from test_attention_contract import DECLARATIONS, SPREADS, TestEveryMechanism, title

__all__ = ["TestEveryMechanism"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("declaration", DECLARATIONS, ids=title)
    if "spread" in metafunc.fixturenames:
        metafunc.parametrize("spread", SPREADS)
