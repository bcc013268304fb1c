"""Rewording of pydantic's errors.

A ValidationError raised inside a validator keeps its places below the validator's own, so each model words its own
errors, and enclosing models pass them on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from robench.core.errors import did_you_mean
from robench.core.suggestions import closest
from robench.declarations.base import FieldsError
from robench.declare.values import show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic_core import ErrorDetails

_OURS = "robench"


def one_error(title: str, message: str, value: object, *below: str | int) -> ValidationError:
    """Return an error with one problem of ``value``, at the place ``below`` the validator's own."""
    return ValidationError.from_exception_data(title, [_line(message, below, value)])


def reworded(error: ValidationError, known: Sequence[str]) -> ValidationError:
    """Return a model's errors, reworded; ``known`` are its fields, for "did you mean"."""
    found = error.errors(include_url=False)
    unknown = [str(one["loc"][-1]) for one in found if one["type"] == "extra_forbidden"]
    missing = [str(one["loc"][-1]) for one in found if one["type"] == "missing"]
    # A misspelt required field is one mistake, though the model finds it unknown and missing.
    meant = {closest(name, sorted(known), missing) for name in unknown}
    kept = [one for one in found if not (one["type"] == "missing" and one["loc"][-1] in meant)]
    lines = [_reworded_line(one, known, missing) for one in kept]
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
            lines.append(_line(message, place, value))
        else:
            lines.append(_line(f"{field} {message}".lstrip(), (), value))
    return ValidationError.from_exception_data("contradiction", lines)


def _reworded_line(error: ErrorDetails, known: Sequence[str], missing: Sequence[str]) -> InitErrorDetails:
    place = error["loc"]
    match error["type"]:
        case "missing":
            message = "missing"
        case "extra_forbidden":
            name = str(place[-1])
            message = f"unknown field {show(name)}.{did_you_mean(name, known, missing)}"
        case _:
            message = error["msg"]
    # pydantic marks problems of a mapping's key by an additional last step.
    place = place[:-1] if place[-1:] == ("[key]",) else place
    return _line(message, place, error["input"])


def _line(message: str, place: Sequence[str | int], value: object) -> InitErrorDetails:
    error = PydanticCustomError(_OURS, "{message}", {"message": message})
    return InitErrorDetails(type=error, loc=tuple(place), input=value)
