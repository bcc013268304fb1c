"""Explanation of one model's results, with its renderers: conditions, flags, failures, and single examples."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from textwrap import wrap
from typing import Any, ClassVar

from robench.core.budgets import spelling_of
from robench.core.columns import Outcomes
from robench.core.declared import PerturbationDeclaration
from robench.core.errors import IncompleteError, UnknownNameError, UsageError
from robench.core.flags import Flag
from robench.core.identity import Plain, to_plain
from robench.core.inert import NOTE_WIDTH, clipped, inert_json
from robench.core.outcomes import Outcome
from robench.core.protocols import Store
from robench.core.rendered import Rendered
from robench.core.report import Cell, Row
from robench.core.suite import Column, Suite, View, views_of
from robench.metrics import title_of
from robench.reports.build import measured
from robench.reports.grid import cell_text
from robench.reports.machine_readable import plain_cell
from robench.reports.results import Stored
from robench.reports.selection import Coverage
from robench.reports.table import text_table
from robench.tasks import TASKS

# Examples that are named where an attack turned them.
NUM_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedView:
    """Results of one condition, at one budget of a sweep, with its settings.

    Attributes:
        name: name in keys of columns, such as ``pgd@4/255``.
        perturbation: kind of the perturbation; ``settings``: its fields that have no default, or another value.
        budget: norm and radius, such as ``linf-8/255``; empty without one.
        num_in: number of measured examples; ``num_wanted``: of all, None if it is unknown.
        turned: ids of the first examples that are right when clean and wrong here; ``num_turned``: number of all, None
            if unknown.
    """

    name: str
    dataset: str
    perturbation: str
    settings: Mapping[str, Plain]
    budget: str
    cells: Mapping[str, Cell]
    num_in: int
    num_wanted: int | None
    turned: tuple[str, ...] = ()
    num_turned: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation(Rendered):
    """Explanation of one model's results under one suite.

    Attributes:
        all_examples: whether conditions cover whole datasets in place of numbers that the suite states.
        views: conditions in the suite's order, one for each budget of a sweep.
        flags: checks of the numbers under attack, raised or not; None if nothing was checked.
        failures: name of the condition, range of examples, and error of each failed shard.
        example: id of the asked example, None if none was asked for; ``outcomes``: its outcome by the name of the view.
    """

    renderers: ClassVar[str] = "robench.reports.explanation:RENDERERS"

    model: str
    suite: str
    version: int
    seed: int
    limit: int | None
    views: tuple[ExplainedView, ...]
    combined: tuple[tuple[Column, Cell], ...]
    flags: tuple[Flag, ...] | None
    failures: tuple[str, ...]
    notes: tuple[str, ...]
    example: str | None
    outcomes: Mapping[str, Outcome]
    all_examples: bool = False


def explain(
    suite: Suite,
    store: Store,
    model: str,
    *,
    example: str | None = None,
    limit: int | None = None,
    seed: int | None = None,
) -> Explanation:
    """Return the explanation of a model's kept results; neither model nor data is needed.

    ``example`` is the id of an example whose outcomes are wanted too. Without a ``limit`` a model that was only
    measured with one is explained with the largest.

    Raises:
        UnknownNameError, IncompleteError: the model, or every model, has no results of the suite.
        UsageError: the example has no outcome.
        StoreError: a file cannot be read, or is of a later robench.
    """
    wanted_seed = suite.seed if seed is None else seed
    results = Stored(suite, store, None, wanted_seed)
    if not (known := results.models()):
        raise IncompleteError(f"there are no results of suite {suite.name!r}; measure them with 'robench run'")
    if model not in known:
        raise UnknownNameError("model with results of the suite", model, known)
    found = measured(suite, results, model, limit)
    if found.limited_to is not None:
        limit = found.limited_to
        found = measured(suite, results, model, limit)
    coverages, row = found.coverages, found.row
    views = [view for condition in suite.conditions for view in views_of(condition)]
    outcomes = {} if example is None else _outcomes_of_example(example, views, coverages)
    return Explanation(
        model=model,
        suite=suite.name,
        version=suite.version,
        seed=wanted_seed,
        limit=limit,
        views=tuple(_explained(view, suite, row, coverages) for view in views),
        combined=tuple((column, row.cells[column.key]) for column in suite.columns if len(column.conditions) > 1),
        flags=row.flags,
        failures=tuple(
            f"{failure.shard.title}: {failure.error}"
            for coverage in coverages.values()
            for failure in coverage.failures
        ),
        notes=row.notes,
        example=example,
        outcomes=outcomes,
        all_examples=suite.all_examples,
    )


def _explained(view: View, suite: Suite, row: Row, coverages: Mapping[str, Coverage]) -> ExplainedView:
    coverage, attack = coverages[view.condition.name], view.attack
    threat_model = attack.threat_model
    turned = _turned(view, suite, coverages)
    return ExplainedView(
        name=view.name,
        dataset=view.condition.dataset.name,
        perturbation="" if attack.is_clean else attack.kind,
        settings={} if attack.is_clean else _settings(attack),
        budget="" if threat_model is None else str(threat_model),
        cells={
            title_of(column): row.cells[column.key]
            for column in suite.columns
            if column.conditions == (view.name,) and column.distance is None
        },
        num_in=coverage.num_in,
        num_wanted=coverage.num_wanted,
        turned=() if turned is None else tuple(turned[:NUM_NAMED]),
        num_turned=None if turned is None else len(turned),
    )


def _settings(attack: PerturbationDeclaration) -> dict[str, Plain]:
    """Return the fields of a perturbation that have no default, or another value; budgets are distinguished."""
    plain = to_plain(attack)
    assert isinstance(plain, dict)  # a declaration is a dataclass
    values = {field.name: getattr(attack, field.name) for field in fields(attack) if field.name in plain}  # type: ignore[arg-type]
    return {
        name: spelling_of(value) if isinstance(value, Fraction) else plain[name]
        for name, value in values.items()
        if name != "epsilon"
    }


def _turned(view: View, suite: Suite, coverages: Mapping[str, Coverage]) -> Sequence[str] | None:
    """Return the ids of examples that are right when clean and wrong here; None if either is unknown."""
    verdict, dataset = TASKS[suite.task].verdict, view.condition.dataset
    clean = [each for each in suite.conditions if each.perturbation.is_clean and each.dataset == dataset]
    if verdict is None or not clean or view.attack.is_clean:
        return None
    before, after = coverages[clean[0].name], coverages[view.condition.name]
    if before.missing != 0 or after.missing != 0:
        return None
    was_right = _verdicts(before.outcomes, verdict)
    is_right = _verdicts(after.outcomes_at(view.epsilon), verdict)
    return [name for name, holds in is_right.items() if not holds and was_right.get(name)]


def _verdicts(outcomes: Outcomes, verdict: str) -> dict[str, bool]:
    return dict(zip(outcomes.ids.tolist(), outcomes.column(verdict).tolist(), strict=True))


def _outcomes_of_example(example: str, views: Sequence[View], coverages: Mapping[str, Coverage]) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    known: list[str] = []
    for view in views:
        for record in coverages[view.condition.name].records:
            outcomes = record.outcomes.at_budget(view.epsilon)
            ids: list[str] = outcomes.ids.tolist()
            known = known or ids[:NUM_NAMED]
            if example in ids:
                found[view.name] = outcomes[ids.index(example)]
    if not found:
        raise UsageError(f"no outcome of example {example!r} is kept; ids are such as {', '.join(known) or 'none'}")
    return found


_WIDTH, _DONE_WIDTH = 116, 44


def render_text(explanation: Explanation) -> str:
    """Render an explanation as tables and sentences, without colours."""
    limit = "" if explanation.limit is None else f", first {explanation.limit} examples of each condition"
    limit = ", all examples" * explanation.all_examples + limit
    title = f"{explanation.model} under {explanation.suite}, version {explanation.version}, seed {explanation.seed}"
    parts = [[clipped(title + limit, NOTE_WIDTH)], [_conditions_table(explanation)], *_sections(explanation)]
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def render_json(explanation: Explanation) -> str:
    """Render an explanation as JSON, with the numbers and flags as in reports."""
    document = {
        "model": explanation.model,
        "suite": explanation.suite,
        "version": explanation.version,
        "seed": explanation.seed,
        "limit": explanation.limit,
        "all_examples": explanation.all_examples,
        "conditions": [_plain_view(view) for view in explanation.views],
        "combined": {column.key: plain_cell(cell) for column, cell in explanation.combined},
        "flags": None if explanation.flags is None else [dataclasses.asdict(flag) for flag in explanation.flags],
        "failures": list(explanation.failures),
        "notes": list(explanation.notes),
        "example": explanation.example,
        "outcomes": {name: dataclasses.asdict(outcome) for name, outcome in explanation.outcomes.items()},
    }
    return inert_json(document) + "\n"


RENDERERS: Mapping[str, Callable[[Explanation], str]] = {"text": render_text, "json": render_json}


def _plain_view(view: ExplainedView) -> dict[str, Any]:
    fields = {field.name: getattr(view, field.name) for field in dataclasses.fields(view)}
    return fields | {"cells": {title: plain_cell(cell) for title, cell in view.cells.items()}}


def _conditions_table(explanation: Explanation) -> str:
    titles = list(dict.fromkeys(title for view in explanation.views for title in view.cells))
    datasets = {view.dataset for view in explanation.views}
    several = len(datasets) > 1
    header = ["condition", *(["dataset"] if several else []), "perturbation", "budget", "examples", *titles]
    rows = [
        [
            clipped(view.name),
            *([clipped(view.dataset)] if several else []),
            "\n".join(wrap(_done(view), _DONE_WIDTH)),
            view.budget,
            f"{view.num_in} of {'?' if view.num_wanted is None else view.num_wanted}",
            *(cell_text(view.cells[title]) if title in view.cells else "" for title in titles),
        ]
        for view in explanation.views
    ]
    return text_table(header, rows)


def _done(view: ExplainedView) -> str:
    if not view.perturbation:
        return "nothing"
    settings = ", ".join(f"{name} {_setting(value)}" for name, value in view.settings.items())
    return clipped(f"{view.perturbation}{f': {settings}' if settings else ''}", NOTE_WIDTH)


def _setting(value: Plain) -> str:
    if isinstance(value, dict):
        return f"({', '.join(f'{name} {_setting(each)}' for name, each in value.items())})"
    if isinstance(value, list):
        return f"[{', '.join(map(_setting, value))}]"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _sections(explanation: Explanation) -> Iterator[list[str]]:
    yield [
        clipped(f"{column.label}: {cell_text(cell)}, over {', '.join(column.conditions)}", NOTE_WIDTH)
        for column, cell in explanation.combined
    ]
    yield [
        f"Right when clean and wrong under {view.name}: {_turned_text(view)}"
        for view in explanation.views
        if view.num_turned is not None
    ]
    yield _flags(explanation.flags)
    yield _list("Failures", explanation.failures)
    yield _list("Notes", explanation.notes)
    yield _example(explanation)


def _turned_text(view: ExplainedView) -> str:
    count, named = view.num_turned or 0, ", ".join(map(clipped, view.turned))
    number = f"{count} example{'s' * (count != 1)}"
    return f"{number}{', such as ' if len(view.turned) < count else ', ' if named else ''}{named}"


def _flags(flags: tuple[Flag, ...] | None) -> list[str]:
    if flags is None:
        return ["Flags: not audited, so that nobody has looked for signs of an unreliable number"]
    raised = [flag for flag in flags if flag.is_raised]
    calm = [flag.name for flag in flags if not flag.is_raised]
    lines = [f"Flags: {len(raised)} of {len(flags)} raised"]
    for flag in raised:
        measured = "" if flag.value is None or flag.limit is None else f" ({flag.value:.4g}, limit {flag.limit:.4g})"
        lines += _wrapped(f"{flag.name}: {flag.finding}{measured}")
        lines += _wrapped(f"what to do: {flag.advice}", 4)
        lines += _wrapped(f"rule: {flag.source}", 4)
    return lines + (_wrapped(f"not raised: {'; '.join(dict.fromkeys(calm))}") if calm else [])


def _list(title: str, texts: tuple[str, ...]) -> list[str]:
    return [f"{title}:", *(line for text in texts for line in _wrapped(text))] if texts else []


def _wrapped(text: str, indent: int = 2) -> list[str]:
    lines = wrap(clipped(text, NOTE_WIDTH), _WIDTH - indent)
    return [f"{' ' * (indent + 2 * bool(number))}{line}" for number, line in enumerate(lines)]


def _example(explanation: Explanation) -> list[str]:
    """Return the outcomes of the asked example as a table, without columns that are empty."""
    if explanation.example is None:
        return []
    rows = {name: dataclasses.asdict(outcome) for name, outcome in explanation.outcomes.items()}
    first = next(iter(rows.values()))
    shown = [
        name
        for name in first
        if name not in ("example_id", "epsilon") and any(row[name] is not None for row in rows.values())
    ]
    # What the outcome is about comes before its distances.
    shown.sort(key=lambda name: name in _COMMON)
    header = ["condition", *(each.replace("_", " ") for each in shown)]
    values = [[clipped(name), *(_value(row[each]) for each in shown)] for name, row in rows.items()]
    return [f"Example {clipped(explanation.example)}:", text_table(header, values)]


_COMMON = frozenset(field.name for field in dataclasses.fields(Outcome))


def _value(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else clipped(str(value))
