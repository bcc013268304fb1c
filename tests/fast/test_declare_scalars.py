"""Single fields: what each type accepts, and what is said of the rest."""

from fractions import Fraction

import pytest
from annotated_types import Ge, Gt, Le, Lt

from robench.declarations.base import Argument
from robench.declare.document import Number, number_of, show
from robench.declare.fields import Checked, RefusedError, literal_reader, scalar_reader


def read(hint: object, value: object, *marks: object) -> object:
    return scalar_reader(hint, marks)(value)


def refusal(hint: object, value: object, *marks: object) -> str:
    with pytest.raises(RefusedError) as caught:
        read(hint, value, *marks)
    return str(caught.value)


@pytest.mark.parametrize(
    ("hint", "value", "wanted"),
    [
        (bool, True, True),
        (int, -3, -3),
        (int, 0, 0),
        (float, Number("0.1"), 0.1),
        (float, Number("1e-3"), 0.001),
        (float, 4, 4.0),
        (str, "", ""),
        (str, "20", "20"),
        (Fraction, "8/255", Fraction(8, 255)),
        (Fraction, "+16/510", Fraction(8, 255)),
        (Fraction, "-1/3", Fraction(-1, 3)),
        (Fraction, "1", Fraction(1)),
        (Fraction, Number("0.03"), Fraction(3, 100)),
        (Fraction, Number("1e-3"), Fraction(1, 1000)),
        (Fraction, 1, Fraction(1)),
        (Argument, None, None),
        (Argument, True, True),
        (Argument, 3, 3),
        (Argument, "8/255", "8/255"),
        (Argument, Number("1.0"), 1.0),
    ],
)
def test_a_field_takes_its_own_type(hint: object, value: object, wanted: object) -> None:
    met = read(hint, value)
    # Fractions remember how they were written.
    assert (Fraction if isinstance(met, Fraction) else type(met), met) == (type(wanted), wanted)


@pytest.mark.parametrize(
    ("hint", "value", "message"),
    [
        (bool, 1, "must be true or false, got 1"),
        (bool, "yes", "must be true or false, got 'yes'"),
        (bool, None, "must be true or false, got null"),
        (int, True, "must be a whole number, got true"),
        (int, Number("1.0"), "must be a whole number, got 1.0"),
        (int, "20", "must be a whole number, got '20'"),
        (int, [1], "must be a whole number, got a list"),
        (int, {}, "must be a whole number, got a mapping"),
        (float, True, "must be a number, got true"),
        (float, "0.1", "must be a number, got '0.1'"),
        (float, "8/255", "must be a number, got '8/255'"),
        (str, 8, "must be text, got 8; put it in quotes"),
        (str, False, "must be text, got false; put it in quotes"),
        (str, Number("12345e67"), "must be text, got 12345e67; put it in quotes"),
        (str, None, "must be text, got null"),
        (str, ["a"], "must be text, got a list"),
        (Fraction, "8/0", "must be a finite number, got 8/0, a division by zero"),
        (Argument, ["a"], "must be text, a number, true, false or null, got a list"),
    ],
)
def test_a_field_refuses_other_types(hint: object, value: object, message: str) -> None:
    assert refusal(hint, value) == message


@pytest.mark.parametrize("value", ["3%", "3 %", "0.5%", "3 percent", "3 per cent"])
def test_budgets_in_per_cent_are_explained(value: str) -> None:
    assert refusal(Fraction, value) == (
        f"must not be in per cent, got {value!r}; budgets are in units of the range [0, 1] of pixels, such as 8/255"
    )


@pytest.mark.parametrize("value", ["0.03", "8.0/255", "1.5/255", "8 / 255", "8/-255", "8/255/2", "", "a", True, None])
def test_budgets_of_another_form_are_refused(value: object) -> None:
    wanted = "must be a fraction of whole numbers such as 8/255, or a number such as 0.03, got "
    assert refusal(Fraction, value).startswith(wanted)


def test_a_fraction_of_thousands_of_digits_is_refused() -> None:
    assert len(refusal(Fraction, "1" * 10_000 + "/3")) < 200


@pytest.mark.parametrize("value", [8, Number("1.5"), "16/2"])
def test_a_budget_above_one_is_explained(value: object) -> None:
    assert refusal(Fraction, value, Ge(0), Le(1)) == (
        f"must be at most 1, got {show(value)}; budgets are in units of the range [0, 1] of pixels, such as 8/255"
    )


@pytest.mark.parametrize(
    ("mark", "value", "message"),
    [
        (Ge(1), 0, "must be at least 1, got 0"),
        (Gt(0), 0, "must be above 0, got 0"),
        (Le(5), 6, "must be at most 5, got 6"),
        (Lt(5), 5, "must be below 5, got 5"),
    ],
)
def test_bounds_are_kept(mark: object, value: int, message: str) -> None:
    assert refusal(int, value, mark) == message
    inside = value + 1 if isinstance(mark, (Ge, Gt)) else value - 1
    assert read(int, inside, mark) == inside


def test_what_is_shown_is_what_was_written() -> None:
    assert refusal(float, Number("-1e-3"), Ge(0)) == "must be at least 0, got -1e-3"
    assert refusal(Fraction, "-1/255", Ge(0)) == "must be at least 0, got '-1/255'"


def test_a_check_of_its_own_comes_after_the_bounds() -> None:
    even = Checked(lambda value: None if isinstance(value, int) and value % 2 == 0 else f"must be even, got {value}")
    assert read(int, 4, Ge(1), even) == 4
    assert refusal(int, 3, Ge(1), even) == "must be even, got 3"
    assert refusal(int, -3, Ge(1), even) == "must be at least 1, got -3"


def test_choices_are_text_and_have_did_you_mean() -> None:
    read_choice = literal_reader(("paper", "released"))
    assert read_choice("paper") == "paper"
    with pytest.raises(RefusedError, match=r"^unknown value 'papr'\. Did you mean 'paper'\?$"):
        read_choice("papr")
    with pytest.raises(RefusedError, match=r"^must be one of paper, released, got 3$"):
        read_choice(3)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        (-3, "-3"),
        (Number("1.0"), "1.0"),
        ("text", "'text'"),
        ("\x1b[31m", "'\\x1b[31m'"),
        ("x" * 60, f"'{'x' * 60}'"),
        ("x" * 61, f"'{'x' * 57}...'"),
        ([1, 2], "a list"),
        ({"a": 1}, "a mapping"),
    ],
)
def test_values_are_shown_short_and_inert(value: object, shown: str) -> None:
    assert show(value) == shown


@pytest.mark.parametrize(
    "text", ["", "abc", "1/2", "1_000", "0x10", "1e", "nan", "inf", "1e331", "1e309", "1" * 65, " 1"]
)
def test_what_is_no_decimal_number_has_no_value(text: str) -> None:
    assert number_of(text) is None
