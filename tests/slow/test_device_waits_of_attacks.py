"""How often every attack waits for a device, counted on a device that computes on the CPU."""

import pytest
from test_device_waits import (
    DECLARED,
    STEPPING,
    test_attacks_on_a_device_give_the_bits_of_a_cpu_and_wait_within_their_bound,
    test_each_further_step_waits_within_its_bound,
)

__all__ = [
    "test_attacks_on_a_device_give_the_bits_of_a_cpu_and_wait_within_their_bound",
    "test_each_further_step_waits_within_its_bound",
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "stepping" in metafunc.fixturenames:
        metafunc.parametrize("stepping", STEPPING)
    if "attack" in metafunc.fixturenames:
        metafunc.parametrize("attack", list(DECLARED))
