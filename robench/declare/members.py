"""Members of plug-in families in files, by ``kind`` or name, or by ``kind: python`` and a ``target`` in user code.

Third-party code runs in containment, and any error that it raises becomes a problem at its place, like all others.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, TypeVar, cast

from robench.core.errors import DeclarationError, PluginError, described, did_you_mean, shortened
from robench.core.identity import to_plain
from robench.core.plugins import USER_CODE, Plugins
from robench.core.providers import is_own
from robench.core.user_code import is_target, what_was_raised
from robench.declarations.base import DeclarationBase, PerturbationBase
from robench.declare.document import show
from robench.declare.fields import Checked, ReadBy, known_in, one_error, refused, scalar_reader
from robench.metrics import METRICS

T = TypeVar("T")
TARGET = "target"
_LONGEST = 300


def member_class(
    noun: str,
    members: Mapping[str, type[DeclarationBase]],
    value: Mapping[str, object],
    tag: str,
    examine: Callable[[type], str],
) -> type[DeclarationBase]:
    """Return the class that a mapping names by ``tag``, or by its target.

    ``examine`` returns why the fields of a third-party class cannot be read, or nothing.

    Raises:
        ValidationError: it is missing or broken.
    """
    name = value[tag]
    if not isinstance(name, str):
        raise one_error(str(refused(f"one of {', '.join(sorted(members))}", name)), name, tag)
    if is_by_target(members, name):
        assert isinstance(members, Plugins)
        declared = cast("type[DeclarationBase]", of_target(noun, members, value))
        if wrong := examine(declared):
            raise one_error(f"target {value[TARGET]!r} {wrong}", value[TARGET], TARGET)
        return declared
    if name not in members:
        raise one_error(f"unknown {noun} {show(name)}.{did_you_mean(name, members)}", name, tag)
    try:
        declared = members[name]
    except PluginError as error:
        raise one_error(str(error), name, tag) from error
    if (wrong := examine(declared)) and isinstance(members, Plugins):
        raise one_error(str(members.refusal(name, wrong)), name, tag)
    return declared


def is_by_target(members: Mapping[str, Any], name: object) -> bool:
    """Return whether a kind refers to the user's own code; one family has a regular member of that name."""
    return name == USER_CODE and isinstance(members, Plugins) and USER_CODE not in members


def of_target(noun: str, members: Plugins[T], value: Mapping[str, object]) -> T:
    """Return the member of a family named by a mapping's ``target``.

    Raises:
        ValidationError: it is missing, or not such a member.
    """
    target = value.get(TARGET)
    if not isinstance(target, str) or not is_target(target):
        wrong = "missing" if TARGET not in value else f"must be package.module:Name, got {show(target)}"
        raise one_error(wrong, value if TARGET not in value else target, TARGET)
    try:
        return members.of_user(target)
    except DeclarationError as error:
        raise one_error(str(error), target, TARGET) from error


MetricName = Annotated[str, Checked(known_in("metric", METRICS))]
_read_metric = scalar_reader(str, (Checked(known_in("metric", METRICS)),))


def metric_name(value: object) -> object:
    """Return the name of a metric in ``METRICS``: as given, or the target of one of the user's own.

    Raises:
        RefusedError: it is not the name of a metric.
        ValidationError: there is no such metric in the user's code.
    """
    if not isinstance(value, dict) or not is_by_target(METRICS, value.get("kind")):
        return _read_metric(value)
    if strangers := value.keys() - {"kind", TARGET}:
        message = f"unknown field {show(min(strangers))}.{did_you_mean(min(strangers), [TARGET])}"
        raise one_error(message, value, min(strangers))
    of_target("metric", METRICS, value)
    return value[TARGET]


# A metric of a suite, which may be of the user's own.
MetricEntry = Annotated[str, ReadBy(metric_name)]


def holds_foreign(given: Mapping[str, object]) -> bool:
    """Return whether a declaration may contain a third-party one, which may run code on construction."""
    items = [item for value in given.values() for item in (value if isinstance(value, tuple) else (value,))]
    return any(isinstance(item, DeclarationBase) and not is_own(type(item)) for item in items)


def checked(declaration: T, value: object) -> T:
    """Return a declaration; a third-party one after checking all properties that generic code reads.

    Raises:
        ValidationError: a property raised an error, or has an invalid value.
    """
    declared: type = type(declaration)
    if is_own(declared):
        return declaration
    for name in dict.fromkeys(name for each in declared.__mro__ for name in vars(each)):
        if isinstance(getattr(declared, name, None), property):
            attempted(declared, f"{name} raised", partial(getattr, declaration, name), value)
    attempted(declared, "its fields cannot be identified:", partial(to_plain, declaration), value)
    corruption = declaration.corruption if isinstance(declaration, PerturbationBase) else None
    if corruption is not None and not _is_corruption(corruption, declaration):
        wanted = f"({cast('PerturbationBase', declaration).kind!r}, a severity from 1 to 5)"
        raise one_error(f"its corruption must be {wanted}, got {corruption!r:.100}", value)
    return declaration


def attempted(declared: type, doing: str, ask: Callable[[], T], value: object) -> T:
    """Return the result of third-party code. Raises ValidationError: it raised an error."""
    # Imported here, so that declarations without foreign code are not slowed down.
    from robench.core.containment import Contained

    try:
        with Contained(keeps_environment=True):
            return ask()
    # Broad because it is third-party code.
    except Exception as error:
        raised = shortened(described(what_was_raised(error)), _LONGEST)
        raise one_error(f"{declared.__qualname__}: {doing} {raised}", value) from error


def _is_corruption(corruption: object, declaration: object) -> bool:
    return (
        isinstance(corruption, tuple)
        and len(corruption) == 2
        and corruption[0] == cast("PerturbationBase", declaration).kind
        and type(corruption[1]) is int
        and 1 <= corruption[1] <= 5
    )
