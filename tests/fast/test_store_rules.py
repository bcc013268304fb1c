"""Types of fields in envelopes, and which of contradicting files is set aside."""

from pathlib import Path
from typing import Any

import pytest

from robench.core.records import Provenance
from robench.store.consistency import _outvoted
from robench.store.envelope import DamagedError, build

FIELDS: dict[str, Any] = {"device": "cpu", "versions": {"torch": "2"}, "seconds": 1.5, "finished_at": "2026-01-01"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"seconds": "1.5"}, r"its seconds is '1\.5', wanted float"),
        ({"seconds": True}, "its seconds is True, wanted float"),
        ({"device": 3}, "its device is 3, wanted str"),
        ({"limit": 2.0}, r"its limit is 2\.0, wanted int"),
        ({"versions": ["torch"]}, r"its versions is \['torch'\], wanted "),
    ],
)
def test_a_field_of_another_type_is_damage(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(DamagedError, match=message):
        build(Provenance, FIELDS | wrong)


def test_fields_of_the_declared_types_are_read() -> None:
    # JSON has no difference between 1 and 1.0.
    assert build(Provenance, FIELDS | {"seconds": 1, "limit": 5}) == Provenance(**FIELDS | {"seconds": 1, "limit": 5})


def test_the_minority_is_set_aside_and_without_a_majority_all() -> None:
    one, two, three, four = (Path("m", f"{number}.json") for number in range(4))
    majority = [("target", "a", 3, [one, two]), ("target", "a", 5, [three])]
    assert _outvoted(majority) == {three: "its target of example a is 5, and 3 in m/0.json"}
    tie = [*majority, ("target", "a", 5, [four])]
    assert _outvoted(tie) == {
        one: "its target of example a is 3, and 5 in m/2.json",
        two: "its target of example a is 3, and 5 in m/2.json",
        three: "its target of example a is 5, and 3 in m/0.json",
        four: "its target of example a is 5, and 3 in m/0.json",
    }
