"""Class numbers of the labels of users' tables and class folders: one rule for every format."""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from robench.core.errors import DeclarationError, MissingDataError, did_you_mean
from robench.core.inert import clipped
from robench.datasets.user import UserDataset

_NUMBER: Final = re.compile(r"[-+]?([0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})([eE][-+]?[0-9]{1,3})?")
# Longer ones are names, such as ids.
_MOST_DIGITS: Final = 18
# How programs write that a value is missing, in lower case.
_MISSING: Final = frozenset(("nan", "na", "<na>", "n/a", "null", "none", "?"))


class Numbered(NamedTuple):
    """Class numbers of the labels of each split, the number of classes of all splits, and their names or None."""

    numbers: Mapping[str, Sequence[int]]
    num_classes: int
    class_names: Sequence[str] | None


def numbered_labels(declared: UserDataset, labels: Mapping[str, Sequence[str]]) -> Numbered:
    """Return the class number of each label of each split.

    Labels that are all names of ``class_names`` are numbered in its order. Others that are all whole numbers, in any
    spelling, such as 1.0, are class numbers; otherwise they are names, which are numbered in the order of their text.
    """
    values = {label: _number(label) for label in sorted(set().union(*labels.values()))}
    stated, names = declared.num_classes, declared.class_names
    if names is not None and (places := _places(names, values)) is not None:
        return Numbered({split: [places[each] for each in some] for split, some in labels.items()}, len(names), names)
    _check_kinds(f"dataset {declared.name!r}", values, labels)
    if None not in values.values():
        numbers = {label: int(value) for label, value in values.items() if value is not None}
        num_classes = stated or max(numbers.values(), default=0) + 1
    elif names is not None:
        raise unknown_class(f"dataset {declared.name!r}", next(each for each in values if each not in names), names)
    else:
        numbers, names = {label: number for number, label in enumerate(values)}, tuple(values)
        num_classes = len(numbers)
        if stated not in (None, num_classes):
            raise DeclarationError(
                f"dataset {declared.name!r} has {num_classes} different labels, and num_classes is {stated} in its"
                " entry; names are numbered in sorted order, so both must be equal. Give class numbers as labels"
                " instead"
            )
    return Numbered({split: [numbers[each] for each in some] for split, some in labels.items()}, num_classes, names)


def _places(names: Sequence[str], values: Mapping[str, Decimal | None]) -> dict[str, int] | None:
    """Return the place of each label, given with its number, among names of classes; None if one is not there."""
    places = {name: place for place, name in enumerate(names)}
    spelled = {
        label: label if label in places or value is None or value != int(value) else str(int(value))
        for label, value in values.items()
    }
    return {label: places[name] for label, name in spelled.items()} if {*spelled.values()} <= {*places} else None


def unknown_class(title: str, name: str, names: Sequence[str]) -> DeclarationError:
    """Return the error of a class that the entry's names lack."""
    return DeclarationError(
        f"{title} has the class '{clipped(name)}', which is not in class_names of its entry.{did_you_mean(name, names)}"
        " Add it there, or correct it"
    )


def _number(label: str) -> Decimal | None:
    """Return the number that a label is in any spelling; None for a name."""
    number = Decimal(label) if _NUMBER.fullmatch(label) else None
    return number if number is not None and number.adjusted() < _MOST_DIGITS else None


def _check_kinds(title: str, values: Mapping[str, Decimal | None], labels: Mapping[str, Sequence[str]]) -> None:
    """Refuse labels that are neither class numbers nor names; ``values`` has the number of each different one."""
    of_split = {split: set(some) for split, some in labels.items()}

    def place(label: str) -> str:
        split = next(split for split, some in of_split.items() if label in some)
        return f"{title} has the label '{clipped(label)}' in its {split} split"

    names = [label for label, value in values.items() if value is None]
    partial = [label for label, value in values.items() if value is not None and value != value.to_integral_value()]
    if partial and not names:
        raise MissingDataError(
            f"{place(partial[0])}, which is a number and not a whole one; expected class numbers from 0, or names."
            " Correct it, or begin each label with a letter to make them names"
        )
    if len(names) < len(values) and all(name.lower() in _MISSING for name in names):
        if names:
            raise MissingDataError(
                f"{place(names[0])}, where all other labels are numbers; expected a class number. If the value is"
                " missing, give every example a label or leave the example out"
            )
        return
    kinds = {split: {values[label] is None for label in some} for split, some in of_split.items()}
    numbered, named = ([split for split, kind in kinds.items() if kind == {each}] for each in (False, True))
    if numbered and named:
        raise MissingDataError(
            f"{title} has numbers as labels in its {numbered[0]} split, and names such as"
            f" '{clipped(min(of_split[named[0]]))}' in its {named[0]} split; write the labels of all splits alike"
        )
