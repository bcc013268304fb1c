"""Scores between epochs change no byte of any model that is trained."""

import pytest
from test_training_validation import test_no_byte_of_the_weights_depends_on_it

__all__ = ["test_no_byte_of_the_weights_depends_on_it"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("name", ["digits-mom-released-vit", "digits-fan", "digits-performer-vit"])
