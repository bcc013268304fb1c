"""Proportions of unknown words under each kind of edit are those of the page."""

import pytest
from test_character_edits import EDITED, test_shares_of_unknown_words_are_those_of_the_page

__all__ = ["test_shares_of_unknown_words_are_those_of_the_page"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("page_edit", EDITED)
