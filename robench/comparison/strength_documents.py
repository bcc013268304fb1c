"""Renderers of the strength of attacks: text, Markdown and JSON."""

from collections.abc import Callable, Mapping
from dataclasses import asdict

from robench.comparison.documents import NOTHING, finite
from robench.comparison.optimality import radius_of
from robench.comparison.strength import AttackStrength, Group, Strengths
from robench.core.inert import NOTE_WIDTH, clipped, inert_json
from robench.core.report import Cell
from robench.metrics.intervals import BOOTSTRAP
from robench.reports.grid import cell_text
from robench.reports.table import Table, escaped, markdown_of, text_of

_HEADER = (
    *("attack", "optimality (%)", "median distance", "forward passes", "gradients", "seconds"),
    *("alone", "nearest"),
)
_CLOSING = (
    f"Optimality with its interval ({BOOTSTRAP}), relative to the attacks of the table; passes and seconds per image; "
    "alone: images that no other attack fools; nearest: images at the smallest distance of all"
)


def tables_of(found: Strengths) -> dict[str, Table]:
    """Return the tables by title: one of each model and norm, and of several models that of their means."""
    tables = {_title(group): _table(group) for group in found.groups}
    if len({group.model for group in found.groups}) > 1:
        for norm, attacks in found.overall.items():
            rows = tuple((clipped(name), f"{100 * value:.1f}") for name, value in attacks.items())
            tables[f"All models, {norm}"] = Table(header=("attack", "global optimality (%)"), rows=rows)
    return tables


def _title(group: Group) -> str:
    count, radius = group.distances.shape[1], radius_of(group.distances)
    return clipped(f"{group.model}, {group.norm}: {count} images, R = {radius:.4g}", NOTE_WIDTH)


def _table(group: Group) -> Table:
    count = group.distances.shape[1]
    return Table(header=_HEADER, rows=tuple(tuple(_texts(each, count)) for each in group.attacks))


def _texts(row: AttackStrength, num_examples: int) -> list[str]:
    cell = Cell(estimate=row.optimality, num_examples=num_examples, missing=0, is_applicable=False)
    passes = [NOTHING if each is None else f"{each:,.1f}" for each in (row.num_queries, row.num_gradients)]
    counts = [str(row.num_alone), str(row.num_nearest)]
    return [clipped(row.name), cell_text(cell), f"{row.median:.4g}", *passes, f"{row.seconds:.3g}", *counts]


def _rendered(found: Strengths, shown: Callable[[Table], str], titled: Callable[[str], str]) -> str:
    notes = tuple(clipped(note, NOTE_WIDTH) for note in (*found.missing, *found.notes))
    parts = [f"{titled(title)}\n\n{shown(table)}" for title, table in tables_of(found).items()]
    return "\n".join([*parts, shown(Table(header=(), rows=(), notes=notes, closing=(_CLOSING,)))])


def render_json(found: Strengths) -> str:
    """Return the strengths as JSON in ASCII, numbers unrounded and proportions in [0, 1]; infinite numbers are null."""
    groups = [
        {
            **{"model": group.model, **group.norm._asdict(), "num_examples": group.distances.shape[1]},
            "radius": radius_of(group.distances),
            "attacks": [asdict(each) | {"median": finite(each.median)} for each in group.attacks],
        }
        for group in found.groups
    ]
    overall = [{**norm._asdict(), "attacks": attacks} for norm, attacks in found.overall.items()]
    document = {"suite": found.suite, "groups": groups, "overall": overall}
    return inert_json({**document, "missing": found.missing, "notes": found.notes}) + "\n"


STRENGTH_RENDERERS: Mapping[str, Callable[[Strengths], str]] = {
    "json": render_json,
    "markdown": lambda found: (
        f"# Strength of the attacks of {escaped(clipped(found.suite))}\n\n"
        + _rendered(found, markdown_of, lambda title: f"## {escaped(title)}")
    ),
    "text": lambda found: _rendered(found, text_of, str),
}
