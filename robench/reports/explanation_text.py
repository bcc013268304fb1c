"""Renderers of explanations: text for readers, and JSON."""

from __future__ import annotations

import dataclasses
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from robench.core.inert import NOTE_WIDTH, clipped, inert_json
from robench.core.outcomes import Outcome
from robench.reports.grid import cell_text
from robench.reports.machine_readable import plain_cell
from robench.reports.markup import text_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from robench.core.flags import Flag
    from robench.core.identity import Plain
    from robench.reports.explanation import ExplainedView, Explanation

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
    header = ["condition", *(["dataset"] if several else []), "what is done", "budget", "examples", *titles]
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
        f"Right when clean and wrong under {view.name}: {_turned(view)}"
        for view in explanation.views
        if view.num_turned is not None
    ]
    yield _flags(explanation.flags)
    yield _list("Failures", explanation.failures)
    yield _list("Notes", explanation.notes)
    yield _example(explanation)


def _turned(view: ExplainedView) -> str:
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
