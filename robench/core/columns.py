"""Columns of outcomes: numpy arrays that carry results from the task's rules to the metrics."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from robench.core.errors import ContractError
from robench.core.outcomes import Outcome


@dataclass(frozen=True, slots=True)
class Field:
    """Name of a column, Python type of its values (``tuple``: lists of integers), and whether some may be missing."""

    name: str
    type: type
    optional: bool


# Lists of integers are arrays of objects, each an array of int64.
_DTYPES: Mapping[type, Any] = {
    str: np.dtypes.StringDType(),
    bool: np.bool_,
    int: np.int64,
    float: np.float64,
    tuple: np.object_,
}
# Types that a column accepts without changing a value: numpy alone would turn 1.5 into the integer 1.
_TAKEN: Mapping[type, tuple[type, ...]] = {
    str: (str,),
    bool: (bool,),
    int: (int,),
    float: (float, int),
    tuple: (tuple, list),
}


_FIELDS: dict[type[Outcome], Mapping[str, Field]] = {}


def fields_of(row_type: type[Outcome]) -> Mapping[str, Field]:
    """Return the fields of an outcome by name, in the order of their declaration.

    Raises:
        TypeError: a field is not a str, bool, int, float or tuple[int, ...].
    """
    if row_type not in _FIELDS:
        hints = typing.get_type_hints(row_type)
        _FIELDS[row_type] = {name: _field(row_type, name, hint) for name, hint in hints.items()}
    return _FIELDS[row_type]


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Values of one column and a mask of the missing ones (None if none is missing)."""

    array: NDArray[Any]
    missing: NDArray[np.bool_] | None = None

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Return a mask of the missing values, also if there are none."""
        return np.zeros(len(self.array), np.bool_) if self.missing is None else self.missing

    def take(self, index: slice | NDArray[Any]) -> Values:
        """Return the values at ``index``."""
        return Values(self.array[index], None if self.missing is None else self.missing[index])

    @classmethod
    def joined(cls, parts: Sequence[Values]) -> Values:
        """Concatenate several columns."""
        if len(parts) == 1:
            return parts[0]
        where = np.concatenate([each.mask for each in parts])
        return cls(np.concatenate([each.array for each in parts]), where if where.any() else None)


class Outcomes(Sequence[Outcome]):
    """Outcomes of examples in dataset order; those of a sweep at several budgets are adjacent.

    Columns whose values are all missing take no memory. As a sequence it contains rows, which are created on access.
    ``columns`` are values by name of a field of ``row_type``, all of this length; fields that are left out are missing
    everywhere.

    Raises:
        ContractError: a column belongs to no field, has a different length, or lacks required values.
    """

    __slots__ = ("_columns", "_length", "row_type")

    def __init__(self, row_type: type[Outcome], columns: Mapping[str, Values], length: int) -> None:
        declared = fields_of(row_type)
        if strangers := sorted(columns.keys() - declared.keys()):
            raise ContractError(f"{', '.join(strangers)} are not fields of {row_type.__name__}")
        self.row_type = row_type
        self._length = length
        self._columns: dict[str, Values] = {}
        for name, field in declared.items():
            # Values that are all missing are left out.
            if (values := columns.get(name)) is not None and (values.missing is None or not values.missing.all()):
                self._columns[name] = _typed(field, values, length)
            if not field.optional and length and (values is None or values.missing is not None):
                raise ContractError(f"{name} must be {_wanted(field)}, got None")

    @classmethod
    def of(cls, rows: Iterable[Outcome], row_type: type[Outcome] | None = None) -> Outcomes:
        """Convert rows to columns; ``row_type`` is required if there may be no rows.

        Raises:
            ContractError: rows are of different types, or a value does not fit its field.
        """
        listed = list(rows)
        row_type = row_type or (type(listed[0]) if listed else Outcome)
        if strangers := sorted({type(row).__name__ for row in listed if type(row) is not row_type}):
            raise ContractError(f"outcomes must all be {row_type.__name__}, got {', '.join(strangers)}")
        columns = {
            name: column_of(field, [getattr(row, name) for row in listed])
            for name, field in fields_of(row_type).items()
        }
        return cls(row_type, columns, len(listed))

    @classmethod
    def joined(cls, parts: Sequence[Outcomes]) -> Outcomes:
        """Concatenate several outcomes. Raises ContractError: there are none, or they belong to different tasks."""
        kinds = {part.row_type for part in parts}
        if len(kinds) != 1:
            raise ContractError(f"outcomes of one task are needed, got {sorted(kind.__name__ for kind in kinds)}")
        if len(parts) == 1:
            return parts[0]
        row_type, length = parts[0].row_type, sum(map(len, parts))
        names = dict.fromkeys(name for part in parts for name in part._columns)
        return cls(row_type, {name: _concatenated(name, parts) for name in names}, length)

    def column(self, name: str) -> NDArray[Any]:
        """Return the values of a field, one per row.

        Raises:
            ContractError: outcomes of this task have no such field, or it is missing in a row.
        """
        values = self.values(name)
        if values is not None and values.missing is None:
            return values.array
        if not self._length:
            return np.empty(0, _DTYPES[fields_of(self.row_type)[name].type])
        first = 0 if values is None or values.missing is None else int(values.missing.argmax())
        raise ContractError(f"the outcome of example {self.ids[first]!r} has no {name}")

    def values(self, name: str) -> Values | None:
        """Return the values of a field, or None if all are missing.

        Raises:
            ContractError: outcomes of this task have no such field.
        """
        if name not in fields_of(self.row_type):
            where = f"{self.row_type.__name__} (example {self.ids[0]!r})" if self._length else self.row_type.__name__
            raise ContractError(f"{name} is not a field of {where}; choose a metric of the suite's own task")
        return self._columns.get(name)

    def known(self, name: str) -> NDArray[np.bool_]:
        """Return a mask of the values that are not missing."""
        values = self.values(name)
        return np.zeros(self._length, np.bool_) if values is None else ~values.mask

    def filled(self, name: str, otherwise: Any) -> NDArray[Any]:
        """Return the values of a field, with another one where they are missing."""
        values = self.values(name)
        if values is None:
            return np.full(self._length, otherwise)
        return values.array if values.missing is None else np.where(values.missing, otherwise, values.array)

    @property
    def ids(self) -> NDArray[Any]:
        """Return the ids of the examples."""
        return self.column("example_id")

    def take(self, index: slice | NDArray[Any]) -> Outcomes:
        """Return a subset of the rows, selected by slice, indices or boolean mask."""
        columns = {name: values.take(index) for name, values in self._columns.items()}
        length = len(range(self._length)[index]) if isinstance(index, slice) else len(np.arange(self._length)[index])
        return Outcomes(self.row_type, columns, length)

    def at_budget(self, epsilon: str | None) -> Outcomes:
        """Return the rows of one budget of a sweep; all rows if ``epsilon`` is None."""
        known, budgets = self.known("epsilon"), self.values("epsilon")
        if budgets is None:
            return self if epsilon is None else self.take(known)
        return self.take(~known if epsilon is None else known & (budgets.array == epsilon))

    def replaced(self, **columns: Values | None) -> Outcomes:
        """Return the same rows with some columns replaced; a column given as None is missing everywhere."""
        kept = {name: values for name, values in self._columns.items() if name not in columns}
        given = {name: values for name, values in columns.items() if values is not None}
        return Outcomes(self.row_type, kept | given, self._length)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Outcome: ...
    @overload
    def __getitem__(self, index: slice) -> Outcomes: ...
    def __getitem__(self, index: int | slice) -> Outcome | Outcomes:
        if isinstance(index, slice):
            return self.take(index)
        place = range(self._length)[index]
        return next(iter(self.take(slice(place, place + 1))))

    def __iter__(self) -> Iterator[Outcome]:
        names = list(fields_of(self.row_type))
        lists = [self._listed(name) for name in names]
        for row in zip(*lists, strict=True):
            yield self.row_type(**dict(zip(names, row, strict=True)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Outcomes) or (self.row_type, len(self)) != (other.row_type, len(other)):
            return False
        names = fields_of(self.row_type)
        return not len(self) or all(_are_equal(self._columns.get(name), other._columns.get(name)) for name in names)

    __hash__ = None  # type: ignore[assignment]  # arrays can be changed

    def __repr__(self) -> str:
        return f"Outcomes({self.row_type.__name__}, {[*self]!r})"

    def _listed(self, name: str) -> list[Any]:
        values = self._columns.get(name)
        if values is None:
            return [None] * self._length
        pairs = zip(values.array.tolist(), values.mask.tolist(), strict=True)
        if values.array.dtype == np.object_:
            return [None if is_missing else tuple(value.tolist()) for value, is_missing in pairs]
        return [None if is_missing else value for value, is_missing in pairs]


def column_of(field: Field, values: Sequence[Any]) -> Values:
    """Convert Python values to a column; None means missing. Raises ContractError: a value does not fit the field."""
    taken = _TAKEN[field.type]
    for value in values:
        if value is None:
            fits = field.optional
        else:
            fits = isinstance(value, taken) and (field.type is bool or not isinstance(value, bool))
            fits = fits and (field.type is not float or float(value) == value or value != value)
            fits = fits and (field.type is not tuple or all(type(each) is int for each in value))
        if not fits:
            kind = "" if value is None else f" of type {type(value).__name__}"
            raise ContractError(f"{field.name} must be {_wanted(field)}, got {value!r}{kind}")
    missing = np.array([value is None for value in values], np.bool_)
    filler = field.type()
    filled = [filler if value is None else value for value in values]
    try:
        array = lists_of(filled) if field.type is tuple else np.array(filled, _DTYPES[field.type])
    except (OverflowError, UnicodeError) as error:
        raise ContractError(f"{field.name} must be {_wanted(field)}: {error}") from error
    return Values(array, missing if missing.any() else None)


def lists_of(values: Sequence[Sequence[int] | NDArray[np.int64]]) -> NDArray[np.object_]:
    """Return the array (N,) of a column of lists of integers, each an array of int64."""
    array = np.empty(len(values), np.object_)
    for place, value in enumerate(values):
        array[place] = np.asarray(value, np.int64)
    return array


def _concatenated(name: str, parts: Sequence[Outcomes]) -> Values:
    def column_in(part: Outcomes) -> Values:
        values = part._columns.get(name)
        if values is not None:
            return values
        dtype = _DTYPES[fields_of(part.row_type)[name].type]
        return Values(np.zeros(len(part), dtype), np.ones(len(part), np.bool_))

    return Values.joined([column_in(part) for part in parts])


def _are_equal(first: Values | None, second: Values | None) -> bool:
    """Return whether two columns of the same field hold the same values; NaN equals NaN, and 0.0 is not -0.0."""
    if first is None or second is None:
        # A column that is missing everywhere is left out.
        return first is second
    if not np.array_equal(first.mask, second.mask):
        return False
    one, other = (each.array[~each.mask] for each in (first, second))
    if one.dtype == np.object_:
        return all(map(np.array_equal, one, other))
    if one.dtype != np.float64:
        return np.array_equal(one, other)
    is_nan = np.isnan(one)
    return np.array_equal(is_nan, np.isnan(other)) and np.array_equal(
        one[~is_nan].view(np.int64), other[~is_nan].view(np.int64)
    )


def _typed(field: Field, values: Values, length: int) -> Values:
    dtype = np.dtype(_DTYPES[field.type])
    if len(values.array) != length or not np.can_cast(values.array.dtype, dtype, "safe"):
        raise ContractError(
            f"{field.name} must have {length} values of {dtype}, got {len(values.array)} of {values.array.dtype}"
        )
    missing = values.missing if values.missing is not None and values.missing.any() else None
    return Values(values.array.astype(dtype, copy=False), missing)


def _wanted(field: Field) -> str:
    name = "a list of integers" if field.type is tuple else field.type.__name__
    return f"{name} or None" if field.optional else name


def _field(row_type: type[Outcome], name: str, hint: object) -> Field:
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    wanted = [tuple if option == tuple[int, ...] else option for option in options if option is not type(None)]
    if len(wanted) != 1 or wanted[0] not in _DTYPES or tuple in options:
        raise TypeError(
            f"{row_type.__name__}.{name} must be str, bool, int, float or tuple[int, ...], or one of them and None"
        )
    return Field(name, wanted[0], optional=len(options) > 1)
