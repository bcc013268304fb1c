"""Reliability diagrams: bins, accuracies and whiskers of kept outcomes, and what is left out."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from leaderboard_examples import adv_suite, fill

from robench.core.columns import Values
from robench.core.errors import IncompleteError, UsageError
from robench.core.records import Record
from robench.declare import find_suite
from robench.figures import reliability_plot
from robench.figures.plots import LinePanel, Plot
from robench.metrics.intervals import wilson_interval
from robench.reports.results import Given
from robench.store import MemoryStore

SUITE = adv_suite()


def confident(record: Record) -> Record:
    """Return a record with confidences of 20 to 100 % that differ between examples."""
    numbers = np.array([int(name.split("-")[1]) for name in record.outcomes.ids])
    return replace(record, outcomes=record.outcomes.replaced(confidence=Values(0.2 + 0.8 * (numbers * 37 % 101) / 101)))


def results(*, without: str = "") -> list[Record]:
    """Return results of two models; of the one named, conditions with a budget have no confidences."""
    store = MemoryStore()
    fill(store, SUITE, {"vit": 0.5, "symvit": 0.7})
    found = []
    for record in store.records(lambda shard: True):
        if record.shard.checkpoint == without and record.shard.budget is not None:
            found.append(replace(record, outcomes=record.outcomes.replaced(confidence=None)))
        else:
            found.append(confident(record))
    return found


def plot_of(records: Sequence[Record]) -> Plot:
    return reliability_plot(SUITE, Given(SUITE, records, None, SUITE.seed), ["vit", "symvit"])


def test_points_are_bins_of_the_outcomes() -> None:
    records = results()
    plot = plot_of(records)
    assert plot.models == ("vit", "symvit")
    assert [panel.title for panel in plot.panels] == [condition.name for condition in SUITE.conditions]
    (clean, *_) = plot.panels
    assert isinstance(clean, LinePanel)
    assert clean.has_diagonal
    pairs = [
        (row.confidence, row.correct_top1)  # type: ignore[attr-defined]  # of classification
        for record in records
        if record.shard.checkpoint == "vit" and record.shard.condition == "clean"
        for row in record.outcomes
    ]
    edges = [each / 15 for each in range(16)]
    wanted = []
    for low, high in pairwise(edges):
        of_bin = [(c, right) for c, right in pairs if low < c <= high]
        if len(of_bin) >= 10:
            right = sum(right for _, right in of_bin)
            numbers = (
                sum(c for c, _ in of_bin) / len(of_bin),
                right / len(of_bin),
                *wilson_interval(right, len(of_bin)),
            )
            wanted.append(tuple(100 * each for each in numbers))
    found = [(point.x, point.value, point.low, point.high) for point in clean.series[0].points]
    assert len(found) >= 3
    assert found == [pytest.approx(each) for each in wanted]


def test_conditions_without_confidences_and_with_missing_examples_are_left_out() -> None:
    records = [each for each in results(without="vit") if (each.shard.condition, each.shard.start) != ("noise", 0)]
    lines = {panel.title: [line.model for line in panel.series] for panel in plot_of(records).panels}  # type: ignore[union-attr]
    assert lines["clean"] == ["vit", "symvit"]
    assert ["symvit"] in lines.values()
    assert "noise" not in lines


def test_nothing_to_draw_and_other_tasks_say_so() -> None:
    store = MemoryStore()
    with pytest.raises(IncompleteError, match="no condition of adv has results with confidences"):
        plot_of(list(store.records(lambda shard: True)))
    other = find_suite("masks-adv")
    with pytest.raises(UsageError, match="suite 'masks-adv' is of segmentation, whose outcomes have no confidence"):
        reliability_plot(other, Given(other, [], None, 0), ["vit"])
