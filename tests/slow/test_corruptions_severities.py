"""At 224 pixels corruptions are those of imagecorruptions-imaug at the other severities too."""

import pytest
from test_corruptions_photographs import (
    test_at_other_sizes_it_is_the_librarys_to_one_level,
    test_frost_is_a_pane_of_its_own_mixed_as_the_authors_do,
    test_frost_is_as_strong_as_the_librarys_photographs_of_panes,
    test_it_is_the_librarys_with_the_same_random_numbers,
    test_noise_is_distributed_as_the_librarys,
    test_pixelate_enlarges_by_boxes_and_the_library_by_nearest_neighbour,
    test_snow_is_the_authors,
    test_the_elastic_transform_is_the_authors,
)

__all__ = [
    "test_at_other_sizes_it_is_the_librarys_to_one_level",
    "test_frost_is_a_pane_of_its_own_mixed_as_the_authors_do",
    "test_frost_is_as_strong_as_the_librarys_photographs_of_panes",
    "test_it_is_the_librarys_with_the_same_random_numbers",
    "test_noise_is_distributed_as_the_librarys",
    "test_pixelate_enlarges_by_boxes_and_the_library_by_nearest_neighbour",
    "test_snow_is_the_authors",
    "test_the_elastic_transform_is_the_authors",
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("severity", [1, 2, 4, 5])
