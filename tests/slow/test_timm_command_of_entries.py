"""Scripts of timm's shape train robench's entries, and robench loads what they save."""

import pytest
from test_timm_command import script, test_a_script_of_timms_shape_trains_entries_and_robench_loads_what_it_saves

__all__ = ["script", "test_a_script_of_timms_shape_trains_entries_and_robench_loads_what_it_saves"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("entry", ["digits-rpc-symvit", "digits-boost-vit", "digits-mom-vit", "digits-fan"])
