"""Python values as declarations: the same as YAML would have given."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType

import numpy as np
import pytest

from robench.declare.document import UNREADABLE, Document, Number, document_from_python


def read(value: object) -> Document:
    return document_from_python(value, "mapping")


class Colour(StrEnum):
    RED = "red"


class Proportion(float):
    def __str__(self) -> str:
        return f"{100 * self:.0f} %"

    __repr__ = __str__


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (np.int64(3), 3),
        ("text", "text"),
        (np.str_("text"), "text"),
        (Colour.RED, "red"),
        (0.03, Number("0.03")),
        (1e-05, Number("1e-05")),
        (5e-324, Number("5e-324")),
        (1.7e308, Number("1.7e+308")),
        (np.float64(0.03), Number("0.03")),
        (Proportion(0.03), Number("0.03")),
        (Fraction(8, 255), "8/255"),
        ((1, 2), [1, 2]),
        (MappingProxyType({"a": (1,)}), {"a": [1]}),
    ],
)
def test_values_become_plain(value: object, plain: object) -> None:
    document = read({"a": value})
    assert document.value == {"a": plain}
    assert type(document.at("a")) is type(plain)
    assert document.problems == ()


def test_floats_count_as_what_they_print() -> None:
    number = read(0.03).value
    assert isinstance(number, Number)
    assert Fraction(number.text) == Fraction(3, 100) != Fraction(0.03)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 10**70])
def test_numbers_beyond_reason_are_problems(value: object) -> None:
    document = read({"a": value})
    assert [str(problem) for problem in document.problems] == ["a: must be a finite number of reasonable size"]
    assert document.at("a") is UNREADABLE


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", Decimal("0.1"), np.zeros(3), 1j, print])
def test_other_types_are_problems_that_name_them(value: object) -> None:
    (problem,) = read([value]).problems
    assert str(problem) == f"[0]: must be text, a number, a list or a mapping, got {type(value).__name__}"


@pytest.mark.parametrize("key", [1, None, True, (1, 2)])
def test_keys_must_be_text(key: object) -> None:
    document = read({"a": {key: 1, "b": 2}})
    (problem,) = document.problems
    assert problem.message.startswith("must have text as keys, got ")
    assert document.at("a") == {"b": 2}


def test_no_problem_has_a_line() -> None:
    document = read({"a": float("nan")})
    assert [problem.line for problem in document.problems] == [None]
    assert document.problem(("a",), "wrong").line is None


def test_lists_that_hold_themselves_end() -> None:
    endless: list[object] = []
    endless.append(endless)
    (problem,) = read(endless).problems
    assert problem.message == "is nested deeper than 32 levels"


def test_lists_that_hold_each_other_many_times_over_end() -> None:
    value: list[object] = ["lol"]
    for _ in range(25):
        value = [value] * 9
    assert [problem.message for problem in read(value).problems] == ["holds more than 100000 values"]


def test_mappings_without_end_end() -> None:
    class Endless(Mapping[str, object]):
        def __getitem__(self, key: str) -> object:
            return self

        def __iter__(self) -> Iterator[str]:
            return iter(["a"])

        def __len__(self) -> int:
            return 1

    (problem,) = read(Endless()).problems
    assert problem.message == "is nested deeper than 32 levels"
    assert problem.place == ("a",) * 32


def test_what_is_at_a_place() -> None:
    document = read({"a": [{"b": 1}, 2], "c": {"d": None}})
    assert document.at("a", 0, "b") == 1
    assert document.at("a", 5) is None
    assert document.at("a", "b") is None
    assert document.at("c", "d", "e") is None
    assert document.list_at("a") == [{"b": 1}, 2]
    assert document.list_at("c") == []
    assert document.mapping_at("c") == {"d": None}
    assert document.mapping_at("a") == {}
