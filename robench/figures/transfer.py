"""Plot of a transfer: the accuracy of each target on the examples of each source, as a map of colours and numbers."""

from math import nan

from robench.core.errors import IncompleteError
from robench.core.inert import clipped
from robench.core.report import Report
from robench.figures.plots import IN_PER_CENT, MapPanel, Plot
from robench.metrics import METRICS


def transfer_plot(report: Report) -> Plot:
    """Return the matrix of ``robench transfer``: a row per target, a column per source after that of clean examples.

    Raises:
        IncompleteError: no cell has a number.
    """
    estimates = [[row.cells[column.key].estimate for column in report.columns] for row in report.rows]
    units = {each.unit: each for row in estimates for each in row if each is not None}
    if not units:
        raise IncompleteError(f"there is nothing to draw: no cell of {clipped(report.suite)} has a number")
    factor = 100 if units.keys() <= set(IN_PER_CENT) else 1
    title = METRICS[report.columns[-1].metric].title
    panel = MapPanel(
        title=report.suite,
        x_label="attacked model",
        y_label="target",
        x=tuple(map(float, range(len(report.columns)))),
        y=tuple(map(float, range(len(report.rows)))),
        values=tuple(tuple(factor * each.value if each else nan for each in row) for row in estimates),
        label=f"{title} (%)" if factor == 100 else title,
        x_names=tuple(column.label.removeprefix("from ") for column in report.columns),
        y_names=tuple(row.title for row in report.rows),
    )
    counts = sorted({each.num_examples for row in estimates for each in row if each})
    return Plot(panels=(panel,), models=(), labels=(), notes=(f"n = {' or '.join(map(str, counts))} examples.",))
