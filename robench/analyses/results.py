"""Results of an analysis: numbers on their axes, their means with intervals, and the Parquet file that keeps them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robench.analyses.base import Statistic
from robench.core.errors import StoreError, described
from robench.core.files import write_whole, writing

FOLDER = "analyses"
METADATA_KEY = b"robench"
INTERVAL = "Student's t 95 % over examples"


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Numbers of one statistic.

    Attributes:
        axes: names of the axes of ``values``: ``example`` first if each example has its own, then the declared ones.
        values: float64.
        x, y: places along these axes.
    """

    name: str
    statistic: Statistic
    axes: tuple[str, ...]
    values: NDArray[np.float64]
    x: NDArray[np.float64] | None = None
    y: NDArray[np.float64] | None = None

    def places(self, axis: str) -> NDArray[np.float64]:
        """Return the places along an axis: those of ``x`` or ``y``, or else 0, 1, ..."""
        given = {"x": self.x, "y": self.y}.get(axis)
        return np.arange(self.values.shape[self.axes.index(axis)], dtype=np.float64) if given is None else given


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """Means of a statistic over examples and heads, along the axes that are left.

    Bounds of intervals are NaN where fewer than two examples were seen, and a formula has none.
    """

    axes: tuple[str, ...]
    values: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    num_examples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysed:
    """Result of one analysis.

    Attributes:
        facts: conditions of the analysis as plain values: model, dataset, condition, versions and so on.
        examples: ids of the examples, in the order of the numbers.
    """

    facts: Mapping[str, Any]
    examples: tuple[str, ...]
    numbers: tuple[Numbers, ...]

    @property
    def title(self) -> str:
        """Return the analysis and its model, if it has one."""
        model = self.facts.get("model")
        return f"{self.facts['analysis']}" if model is None else f"{self.facts['analysis']} of {model}"


def means_of(numbers: Numbers) -> Means:
    """Return the means over heads, and over examples with the interval of Student's t."""
    values, axes = numbers.values, numbers.axes
    if "head" in axes:
        values = values.mean(axis=axes.index("head"))
        axes = tuple(axis for axis in axes if axis != "head")
    if "example" not in axes:
        missing = np.full(values.shape, np.nan)
        return Means(axes=axes, values=values, low=missing, high=missing, num_examples=0)
    count, mean = len(values), values.mean(axis=0)
    half_width = np.full(mean.shape, np.nan)
    if count > 1:
        # Imported here: it takes a tenth of a second.
        from scipy.special import stdtrit  # type: ignore[import-untyped]  # scipy has no types

        half_width = float(stdtrit(count - 1, 0.975)) * values.std(axis=0, ddof=1) / count**0.5
    return Means(axes=axes[1:], values=mean, low=mean - half_width, high=mean + half_width, num_examples=count)


def write_analysis(analysed: Analysed, path: Path) -> None:
    """Write a result as Parquet: a row for each number, with its statistic, example and places.

    Raises:
        StoreUnwritableError: the file cannot be written.
    """
    import pyarrow as pa  # type: ignore[import-untyped]  # pyarrow ships no types
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # likewise

    columns: dict[str, list[Any]] = {name: [] for name in ("statistic", "example", *_PLACES, "value")}
    for numbers in analysed.numbers:
        places = dict(zip(numbers.axes, _grid(numbers), strict=True))
        count = numbers.values.size
        columns["statistic"].append(np.full(count, numbers.name))
        index = places.pop("example", None)
        ids = np.array(["", *analysed.examples])
        columns["example"].append(ids[np.zeros(count, int) if index is None else index.astype(int) + 1])
        for axis in _PLACES:
            columns[axis].append(places.get(axis, np.full(count, np.nan)))
        columns["value"].append(numbers.values.ravel())
    facts = {
        **analysed.facts,
        "examples": list(analysed.examples),
        "statistics": {each.name: _described(each) for each in analysed.numbers},
    }
    table = pa.table({name: np.concatenate(parts) for name, parts in columns.items()})
    for name in ("statistic", "example"):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, table[name].dictionary_encode())
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata({METADATA_KEY: json.dumps(facts)}), sink, compression="zstd")
    with writing(path):
        write_whole(path, sink.getvalue().to_pybytes())


_PLACES = ("layer", "head", "x", "y")


def _grid(numbers: Numbers) -> list[NDArray[np.float64]]:
    grids = np.meshgrid(*(numbers.places(axis) for axis in numbers.axes), indexing="ij")
    return [grid.ravel() for grid in grids]


def _described(numbers: Numbers) -> dict[str, Any]:
    declared = numbers.statistic
    return {
        "meaning": declared.meaning,
        "unit": declared.unit,
        "axes": list(declared.axes),
        "labels": [declared.x, declared.y],
        "is_of_examples": declared.is_of_examples,
        "is_map": declared.is_map,
        "beside": declared.beside,
        "shape": list(numbers.values.shape),
        "places": {
            axis: list(map(float, places))
            for axis, places in (("x", numbers.x), ("y", numbers.y))
            if places is not None
        },
    }


def read_analysis(path: Path) -> Analysed:
    """Read a result that ``write_analysis`` wrote.

    Raises:
        StoreError: there is no such file, or it is another kind of file.
    """
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        facts = json.loads(table.schema.metadata[METADATA_KEY])
        names, values = np.array(table["statistic"].to_pylist()), table["value"].to_numpy()
        described_statistics = facts.pop("statistics")
        numbers = tuple(_read(name, each, values[names == name]) for name, each in described_statistics.items())
        return Analysed(examples=tuple(facts.pop("examples")), facts=facts, numbers=numbers)
    # Broad because pyarrow and a foreign file's content fail in many ways.
    except Exception as error:
        raise StoreError(
            f"{path} is not the result of an analysis ({described(error)}): name a file that 'robench analyse' wrote"
        ) from error


def _read(name: str, found: Mapping[str, Any], values: NDArray[np.float64]) -> Numbers:
    plain = {name: found[name] for name in ("meaning", "unit", "is_of_examples", "is_map", "beside")}
    x, y = found["labels"]
    statistic = Statistic(**plain, axes=tuple(found["axes"]), x=x, y=y)
    places = {axis: np.array(each) for axis, each in found["places"].items()}
    return Numbers(
        name=name,
        statistic=statistic,
        axes=axes_of(statistic),
        values=values.reshape(found["shape"]),
        x=places.get("x"),
        y=places.get("y"),
    )


def axes_of(statistic: Statistic) -> tuple[str, ...]:
    """Return the names of the axes of a statistic's numbers."""
    return (*(["example"] if statistic.is_of_examples else []), *statistic.axes)
