"""The tree of errors: exit codes as documented, names that help."""

import pytest

from robench.core import errors
from robench.core.errors import RobenchError, UnknownNameError, UsageError, described, shortened

EXIT_CODES = {
    "RobenchError": 1, "UsageError": 2, "DeclarationError": 2, "UnknownNameError": 2, "PluginError": 2,
    "MissingDataError": 4, "WeightsError": 4, "IncomparableError": 4, "ExampleError": 1, "ContractError": 1,
    "NoGradientError": 1, "BudgetExceededError": 1, "StoreError": 1, "StoreUnwritableError": 2, "IncompleteError": 1,
    "InapplicableError": 1,
}  # fmt: skip


def declared_errors() -> dict[str, type[RobenchError]]:
    found = {name: value for name, value in vars(errors).items() if isinstance(value, type)}
    return {name: value for name, value in found.items() if issubclass(value, RobenchError)}


def test_every_error_has_its_documented_exit_code() -> None:
    assert {name: error.exit_code for name, error in declared_errors().items()} == EXIT_CODES


@pytest.mark.parametrize("name", EXIT_CODES)
def test_the_drawn_tree_names_every_error_with_its_code(name: str) -> None:
    (line,) = [line for line in (errors.__doc__ or "").splitlines() if f" {name} " in f" {line} "]
    assert str(EXIT_CODES[name]) in line.split()


def test_an_unknown_name_points_to_the_nearest_known_one() -> None:
    message = str(UnknownNameError("model", "digit-vit", ["digits-vit", "deit-tiny"], "See 'robench list models'."))
    assert message.startswith("unknown model 'digit-vit'. Did you mean 'digits-vit'? See")
    assert message.endswith("See 'robench list models'.")


def test_an_unknown_name_like_no_other_lists_what_there_is() -> None:
    assert "Did you mean" not in str(UnknownNameError("model", "zzz", ["digits-vit"]))
    assert "None are declared" in str(UnknownNameError("model", "zzz", []))


def test_names_in_parts_are_shown_as_one_family_and_still_pointed_to() -> None:
    known = ["a", "c/snow/1", "c/snow/2", "c/fog/1", "a/bilinear"]
    message = str(UnknownNameError("dataset", "c/snow/3", known))
    assert message.endswith("Did you mean 'c/snow/1'?")
    assert str(UnknownNameError("dataset", "other", known)).endswith("Known: a, c/....")


class OddError(Exception):
    def __init__(self, text: object) -> None:
        self.text = text

    def __str__(self) -> str:
        if isinstance(self.text, BaseException):
            raise self.text
        return self.text  # type: ignore[return-value]


class OddText(str):
    __slots__ = ()

    def __len__(self) -> int:
        raise SystemExit

    def encode(self, *_: object) -> bytes:
        raise SystemExit


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no"), "ValueError: no"),
        (ValueError(), "ValueError"),
        (UsageError("no such device"), "no such device"),
        (SystemExit(0), "SystemExit: 0"),
        (OddError(ValueError()), "OddError: (its message cannot be shown: __str__ raised ValueError)"),
        (OddError(SystemExit()), "OddError: (its message cannot be shown: __str__ raised SystemExit)"),
        (OddError(7), "OddError: (its message cannot be shown: __str__ raised TypeError)"),
        (OddError(OddText("odd")), "OddError: odd"),
        (ValueError("half \ud83d"), "ValueError: half \\ud83d"),
    ],
    ids=repr,
)
def test_any_error_can_be_described(error: BaseException, text: str) -> None:
    found = described(error)
    assert found == text
    assert type(found) is str


def test_a_long_message_keeps_its_beginning_and_end() -> None:
    text = described(ValueError("begin" + "x" * 50_000_000 + "end"))
    assert text.startswith("ValueError: beginxxx")
    assert text.endswith("xxxend")
    assert "[... 49998008 characters left out ...]" in text
    assert len(text) < 2100


@pytest.mark.parametrize("length", [4, 5])
def test_a_text_of_the_wanted_length_is_left_alone(length: int) -> None:
    assert shortened("x" * length, length) == "x" * length
