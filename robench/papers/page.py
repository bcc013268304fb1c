"""Texts of a printed table: the grid of numbers with signs, a key, grouped notes, unmeasured numbers, and claims.

All texts are printable, and not yet escaped for any format.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from robench.comparison.spread import PER_CENT
from robench.core.inert import NOTE_WIDTH, clipped
from robench.papers.basis import Number
from robench.papers.claims import JudgedClaim, summary_of
from robench.papers.layout import Grid
from robench.papers.notes import Place, generic, grouped, whereabouts
from robench.papers.signs import NOTHING, PRINT_INCONSISTENT, REMARK, key_of, sign_of
from robench.papers.table import PaperTable, TableCell, num_measured
from robench.papers.twins import TwinTable
from robench.papers.verdicts import Verdict, signed
from robench.reports.grid import ONE_CHECKPOINT

NOT_MEASURED = "not measured"
# Of places named in a line of claims; more of them are counted.
_PLACES_WIDTH = 30
# Verdicts whose reasons are below the numbers already.
_NOTED_BEFORE = (NOT_MEASURED, "no entry")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Part of a page.

    Attributes:
        heading: text above; empty for none.
        grid: table of texts; None for none.
        paragraphs: sentences below the table; ``notes``: items of a list below these.
    """

    heading: str = ""
    grid: Grid | None = None
    paragraphs: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Texts of a whole table."""

    title: str
    source: str
    sections: tuple[Section, ...]
    closing: tuple[str, ...]


def page_of(table: PaperTable) -> Page:
    """Return a table as texts."""
    measured, printed = num_measured([table])
    counted = f"{measured} of {printed} printed numbers are measured" if table.is_counted else "no results are printed"
    return Page(
        title=clipped(f"{table.name}: {table.title}", NOTE_WIDTH),
        source=clipped(table.source, NOTE_WIDTH),
        sections=(_numbers(table), *([_claims(table)] if table.claims else [])),
        closing=(
            *basis_of(table),
            *([clipped(f"No claims: {table.no_claims}.", NOTE_WIDTH)] if table.no_claims else []),
            f"{counted}.",
        ),
    )


def _numbers(table: PaperTable) -> Section:
    cells = {(row.label, name): cell for row in table.rows for name, cell in row.cells.items()}
    units = {name: {row.cells[name].ours.unit for row in table.rows if name in row.cells} for name in table.columns}
    unit = only({unit for each in units.values() for unit in each})
    of_columns = {name: only(each) or "" if unit is None else "" for name, each in units.items()}
    facts, is_by_column = facts_of(table)
    has_numbers = any(cell.difference is not None for cell in cells.values())
    shown = "printed number; ours with its 95 % interval, if measured" if has_numbers else "printed number"
    signs = key_of(name for cell in cells.values() for name in _marks(cell))
    return Section(
        grid=Grid(
            labels=tuple(clipped(row.label) for row in table.rows),
            headings=tuple(clipped(f"{name} ({each})" if each else name) for name, each in of_columns.items()),
            cells=tuple(
                tuple(
                    _cell_text(row.cells[name], unit or of_columns[name]) if name in row.cells else NOTHING
                    for name in table.columns
                )
                for row in table.rows
            ),
            facts=facts,
            has_models_in_columns=is_by_column,
        ),
        paragraphs=(clipped(f"Cells: {shown}{f', in {unit}' if unit else ''}; verdict: {signs}.", NOTE_WIDTH),),
        notes=tuple(_notes(table, cells, has_facts=bool(facts))),
    )


def _cell_text(cell: TableCell, unit: str) -> str:
    """Return a printed number, the measured one if there is any, and signs; ``unit`` is named elsewhere."""
    decimals = len(cell.printed.partition(".")[2])
    printed = clipped(cell.printed if unit == cell.ours.unit else f"{cell.printed} {cell.ours.unit}".rstrip())
    ours = f"; {number_text(cell.ours, decimals)}" if cell.difference is not None else ""
    return f"{printed}{ours} {' '.join(sign_of(name) for name in _marks(cell))}"


def _marks(cell: TableCell) -> Iterator[str]:
    """Yield the verdict, and the marks of contradictions and remarks."""
    yield cell.verdict.name
    if cell.inconsistent is not None and cell.verdict.name != PRINT_INCONSISTENT:
        yield PRINT_INCONSISTENT
    if cell.remark is not None:
        yield REMARK


def number_text(number: Number, decimals: int) -> str:
    """Return a measured number with its interval, such as ``70.51 [70.11, 70.91]``."""
    if number.measured is None:
        return NOTHING
    if number.low is None or number.high is None:
        return f"{number.measured:.{decimals}f}"
    return f"{number.measured:.{decimals}f} [{number.low:.{decimals}f}, {number.high:.{decimals}f}]"


def facts_of(table: PaperTable) -> tuple[dict[str, tuple[str, ...]], bool]:
    """Return names and formulas of the models, and whether these are in columns; nothing if they are mixed."""
    by_row = [[cell.ours for cell in row.cells.values()] for row in table.rows]
    by_column = [[row.cells[name].ours for row in table.rows if name in row.cells] for name in table.columns]
    for of_names, is_by_column in ((by_row, False), (by_column, True)):
        if all(len({number.model for number in each}) <= 1 for each in of_names):
            facts = {
                "model": tuple(_model_text(each) for each in of_names),
                "formula": tuple(clipped(only({number.formula for number in each}) or "") for each in of_names),
            }
            return {
                name: tuple(text or NOTHING for text in texts) for name, texts in facts.items() if any(texts)
            }, is_by_column
    return {}, False


def _model_text(numbers: Sequence[Number]) -> str:
    seeds = max((number.num_seeds for number in numbers), default=0)
    model = only({number.model for number in numbers}) or ""
    return clipped(f"{model} ({seeds} seeds)" if seeds > 1 else model)


def only(values: Collection[str | None]) -> str | None:
    """Return the only value; None if there are several, or none."""
    return next(iter(values)) if len(values) == 1 else None


def _notes(table: PaperTable, cells: Mapping[Place, TableCell], *, has_facts: bool) -> Iterator[str]:
    every, models = list(cells), {place: [cell.ours.model] for place, cell in cells.items() if cell.ours.model}
    for verdict in dict.fromkeys(cell.verdict.name for cell in cells.values()):
        if verdict != NOT_MEASURED:
            found = {place: reason_of(cell.verdict) for place, cell in cells.items() if cell.verdict.name == verdict}
            yield from _noted(sign_of(verdict), generic(found, models), every)
    inconsistent = {
        place: cell.inconsistent for place, cell in cells.items() if cell.verdict.name != PRINT_INCONSISTENT
    }
    yield from _noted(sign_of(PRINT_INCONSISTENT), inconsistent, every)
    yield from _noted(sign_of(REMARK), {place: cell.remark for place, cell in cells.items()}, every)
    yield from _noted("raised flags:", {place: ", ".join(cell.ours.raised) for place, cell in cells.items()}, every)
    if not has_facts:
        yield from _noted("model:", {place: cell.ours.model for place, cell in cells.items()}, every)
    missing = {place for place, cell in cells.items() if cell.verdict.name == NOT_MEASURED}
    if missing:
        where = whereabouts(missing, every)
        about = f" ({where})" if where else ""
        yield (
            f"{sign_of(NOT_MEASURED)} {len(missing)} of {len(every)} numbers are not measured{about}; to measure them:"
            f" {clipped(table.command, NOTE_WIDTH)} (--rows for some rows)"
            f"{f'; {table.hours_are}' if table.hours else ''}"
        )
    by_hours: dict[str, list[str]] = {}
    for label, text in table.hours.items():
        by_hours.setdefault(clipped(text, NOTE_WIDTH), []).append(clipped(label))
    yield from (f"{'; '.join(labels)}: {text}" for text, labels in by_hours.items())


def _noted(sign: str, texts: Mapping[Place, str | None], every: Sequence[Place]) -> Iterator[str]:
    """Yield grouped notes on the places that have a text, each after a sign."""
    shown = [(place, clipped(text, NOTE_WIDTH)) for place, text in texts.items() if text]
    yield from (f"{sign} {note}" for note in grouped(shown, every))


def reason_of(verdict: Verdict) -> str:
    """Return the reason of a verdict, with its qualification."""
    return verdict.reason if verdict.is_recipe_stated else f"recipe not stated; {verdict.reason}"


def basis_of(table: PaperTable | TwinTable) -> list[str]:
    """Return the notes of reports on a table's rows, and the releases and kinds of device behind its numbers.

    A note, such as the batch size of coupled models, names its models unless it is about all of them; suites with the
    same releases are named together.
    """
    numbers = [cell.ours for cell in table.cells]
    models: dict[str, list[str]] = {}
    for number in numbers:
        for note in number.notes:
            text = re.sub(rf"^{re.escape(number.model or '')}(@[0-9]+)?: ", "", note)
            models.setdefault(text, []).append(number.model or "")
    every = {number.model for number in numbers}
    suites: dict[str, list[str]] = {}
    for suite, facts in table.measured_with.items():
        suites.setdefault(", ".join(f"{name} {text}" for name, text in facts.items()), []).append(suite)
    return [
        *([ONE_CHECKPOINT] if any(each.num_seeds == 1 for each in numbers) else []),
        *(
            clipped(text if every == set(names) else f"{', '.join(dict.fromkeys(names))}: {text}", NOTE_WIDTH)
            for text, names in models.items()
        ),
        *(clipped(f"{', '.join(names)}: {text}", NOTE_WIDTH) for text, names in suites.items()),
    ]


def _claims(table: PaperTable) -> Section:
    """Return the claims: a line for each measured gain, and one for all other gains of a model with one verdict."""
    together: dict[tuple[str, ...], list[JudgedClaim]] = {}
    for claim in table.claims:
        key = (claim.row, claim.baseline, claim.verdict.name, claim.unit)
        together.setdefault((*key, claim.column) if claim.gain_text else key, []).append(claim)
    baseline = only({claim.baseline for claim in table.claims})
    headings = ("gain in", "printed gain", "ours", "verdict")
    lines = [_claims_line(claims, table) for claims in together.values()]
    every = [(claim.row, claim.column) for claim in table.claims]
    entries = _entries(table)
    models = {
        (claim.row, claim.column): [entries[name] for name in (claim.row, claim.baseline) if name in entries]
        for claim in table.claims
    }
    notes: list[str] = []
    for name in dict.fromkeys(claim.verdict.name for claim in table.claims):
        found = {(each.row, each.column): each.verdict.reason for each in table.claims if each.verdict.name == name}
        if name not in _NOTED_BEFORE:
            notes += _noted(sign_of(name), generic(found, models), every)
    over = f"Gains over {clipped(baseline)}" if baseline is not None else "Gains over baselines"
    return Section(
        heading=f"{over}, positive where better",
        grid=Grid(
            corner="claim of",
            labels=tuple(clipped(claims[0].row) for claims in together.values()),
            headings=headings if baseline is not None else ("over", *headings),
            cells=tuple(
                line if baseline is not None else (clipped(claims[0].baseline), *line)
                for claims, line in zip(together.values(), lines, strict=True)
            ),
        ),
        paragraphs=(
            f"Verdict: {key_of(claim.verdict.name for claim in table.claims)}.",
            summary_of(table.claims, table.num_within_rounding),
        ),
        notes=tuple(notes),
    )


def _claims_line(claims: Sequence[JudgedClaim], table: PaperTable) -> tuple[str, ...]:
    """Return the place, the printed gains or their range, the measured gain and the sign of claims with one verdict."""
    first = claims[0]
    noun = "columns" if first.column in table.columns else "rows"
    places = clipped(", ".join(claim.column for claim in claims))
    gains = sorted(claim.printed_gain for claim in claims)
    printed = " to ".join(dict.fromkeys(signed(gain) for gain in (gains[0], gains[-1])))
    unit = "points" if first.unit == PER_CENT else first.unit
    return (
        places if len(claims) == 1 or len(places) <= _PLACES_WIDTH else f"{len(claims)} {noun}",
        clipped(f"{printed} {unit}".rstrip()),
        first.gain_text or NOTHING,
        sign_of(first.verdict.name),
    )


def _entries(table: PaperTable) -> dict[str, str]:
    """Return the model of each row, and of each column, that has only one."""
    models: dict[str, set[str | None]] = {}
    for row in table.rows:
        for name, cell in row.cells.items():
            for label in (row.label, name):
                models.setdefault(label, set()).add(cell.ours.model)
    return {label: model for label, each in models.items() if (model := only(each)) is not None}
