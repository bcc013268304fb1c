"""Renderers of twins: texts for readers, JSON, CSV and LaTeX."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from robench.comparison.spread import PER_CENT
from robench.core.inert import NOTE_WIDTH, clipped, inert_json
from robench.papers.basis import Number
from robench.papers.documents import NUMBER_FIELDS, csv_number, json_number, rounded
from robench.papers.latex import latex_of_page
from robench.papers.layout import Grid
from robench.papers.notes import grouped
from robench.papers.page import NOT_MEASURED, Page, Section, basis_of, number_text, only
from robench.papers.signs import NOTHING, sign_of
from robench.papers.twins import CEILING, TwinCell, TwinTable
from robench.reports.table import csv_of


def page_of_twins(table: TwinTable) -> Page:
    """Return twins as texts."""
    numbers = [cell.ours for cell in table.cells]
    trained_on = "; ".join(table.trained_on) or "small data"
    measured = sum(number.measured is not None for number in numbers)
    return Page(
        title=clipped(f"Twins of {table.name} on small data", NOTE_WIDTH),
        source=clipped(
            f"Small models in the form of those of {table.name} ({table.title}; {table.source}), trained on"
            f" {trained_on}: other sizes and budgets. They neither support nor refute the paper.",
            2 * NOTE_WIDTH,
        ),
        sections=(_section(table),),
        closing=(*basis_of(table), f"{measured} of {len(numbers)} numbers of twins are measured."),
    )


def _section(table: TwinTable) -> Section:
    unit = only({column.unit for column in table.columns})
    of_columns = [", ".join(filter(None, ("" if unit else each.unit, each.examples))) for each in table.columns]
    facts = {
        "twin of": tuple(clipped(row.twin_of) for row in table.rows),
        "formula": tuple(clipped(only({cell.ours.formula for cell in row.cells.values()}) or "") for row in table.rows),
        "seeds": tuple(_seeds_text([cell.ours for cell in row.cells.values()]) for row in table.rows),
    }
    every = [(row.model, name) for row in table.rows for name in row.cells]
    flags = [
        ((row.model, name), clipped(", ".join(cell.ours.raised), NOTE_WIDTH))
        for row in table.rows
        for name, cell in row.cells.items()
        if cell.ours.raised
    ]
    # The commands name model and suite.
    missing = dict.fromkeys(clipped(cell.reason, NOTE_WIDTH) for cell in table.cells if cell.ours.measured is None)
    ceiling = ", ".join(column.heading for column in table.columns if column.is_at_ceiling)
    return Section(
        grid=Grid(
            corner="model",
            labels=tuple(clipped(row.model) for row in table.rows),
            headings=tuple(
                clipped(f"{each.heading} ({more})", 120) for each, more in zip(table.columns, of_columns, strict=True)
            ),
            cells=tuple(
                tuple(_cell_text(row.cells.get(column.name), table.style.digits) for column in table.columns)
                for row in table.rows
            ),
            facts={name: tuple(text or NOTHING for text in texts) for name, texts in facts.items() if any(texts)},
        ),
        paragraphs=(
            f"Cells: {f'numbers in {clipped(unit)}' if unit else 'numbers'} with 95 % intervals, over seeds if there"
            f" are several and else over examples{f'; {sign_of(NOT_MEASURED)} {NOT_MEASURED}' if missing else ''}.",
            *(
                [clipped(f"At their ceiling, every number above {CEILING:g} %: {ceiling}.", NOTE_WIDTH)]
                if ceiling
                else []
            ),
        ),
        notes=(
            *(f"raised flags: {note}" for note in grouped(flags, every)),
            *(f"{sign_of(NOT_MEASURED)} {reason}" for reason in missing),
        ),
    )


def _cell_text(cell: TwinCell | None, digits: int | None) -> str:
    if cell is None:
        return NOTHING
    number = cell.ours
    decimals = 2 if number.unit != PER_CENT and abs(number.measured or 0) < 10 else 1
    return (
        sign_of(NOT_MEASURED)
        if number.measured is None
        else number_text(number, decimals if digits is None else digits)
    )


def _seeds_text(numbers: Sequence[Number]) -> str:
    counts = sorted({number.num_seeds for number in numbers} - {0})
    named = ["one checkpoint" if count == 1 else f"{count} seeds" for count in counts]
    return " to ".join(dict.fromkeys([*named[:1], *named[-1:]]))


def twin_json(table: TwinTable) -> str:
    """Render the twins as JSON, numbers to nine decimals of the printed unit.

    ``rows`` have ``cells`` by name of the column: ``unit``, ``measured`` with its bounds ``low`` and ``high`` (null if
    undefined), ``model``, ``formula``, ``num_examples``, ``num_seeds``, ``flags`` (raised ones), ``reason`` (the
    command that measures it) and ``twin_of``, the row and column of each printed number whose counterpart it is.
    """
    document: dict[str, Any] = {
        "twins_of": table.name,
        "title": table.title,
        "source": table.source,
        "trained_on": list(table.trained_on),
        "columns": [
            {name.removeprefix("is_"): value for name, value in asdict(column).items()} for column in table.columns
        ],
        "rows": [
            {
                "model": row.model,
                "twin_of": row.twin_of,
                "cells": {
                    name: json_number(cell.ours) | {"reason": cell.reason, "twin_of": cell.twin_of}
                    for name, cell in row.cells.items()
                },
            }
            for row in table.rows
        ],
        "measured_with": {suite: dict(facts) for suite, facts in table.measured_with.items()},
    }
    return inert_json(rounded(document)) + "\n"


def twin_csv(table: TwinTable) -> str:
    """Render the twins as CSV, a line for each number."""
    header = ("twins_of", "row", "twin_of", "column", *NUMBER_FIELDS, "reason")
    lines = [
        (table.name, row.model, row.twin_of, name, *csv_number(cell.ours), cell.reason)
        for row in table.rows
        for name, cell in row.cells.items()
    ]
    return csv_of(header, ([*map(rounded, line)] for line in lines))


def twin_latex(table: TwinTable) -> str:
    """Render the twins as a tabular."""
    return latex_of_page(page_of_twins(table), table.style)
