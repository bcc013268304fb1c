"""Lines of charts: metrics against an attack's budget or a distance, and accuracy under corruptions by severity."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from os.path import commonprefix
from typing import Any

from robench.core.budgets import Spelled
from robench.core.columns import Outcomes
from robench.core.errors import IncompleteError
from robench.core.identity import key_of, to_plain
from robench.core.suite import Condition, Suite, View, views_of
from robench.domains import DOMAINS
from robench.leaderboard.board import BoardColumn, BoardRow, Chart, Point
from robench.reports.selection import Coverage
from robench.tasks import TASKS

PROPORTION = "share"
MOST_LINES = 8
# By family, type and severity of corruption; None where examples are missing.
Accuracies = dict[tuple[str, str, int], float | None]


def chosen_lines(charts: Iterable[Chart], most: int | None = MOST_LINES) -> list[str]:
    """Return the models that charts show together, best mean first: at most ``most`` of the models with a number."""
    values: dict[str, list[float]] = {}
    for chart in charts:
        for model, points in chart.lines.items():
            found = (point.value for point in points if point.value is not None)
            values.setdefault(model, []).extend(value for value in found if isfinite(value))
    means = {model: sum(found) / len(found) for model, found in values.items() if found}
    return sorted(means, key=lambda model: -means[model])[:most]


def curves_of(suite: Suite, columns: Sequence[BoardColumn], rows: Sequence[BoardRow]) -> Iterator[Chart]:
    """Yield a chart of each metric over budgets, or over the distances of a minimum-norm attack.

    Budgets are those of a sweep, or of several conditions that differ in nothing else.
    """
    views = {view.name: view for condition in suite.conditions for view in views_of(condition)}
    names = _names_of_alike(suite.conditions)
    found: dict[tuple[str, str, str, str], list[tuple[float, str, BoardColumn]]] = {}
    for each in (column for column in columns if column.suite == suite.name):
        if each.unit == PROPORTION and (place := _place(each, views, names)) is not None:
            condition, axis, unit, x, tick = place
            found.setdefault((condition, each.metric, axis, unit), []).append((x, tick, each))
    for (condition, metric, axis, unit), several in found.items():
        ordered = sorted(several, key=lambda each: each[0])
        is_measured = any(row.cells[column.key].estimate for row in rows for _, _, column in ordered)
        if len(ordered) > 1 and is_measured:
            yield Chart(
                group=suite.name,
                title=f"{condition}: {metric}",
                x_label=axis,
                y_label=metric,
                ticks=tuple((x, tick) for x, tick, _ in ordered),
                lines={row.model: _line(row, [(x, column) for x, _, column in ordered]) for row in rows},
                x_unit=unit,
            )


def severity_accuracies(suite: Suite, coverages: Mapping[str, Coverage]) -> Accuracies:
    """Return the proportion of right examples, or of an example's right answers, for each corruption of a column."""
    right = TASKS[suite.task].right
    views = {view.name: view for condition in suite.conditions for view in views_of(condition)}
    return {
        (column.family, role.corruption, role.severity): _proportion(coverages, views[name], right)
        for column in suite.columns
        for name, role in column.reads
        if role.name == "corrupted" and right is not None
    }


def mean_of(seeds: Sequence[Accuracies]) -> Accuracies:
    """Return the means over training seeds; None where one of them has no number."""
    means: Accuracies = {}
    for place in seeds[0]:
        values = [value for each in seeds if (value := each[place]) is not None]
        means[place] = sum(values) / len(values) if len(values) == len(seeds) else None
    return means


def profiles_of(suite: Suite, accuracies: Mapping[str, Accuracies]) -> Iterator[Chart]:
    """Yield a chart of each type of corruption that is measured, of one group where they are of one family."""
    places = sorted({place for each in accuracies.values() for place in each}, key=lambda place: place[2])
    measured = [place[:2] for each in accuracies.values() for place, value in each.items() if value is not None]
    for family, corruption in dict.fromkeys(measured):
        severities = [place[2] for place in places if place[:2] == (family, corruption)]
        yield Chart(
            group=f"{suite.name}: {family}",
            title=corruption,
            x_label="severity",
            y_label="accuracy" if TASKS[suite.task].verdict else "mean accuracy of an example",
            ticks=tuple((float(severity), str(severity)) for severity in severities),
            lines={
                model: tuple(Point(x=float(each), value=of.get((family, corruption, each))) for each in severities)
                for model, of in accuracies.items()
            },
        )


def _proportion(coverages: Mapping[str, Coverage], view: View, right: Callable[[Outcomes], Any]) -> float | None:
    try:
        return float(right(coverages[view.condition.name].outcomes_at(view.epsilon)).mean())
    except IncompleteError:
        return None


def _names_of_alike(conditions: Sequence[Condition]) -> dict[str, str]:
    """Return the common beginning of the names of conditions that differ in their budgets alone, by condition."""
    groups: dict[str, list[str]] = {}
    for condition in conditions:
        fields = to_plain(condition.perturbation)
        if isinstance(fields, dict) and fields.pop("epsilon", None) is not None:
            key = key_of([fields, condition.dataset.name, condition.num_examples])
            groups.setdefault(key, []).append(condition.name)
    return {
        name: commonprefix(alike).rstrip("-_0") or alike[0]  # noqa: RUF071  # names, not paths
        for alike in groups.values()
        if len(alike) > 1
        for name in alike
    }


def _place(
    column: BoardColumn, views: Mapping[str, View], names: Mapping[str, str]
) -> tuple[str, str, str, float, str] | None:
    """Return the condition, its axis with its unit, the place on it and its label; None of columns without a budget."""
    distance = column.column.distance
    view = views[column.column.conditions[0]]
    if distance is not None:
        axis = f"distance, {distance.norm}"
        return (
            view.condition.name,
            axis,
            _unit_in(view.condition, "input"),
            float(distance.value),
            distance.value.spelling if isinstance(distance.value, Spelled) else f"{float(distance.value):g}",
        )
    threat_model = view.attack.threat_model
    name = names.get(view.condition.name) if view.epsilon is None else view.condition.name
    if len(column.column.conditions) != 1 or name is None or threat_model is None:
        return None
    axis, unit = f"budget, {threat_model.norm}", _unit_in(view.condition, threat_model.space)
    return name, axis, unit, float(threat_model.epsilon), threat_model.epsilon_text


def _unit_in(condition: Condition, space: str) -> str:
    """Return the unit of budgets in a space, such as ``pixel units``."""
    domain = DOMAINS.get(condition.dataset.domain)
    return f"{(domain.unit if space == 'input' and domain is not None else '') or space} units"


def _line(row: BoardRow, places: Iterable[tuple[float, BoardColumn]]) -> tuple[Point, ...]:
    points = []
    for x, column in places:
        estimate = row.cells[column.key].estimate
        points.append(
            Point(x=x, value=None)
            if estimate is None
            else Point(x=x, value=estimate.value, low=estimate.low, high=estimate.high)
        )
    return tuple(points)
