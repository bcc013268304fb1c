"""Scores between epochs change no byte of any model that is trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from test_training_validation import test_no_byte_of_the_weights_depends_on_it

if TYPE_CHECKING:
    import pytest

__all__ = ["test_no_byte_of_the_weights_depends_on_it"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("name", ["digits-mom-released-vit", "digits-fan", "digits-performer-vit"])
