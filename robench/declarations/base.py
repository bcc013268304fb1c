"""Base classes of declarations: annotations contain the bounds, and construction refuses values outside them."""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin, get_type_hints

import annotated_types

from robench.core.declared import PerturbationDeclaration
from robench.core.errors import DeclarationError

# Above every number of a published model or protocol, and small enough for loops and products to end.
LARGEST = 1_000_000
# Seeds are stored in columns of 64 bits.
SEEDS = 2**63

# A value passed by name to third-party code.
Argument = str | int | float | bool | None

# Field of a problem, dotted within a member such as ``attention.layers``, empty for the whole declaration; and the rest
# of the sentence, such as ``must be odd, got 4``.
FieldProblem = tuple[str, str]


class FieldsError(ValueError):
    """Error that lists everything wrong with the fields of a declaration.

    Attributes:
        problems: each with its field.
    """

    def __init__(self, problems: Sequence[FieldProblem]) -> None:
        super().__init__("; ".join(f"{field} {message}".lstrip() for field, message in problems))
        self.problems = tuple(problems)


class DeclarationBase:
    """Base class of all declarations, which checks every bounded field on construction.

    Attributes:
        kind: name in YAML.
        version: raised when the implementation changes its numbers; part of every key.
        implementation: ``module:name`` of the implementation, imported on first use; its type and call signature are
            defined by the family of plug-ins.

    Raises:
        FieldsError: a ValueError that names every field out of bounds, what was found and what was expected.
    """

    kind: ClassVar[str]
    version: ClassVar[int] = 1
    implementation: ClassVar[str]

    @classmethod
    def implemented(cls) -> Any:
        """Import and return the implementation.

        Any: each family defines and checks its type.
        """
        return imported(cls.implementation)

    @classmethod
    def implied_by(cls, given: Mapping[str, object]) -> dict[str, Any]:
        """Return values of further fields that follow from the given ones, in the form of YAML files.

        Readers of files use them for fields that a file leaves out. Any: values of fields of all types.
        """
        return {}

    def __post_init__(self) -> None:
        declared: type = type(self)
        problems = [
            (name, f"must be {wanted}, got {getattr(self, name)}")
            for name, bounds in bounds_of(declared)
            for wanted in violations(getattr(self, name), bounds)
        ]
        problems += [
            (name, f"must be a declaration of the type {wanted[0].__name__}, got {getattr(self, name)!r:.100}")
            for name, wanted in members_of(declared)
            if not isinstance(getattr(self, name), wanted)
        ]
        # Checks between fields assume that each field is within bounds.
        if problems := problems or self.contradictions():
            raise FieldsError(problems)

    def contradictions(self) -> list[FieldProblem]:
        """Return the problems between fields that are each within bounds; called after the bounds are checked."""
        return []


class PerturbationBase(DeclarationBase, PerturbationDeclaration):
    """Base class of perturbations, with the neutral defaults of ``core.declared.PerturbationDeclaration``.

    A declaration overrides the defaults that do not apply. ``implementation`` names a ``core.protocols.Perturbation``,
    or the function of an attack (``attacks.base``).
    """


class CausalFormBase(DeclarationBase):
    """Declaration of a part whose implementation may have a causal form, built where the backbone is causal.

    In a causal form the output of a token depends on it and earlier ones alone, in value and gradient.

    Attributes:
        family: noun of the family in messages.
        has_causal_form: whether the implementation has a causal form, with the same names of parameters.
        not_causal: reason for the lack of one.
    """

    family: ClassVar[str]
    has_causal_form: ClassVar[bool] = False
    not_causal: ClassVar[str] = ""

    @property
    def causal_problem(self) -> str:
        """Return the reason why these settings have no causal form; empty if they have one."""
        return "" if self.has_causal_form else self.not_causal or "its declaration does not set has_causal_form"

    def implemented_for(self, *, is_causal: bool) -> Any:
        """Import and return the implementation, for a causal backbone or another one.

        Raises:
            DeclarationError: the backbone is causal, and these settings have no causal form; the message says why.
        """
        if is_causal and (problem := self.causal_problem):
            raise DeclarationError(
                f"{self.family} {self.kind} has no causal form, which language models need: {problem}"
            )
        return self.implemented()


def imported(path: str) -> Any:
    """Import and return the object at ``module:name``.

    Any: the caller knows its type.
    """
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def violations(value: Any, bounds: tuple[object, ...]) -> list[str]:
    """Return the expectation for each bound that ``value`` violates, such as ``at least 1``."""
    if value is None:
        return []
    wanted = []
    for bound in bounds:
        match bound:
            case annotated_types.Ge(ge=limit) if not value >= limit:
                wanted.append(f"at least {limit}")
            case annotated_types.Gt(gt=limit) if not value > limit:
                wanted.append(f"above {limit}")
            case annotated_types.Le(le=limit) if not value <= limit:
                wanted.append(f"at most {limit}")
            case annotated_types.Lt(lt=limit) if not value < limit:
                wanted.append(f"below {limit}")
    return wanted


@cache
def members_of(declaration: type) -> tuple[tuple[str, tuple[type, ...]], ...]:
    """Return the fields that contain a declaration, each with its type, and with that of None if it is optional.

    ``declaration`` is a dataclass type.
    """
    hints = get_type_hints(declaration)
    found = [(field.name, _types_of(hints[field.name])) for field in dataclasses.fields(declaration)]
    return tuple((name, types) for name, types in found if types and issubclass(types[0], DeclarationBase))


def _types_of(hint: Any) -> tuple[type, ...]:
    """Return the classes of an annotation that is a class, or a class or None; nothing of any other."""
    if get_origin(hint) in (Union, UnionType):
        first, *others = sorted(get_args(hint), key=lambda each: each is NoneType)
        return (first, NoneType) if isinstance(first, type) and others == [NoneType] else ()
    return (hint,) if isinstance(hint, type) else ()


@cache
def bounds_of(declaration: type) -> tuple[tuple[str, tuple[object, ...]], ...]:
    """Return the bounds of each bounded field; ``declaration`` is a dataclass type."""
    hints = get_type_hints(declaration, include_extras=True)
    names = [field.name for field in dataclasses.fields(declaration)]
    return tuple((name, get_args(hints[name])[1:]) for name in names if get_origin(hints[name]) is Annotated)
