"""Families of plug-ins: robench's own from literal mappings, third-party ones from entry points.

A distribution declares a plug-in by an entry point of the group ``robench.plugins``, named ``family:kind``, with the
declaration as its value: ``attack:my-attack = my_package.attacks:MyAttack``. Names are read from metadata alone, on the
first look-up; a declaration is imported when it is used. A broken plug-in stops only the runs that name it.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections import UserDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from typing import Any, TypeVar, cast

from robench.core.errors import DeclarationError, PluginError, described, shortened
from robench.core.user_code import contained_import, is_target, missing_module, module_of, what_was_raised

GROUP = "robench.plugins"
FAMILIES = (
    *("attack", "corruption", "attention", "backbone", "residual", "dataset", "metric", "training"),
    *("domain", "task", "executor", "analysis"),
)
# Reserved kind for declarations in the user's own code, located by ``target``.
USER_CODE = "python"
RESERVED_FIELDS = ("kind", "version", "target", "distribution", "code")
_KIND = re.compile(r"[a-z0-9][a-z0-9._/-]{0,63}")
_MOST_SHOWN = 300
_ADVICE = "Fix or uninstall that distribution, or leave it out"

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """Entry point with which a distribution declares a plug-in.

    Attributes:
        distribution: name, in the normal form of package indices; ``release``: its version.
        name: of the entry point, ``family:kind``; ``value``: ``package.module:Name``.
    """

    distribution: str
    release: str
    name: str
    value: str

    @property
    def family(self) -> str:
        """Return the name of the family, which may not exist."""
        return self.name.partition(":")[0]

    @property
    def kind(self) -> str:
        """Return the kind of a declaration, or the name of a dataset or metric."""
        return self.name.partition(":")[2]

    @property
    def owner(self) -> str:
        """Return distribution and version, as used in messages."""
        return f"{self.distribution} {self.release}"

    def error(self, what: str, advice: str = _ADVICE) -> PluginError:
        """Return the error that names the plug-in, its distribution, the problem and what to do."""
        what = shortened(what, _MOST_SHOWN)
        return PluginError(f"{self.family} {self.kind!r} of {self.owner} cannot be used: {what}. {advice}")


def claims() -> tuple[Claim, ...]:
    """Return all entry points of the group by distribution and name; nothing is imported."""
    return _claims_on(tuple(map(str, sys.path)))


def strays() -> dict[Claim, str]:
    """Return the entry points that belong to no family, each with its problem."""
    return {claim: wrong for claim in claims() if (wrong := _misnamed(claim))}


def imported(place: str) -> Any:
    """Import and return the object at a place, ``module:Name``. Any: the caller knows its type."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


class Members(UserDict[str, T]):
    """Members of a family by name; one that is stated as ``module:Name`` is imported on its first look-up."""

    def __init__(self, stated: Mapping[str, T | str]) -> None:
        super().__init__()
        self.data = cast("dict[str, T]", dict(stated))

    def __getitem__(self, name: str) -> T:
        found = self.data[name]
        if isinstance(found, str):
            found = self.data[name] = imported(found)
        return found


class Plugins(Mapping[str, T]):
    """Family of plug-ins by kind (datasets and metrics by name), from robench and from other distributions.

    Iteration and membership tests need names alone; a member is imported on look-up.

    Args:
        family: name of the family in entry points.
        builtin: robench's own members, or their places, ``module:Name``, which are imported on look-up.
        base: base class of the members, or their class with ``instances``.
        reserved: further names that no other distribution may use.
        overrides: properties that members must define themselves.
        by_target: ``package.module:Name`` is the name of a member in the user's own code.

    Raises:
        KeyError: on look-up, no such member is known.
        PluginError: on look-up, the member is broken, or declared more than once.
    """

    def __init__(
        self,
        family: str,
        builtin: Mapping[str, T | str],
        *,
        base: type,
        instances: bool = False,
        reserved: Iterable[str] = (),
        overrides: tuple[str, ...] = (),
        by_target: bool = False,
    ) -> None:
        self.builtin = Members(builtin)
        self._any = Wanted(base, instances)
        self._wanted = {family: Wanted(base, instances, overrides)}
        self._reserved = frozenset(reserved)
        self._by_target = by_target

    @classmethod
    def joined(cls, builtin: Mapping[str, T | str], *parts: Plugins[Any], base: type) -> Plugins[T]:
        """Combine several families and ``builtin`` into one, in which no kind may be declared twice.

        ``base`` is a common base class.
        """
        members = dict(builtin)
        for part in parts:
            members |= part.builtin.data
        whole: Plugins[T] = cls("", members, base=base)
        whole._wanted = {family: wanted for part in parts for family, wanted in part._wanted.items()}
        whole._reserved = frozenset[str]().union(*(part._reserved for part in parts))
        return whole

    def __iter__(self) -> Iterator[str]:
        yield from self.builtin
        yield from (name for name in self._foreign() if name not in self.builtin)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self.builtin or name in self._foreign() or self._is_target(name))

    def __getitem__(self, name: str) -> T:
        found = self._foreign().get(name, [])
        if not found:
            return self.of_user(name) if self._is_target(name) else self.builtin[name]
        first = found[0]
        if name in self.builtin or name in self._reserved:
            raise first.error("robench already has one of this name", "Rename it there, or uninstall that distribution")
        if others := dict.fromkeys(claim.owner for claim in found[1:]):
            raise first.error(f"{', '.join(others)} also declares one of this name", "Uninstall one of the two")
        member = declared_by(first)
        if wrong := self._wanted[first.family].problem(member, first.kind):
            raise self.refusal(name, wrong)
        return cast("T", member)

    def of_user(self, target: str) -> T:
        """Return the member at ``package.module:Name`` in the user's own code, of any kind.

        Raises:
            DeclarationError: it is missing, or not a member of this family.
        """
        module, name = module_of(target), target.partition(":")[2]
        if not hasattr(module, name):
            raise DeclarationError(f"target {target!r}: there is no {name} in {module.__name__}, {module.__file__}")
        member = getattr(module, name)
        if wrong := self._any.problem(member, None):
            raise DeclarationError(f"target {target!r} {wrong}")
        return cast("T", member)

    def loaded(self) -> Iterator[tuple[str, T]]:
        """Yield each usable member with its name; imports all of them."""
        for name in self:
            try:
                member = self[name]
            except PluginError:
                continue
            yield name, member

    def broken(self) -> Iterator[tuple[str, str]]:
        """Yield the name and problem of each unusable member; imports all of them."""
        for name in self._foreign():
            try:
                self[name]
            except PluginError as error:
                yield name, str(error)

    def claims_of(self, name: str) -> tuple[Claim, ...]:
        """Return the entry points that declare a member; empty for robench's own."""
        return tuple(self._foreign().get(name, ()))

    def refusal(self, name: str, wrong: str) -> PluginError:
        """Return the error of a third-party member about which ``wrong`` was found."""
        claim = self._foreign()[name][0]
        return claim.error(f"{claim.value} {wrong}")

    def _is_target(self, name: str) -> bool:
        return self._by_target and is_target(name)

    def _foreign(self) -> Mapping[str, list[Claim]]:
        return _by_kind(claims(), tuple(self._wanted))


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """Requirements of a family on its members: see ``Plugins``."""

    base: type
    instances: bool = False
    overrides: tuple[str, ...] = ()

    def problem(self, member: Any, kind: str | None) -> str:
        """Return the problem of a candidate member of the given kind (None for any); else empty.

        Any: it may be anything.
        """
        is_one = isinstance(member, self.base) if self.instances else self._is_subclass(member)
        if not is_one:
            noun = "an instance" if self.instances else "a frozen dataclass, a subclass"
            return f"is {_shown(member)}, wanted {noun} of {self.base.__module__}.{self.base.__qualname__}"
        called = "name" if self.instances else "kind"
        has = getattr(member, called, None)
        if not isinstance(has, str) or not has:
            return f"has no {called}, wanted text"
        if kind is not None and has != kind:
            return f"has the {called} {has!r}, wanted {kind!r} as in the name of its entry point"
        return "" if self.instances else self._class_problem(member)

    def _is_subclass(self, member: Any) -> bool:
        if not isinstance(member, type) or not issubclass(member, self.base):
            return False
        # Its own fields: without a decorator a subclass has those of its base.
        parameters: Any = vars(member).get("__dataclass_params__")
        return parameters is not None and bool(parameters.frozen)

    def _class_problem(self, member: type) -> str:
        names = [field.name for field in dataclasses.fields(cast("Any", member))]
        if taken := [name for name in names if name in RESERVED_FIELDS]:
            return f"has a field {taken[0]!r}, a reserved name; rename it"
        if not isinstance(getattr(member, "version", None), int):
            return "has no version, wanted a whole number"
        if lacking := [name for name in self.overrides if getattr(member, name) is getattr(self.base, name)]:
            return f"does not define the property {lacking[0]!r}"
        return ""


def declared_by(claim: Claim) -> object:
    """Import and return the object that an entry point names.

    Raises:
        PluginError: it is missing, or its module fails on import.
    """
    if not is_target(claim.value):
        raise claim.error(f"its entry point is {claim.value!r}, wanted package.module:Name")
    module_name, _, name = claim.value.partition(":")
    try:
        module = contained_import(module_name)
    # Broad because the top level of a module may raise anything.
    except Exception as error:
        if missing := missing_module(error, module_name):
            raise claim.error(f"there is no module {missing!r}") from error
        raised = what_was_raised(error)
        raise claim.error(f"importing {module_name} raised {described(raised)}") from raised
    if not hasattr(module, name):
        raise claim.error(f"there is no {name!r} in {module_name}")
    return getattr(module, name)


def _misnamed(claim: Claim) -> str:
    if claim.family not in FAMILIES:
        return f"must be named family:kind, with a family of {', '.join(FAMILIES)}"
    if not _KIND.fullmatch(claim.kind) or claim.kind == USER_CODE:
        return f"must have a kind of 1 to 64 of a-z, 0-9, '.', '_', '/' and '-' other than {USER_CODE}"
    return ""


def _shown(member: object) -> str:
    return f"the class {member.__qualname__}" if isinstance(member, type) else f"of type {type(member).__name__}"


@lru_cache(maxsize=64)
def _by_kind(found: tuple[Claim, ...], families: tuple[str, ...]) -> Mapping[str, list[Claim]]:
    by_kind: dict[str, list[Claim]] = {}
    for claim in found:
        if claim.family in families and not _misnamed(claim):
            by_kind.setdefault(claim.kind, []).append(claim)
    return by_kind


@lru_cache(maxsize=8)
def _claims_on(path: tuple[str, ...]) -> tuple[Claim, ...]:
    # Imported here, since most commands ask for no plug-in.
    from importlib.metadata import distributions

    found: dict[str, tuple[Claim, ...]] = {}
    for distribution in distributions(path=list(path)):
        # Errors in the metadata of other distributions do not matter here.
        with suppress(Exception):
            text = distribution.read_text("entry_points.txt")
            if text is None or GROUP not in text:
                continue
            name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()
            entries = distribution.entry_points.select(group=GROUP)
            # The first on the path is the one that is imported.
            found.setdefault(name, tuple(Claim(name, distribution.version, each.name, each.value) for each in entries))
    return tuple(
        sorted((claim for each in found.values() for claim in each), key=lambda each: (each.distribution, each.name))
    )
