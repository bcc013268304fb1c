"""Types of single fields: readers of plain values, checks of texts, and the messages of refusals.

Types are strict: true is not a number, 1.0 is not a whole number, quoted digits are text. pydantic collects the
problems: a ValidationError raised inside a validator keeps its places below the validator's own, so each model words
its own errors, and enclosing models pass them on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from robench.core.budgets import Spelled
from robench.core.checkpoint import PLAIN_LAYOUT, Trainer, Weights
from robench.core.errors import DeclarationError, did_you_mean
from robench.core.suggestions import closest
from robench.core.user_code import is_target
from robench.declarations.base import Argument, FieldsError, violations
from robench.declare.document import Number, show
from robench.domains import DOMAINS
from robench.models.layouts import LAYOUTS
from robench.tasks import TASKS

Reader = Callable[[object], object]

# Of a fraction as text, in a dialect that JSON Schema has too.
FRACTION_PATTERN = "[-+]?[0-9]{1,30}(/([0-9]{1,30}))?"
_FRACTION = re.compile(FRACTION_PATTERN)
_PER_CENT = re.compile(r"[-+]?[0-9.]+ *(%|percent|per cent)")
# A text that no field takes but those of any text.
_NO_VALUE = "?"
_NO_SOURCE = "missing: state where the authors published these weights, or by whom else they are (by: user)"
_BUDGETS = "budgets are in units of the range [0, 1] of pixels, such as 8/255"
# Of a whole name, in a dialect that JSON Schema has too.
NAME_PATTERN = "^[a-z0-9][a-z0-9._-]{0,63}$"
_NAME = re.compile(NAME_PATTERN.strip("^$"))


class RefusedError(PydanticCustomError):
    """Error for a value that does not fit its field; the message gives both."""

    def __new__(cls, message: str) -> RefusedError:
        """Return an error whose message pydantic keeps as it is."""
        return super().__new__(cls, "robench", "{message}", {"message": message})


@dataclass(frozen=True, slots=True)
class Checked:
    """Annotation mark: ``check`` returns the problem with a value, or None."""

    check: Callable[[object], str | None]


@dataclass(frozen=True, slots=True)
class ReadBy:
    """Annotation mark: ``read`` replaces the type's own reader."""

    read: Reader


def scalar_reader(hint: object, marks: tuple[object, ...]) -> Reader:
    """Return the reader of a field of type ``hint`` (a key of ``SCALARS``) within the bounds among ``marks``."""
    if own := next((mark.read for mark in marks if isinstance(mark, ReadBy)), None):
        return own
    read = SCALARS[hint]
    checks = [mark.check for mark in marks if isinstance(mark, Checked)]

    def read_within_bounds(value: object) -> object:
        converted = read(value)
        for wanted in violations(converted, marks):
            above_one = isinstance(converted, Fraction) and converted > 1
            raise RefusedError(f"must be {wanted}, got {show(value)}{f'; {_BUDGETS}' if above_one else ''}")
        for check in checks:
            if wrong := check(converted):
                raise RefusedError(wrong)
        return converted

    return read_within_bounds


def literal_reader(choices: tuple[object, ...], otherwise: str = "") -> Reader:
    """Return the reader of a field with text ``choices``; ``otherwise`` is added to its message on other values."""
    known = [str(choice) for choice in choices]

    def read_choice(value: object) -> object:
        if isinstance(value, str) and value in known:
            return value
        if isinstance(value, str):
            raise RefusedError(f"unknown value {show(value)}.{did_you_mean(value, known)}{otherwise}")
        raise refused(f"one of {', '.join(known)}", value)

    return read_choice


def refused(wanted: str, value: object) -> RefusedError:
    """Return the usual message: expected and found value."""
    return RefusedError(f"must be {wanted}, got {show(value)}")


def _exact_reader(kind: type, wanted: str) -> Reader:
    """Return the reader of values of exactly a type: true is not a number."""

    def read(value: object) -> object:
        if type(value) is kind:
            return value
        raise refused(wanted, value)

    return read


def _read_float(value: object) -> float:
    if isinstance(value, Number):
        return value.nearest
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    raise refused("a number", value)


def _read_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, int, Number)):
        raise RefusedError(f"must be text, got {show(value)}; put it in quotes")
    raise refused("text", value)


def _read_fraction(value: object) -> Fraction:
    if isinstance(value, Number):
        return Spelled(value.text)
    if isinstance(value, int) and not isinstance(value, bool):
        return Spelled(str(value))
    if isinstance(value, str) and (written := _FRACTION.fullmatch(value)):
        denominator = int(written[2] or 1)
        if denominator == 0:
            raise RefusedError(f"must be a finite number, got {value}, a division by zero")
        return Spelled(value)
    if isinstance(value, str) and _PER_CENT.fullmatch(value):
        raise RefusedError(f"must not be in per cent, got {show(value)}; {_BUDGETS}")
    raise refused("a fraction of whole numbers such as 8/255, or a number such as 0.03", value)


def _read_argument(value: object) -> Argument:
    if isinstance(value, Number):
        return value.nearest
    if value is None or isinstance(value, (str, int)):
        return value
    raise refused("text, a number, true, false or null", value)


SCALARS: Mapping[object, Reader] = {
    bool: _exact_reader(bool, "true or false"),
    int: _exact_reader(int, "a whole number"),
    float: _read_float,
    str: _read_text,
    Fraction: _read_fraction,
    Argument: _read_argument,
}


def one_error(message: str, value: object, *below: str | int) -> ValidationError:
    """Return an error with one problem of ``value``, at the place ``below`` the validator's own."""
    return ValidationError.from_exception_data("declaration", [error_line(message, below, value)])


def reworded(error: ValidationError, known: Sequence[str], model: type[BaseModel]) -> ValidationError:
    """Return a model's errors, reworded; ``known`` are its fields and its tag, for "did you mean"."""
    found = error.errors(include_url=False)
    unknown = [str(one["loc"][-1]) for one in found if one["type"] == "extra_forbidden"]
    missing = [str(one["loc"][-1]) for one in found if one["type"] == "missing"]
    # A misspelt required field is one mistake, though the model finds it unknown and missing.
    meant = {closest(name, sorted(known), missing) for name in unknown}
    kept = [one for one in found if not (one["type"] == "missing" and one["loc"][-1] in meant)]
    lines = [_reworded_line(one, known, missing, model) for one in kept]
    return ValidationError.from_exception_data(error.title, lines)


def contradictions(error: ValueError, known: Sequence[str], value: object) -> ValidationError:
    """Return a dataclass's contradictions between fields, each at its field.

    A field that files cannot have, since its name is not in ``known``, is named in the message instead.
    """
    lines = []
    problems = error.problems if isinstance(error, FieldsError) else [("", str(error))]
    for field, message in problems:
        place = field.split(".") if field else []
        if place and place[0] in known:
            lines.append(error_line(message, place, value))
        else:
            lines.append(error_line(f"{field} {message}".lstrip(), (), value))
    return ValidationError.from_exception_data("contradiction", lines)


def _reworded_line(
    error: ErrorDetails, known: Sequence[str], missing: Sequence[str], model: type[BaseModel]
) -> InitErrorDetails:
    place = error["loc"]
    match error["type"]:
        case "missing":
            message = f"missing{_wanted_in(model, str(place[-1]))}"
        case "extra_forbidden":
            name = str(place[-1])
            message = f"unknown field {show(name)}.{did_you_mean(name, known, missing)}"
        case _:
            message = error["msg"]
    # pydantic marks problems of a mapping's key by an additional last step.
    place = place[:-1] if place[-1:] == ("[key]",) else place
    return error_line(message, place, error["input"])


def _wanted_in(model: type[BaseModel], field: str) -> str:
    """Return the values of a field, as the end of a sentence, by what it says of another text."""
    try:
        model.model_validate({field: _NO_VALUE})
    except ValidationError as error:
        messages = [one["msg"] for one in error.errors(include_url=False) if one["loc"] == (field,)]
        for message in messages:
            if message.startswith("must be ") and ", got " in message:
                return f": it {message.rpartition(', got ')[0]}"
            if " Known: " in message:
                return f".{message[message.index(' Known: ') :]}"
    return ""


def error_line(message: str, place: Sequence[str | int], value: object) -> InitErrorDetails:
    """Return a problem of ``value`` as part of a ValidationError."""
    return InitErrorDetails(type=RefusedError(message), loc=tuple(place), input=value)


def name_problem(name: object) -> str | None:
    """Return why a text cannot be the name of a model or of a part of a suite; None if it can."""
    # Names become parts of file names, keys of tables and arguments of commands.
    if _NAME.fullmatch(str(name)):
        return None
    wanted = "1 to 64 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit"
    return f"must be {wanted}, got {show(name)}"


def known_in(noun: str, declared: Mapping[str, object]) -> Callable[[object], str | None]:
    """Return a check that a value is a name in ``declared``, which may be a family of plug-ins.

    The check returns the problem with a value, or None.
    """

    def unknown(name: object) -> str | None:
        # Members in the user's own code are named by a mapping.
        if name not in declared or is_target(str(name)):
            return f"unknown {noun} {show(name)}.{did_you_mean(str(name), declared)}"
        try:
            declared[str(name)]
        except DeclarationError as error:
            return str(error)
        return None

    return unknown


Name = Annotated[str, Checked(name_problem)]
Task = Annotated[str, Checked(known_in("task", TASKS))]
DomainName = Annotated[str, Checked(known_in("domain", DOMAINS))]


def digest_problem(digest: object) -> str | None:
    """Return why a text is not a SHA-256, or the beginning of one; None if it is."""
    if re.fullmatch(r"[0-9a-f]{8,64}", str(digest)):
        return None
    return f"must be 8 to 64 hexadecimal digits in lower case, or null where nobody published one, got {show(digest)}"


def uri_problem(uri: object) -> str | None:
    """Return why a text is not a location of weights; None if it is."""
    scheme, colon, rest = str(uri).partition(":")
    is_path = bool(uri) and "://" not in str(uri) and not (colon and scheme == "hf-hub")
    address, _, revision = rest.partition("@")
    is_hub = scheme == "hf-hub" and all(rest.split("/")) and (rest.count("/") >= 2 or ("/" in address and revision))
    if not str(uri).isprintable():
        return f"must have no control characters, got {show(uri)}"
    if is_path or is_hub:
        return None
    places = "a path (relative to this file, or absolute), hf-hub:owner/name@revision or hf-hub:owner/repository/file"
    return f"must be {places}, got {show(uri)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsEntry:
    """Entry of weights in a file: the digest may be null but must be given.

    Attributes:
        uri: path, relative to the registry file or absolute, or ``hf-hub:owner/repository/file``; of a model that a
            folder describes, its path or ``hf-hub:owner/name@revision``.
        sha256: 8 to 64 hexadecimal digits; null where nobody published one, in which case any file is accepted.
        how_to_get: one sentence for the error message if the file is missing.
        layout: layout of the file, that is, position and names of its tensors.
        key: key at the top of the file under which the tensors lie, in place of a layout.
        prefix: beginning of the tensors' names that the model does not have, in place of a layout; names without it are
            left out.
        by: who trained them: the ``authors`` of the numbers that papers' tables compare them with, a ``third-party``,
            ``robench`` or the ``user``.
        source: where they were published; required of weights by ``authors``.
    """

    uri: Annotated[str, Checked(uri_problem)]
    sha256: Annotated[str, Checked(digest_problem)] | None
    how_to_get: str = ""
    layout: Annotated[str, Checked(known_in("layout", LAYOUTS))] = PLAIN_LAYOUT
    key: str = ""
    prefix: str = ""
    by: Trainer = "user"
    source: str = ""

    def __post_init__(self) -> None:
        if self.by == "authors" and not self.source.strip():
            raise FieldsError([("source", _NO_SOURCE)])
        if self.layout != PLAIN_LAYOUT and (self.key or self.prefix):
            raise FieldsError([("layout", "must be left out beside key and prefix, which say where the tensors are")])

    @property
    def declared(self) -> Weights:
        """Return the weights that the entry names."""
        return Weights(**values_of(self))


# Any: an entry is any dataclass, and its values are of the types of its fields.
def values_of(entry: Any, *without: str) -> dict[str, Any]:
    """Return the values of an entry's fields by name, for a declaration that has fields of the same names."""
    return {each.name: getattr(entry, each.name) for each in fields(entry) if each.name not in without}
