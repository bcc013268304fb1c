"""Headline of a table: what was measured on what, and which models differ from the first one for sure."""

from robench.comparison.compare import compare_models, some_of
from robench.core.inert import clipped
from robench.core.protocols import Store
from robench.core.report import Report, Row
from robench.core.suite import Suite

# More are for a leaderboard.
MOST_OTHERS = 6


def headline_of(report: Report, suite: Suite, store: Store, *, limit: int | None, seed: int | None) -> str:
    """Return two sentences on a table of ``store``; the second compares a few complete models with the first one.

    The tests are those of ``compare_models`` under the same ``limit`` and ``seed``. Other precisions than float32 are
    not compared.
    """
    rows = report.rows
    num_examples = max((cell.num_examples for row in rows for cell in row.cells.values()), default=0)
    data = some_of(list(dict.fromkeys(clipped(each.dataset.name) for each in suite.conditions)))
    conditions = some_of([clipped(each.name) for each in suite.conditions])
    models = f"{len(rows)} model{'s' * (len(rows) != 1)}"
    measured = f"{models} on {num_examples} examples of {data}: {conditions}."
    complete = [row for row in rows if row.precision is None and all(_is_known(row, key) for key in row.cells)]
    if not 2 <= len(complete) <= 1 + MOST_OTHERS:
        return measured
    first, *others = complete
    found = []
    for other in others:
        seeds = (first.seeds, other.seeds) if first.seeds and other.seeds else None
        comparison = compare_models([suite], store, first.model, other.model, limit=limit, seed=seed, seeds=seeds)
        found.append(comparison.better_in or f"{clipped(other.model)} does not differ from {clipped(first.model)}")
    tested = f"(at 5 %, p times {len(suite.columns)} columns; other pairs: robench compare)"
    return f"{measured} Beside {clipped(first.model)}: {'; '.join(found)} {tested}."


def _is_known(row: Row, key: str) -> bool:
    return row.cells[key].estimate is not None
