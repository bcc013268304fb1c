"""Common parts of contract tests: messages, watched generators, fresh interpreters, contract of declarations."""

import dataclasses
import pickle
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import annotated_types
import numpy as np
import torch

from robench.attention.base import AttentionBase
from robench.core.identity import key_of
from robench.declarations.base import DeclarationBase, bounds_of

LONGEST_ERROR = 300
IMPORTS_TORCH = 77  # a status of no other meaning


class BrokenPromiseError(AssertionError):
    """Broken contract, without the name of the plug-in, which ``run_checks`` puts before it."""


def require(holds: bool, found: str, expected: str) -> None:
    """Raise a message in the common form, of observed and required behaviour, unless a condition holds."""
    if not holds:
        raise BrokenPromiseError(f"{found}; expected {expected}")


def subject_of(family: str, plugin: object, base: type, called: str = "kind") -> str:
    """Return family and name of a plug-in, such as ``attack 'pgd'``, with which messages begin.

    ``called`` is the attribute with its name.

    Raises:
        AssertionError: it is not an instance of ``base``.
    """
    if not isinstance(plugin, base):
        noun = f"{'an' if family[0] in 'aeiou' else 'a'} {family}"
        raise AssertionError(f"{plugin!r} is not {noun}; expected an instance of robench's {base.__name__}")
    return f"{family} {getattr(plugin, called, type(plugin).__name__)!r}"


def run_checks(subject: str, checks: Sequence[Callable[..., None]], *arguments: Any) -> None:
    """Call each check with the arguments; an exception of the plug-in counts as a broken contract.

    Messages begin with ``subject``, such as ``attack 'pgd'``. Any: each family of checks defines its arguments.

    Raises:
        AssertionError: the first promise that is broken.
    """
    for check in checks:
        try:
            check(*arguments)
        except BrokenPromiseError as error:
            raise AssertionError(f"{subject} {error}") from error.__cause__
        except AssertionError:
            raise
        except Exception as error:
            name = check.__name__.replace("_", " ")
            text = str(error).splitlines()[0][:LONGEST_ERROR] if str(error) else "no message"
            message = f"{subject} raised {type(error).__name__} ({text}) in: {name}; expected no exception"
            raise AssertionError(message) from error


def refusal(call: Callable[[], object], *wanted: type[Exception]) -> str | None:
    """Call a function that must raise one of some exceptions; return None if it does, otherwise its behaviour."""
    try:
        call()
    except wanted:
        return None
    except Exception as error:
        return f"raised {type(error).__name__} ({str(error)[:LONGEST_ERROR]})"
    return "raised nothing"


@contextmanager
def watched_generators() -> Iterator[None]:
    """Require that the global generators of torch, numpy and random are neither drawn from nor seeded.

    Their states are restored afterwards.
    """
    readers: dict[str, Callable[[], str]] = {
        "torch": lambda: str(torch.random.get_rng_state().tolist()),
        "numpy": lambda: str([part.tolist() if hasattr(part, "tolist") else part for part in np.random.get_state()]),
        "random": lambda: str(random.getstate()),
    }
    states = torch.random.get_rng_state(), np.random.get_state(), random.getstate()
    try:
        torch.manual_seed(7)
        np.random.seed(7)  # the global generator is watched
        random.seed(7)
        before = {name: read() for name, read in readers.items()}
        yield
        moved = [name for name, read in readers.items() if read() != before[name]]
    finally:
        torch.random.set_rng_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])
    require(
        not moved,
        f"moves the global random generator of {' and '.join(moved)}",
        "no draw from a global generator and no seed of one",
    )


def require_import_without_torch(module: str) -> None:
    """Require that a module imports no torch in a fresh interpreter with the same search path.

    Modules that no other process can import (``__main__``) are skipped.
    """
    if module == "__main__":
        return
    found = _after_import(module, tuple(sys.path))
    require(
        found == "free",
        f"is in module {module}, which {found} in a fresh interpreter",
        "an import without torch: move what computes to a module beside it, named by `implementation`",
    )


@cache
def _after_import(module: str, search_path: tuple[str, ...]) -> str:
    """Return ``free``, or the problem of a module's import."""
    code = (
        f"import sys; sys.path[:] = {list(search_path)!r}\nimport importlib; importlib.import_module({module!r})\n"
        f"sys.exit({IMPORTS_TORCH} if 'torch' in sys.modules else 0)"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        _, errors = process.communicate()
    if process.returncode == IMPORTS_TORCH:
        return "imports torch"
    lines = errors.strip().splitlines() or ["no message"]
    return f"cannot be imported ({lines[-1][:LONGEST_ERROR]})" if process.returncode else "free"


def has_a_kind_and_an_implementation(declaration: DeclarationBase) -> None:
    """Check that the declaration has a kind and a version, and that its implementation can be called."""
    kind, version = getattr(declaration, "kind", None), getattr(declaration, "version", None)
    require(isinstance(kind, str) and bool(kind), f"has kind {kind!r}", "a name, as a class variable")
    require(type(version) is int and version >= 1, f"has version {version!r}", "an integer of at least 1")
    named = getattr(declaration, "implementation", None)
    try:
        implementation = declaration.implemented()
    except Exception as error:
        raise BrokenPromiseError(
            f"has implementation {named!r}, whose import raised {type(error).__name__}: {error}; "
            "expected `module:name` of what computes it"
        ) from error
    require(callable(implementation), f"has implementation {named!r}, which is not callable", "a callable")


def is_a_frozen_dataclass(declaration: DeclarationBase) -> None:
    """Check that the declaration is a dataclass that cannot be changed."""
    is_dataclass = dataclasses.is_dataclass(declaration)
    require(is_dataclass, "is not a dataclass", "a frozen dataclass")
    parameters = getattr(type(declaration), "__dataclass_params__", None)
    require(bool(parameters and parameters.frozen), "is not frozen", "a frozen dataclass")


def equal_declarations_have_equal_keys(declaration: DeclarationBase) -> None:
    """Check that a copy is equal and has the same key, and that keys are made of the fields."""
    copy = dataclasses.replace(declaration)  # type: ignore[type-var]  # a dataclass, see above
    key = key_of(declaration)
    require(copy == declaration, "differs from a copy of itself", "equality by its fields")
    require(key_of(copy) == key, f"has key {key} and its copy {key_of(copy)}", "one key for equal fields")
    require(hash(copy) == hash(declaration), "has another hash than its copy", "one hash for equal fields")


def survives_pickling(declaration: DeclarationBase) -> None:
    """Check that the declaration reaches a worker process unchanged."""
    try:
        arrived = pickle.loads(pickle.dumps(declaration))
    except Exception as error:
        raise BrokenPromiseError(f"cannot be pickled ({error}); expected a class of an importable module") from error
    same = arrived == declaration and key_of(arrived) == key_of(declaration)
    require(same, f"is {arrived} after pickling", f"the same as before, {declaration}")


def imports_without_torch(declaration: DeclarationBase) -> None:
    """Check that the module of the declaration imports no torch."""
    require_import_without_torch(type(declaration).__module__)


def every_number_has_bounds(declaration: DeclarationBase) -> None:
    """Check that each numeric field has a lower and an upper bound."""
    hints = get_type_hints(type(declaration), include_extras=True)
    for field in dataclasses.fields(declaration):  # type: ignore[arg-type]  # a dataclass, see above
        # Bounds of an attention's layers are those of the backbone, which checks them.
        of_backbone = isinstance(declaration, AttentionBase) and field.name == "layers"
        missing = [] if of_backbone else list(unbounded(hints[field.name]))
        require(
            not missing,
            f"has field {field.name} with {' and '.join(missing)}",
            "both bounds, such as Annotated[int, Ge(1), Le(1000)]",
        )


def bad_values_are_refused(declaration: DeclarationBase) -> None:
    """Check that each field refuses a value just beyond each of its bounds."""
    declared: type = type(declaration)
    for name, bounds in bounds_of(declared):
        for bad in filter(None, map(beyond, bounds)):
            (value,) = bad
            found = refusal(lambda: dataclasses.replace(declaration, **{name: value}), ValueError)  # type: ignore[type-var]  # noqa: B023
            require(
                found is None,
                f"{found} for {name}={value}, which is out of bounds",
                "a ValueError from __post_init__ of DeclarationBase",
            )


DECLARATION_CHECKS = (
    is_a_frozen_dataclass,
    has_a_kind_and_an_implementation,
    equal_declarations_have_equal_keys,
    survives_pickling,
    imports_without_torch,
    every_number_has_bounds,
    bad_values_are_refused,
)


def beyond(bound: object) -> tuple[Any] | None:
    """Return a value, alone in a tuple, that violates a bound; None if it is not a numeric bound."""
    match bound:
        case annotated_types.Ge(ge=limit):
            return (limit - 1,)  # type: ignore[operator]  # bounds are numbers
        case annotated_types.Le(le=limit):
            return (limit + 1,)  # type: ignore[operator]  # likewise
        case annotated_types.Gt(gt=limit) | annotated_types.Lt(lt=limit):
            return (limit,)
    return None


def unbounded(hint: Any, marks: tuple[object, ...] = ()) -> Iterator[str]:
    """Yield each numeric type that a type hint leaves without a bound below or above.

    Any: type hints have no type of their own.
    """
    if get_origin(hint) is Annotated:
        yield from unbounded(get_args(hint)[0], (*marks, *get_args(hint)[1:]))
    elif hint in (int, float, Fraction):
        if not any(isinstance(mark, (annotated_types.Ge, annotated_types.Gt)) for mark in marks):
            yield f"{hint.__name__} without Ge or Gt"
        if not any(isinstance(mark, (annotated_types.Le, annotated_types.Lt)) for mark in marks):
            yield f"{hint.__name__} without Le or Lt"
    elif get_origin(hint) is not Literal:
        # Of a list, marks are of its length.
        below = marks if get_origin(hint) not in (tuple, Mapping) else ()
        for part in get_args(hint):
            yield from unbounded(part, below)
