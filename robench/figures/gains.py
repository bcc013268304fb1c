"""Differences of several models from a control, a row a model and a panel a column (a forest plot)."""

from robench.comparison import ManyToOne
from robench.comparison.many_to_one import ControlledColumn, ControlledGain
from robench.core.errors import IncompleteError
from robench.core.inert import clipped
from robench.figures.plots import IN_PER_CENT, Plot, SeedPanel, SeedRow


def gains_plot(found: ManyToOne) -> Plot:
    """Return each tested column's differences, with their intervals, and those of single training seeds.

    Raises:
        IncompleteError: no column was tested.
    """
    panels = tuple(
        SeedPanel(
            title=column.column.label,
            x_label="difference (points)" if column.unit in IN_PER_CENT else "difference",
            rows=tuple(_row(column, gain) for gain in column.gains),
            origin=0.0,
        )
        for column in found.columns
        if column.gains
    )
    if not panels:
        reasons = "; ".join(dict.fromkeys(column.why_untested for column in found.columns))
        raise IncompleteError(f"there is no difference to draw: {reasons}")
    covers = " or ".join(dict.fromkeys(column.covers for column in found.columns if column.gains))
    counts = sorted({column.control.num_examples for column in found.columns if column.gains})
    seeds = sorted({len(of) for of in found.seeds.values()})
    return Plot(
        panels=panels,
        models=found.models,
        labels=found.models,
        notes=(
            f"Differences from {clipped(found.control)}. Whiskers: 95 % over {covers}, for all models of a panel "
            "together (Dunnett).",
            f"n = {' or '.join(f'{count:,}' for count in counts)} examples, {' or '.join(map(str, seeds))} seeds.",
        ),
    )


def _row(column: ControlledColumn, gain: ControlledGain) -> SeedRow:
    factor = 100 if column.unit in IN_PER_CENT else 1
    mean, control = gain.cell.estimate, column.control.estimate
    assert mean is not None
    assert control is not None  # of a tested column
    return SeedRow(
        model=gain.model,
        seeds=tuple(factor * (value - control.value) for value in mean.of_seeds),
        mean=factor * gain.difference,
        low=factor * gain.low,
        high=factor * gain.high,
    )
