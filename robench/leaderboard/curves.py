"""Lines of charts: metrics against an attack's budget or a distance, and accuracy under corruptions by severity."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from os.path import commonprefix
from typing import Any

from robench.core.budgets import Spelled
from robench.core.columns import Outcomes
from robench.core.declared import PerturbationDeclaration
from robench.core.errors import IncompleteError
from robench.core.identity import key_of
from robench.core.suite import Condition, Suite, View
from robench.declare.columns import clean_beside, num_examples_of
from robench.domains import DOMAINS
from robench.leaderboard.board import BoardColumn, BoardRow, Chart, Point
from robench.reports.build import views_by_name
from robench.reports.selection import Coverage
from robench.tasks import TASKS

PROPORTION = "share"
MOST_LINES = 8
# Name, metric, axis and unit.
_Curve = tuple[str, str, str, str]
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

    Budgets are those of a sweep, or of conditions that differ in the budget and in steps proportional to it alone.
    The number on the same clean examples is the point at 0.
    """
    for (curve, metric, axis, unit), several in _curves(suite, columns).items():
        is_measured = any(row.cells[column.key].estimate for row in rows for _, _, column in several)
        if len(several) < 2 or not is_measured:
            continue
        clean = None if any(x == 0 for x, _, _ in several) else _clean_column(suite, several[0][2], columns)
        ordered = [*([(0.0, "0", clean)] if clean else []), *sorted(several, key=lambda each: each[0])]
        yield Chart(
            group=suite.name,
            title=f"{curve}: {metric}",
            x_label=axis,
            y_label=metric,
            ticks=tuple((x, tick) for x, tick, _ in ordered),
            lines={row.model: _line(row, [(x, column) for x, _, column in ordered]) for row in rows},
            x_unit=unit,
            columns=tuple(column.key for _, _, column in ordered),
        )


def left_out_of(suite: Suite, columns: Sequence[BoardColumn], charts: Sequence[Chart]) -> tuple[str, ...]:
    """Return the conditions with a budget, and metrics over several, that no chart has, each with the reason."""
    views = views_by_name(suite)
    drawn = {key for chart in charts for key in chart.columns}
    found: dict[str, None] = {}
    for (curve, *_), several in _curves(suite, columns).items():
        for _, _, column in several:
            view = views[column.column.conditions[0]]
            if column.key not in drawn:
                reason = "no number" if len(several) > 1 else _why_alone(view.attack, views.values())
                found[f"{view.condition.name} ({reason})"] = None
        clean = clean_beside(view, suite.conditions)
        if len(several) > 1 and clean is not None and not _is_point_at_zero(clean.condition, view.condition):
            found[f"{clean.name} beside {curve} (not the same inputs)"] = None
    over_several = (each for each in _proportions(suite, columns) if len(each.column.conditions) > 1)
    for each in over_several:
        if any(views[name].attack.threat_model for name in each.column.conditions):
            found[f"{each.metric} (over several conditions)"] = None
    return tuple(found)


def lengths_of(suite: Suite, columns: Sequence[BoardColumn], rows: Sequence[BoardRow]) -> Iterator[Chart]:
    """Yield a chart of each metric over the steps or queries of conditions that are one attack but for their number."""
    views, groups = views_by_name(suite), dict[str, list[tuple[int, BoardColumn]]]()
    for each in _proportions(suite, columns):
        view = views[each.column.conditions[0]]
        is_measured_at = not view.attack.is_minimum_norm or each.column.distance is not None
        if len(each.column.conditions) == 1 and is_measured_at and view.attack.length is not None:
            field, number, rest = view.attack.length
            alike = [field, rest, each.column.metric, str(each.column.distance), *_examples_of(view.condition)]
            groups.setdefault(key_of(alike), []).append((number, each))
    found = [sorted(each, key=lambda each: each[0]) for each in groups.values() if len(dict(each)) > 1]
    titles = [_length_title([column for _, column in several]) for several in found]
    for several, title in zip(found, titles, strict=True):
        first, last = several[0][1], several[-1][1]
        if not any(row.cells[column.key].estimate for row in rows for _, column in several):
            continue
        field, *_ = views[first.column.conditions[0]].attack.length or ("",)
        yield Chart(
            group=suite.name,
            title=title if titles.count(title) == 1 else f"{first.label} to {last.label}",
            x_label=field.replace("num_", "number of "),
            y_label=first.metric,
            ticks=tuple((float(number), str(number)) for number, _ in several),
            lines={row.model: _line(row, several) for row in rows},
            columns=tuple(column.key for _, column in several),
            is_logarithmic=True,
        )


def grades_of(suite: Suite, columns: Sequence[BoardColumn], rows: Sequence[BoardRow]) -> Iterator[Chart]:
    """Yield a chart of each metric over the strengths of one perturbation, from the clean examples at 0."""
    views, groups = views_by_name(suite), dict[tuple[str, str, tuple[Any, ...]], list[tuple[float, BoardColumn]]]()
    cleans: dict[tuple[Any, ...], BoardColumn] = {}
    for each in (each for each in columns if each.suite == suite.name and len(each.column.conditions) == 1):
        view = views[each.column.conditions[0]]
        alike = each.column.metric, *_examples_of(view.condition)
        if view.attack.is_clean:
            cleans.setdefault(alike, each)
        elif (grade := view.attack.grade) is not None:
            name, axis, place = grade
            groups.setdefault((name, axis, alike), []).append((place, each))
    datasets = {alike[1] for _, _, alike in groups}
    for (name, axis, alike), several in groups.items():
        clean = None if any(place == 0 for place, _ in several) else cleans.get(alike)
        ordered = sorted([*([(0.0, clean)] if clean else []), *several], key=lambda each: each[0])
        if any(row.cells[column.key].estimate for row in rows for _, column in several):
            yield Chart(
                group=suite.name,
                title=f"{ordered[-1][1].metric}: {name}" + (f" on {alike[1]}" if len(datasets) > 1 else ""),
                x_label=axis,
                y_label=ordered[-1][1].metric,
                ticks=tuple((place, f"{place:g}") for place, _ in ordered),
                lines={row.model: _line(row, ordered) for row in rows},
                columns=tuple(column.key for _, column in ordered),
                unit=several[0][1].unit,
            )


def _length_title(columns: Sequence[BoardColumn]) -> str:
    distance = columns[0].column.distance
    name = _common_name([column.column.conditions[0] for column in columns])
    return f"{name}: {columns[0].metric}" + ("" if distance is None else f" {distance}")


def severity_accuracies(suite: Suite, coverages: Mapping[str, Coverage]) -> Accuracies:
    """Return the proportion of right examples, or of an example's right answers, for each corruption of a column."""
    right = TASKS[suite.task].right
    views = views_by_name(suite)
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


def _proportions(suite: Suite, columns: Iterable[BoardColumn]) -> list[BoardColumn]:
    return [each for each in columns if each.suite == suite.name and each.unit == PROPORTION]


def _curves(suite: Suite, columns: Iterable[BoardColumn]) -> dict[_Curve, list[tuple[float, str, BoardColumn]]]:
    """Return places, labels and columns by curve; a condition of its own is a curve of a single place."""
    views, names = views_by_name(suite), _names_of_curves(suite.conditions)
    found: dict[_Curve, list[tuple[float, str, BoardColumn]]] = {}
    for each in _proportions(suite, columns):
        if (place := _place(each, views, names)) is not None:
            curve, axis, unit, x, tick = place
            found.setdefault((curve, each.metric, axis, unit), []).append((x, tick, each))
    return found


def _clean_column(suite: Suite, column: BoardColumn, columns: Iterable[BoardColumn]) -> BoardColumn | None:
    """Return the column of the same metric on the same examples, clean; None if the suite lacks it."""
    attack = views_by_name(suite)[column.column.conditions[0]]
    clean = clean_beside(attack, suite.conditions)
    if clean is None or not _is_point_at_zero(clean.condition, attack.condition):
        return None
    # At distance 0, accuracy at a distance is the task's own accuracy.
    metric = TASKS[suite.task].metric if column.column.distance else column.column.metric
    wanted = ((clean.name,), metric)
    found = _proportions(suite, columns)
    return next((each for each in found if (each.column.conditions, each.column.metric) == wanted), None)


def _is_point_at_zero(clean: Condition, attack: Condition) -> bool:
    """Return whether the clean inputs are those of an attack at budget 0: an attack may clip them to other limits."""
    return attack.perturbation.clip != "unit" and _examples_of(clean) == _examples_of(attack)


def _why_alone(attack: PerturbationDeclaration, views: Iterable[View]) -> str:
    others = (each.attack for each in views if each.attack != attack)
    is_same = any(attack.is_same_at_another_budget(other) for other in others)
    return "steps not in proportion to those at other budgets" if is_same else "no other budget"


def _examples_of(condition: Condition) -> tuple[str, int | None, int]:
    return condition.dataset.name, num_examples_of(condition), condition.num_predictions


def _names_of_curves(conditions: Sequence[Condition]) -> dict[str, str]:
    """Return the name of the curve of each condition that is one of several: different curves have different names."""
    groups: dict[str, list[str]] = {}
    for condition in conditions:
        if (per_budget := condition.perturbation.per_budget) is not None:
            groups.setdefault(key_of([per_budget, *_examples_of(condition)]), []).append(condition.name)
    curves = [(_common_name(alike), alike) for alike in groups.values() if len(alike) > 1]
    taken = Counter(name for name, _ in curves) + Counter(condition.name for condition in conditions)
    return {
        member: name if name and taken[name] == 1 + alike.count(name) else f"{alike[0]} to {alike[-1]}"
        for name, alike in curves
        for member in alike
    }


def _common_name(names: Sequence[str]) -> str:
    """Return the common beginning of names, without the beginning of a number that differs."""
    common = commonprefix(names)  # noqa: RUF071  # names, not paths
    if any(name[len(common) :][:1].isdigit() for name in names):
        common = common.rstrip("0123456789.")
    return common.rstrip("-_.@")


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
    if len(column.column.conditions) != 1 or threat_model is None:
        return None
    name = names.get(view.condition.name, view.condition.name)
    where = "" if threat_model.support is None else f" in {threat_model.support}"
    axis, unit = f"budget, {threat_model.norm}{where}", _unit_in(view.condition, threat_model.space)
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
