"""Model cards for the Hugging Face Hub: metadata with the complete numbers of a model, and a page about them.

The metadata follow https://github.com/huggingface/hub-docs/blob/main/modelcard.md: ``model-index`` has a result for
each task and dataset, with a metric for each column of a suite, and values as robench has them, proportions in [0, 1].
Names, licences and findings are texts of others: quoted in YAML, escaped in Markdown.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

import yaml

from robench.core.inert import NOTE_WIDTH, clipped, printable
from robench.core.report import Cell
from robench.core.suite import Suite
from robench.leaderboard.board import BoardColumn, BoardRow, Leaderboard
from robench.leaderboard.tables import linked, measured_on, provenance_lines
from robench.reports.build import views_by_name
from robench.reports.grid import cell_text
from robench.reports.table import Table, escaped, markdown_table
from robench.tasks import TASKS

Metadata = dict[str, object]
# Identifiers of the Hub; all others are "other" there, with a name.
_LICENCES = frozenset(
    [
        *("apache-2.0", "mit", "bsd-2-clause", "bsd-3-clause", "cc0-1.0", "cc-by-4.0", "cc-by-sa-4.0", "cc-by-nc-4.0"),
        *("cc-by-nc-sa-4.0", "gpl-2.0", "gpl-3.0", "lgpl-3.0", "agpl-3.0", "mpl-2.0", "openrail"),
    ]
)
_UNSTATED = ("", "not stated")
_FACTS = ("architecture", "family", "attention", "training_data", "paper", "code", "weights", "source", "licence")
_TITLES = {"training_data": "trained on"}
_INTERVALS = "Numbers have 95 % intervals in brackets. Proportions are in per cent; in the metadata they are in [0, 1]."


@dataclass(frozen=True, slots=True)
class CardSuite:
    """Results of one model under one suite.

    Attributes:
        board: leaderboard of the suite with the model's row alone.
        command: command that measures it again.
    """

    suite: Suite
    board: Leaderboard
    command: str

    @property
    def row(self) -> BoardRow:
        """Row of the model."""
        return self.board.rows[0]

    def cells(self) -> Iterator[tuple[BoardColumn, Cell, bool]]:
        """Yield each column with its cell, and whether it is a finite number."""
        for column in self.board.columns:
            cell = self.row.cells[column.key]
            yield column, cell, cell.estimate is not None and isfinite(cell.estimate.value)


def render_card(model: str, trained_on: str | None, suites: Sequence[CardSuite]) -> str:
    """Return the model card of a model as Markdown with metadata; ``suites`` is not empty.

    ``trained_on`` is the name of its training dataset, if the registry states one.
    """
    front = yaml.safe_dump(
        _metadata(model, trained_on, suites), sort_keys=False, allow_unicode=False, width=100_000, line_break="\n"
    )
    blocks = [
        f"---\n{front}---",
        f"# {_text(model)}",
        *_about(suites),
        "## Results",
        _INTERVALS,
        *(block for each in suites for block in _results(each)),
        *_missing(suites),
        "## Masked gradients",
        *_flags(suites),
        "## Measuring it again",
        "```sh\n" + "\n".join(printable(each.command) for each in suites) + "\n```",
    ]
    return "\n\n".join(blocks) + "\n"


def _text(text: str) -> str:
    return escaped(clipped(text, NOTE_WIDTH))


def _metadata(model: str, trained_on: str | None, suites: Sequence[CardSuite]) -> Metadata:
    entry = suites[0].row.entry
    metadata: Metadata = {}
    if entry is not None and entry.licence not in _UNSTATED:
        known = entry.licence.lower() in _LICENCES
        metadata["license"] = entry.licence.lower() if known else "other"
        metadata |= {} if known else {"license_name": _tag(entry.licence)}
    words = () if entry is None else (entry.family, entry.attention)
    metadata["tags"] = list(dict.fromkeys(filter(None, map(_tag, ("robustness", "robench", *words)))))
    if trained_on is not None:
        metadata["datasets"] = [clipped(trained_on)]
    results: dict[tuple[str, str], Metadata] = {}
    for each in suites:
        for column, cell, is_complete in each.cells():
            if is_complete:
                _add_metric(results, each, column, cell)
    if results:
        metadata["model-index"] = [{"name": clipped(model), "results": list(results.values())}]
    return metadata


def _add_metric(results: dict[tuple[str, str], Metadata], of: CardSuite, column: BoardColumn, cell: Cell) -> None:
    """Add a number to the result of its task and dataset."""
    views = views_by_name(of.suite)
    measured = [name for name, role in column.column.reads if role.name == "measured"] or list(column.column.conditions)
    dataset = views[measured[0]].condition.dataset
    task = TASKS[of.suite.task]
    result = results.setdefault(
        (task.hub_type(dataset.domain), dataset.name),
        {
            "task": {"type": task.hub_type(dataset.domain), "name": task.title},
            "dataset": {
                "type": clipped(dataset.name),
                "name": clipped(dataset.name),
                "split": clipped(dataset.evaluation_split),
            },
            "metrics": [],
        },
    )
    assert cell.estimate is not None
    metrics = result["metrics"]
    assert isinstance(metrics, list)
    scope = f"{_scope(of)}, {cell.estimate.num_examples} examples"
    unit = " per cent" if column.unit in ("share", "ratio") else ""
    interval = "" if cell.estimate.low is None else "95 % interval; "
    name = f"{of.suite.name}: {column.label}, {cell_text(cell)}{unit} ({interval}{scope})"
    metrics.append(
        {"type": clipped(column.column.metric), "value": cell.estimate.value, "name": clipped(name, NOTE_WIDTH)}
    )


def _scope(of: CardSuite) -> str:
    """Return the scope of a row, such as ``seed 0, mean over 3 training seeds``."""
    row = of.row
    seeds = f"mean over {len(row.seeds)} training seeds" if row.seeds else "one checkpoint"
    limit = [] if row.limit is None else [f"first {row.limit} examples"]
    batch = [] if row.batch_size is None else [f"batch size {row.batch_size}"]
    return ", ".join([f"seed {of.board.suites[0].seed}", seeds, *limit, *batch])


def _tag(text: str) -> str:
    """Return a text in the form of tags: lower case, digits, dots and hyphens."""
    return re.sub(r"[^a-z0-9.]+", "-", text[:80].lower()).strip("-.")


def _about(suites: Sequence[CardSuite]) -> Iterator[str]:
    row = suites[0].row
    if row.entry is None:
        yield "No registry that was read describes this model."
    else:
        facts = {_TITLES.get(name, name): getattr(row.entry, name) for name in _FACTS}
        yield "\n".join(f"- {title}: {linked(text)}" for title, text in facts.items() if text not in _UNSTATED)
    digests = dict.fromkeys(
        each.weights_digest for of in suites for found in of.row.measured.values() for each in found
    )
    if digests:
        yield "Weights that were measured (SHA-256): " + ", ".join(f"`{digest}`" for digest in digests) + "."


def _results(of: CardSuite) -> Iterator[str]:
    described = of.board.suites[0]
    yield f"### {_text(described.title)}"
    if described.description:
        yield _text(described.description.strip())
    measured = measured_on(of.row)
    yield _text(f"Measured{f' {measured}' if measured else ''}: {_scope(of)}.")
    lines = (
        (column.label, column.metric, cell_text(cell), str(cell.estimate.num_examples if cell.estimate else "—"))
        for column, cell, _ in of.cells()
    )
    rows = tuple(tuple(map(clipped, line)) for line in lines)
    yield markdown_table(Table(header=("number", "metric", "value", "examples"), rows=rows, num_names=2))
    if notes := dict.fromkeys((*described.notes, *of.row.notes)):
        yield "\n".join(f"- {_text(note)}" for note in notes)
    yield _text("; ".join(provenance_lines(of.board)))


def _missing(suites: Sequence[CardSuite]) -> Iterator[str]:
    """Yield the section of numbers that the metadata lack, if there are any."""
    lines = [
        f"- {_text(f'{each.suite.name}: {column.label}')}: {_text(cell_text(cell))}"
        for each in suites
        for column, cell, is_complete in each.cells()
        if not is_complete
    ]
    if lines:
        yield "## Missing"
        yield "Not all examples are measured, or the number is not finite; the metadata leave these out."
        yield "\n".join(lines)


def _flags(suites: Sequence[CardSuite]) -> Iterator[str]:
    flags = list(dict.fromkeys(flag for of in suites for flag in of.row.flags or ()))
    if not flags:
        yield "Not audited: no flag was looked for."
        return
    raised = [flag for flag in flags if flag.is_raised]
    quiet = dict.fromkeys(flag.name for flag in flags if not flag.is_raised)
    for flag in raised:
        yield f"- **{_text(flag.name)}** is raised: {_text(f'{flag.finding}; {flag.advice} (rule: {flag.source})')}"
    if not raised:
        yield "No flag is raised."
    if quiet:
        yield f"Checked and not raised: {_text(', '.join(quiet))}."
