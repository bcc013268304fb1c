"""robench's attacks are as strong as the libraries' at the same settings: a few images of ``make strength``."""

from typing import Any

import pytest
from strength_examples import NUM_EXAMPLES, strength

__all__ = ["strength"]


@pytest.fixture(scope="module")
def rows(strength: Any) -> list[Any]:
    comparisons = [strength.shortened(each) for each in strength.COMPARISONS]
    return list(strength.compare(["digits-vit"], comparisons, NUM_EXAMPLES))


def test_no_attack_is_weaker_or_judges_otherwise(rows: list[Any]) -> None:
    assert [row for row in rows if row.problem] == []


def test_accuracies_are_within_one_image_of_the_best_library(strength: Any, rows: list[Any]) -> None:
    """The same rule again, without the script's own."""
    for own in [row for row in rows if row.library == "robench"]:
        others = [
            row for row in rows if row.attack == own.attack and (row.attack, row.library) not in strength.EXCEPTIONS
        ]
        assert own.accuracy <= min(row.accuracy for row in others) + 1 / NUM_EXAMPLES + 1e-9, own.attack


def test_verdicts_without_random_numbers_are_the_same(strength: Any, rows: list[Any]) -> None:
    deterministic = {each.name for each in strength.COMPARISONS if each.is_deterministic}
    compared = [row for row in rows if row.attack in deterministic and row.library != "robench"]
    same = [row for row in compared if (row.attack, row.library) not in strength.EXCEPTIONS]
    assert len(same) > 20
    assert min(row.agreement for row in same) >= 1 - 1 / NUM_EXAMPLES - 1e-9
