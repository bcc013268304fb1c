"""Plots before they are drawn: the numbers are the leaderboard's, and what is missing or left out is there."""

from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest
from figure_examples import board, history, shift
from leaderboard_examples import TYPES, adv_suite, fill
from presence import present

from robench.core.errors import IncompleteError, UsageError
from robench.core.report import Cell, Estimate
from robench.figures import (
    budget_plot,
    corruption_plot,
    episode_plot,
    queries_plot,
    seeds_plot,
    training_plot,
    with_panels,
)
from robench.figures import plots as panels_module
from robench.figures.plots import LinePanel
from robench.leaderboard import leaderboard_of
from robench.leaderboard.board import Chart, Point
from robench.leaderboard.curves import MOST_LINES, curves_of, lengths_of
from robench.runs.watched import Watched
from robench.store import MemoryStore
from robench.training.base import ValidationScores


def empty():
    return leaderboard_of([shift()], MemoryStore())


class TestBudget:
    def test_a_model_without_a_number_is_left_out_and_named(self) -> None:
        plot = budget_plot(board(), all_models=True)
        assert "rpc" not in plot.models
        assert "rpc" in {row.model for row in board().rows}
        assert plot.left_out == ("rpc",)

    def test_a_gap_stays_one(self) -> None:
        chart = board().curves[0]
        first, *others = chart.lines["vit"]
        lines = {**chart.lines, "vit": (first, Point(x=others[0].x, value=None), *others[1:])}
        plot = budget_plot(replace(board(), curves=(replace(chart, lines=lines),)), all_models=True)
        series = {series.model: series for series in plot.panels[0].series}
        assert [point.value is None for point in series["vit"].points] == [False, True, False, False]
        assert plot.left_out == ("rpc",)

    def test_named_models_are_all_drawn_in_their_order(self) -> None:
        names = tuple(row.model for row in board().rows if row.model != "rpc")
        assert budget_plot(board(), all_models=True).models == names

    def test_else_the_best_are_drawn_and_the_others_are_named(self) -> None:
        row, chart = board().rows[0], board().curves[0]
        names = [f"m{number:02d}" for number in range(MOST_LINES + 2)]
        lines = {name: (Point(x=0.0, value=place / 20), Point(x=1.0, value=0.0)) for place, name in enumerate(names)}
        many = replace(
            board(), rows=tuple(replace(row, model=name) for name in names), curves=(replace(chart, lines=lines),)
        )
        plot = budget_plot(many, all_models=False)
        assert plot.models == tuple(reversed(names[2:]))
        assert plot.left_out == tuple(names[:2])
        assert len(budget_plot(many, all_models=True).models) == MOST_LINES + 2

    def test_several_suites_are_named_in_titles(self) -> None:
        plot = budget_plot(board(several=True), all_models=True)
        assert [panel.title for panel in plot.panels] == [
            "shift: sweep: top-1 accuracy",
            "shift-2: sweep: top-1 accuracy",
            "adv: pgd: top-1 accuracy",
        ]

    def test_distances_of_a_minimum_norm_attack_are_an_axis_as_written(self) -> None:
        attack = {"kind": "cw", "num_steps": 2, "num_search_steps": 1, "initial_c": 1, "learning_rate": 0.01}
        conditions = [{"name": "clean"}, {"name": "cw", "perturbation": attack, "distances": ["8/255", 0.5, 1]}]
        suite = adv_suite(conditions=conditions, metrics=["accuracy_at_distance"])
        columns = leaderboard_of([suite], MemoryStore()).columns
        estimates = [Estimate(value=value, low=None, high=None, num_examples=9) for value in (0.75, 0.5, 0.25)]
        cells = {
            column.key: Cell(estimate=each, num_examples=9, missing=0)
            for column, each in zip(columns, estimates, strict=True)
        }
        rows = (replace(board().rows[0], model="vit", cells=cells),)
        curves = tuple(curves_of(suite, columns, rows))
        (panel,) = budget_plot(replace(board(), columns=columns, rows=rows, curves=curves), all_models=True).panels
        assert panel.x_label == "distance, l2 (pixel units)"
        assert panel.ticks == ((8 / 255, "8/255"), (0.5, "0.5"), (1.0, "1"))
        assert [point.value for point in panel.series[0].points] == [75, 50, 25]

    def test_without_a_sweep_there_is_nothing_to_draw(self) -> None:
        with pytest.raises(IncompleteError, match=r"no attack at several budgets or distances of .* Not drawn: fgsm"):
            budget_plot(leaderboard_of([adv_suite()], MemoryStore()), all_models=False)


class TestNotes:
    def test_whiskers_are_of_examples(self) -> None:
        notes = budget_plot(board(), all_models=True).notes
        assert notes[0] == "Whiskers: Wilson 95 % over examples."
        assert notes[1:] == ("n = 120 examples a number.", "shift, version 2.")

    def test_or_of_seeds(self) -> None:
        averaged = board(average_seeds=True)
        only = replace(averaged, rows=tuple(row for row in averaged.rows if row.seeds))
        assert budget_plot(only, all_models=True).notes[0] == "Whiskers: Student's t 95 % over training seeds."

    def test_or_of_both(self) -> None:
        (first, *_) = budget_plot(board(average_seeds=True), all_models=True).notes
        assert first == "Whiskers: Student's t 95 % over training seeds; of one checkpoint, Wilson 95 % over examples."

    def test_profiles_have_none(self) -> None:
        assert not any("Whiskers" in note for note in corruption_plot(board(), all_models=True).notes)

    def test_a_limit_is_said(self) -> None:
        store = MemoryStore()
        fill(store, adv_suite(batches_per_shard=1), {"vit": 0.5}, limit=40)
        notes = seeds_plot(leaderboard_of([adv_suite(batches_per_shard=1)], store, limit=40)).notes
        assert "First 40 examples of each condition." in notes

    def test_raised_flags_are_said(self) -> None:
        notes = seeds_plot(board(several=True)).notes
        assert notes[-1].startswith("Flags are raised for rpc: smaller budget beats larger; symvit: zero gradients, ")

    def test_a_coupled_model_has_its_batch_size(self) -> None:
        rows = tuple(replace(row, batch_size=20 if row.model == "vit" else None) for row in board().rows)
        plot = budget_plot(replace(board(), rows=rows), all_models=True)
        assert dict(zip(plot.models, plot.labels, strict=True))["vit"] == "vit (batch size 20)"
        assert dict(zip(plot.models, plot.labels, strict=True))["symvit"] == "symvit"


class TestCorruptions:
    def test_means_over_seeds_are_one_line(self) -> None:
        plot = corruption_plot(board(average_seeds=True), all_models=True)
        assert "vit" in plot.models
        assert "vit@1" not in plot.models


class TestSeeds:
    def plot(self):
        return seeds_plot(board(average_seeds=True))

    def test_what_is_missing_is_said_in_its_place(self) -> None:
        gaps = {panel.title: row.gap for panel in self.plot().panels for row in panel.rows if row.model == "rpc"}
        assert gaps["clean top-1 accuracy"] == ""
        assert gaps["digits-c mean error"] == "— (60 of 120 missing)"
        assert not any(row.seeds for panel in self.plot().panels for row in panel.rows if row.gap)

    def test_what_is_infinite_is_text_and_other_units_stay(self) -> None:
        column = replace(board().columns[0], unit="pixels", metric="median distance (pixels)")
        values = {"rpc": inf, "vit": 2.5}
        rows = tuple(
            replace(
                row,
                cells={
                    column.key: Cell(
                        estimate=Estimate(value=values[row.model], low=None, high=None, num_examples=9, unit="pixels"),
                        num_examples=9,
                        missing=0,
                    )
                },
            )
            for row in board().rows
            if row.model in values
        )
        (panel,) = seeds_plot(replace(board(), columns=(column,), rows=rows)).panels
        assert panel.x_label == "median distance (pixels)"
        assert {row.model: (row.seeds, row.gap) for row in panel.rows} == {"rpc": ((), "inf"), "vit": ((2.5,), "")}


class TestTraining:
    def test_one_training_is_one_line_a_panel(self) -> None:
        plot = training_plot([history()])
        assert [panel.title for panel in plot.panels] == ["training loss", "validation loss", "validation accuracy"]
        assert [panel.y_label for panel in plot.panels] == ["loss (nats)", "loss (nats)", "top-1 accuracy (%)"]
        assert {tuple(point.x for point in panel.series[0].points) for panel in plot.panels} == {(1, 2, 3)}
        values = [[point.value for point in panel.series[0].points] for panel in plot.panels]
        assert values == [[2.0, 1.0, 0.5], [2.25, 1.25, 0.75], [10.0, 50.0, 75.0]]
        assert [panel.is_per_cent for panel in plot.panels] == [False, False, True]
        assert plot.notes == ("Trained and validated on digits (n = 8).",)

    def test_seeds_are_thin_lines_and_their_mean(self) -> None:
        plot = training_plot([history("a"), history("b"), history("a@1", (4.0, 3.0, 1.5))])
        assert plot.models == ("a", "b")
        assert plot.labels == ("a (2 seeds)", "b")
        series = plot.panels[0].series
        assert [(each.model, each.is_seed) for each in series] == [("a", True), ("a", True), ("a", False), ("b", False)]
        assert [point.value for point in series[2].points] == [3.0, 2.0, 1.0]
        assert plot.notes[0] == "Thin lines: training seeds; thick lines: their means."

    def test_an_unfinished_seed_ends_the_mean(self) -> None:
        plot = training_plot([history("a"), history("a@1", (4.0,), (0.5,))])
        mean = plot.panels[0].series[2]
        assert [point.value for point in mean.points] == [3.0, None, None]

    def test_without_validation_there_is_the_loss(self) -> None:
        plot = training_plot([history(accuracies=(None, None, None))])
        assert [panel.title for panel in plot.panels] == ["training loss"]

    def test_language_models_have_no_panel_of_accuracy(self) -> None:
        found = history()
        epochs = tuple(
            replace(each, validation=ValidationScores(top1_accuracy=None, loss_nats=each.loss_nats, num_examples=9))
            for each in found.epochs
        )
        plot = training_plot([replace(found, epochs=epochs)])
        assert [panel.title for panel in plot.panels] == ["training loss", "validation loss"]
        assert [point.value for point in plot.panels[1].series[0].points] == [2.0, 1.0, 0.5]

    def test_a_loss_that_is_no_number_is_a_gap(self) -> None:
        plot = training_plot([history(losses=(2.0, nan, inf))])
        assert [point.value for point in plot.panels[0].series[0].points] == [2.0, None, None]

    def test_nothing_but_gaps_is_refused(self) -> None:
        with pytest.raises(IncompleteError, match="no epoch of these training histories has a finite loss"):
            training_plot([history(losses=(nan, inf), accuracies=(None, None))])


class TestPanels:
    def plot(self):
        return corruption_plot(board(), all_models=True)

    def test_no_text_is_all_of_them(self) -> None:
        assert with_panels(self.plot(), ()) == self.plot()

    def test_texts_choose_in_the_plots_order(self) -> None:
        assert [panel.title for panel in with_panels(self.plot(), ("noise",)).panels] == ["gaussian_noise"]
        assert [panel.title for panel in with_panels(self.plot(), ("contrast", "gauss")).panels] == list(TYPES)

    def test_too_many_panels_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(panels_module, "MOST_PANELS", 1)
        with pytest.raises(UsageError, match="2 panels are too many for one figure; choose at most 1 with --panel"):
            with_panels(self.plot(), ())
        assert len(with_panels(self.plot(), ("noise",)).panels) == 1

    def test_too_many_models_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(panels_module, "MOST_MODELS", 4)
        with pytest.raises(UsageError, match="5 models are too many for one figure; name at most 4"):
            with_panels(self.plot(), ())


LENGTHS = [
    {"name": "clean", "num_examples": 120},
    *(
        {
            "name": f"pgd-{steps}{'' if epsilon == 4 else '-large'}",
            "num_examples": 120,
            "perturbation": {
                "kind": "pgd", "epsilon": f"{epsilon}/255", "relative_step": "1/4", "num_steps": steps,
            },
        }
        for epsilon, steps in ((4, 100), (4, 10), (8, 10), (8, 20))
    ),
    *(
        {
            "name": f"rays-{number}",
            "num_examples": 120,
            "distances": ["8/255", "1/8"],
            "perturbation": {"kind": "rays", "num_queries": number, "tolerance": tolerance},
        }
        for number, tolerance in ((50, 0.01), (500, 0.01), (60, 0.02))
    ),
]  # fmt: skip


def test_numbers_of_queries_and_steps_are_an_axis_of_attacks_that_are_otherwise_the_same() -> None:
    """A panel an attack, budget and distance; the numbers are the table's, and rays-60 has another tolerance."""
    suite = adv_suite(conditions=LENGTHS, metrics=["top1_accuracy", "accuracy_at_distance"], audit=False)
    columns = leaderboard_of([suite], MemoryStore()).columns
    cells = {
        column.key: Cell(
            estimate=Estimate(value=place / 20, low=place / 30, high=place / 10, num_examples=9),
            num_examples=9,
            missing=0,
        )
        for place, column in enumerate(columns)
    }
    rows = (replace(board().rows[0], model="vit", cells=cells),)
    lengths = tuple(lengths_of(suite, columns, rows))
    plot = queries_plot(replace(board(), columns=columns, rows=rows, lengths=lengths), all_models=True)
    wanted = {
        "pgd-10 top-1 accuracy to pgd-100 top-1 accuracy": (
            "steps", {10: "pgd-10/top1_accuracy", 100: "pgd-100/top1_accuracy"},
        ),
        "pgd-10-large top-1 accuracy to pgd-20-large top-1 accuracy": (
            "steps", {10: "pgd-10-large/top1_accuracy", 20: "pgd-20-large/top1_accuracy"},
        ),
        **{
            f"rays: accuracy at distance linf {value:g}": (
                "queries", {number: f"rays-{number}@linf {value:g}/accuracy_at_distance" for number in (50, 500)},
            )
            for value in (8 / 255, 1 / 8)
        },
    }  # fmt: skip
    assert sorted(panel.title for panel in plot.panels) == sorted(wanted)
    for panel in plot.panels:
        unit, keys = wanted[panel.title]
        assert panel.is_logarithmic
        assert panel.x_label == f"number of {unit}"
        (series,) = panel.series
        for point, (x, key) in zip(series.points, keys.items(), strict=True):
            estimate = cells[f"adv/{key}"].estimate
            assert estimate is not None
            numbers = (100 * present(each) for each in (estimate.value, estimate.low, estimate.high))
            assert (point.x, point.value, point.low, point.high) == pytest.approx((x, *numbers))


def test_a_chart_without_a_unit_has_its_name_alone() -> None:
    chart = Chart(
        group="g", title="t", x_label="severity", y_label="y", ticks=((1.0, "1"),), lines=board().profiles[0].lines
    )
    plot = corruption_plot(replace(board(), profiles=(chart,)), all_models=True)
    assert plot.panels[0].x_label == "severity"


def test_an_episode_is_a_panel_for_each_observation_with_lines_of_what_was_seen() -> None:
    states, returns = np.array([[0.0, 1.0], [2.0, 3.0]]), np.array([0.0, -1.0, -3.0])
    clean = Watched(condition="clean", states=states, seen=states, returns=returns)
    noisy = replace(clean, condition="noise", seen=states + 0.5)
    plot = episode_plot([clean, noisy])
    assert plot.labels == ("clean", "noise", "noise, as seen")
    assert [panel.title for panel in plot.panels] == ["observation 0", "observation 1", "return so far"]
    found = {
        (panel.title, line.model): [point.value for point in line.points]
        for panel in plot.panels
        if isinstance(panel, LinePanel)
        for line in panel.series
    }
    assert found["observation 1", "noise"] == [1.0, 3.0]
    assert found["observation 1", "noise, as seen"] == [1.5, 3.5]
    assert found["return so far", "noise"] == [0.0, -1.0, -3.0]
    assert ("return so far", "noise, as seen") not in found
