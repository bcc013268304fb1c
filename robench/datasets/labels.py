"""Class numbers of the labels of users' tables and class folders: one rule for every format."""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

from robench.core.errors import DeclarationError, MissingDataError
from robench.core.inert import clipped
from robench.datasets.user import UserDataset

_NUMBER: Final = re.compile(r"[-+]?([0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})([eE][-+]?[0-9]{1,3})?")
# Longer ones are names, such as ids.
_MOST_DIGITS: Final = 18
# How programs write that a value is missing, in lower case.
_MISSING: Final = frozenset(("nan", "na", "<na>", "n/a", "null", "none", "?"))


def numbered_labels(declared: UserDataset, labels: Mapping[str, Sequence[str]]) -> tuple[dict[str, list[int]], int]:
    """Return the class number of each label of each split, and the number of classes of all splits.

    Labels that are all whole numbers, in any spelling, such as 1.0, are class numbers; otherwise they are names, which
    are numbered in the order of their text.

    Raises:
        MissingDataError: numbers are not whole, are beside missing values, or are those of one split, and another one
            has names.
        DeclarationError: the entry states another number of classes than there are names.
    """
    values = {label: _number(label) for label in sorted(set().union(*labels.values()))}
    _check_kinds(f"dataset {declared.name!r}", values, labels)
    stated = declared.num_classes
    if None not in values.values():
        numbers = {label: int(value) for label, value in values.items() if value is not None}
        num_classes = stated or max(numbers.values(), default=0) + 1
    else:
        numbers = {label: number for number, label in enumerate(values)}
        num_classes = len(numbers)
        if stated not in (None, num_classes):
            raise DeclarationError(
                f"dataset {declared.name!r} has {num_classes} different labels, and num_classes is {stated} in its"
                " entry; names are numbered in sorted order, so both must be equal. Give class numbers as labels"
                " instead"
            )
    return {split: [numbers[label] for label in some] for split, some in labels.items()}, num_classes


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
