"""What may be None by its type, and is not in a test."""

from typing import TypeVar

T = TypeVar("T")


def present(value: T | None) -> T:
    """Return the value, which must not be None."""
    assert value is not None
    return value
