"""Sweeps in files: an attack with ``epsilons`` in place of ``epsilon``, and the rules for combining them.

The attack is read once per budget, so that problems of a single budget are reported for that one. Members of a custom
ensemble without a budget have the ensemble's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from pydantic import ValidationError

from robench.attacks.base import BoundedAttack, Epsilon
from robench.declarations.base import DeclarationBase
from robench.declare.document import Place
from robench.declare.fields import contradictions, error_line, one_error
from robench.perturbations.sweep import Sweep

T = TypeVar("T")
KEY = "epsilons"
# Default if no budget can be read: checks of other fields against the budget then find no problem.
NO_BUDGET = 0

# Class of the attack that a mapping may describe.
ClassOf = Callable[[Mapping[str, object]], type]

# Reader of a mapping as a dataclass, ``schema.construct``. Any: the class that it is given.
Construct = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepEntry:
    """Fields of a sweep beside those of the attack."""

    epsilons: tuple[Epsilon, ...]
    carry: bool = False


OWN = tuple(SweepEntry.__dataclass_fields__)


def construct_sweep(
    declared: type[DeclarationBase], value: Mapping[str, object], construct: Construct, class_of: ClassOf
) -> Sweep:
    """Return the sweep described by a mapping with ``epsilons`` for an attack of the class ``declared``.

    Raises:
        ValidationError: every problem of every field, with its place.
    """
    if not issubclass(declared, BoundedAttack):
        raise one_error(f"must be left out for {declared.kind}, which has no budget", value[KEY], KEY)
    problems = _Problems()
    if "epsilon" in value:
        problems.add(("epsilon",), f"must be left out beside {KEY}, which name every budget", value["epsilon"])
    own = {name: value[name] for name in OWN if name in value}
    entry = problems.attempt(partial(construct, SweepEntry, own))
    given = value[KEY]
    attacks = [
        problems.attempt(partial(construct, declared, _at_budget(value, epsilon, class_of), "kind"), (KEY, place))
        for place, epsilon in enumerate(given if entry and isinstance(given, list) and given else [NO_BUDGET])
    ]
    if entry is None or problems.found:
        raise problems.error
    try:
        found = tuple(attack for attack in attacks if attack is not None)
        return Sweep(attacks=found[: len(entry.epsilons)], carry=entry.carry)
    except ValueError as error:
        raise contradictions(error, OWN, value) from None


def _at_budget(value: Mapping[str, object], epsilon: object, class_of: ClassOf) -> dict[str, object]:
    """Return the mapping of the attack at a single budget."""
    fields = {name: item for name, item in value.items() if name not in OWN} | {"epsilon": epsilon}
    if isinstance(members := fields.get("members"), list):
        fields["members"] = [
            {"epsilon": epsilon, **member}
            if isinstance(member, dict) and issubclass(class_of(member), BoundedAttack)
            else member
            for member in members
        ]
    return fields


@dataclass(frozen=True, slots=True)
class _Problems:
    """Problems of several readings, each once, with the values concerned."""

    found: dict[tuple[Place, str], object] = field(default_factory=dict)

    def add(self, place: Place, message: str, value: object) -> None:
        """Add a problem."""
        self.found.setdefault((place, message), value)

    def attempt(self, read: Callable[[], T], epsilon_place: Place = ("epsilon",)) -> T | None:
        """Return the reading, or add all its problems, those of ``epsilon`` at the place of the budget."""
        try:
            return read()
        except ValidationError as error:
            for one in error.errors(include_url=False):
                place = one["loc"]
                at_budget = place[:1] == ("epsilon",)
                self.add((*epsilon_place, *place[1:]) if at_budget else place, one["msg"], one["input"])
        return None

    @property
    def error(self) -> ValidationError:
        """Return the error that contains all problems."""
        lines = [error_line(text, place, value) for (place, text), value in self.found.items()]
        return ValidationError.from_exception_data("sweep", lines)
