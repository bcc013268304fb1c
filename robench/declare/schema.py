"""Declarations as pydantic models, which check each field separately, so that one mistake hides no other.

A dataclass gives its model (strict, extra fields forbidden, the bounds of its annotations kept); accepted values are
passed to the dataclass, whose own ValueErrors (contradictions between fields) are problems like all others. The name of
a field of type ``DeclarationBase``, or of a family's base class, determines its family (``FAMILIES``).
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from annotated_types import MaxLen, MinLen
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainValidator,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    create_model,
)

from robench.attention import ATTENTIONS
from robench.core.checkpoint import Weights
from robench.core.errors import UsageError, described, did_you_mean, shortened
from robench.core.identity import to_plain
from robench.core.providers import is_own
from robench.datasets import DATASET_KINDS
from robench.declarations.base import DeclarationBase, PerturbationBase, bounds_of, violations
from robench.declarations.preprocessing import PREPROCESSINGS, PreprocessingBase
from robench.declare.document import UNREADABLE, Document, Place, Problem, document_from_python, show
from robench.declare.fields import (
    SCALARS,
    RefusedError,
    WeightsEntry,
    contradictions,
    literal_reader,
    one_error,
    refused,
    reworded,
    scalar_reader,
)
from robench.declare.members import TARGET, attempted, checked, holds_foreign, is_by_target, member_class
from robench.declare.sweeps import KEY, construct_sweep
from robench.declare.yaml_source import document_from_yaml, plain_scalar
from robench.models import BACKBONES, RESIDUALS
from robench.perturbations import PERTURBATIONS
from robench.training import TRAININGS

T = TypeVar("T")
D = TypeVar("D", bound=DeclarationBase)
# Maximum length of a list or mapping without a longer one in its annotation: shipped suites have up to 100 conditions.
LONGEST = 1000
# Number of unknown fields that are listed one by one.
MOST_UNKNOWN = 50
_LONGEST_SHOWN = 300


@dataclasses.dataclass(frozen=True, slots=True)
class Family:
    """Family of declarations accepted by a field, distinguished by the field ``tag``; ``untagged`` is the default.

    ``alias``: another name of ``tag``; ``sweeps``: whether an attack at several budgets is allowed.
    """

    noun: str
    members: Mapping[str, type[DeclarationBase]]
    tag: str = "kind"
    alias: str | None = None
    untagged: type[DeclarationBase] | None = None
    sweeps: bool = False


FAMILIES: Mapping[str, Family] = {
    "perturbation": Family("perturbation", PERTURBATIONS, sweeps=True),
    "members": Family("perturbation", PERTURBATIONS),
    "architecture": Family("backbone", BACKBONES, tag="backbone", alias="kind"),
    "attention": Family("attention", ATTENTIONS),
    "residual": Family("residual", RESIDUALS),
    "datasets": Family("kind of dataset", DATASET_KINDS),
    "preprocessing": Family("preprocessing", PREPROCESSINGS),
    "training": Family("training", TRAININGS, untagged=next(iter(TRAININGS.builtin.values()))),
}


def attempt(read: Callable[[object], T], document: Document, place: Place, problems: list[Problem]) -> T | None:
    """Return the result of ``read`` for the value at a place, or add all its problems to ``problems``."""
    try:
        return read(document.at(*place))
    except ValidationError as error:
        for found in error.errors(include_url=False):
            # Unreadable values have been reported already.
            if found["input"] is not UNREADABLE:
                problems.append(document.problem((*place, *found["loc"]), found["msg"]))
    return None


def construct(declared: type[T], value: object, tag: str | None = None) -> T:
    """Return the dataclass ``declared`` with the fields of a mapping whose ``tag`` named the class.

    Raises:
        ValidationError: every problem of every field, with its place.
    """
    if not isinstance(value, dict):
        raise one_error(str(refused("a mapping", value)), value)
    model = model_of(cast("type", declared))
    known = [tag, *model.model_fields] if tag else list(model.model_fields)
    if len(strangers := value.keys() - known) > MOST_UNKNOWN:
        message = f"has {len(strangers):,} unknown fields.{did_you_mean(min(strangers), known)}"
        raise one_error(message, value)
    given_fields = {name: item for name, item in value.items() if name != tag}
    try:
        fields = model.model_validate(_implied_by(declared, given_fields) | given_fields)
    except ValidationError as error:
        raise reworded(error, known, model) from None
    given = {name: getattr(fields, name) for name in fields.model_fields_set}
    try:
        if is_own(declared) and not holds_foreign(given):
            return declared(**given)
        return checked(_constructed(declared, given, value), value)
    except ValidationError:
        raise
    except ValueError as error:
        raise contradictions(error, known, value) from None


def _implied_by(declared: type, given: Mapping[str, object]) -> dict[str, object]:
    """Return fields that follow from the given ones, of robench's own declarations."""
    if not issubclass(declared, DeclarationBase) or not is_own(declared):
        return {}
    return {name: document_from_python(item, name).value for name, item in declared.implied_by(given).items()}


def _constructed(declared: type[T], given: Mapping[str, object], value: object) -> T:
    """Return a third-party declaration, whose ValueErrors are contradictions like all others."""
    refusals: list[ValueError] = []

    def construct() -> T | None:
        try:
            return declared(**given)
        except ValueError as error:
            refusals.append(error)
        return None

    made = attempted(declared, "it raised", construct, value)
    if refusals or made is None:
        raise refusals[0]
    return made


def construct_member(family: Family, value: object) -> DeclarationBase:
    """Return the declaration described by a mapping of a family.

    Raises:
        ValidationError: every problem of every field, with its place; or an unknown member.
    """
    if not isinstance(value, dict):
        example = value if isinstance(value, str) and value in family.members else next(iter(family.members))
        wanted = f"a mapping such as {{{family.tag}: {example}}}"
        raise one_error(str(refused(wanted, value)), value)
    given = [tag for tag in (family.tag, family.alias) if tag is not None and tag in value]
    if len(given) > 1:
        raise one_error(f"must not be given beside {family.tag}; remove one of the two", value, given[1])
    tag = given[0] if given else family.tag
    if not given and family.untagged is not None:
        return construct(family.untagged, value, tag)
    if not given:
        raise one_error(f"missing. Known: {', '.join(sorted(family.members))}.", value, tag)
    declared = member_class(family.noun, family.members, value, tag, fields_problem)
    if is_by_target(family.members, value[tag]):
        value = {name: item for name, item in value.items() if name != TARGET}
    if family.sweeps and KEY in value:
        return construct_sweep(declared, value, construct, partial(_class_of, family))
    return construct(declared, value, tag)


def _class_of(family: Family, value: Mapping[str, object]) -> type:
    """Return the class described by a mapping, ``object`` if it is unknown."""
    if family.tag in value:
        with suppress(ValidationError):
            return member_class(family.noun, family.members, value, family.tag, fields_problem)
    return object


def parse_architecture(mapping: object, source: str = "architecture") -> DeclarationBase:
    """Return the architecture described by a mapping, as an entry's ``architecture`` in checkpoints.yaml.

    Raises:
        DeclarationError: all problems of the mapping; ``source`` is its name in the message.

    >>> parse_architecture({"backbone": "timm", "name": "deit_tiny_patch16_224"}).name
    'deit_tiny_patch16_224'
    """
    return _parsed("architecture", document_from_python(mapping, source))


def parse_preprocessing(mapping: object, source: str = "preprocessing") -> PreprocessingBase:
    """Return the preprocessing described by a mapping, as an entry's ``preprocessing`` in checkpoints.yaml.

    Raises:
        DeclarationError: all problems of the mapping; ``source`` is its name in the message.

    >>> parse_preprocessing({"kind": "image", "mean": [0.5, 0.5, 0.5], "std": [1.0, 1.0, 1.0]}).mean
    (0.5, 0.5, 0.5)
    """
    return cast("PreprocessingBase", _parsed("preprocessing", document_from_python(mapping, source)))


def parse_perturbation(mapping: object, source: str = "perturbation") -> PerturbationBase:
    """Return the perturbation described by a mapping, as a condition's ``perturbation`` in a suite.

    Raises:
        DeclarationError: all problems of the mapping; ``source`` is its name in the message.

    >>> parse_perturbation({"kind": "fgsm", "epsilon": "8/255"}).epsilon
    Spelled(8, 255)
    """
    return cast("PerturbationBase", _parsed("perturbation", document_from_python(mapping, source)))


def read_perturbation(text: str, source: str = "perturbation") -> PerturbationBase:
    """Return the perturbation described by a mapping in YAML, whose outer braces may be left out.

    Raises:
        DeclarationError: all problems of the text; ``source`` is its name in the message.
    """
    whole = text if text.lstrip().startswith("{") or "\n" in text else f"{{{text}}}"
    document = document_from_yaml(whole.encode("utf-8", "backslashreplace"), source)
    return cast("PerturbationBase", _parsed("perturbation", document))


def _parsed(family: str, document: Document) -> DeclarationBase:
    problems: list[Problem] = []
    member = attempt(partial(construct_member, FAMILIES[family]), document, (), problems)
    return document.settle(member, problems)


def assigned(declared: type[D], assignments: Sequence[str], option: str, family: str) -> D:
    """Return a declaration with the fields that texts of the form ``NAME=VALUE`` give it.

    Values are read as in YAML files, except that those of text fields need no quotes. ``option`` is what the
    assignments were given by, and ``family`` the declared one, for messages.

    Raises:
        UsageError: an assignment has another form, no such field, or an invalid value; all fields are listed.
    """
    hints = get_type_hints(declared)
    names = [field.name for field in dataclasses.fields(declared)]  # type: ignore[arg-type]  # as all declarations are
    known = f"it has {', '.join(names)}" if names else "it has none"
    values: dict[str, object] = {}
    for text in assignments:
        name, mark, value = text.partition("=")
        if not mark:
            raise UsageError(f"{option} {show(text)} must be NAME=VALUE; {family} {declared.kind}: {known}")
        if name not in names:
            raise UsageError(f"{option}: {family} {declared.kind} has no field {show(name)}; {known}")
        if name in values:
            raise UsageError(f"{option} gives {name} twice; leave one out")
        values[name] = value if str in (hints[name], *get_args(hints[name])) else plain_scalar(value)
        if values[name] is UNREADABLE:
            raise UsageError(f"{option} {name} must be a plain number or word, got {show(value)}")
    try:
        return construct(declared, values)
    except ValidationError as error:
        problems = (f"{'.'.join(map(str, each['loc']))} {each['msg']}".strip() for each in error.errors())
        raise UsageError(*(f"{option}: {family} {declared.kind}: {problem}" for problem in problems)) from None


@cache
def model_of(declared: type) -> type[BaseModel]:
    """Return the pydantic model of a dataclass's fields."""
    hints = get_type_hints(declared, include_extras=True)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(declared):
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        # This default is not used: fields that are not set are left to the dataclass.
        fields[field.name] = (_field_type(hints[field.name], field.name), ... if required else None)
    config = ConfigDict(strict=True, extra="forbid", protected_namespaces=())
    return create_model(declared.__name__, __config__=config, **fields)


def fields_problem(declared: type) -> str:
    """Return why the fields of a third-party declaration cannot be read, or the problem with their defaults."""
    if is_own(declared):
        return ""
    try:
        model_of(declared)
        bounds = dict(bounds_of(declared))
        for field in dataclasses.fields(declared):
            if field.default is dataclasses.MISSING:
                continue
            to_plain(field.default)
            for wanted in violations(field.default, bounds.get(field.name, ())):
                return f"has a default out of its own bounds: {field.name} must be {wanted}, got {field.default}"
    # Broad because annotations and bounds are third-party code.
    except Exception as error:
        return f"has fields that cannot be read: {shortened(described(error), _LONGEST_SHOWN)}"
    return ""


def _field_type(hint: Any, name: str, marks: tuple[object, ...] = ()) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _field_type(arguments[0], name, (*marks, *arguments[1:]))
    if hint in SCALARS:
        return Annotated[Any, PlainValidator(scalar_reader(hint, marks))]
    if origin is Literal:
        return Annotated[Any, PlainValidator(literal_reader(arguments))]
    if isinstance(hint, type) and issubclass(hint, DeclarationBase) and not dataclasses.is_dataclass(hint):
        if name not in FAMILIES:
            raise TypeError(f"no family of declarations for the field {name}; add it to FAMILIES")
        return Annotated[Any, PlainValidator(partial(construct_member, FAMILIES[name]))]
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return Annotated[Any, PlainValidator(partial(_construct_own, hint))]
    if origin in (Union, UnionType):
        return _union_type(arguments, name, marks)
    if origin is tuple:
        return _tuple_type(arguments, name, marks)
    if origin is Mapping:
        key, item = (_field_type(argument, name) for argument in arguments)
        to_dict = partial(_expect, dict, "a mapping", longest_of(marks))
        return Annotated[dict[key, item], BeforeValidator(to_dict)]  # type: ignore[valid-type]  # built at run time
    raise TypeError(f"no reader for the field {name} of type {hint}")


def _construct_own(declared: type[object], value: object) -> object:
    """Return a dataclass that needs no ``kind``; of those of core, the fields are checked by their entry's."""
    return construct(WeightsEntry, value).declared if declared is Weights else construct(declared, value)


def _union_type(members: tuple[Any, ...], name: str, marks: tuple[object, ...]) -> Any:
    """Choose between null, named choices and one other type by the value, so that one mistake is one problem."""
    choices = [choice for member in members if get_origin(member) is Literal for choice in get_args(member)]
    others = [member for member in members if member is not NoneType and get_origin(member) is not Literal]
    others = others or [member for member in members if member is not NoneType]
    if len(others) != 1:
        raise TypeError(f"no reader for the field {name}: a union of {members}")
    otherwise = " Or a list." if get_origin(others[0]) is tuple else ""
    read_choice = literal_reader(tuple(choices), otherwise)

    def choose(value: object, read_other: ValidatorFunctionWrapHandler) -> object:
        if value is None and NoneType in members:
            return None
        return read_choice(value) if choices and isinstance(value, str) else read_other(value)

    return Annotated[_field_type(others[0], name, marks), WrapValidator(choose)]


def _tuple_type(entries: tuple[Any, ...], name: str, marks: tuple[object, ...]) -> Any:
    variable = entries[-1] is Ellipsis
    shortest = max((mark.min_length for mark in marks if isinstance(mark, MinLen)), default=0)
    longest = longest_of(marks)

    def to_tuple(value: object) -> tuple[object, ...]:
        items = tuple(_expect(list, "a list", longest, value))
        if variable and len(items) < shortest:
            raise RefusedError(f"must have at least {shortest} entry, got {len(items)}")
        if not variable and len(items) != len(entries):
            raise RefusedError(f"must have {len(entries)} entries, got {len(items)}")
        return items

    types = tuple(entry if entry is Ellipsis else _field_type(entry, name) for entry in entries)
    return Annotated[tuple[types], BeforeValidator(to_tuple)]  # type: ignore[valid-type]  # built at run time


def longest_of(marks: tuple[object, ...]) -> int:
    """Return the maximum length of a list or mapping with these marks in its annotation."""
    return min((mark.max_length for mark in marks if isinstance(mark, MaxLen)), default=LONGEST)


def _expect(wanted: type[Any], title: str, longest: int, value: object) -> Any:
    if not isinstance(value, wanted):
        raise refused(title, value)
    if len(value) > longest:
        raise RefusedError(f"must have at most {longest:,} entries, got {len(value):,}")
    return value
