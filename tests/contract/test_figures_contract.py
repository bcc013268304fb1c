"""What matplotlib is given: points, whiskers and texts are the plot's, and all fit into the figure."""

from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import nan

import matplotlib
import pytest
from figure_examples import board, history, outside, points_of, same, texts_of, tick_labels, whiskers_of
from hostile_texts import HOSTILE
from matplotlib.colors import to_rgb

from robench.figures import Plot, budget_plot, corruption_plot, seeds_plot, training_plot, with_panels
from robench.figures.draw import drawn
from robench.figures.plots import LinePanel, MapPanel, SeedPanel, SeedRow, Series
from robench.figures.style import (
    COLOURS,
    DASHES,
    MARKERS,
    NAME_WIDTH,
    SETTINGS,
    SIZE,
    legible,
    legible_names,
    looks_of,
    settings,
    style_of,
)
from robench.leaderboard.board import Point

NAMES = {**HOSTILE, "mathtext": "$x^2$", "broken mathtext": r"$\frac{$", "hidden": "_name", "tex": r"\alpha\n"}


def line_plot(*names: str, title: str = "t", ticks=((0.0, "0"), (1.0, "1")), notes: tuple[str, ...] = ()) -> Plot:
    points = (Point(x=0.0, value=50.0, low=40.0, high=60.0), Point(x=1.0, value=25.0))
    panel = LinePanel(
        title=title,
        x_label="x",
        y_label="y (%)",
        ticks=ticks,
        series=tuple(Series(model=str(place), points=points) for place, _ in enumerate(names)),
        is_per_cent=True,
    )
    models = tuple(str(place) for place, _ in enumerate(names))
    return Plot(panels=(panel,), models=models, labels=names, notes=notes)


def seed_plot(*names: str) -> Plot:
    rows = tuple(
        SeedRow(model=str(place), seeds=(40.0, 50.0), mean=45.0, low=30.0, high=60.0) for place, _ in enumerate(names)
    )
    models = tuple(str(place) for place, _ in enumerate(names))
    return Plot(panels=(SeedPanel(title="t", x_label="x (%)", rows=rows),), models=models, labels=names)


def test_a_named_map_has_its_numbers_in_its_cells() -> None:
    names = ("a", "b $x^2$"), ("target", NAMES["broken mathtext"])
    panel = MapPanel(
        title="t", x_label="x", y_label="y", x=(0.0, 1.0), y=(0.0, 1.0), values=((4.0, 43.25), (nan, 100.0)),
        label="l", x_names=names[0], y_names=names[1],
    )  # fmt: skip
    figure = drawn(Plot(panels=(panel,), models=(), labels=()))
    axes = figure.axes[0]
    cells = {each.get_position(): each.get_text() for each in axes.texts}
    assert cells == {(0.0, 0.0): "4.0", (1.0, 0.0): "43.2", (0.0, 1.0): "-", (1.0, 1.0): "100.0"}
    assert [each.get_text() for each in axes.get_xticklabels()] == list(names[0])
    assert [each.get_text() for each in axes.get_yticklabels()] == list(names[1])
    assert not outside(figure)


class TestLines:
    def test_points_and_whiskers_are_the_boards(self) -> None:
        """Read from the board itself, and not from the plot."""
        plot = budget_plot(board(), all_models=True)
        (axes,), (chart,) = drawn(plot).axes, board().curves
        assert len(axes.containers) == len(plot.models) == 4
        for model, container in zip(plot.models, axes.containers, strict=True):
            points = chart.lines[model]
            x, y = points_of(container)
            assert same(x, [point.x for point in points])
            assert same(y, [100 * point.value for point in points])
            ends = whiskers_of(container)
            assert same([low for low, _ in ends], [100 * point.low for point in points])
            assert same([high for _, high in ends], [100 * point.high for point in points])

    def test_profiles_are_the_boards_and_have_no_whiskers(self) -> None:
        plot = corruption_plot(board(average_seeds=True), all_models=True)
        figure = drawn(plot)
        for axes, chart in zip(figure.axes, board(average_seeds=True).profiles, strict=True):
            for model, container in zip(plot.models, axes.containers, strict=True):
                _, y = points_of(container)
                assert same(y, [nan if point.value is None else 100 * point.value for point in chart.lines[model]])
                assert not container.has_yerr
        assert {axes.get_title() for axes in figure.axes} == {"gaussian_noise", "contrast"}

    def test_a_gap_is_nan_and_has_no_whisker(self) -> None:
        panel = line_plot("m").panels[0]
        gap = Point(x=2.0, value=None)
        series = replace(panel.series[0], points=(*panel.series[0].points, gap))
        plot = replace(line_plot("m"), panels=(replace(panel, series=(series,)),))
        (container,) = drawn(plot).axes[0].containers
        assert same(points_of(container)[1], [50, 25, nan])
        assert same(whiskers_of(container)[0], (40, 60))
        assert same(whiskers_of(container)[1], (nan, nan))

    def test_budgets_are_labelled_as_written_at_their_places(self) -> None:
        (axes,) = drawn(budget_plot(board(), all_models=True)).axes
        assert tick_labels(axes) == ["0", "2/255", "4/255", "8/255"]
        assert same(axes.get_xticks(), [0, 2 / 255, 4 / 255, 8 / 255])
        assert axes.get_xlabel() == "budget, linf (pixel units)"
        assert axes.get_ylabel() == "top-1 accuracy (%)"

    def test_labels_that_would_touch_are_left_out_but_not_the_ends(self) -> None:
        ticks = tuple((place / 64, f"{place}/255") for place in range(65))
        axes = drawn(line_plot("m", ticks=ticks)).axes[0]
        shown = [text for text in tick_labels(axes) if text]
        assert (shown[0], shown[-1]) == ("0/255", "64/255")
        assert 4 <= len(shown) <= 12
        assert len(axes.get_xticks()) == 65
        figure = axes.figure
        with settings():
            figure.draw_without_rendering()
        boxes = [text.get_window_extent() for text in axes.get_xticklabels() if text.get_text()]
        assert all(left.x1 < right.x0 for left, right in pairwise(boxes)), boxes

    def test_one_place_alone_is_labelled(self) -> None:
        assert tick_labels(drawn(line_plot("m", ticks=((0.5, "1/2"),))).axes[0]) == ["1/2"]

    def test_per_cent_goes_from_0_to_100(self) -> None:
        axes = drawn(line_plot("m")).axes[0]
        assert list(axes.get_yticks()) == [0, 25, 50, 75, 100]
        low, high = axes.get_ylim()
        assert low < 0
        assert high > 100

    def test_labels_of_equal_axes_stand_once_a_line_and_others_each(self) -> None:
        figure = drawn(corruption_plot(board(), all_models=True))
        assert [axes.get_ylabel() for axes in figure.axes] == ["accuracy (%)", ""]
        figure = drawn(training_plot([history()]))
        assert [axes.get_ylabel() for axes in figure.axes] == ["loss (nats)", "", "top-1 accuracy (%)"]

    def test_a_grid_has_no_empty_axes(self) -> None:
        panel = line_plot("m").panels[0]
        for count, in_a_column, on_a_page in ((1, 1, 1), (3, 2, 1), (7, 4, 2)):
            for width, rows in ((3.25, in_a_column), (6.75, on_a_page)):
                figure = drawn(replace(line_plot("m"), panels=(panel,) * count), width)
                assert len(figure.axes) == count
                assert len({round(axes.get_subplotspec().rowspan.start) for axes in figure.axes}) == rows

    def test_training_curves_are_thin_lines_and_a_mean_above_them(self) -> None:
        plot = training_plot([history("a", (2.0, 1.0, 0.5)), history("a@1", (4.0, 3.0, 1.5))])
        axes = drawn(plot).axes[0]
        (mean,) = axes.containers
        assert same(points_of(mean)[1], [3.0, 2.0, 1.0])
        thin = [line for line in axes.lines if line.get_linewidth() < 1 and len(line.get_xdata()) == 3]
        assert [list(line.get_ydata()) for line in thin] == [[2.0, 1.0, 0.5], [4.0, 3.0, 1.5]]
        assert all(line.get_zorder() < mean.lines[0].get_zorder() for line in thin)
        assert {line.get_color() for line in thin} == {mean.lines[0].get_color()}

    def test_of_many_epochs_some_have_markers(self) -> None:
        losses = [1 / epoch for epoch in range(1, 301)]
        axes = drawn(training_plot([history("a", losses, [0.5] * 300)])).axes[0]
        assert axes.containers[0].lines[0].get_markevery() == 25
        assert all(place == int(place) for place in axes.get_xticks())


class TestSeeds:
    def test_points_and_intervals_are_the_boards(self) -> None:
        averaged = board(average_seeds=True)
        figure = drawn(seeds_plot(averaged))
        place = [row.model for row in averaged.rows].index("vit")
        for axes, column in zip(figure.axes, averaged.columns, strict=False):
            estimate = averaged.rows[place].cells[column.key].estimate
            (container,) = axes.containers
            x, y = points_of(container)
            assert same(x, [100 * estimate.value])
            (ends,) = whiskers_of(container, axis=0)
            assert same(ends, (100 * estimate.low, 100 * estimate.high))
            seeds = [line for line in axes.lines if len(line.get_xdata()) == len(estimate.of_seeds)]
            (line,) = [line for line in seeds if line.get_marker() == "o"]
            assert same(line.get_xdata(), [100 * value for value in estimate.of_seeds])
            # Beside each other: the seeds above, the mean below, in the model's row.
            assert place - 0.5 < line.get_ydata()[0] < place < y[0] < place + 0.5

    def test_models_are_named_once_a_line_from_the_top(self) -> None:
        averaged = board(average_seeds=True)
        figure = drawn(with_panels(seeds_plot(averaged), ("gaussian",)), 6.75)
        first, second = figure.axes[:2]
        names = [row.model for row in averaged.rows]
        assert [text.get_text() for text in first.get_yticklabels()] == names
        assert {text.get_text() for text in second.get_yticklabels()} == {""}
        assert first.get_ylim() == (len(names) - 0.5, -0.5)

    def test_one_checkpoint_is_a_point_in_the_middle_of_its_row(self) -> None:
        averaged = board(average_seeds=True)
        place = [row.model for row in averaged.rows].index("symvit")
        axes = drawn(seeds_plot(averaged)).axes[0]
        value = averaged.rows[place].cells[averaged.columns[0].key].estimate.value
        (line,) = [line for line in axes.lines if list(line.get_ydata()) == [place]]
        assert same(line.get_xdata(), [100 * value])

    def test_a_gap_is_text_in_its_row(self) -> None:
        averaged = board(average_seeds=True)
        place = [row.model for row in averaged.rows].index("rpc")
        figure = drawn(with_panels(seeds_plot(averaged), ("mean error",)))
        (text,) = figure.axes[0].texts
        assert (text.get_text(), text.get_position()[1]) == ("— (60 of 120 missing)", place)

    def test_the_legend_says_what_points_are(self) -> None:
        averaged = board(average_seeds=True)
        assert legend_texts(seeds_plot(averaged)) == ["training seed", "mean over seeds", "one checkpoint"]
        assert legend_texts(seed_plot("m")) == ["training seed", "mean over seeds"]
        assert legend_texts(seeds_plot(board())) == ["one checkpoint"]


def legend_texts(plot: Plot) -> list[str]:
    (legend,) = drawn(plot).legends
    return [text.get_text() for text in legend.get_texts()]


class TestTexts:
    @pytest.mark.parametrize("kind", NAMES)
    @pytest.mark.parametrize("plot_of", [line_plot, seed_plot])
    def test_names_are_inert_and_fit(self, kind: str, plot_of) -> None:
        """No name is mathematics, another line, invisible, hidden from the legend, or beyond the figure."""
        name = NAMES[kind]
        figure = drawn(plot_of(name, "other"))
        assert legible(name) in texts_of(figure)
        assert len(legible(name)) <= NAME_WIDTH
        assert legible(name).isprintable()
        assert outside(figure) == []

    @pytest.mark.parametrize("kind", NAMES)
    def test_titles_and_notes_are_inert_and_fit(self, kind: str) -> None:
        text = NAMES[kind]
        plot = line_plot("m", title=text, ticks=((0.0, text), (1.0, text)), notes=(text, text))
        figure = drawn(plot)
        assert all(line.isprintable() for each in texts_of(figure) for line in each.split("\n"))
        assert figure.axes[0].get_title().count("\n") <= 1
        assert outside(figure) == []

    def test_mathematics_is_text(self) -> None:
        from matplotlib.text import Text

        figure = drawn(line_plot("$x^2$", title=r"$\frac{", notes=("$",)))
        assert not any(text.get_parse_math() for text in figure.findobj(Text))

    @pytest.mark.slow
    def test_forty_models_and_nineteen_panels_fit(self) -> None:
        names = [f"digits-a-rather-long-name-{number:02d}" for number in range(40)]
        panel = line_plot(*names).panels[0]
        figure = drawn(replace(line_plot(*names), panels=(panel,) * 19))
        assert outside(figure) == []
        assert len(figure.legends[0].get_texts()) == 40

    def test_every_plot_of_a_board_fits(self) -> None:
        averaged = board(average_seeds=True)
        plots = [plot_of(averaged, all_models=True) for plot_of in (budget_plot, corruption_plot)]
        assert [outside(drawn(plot)) for plot in (*plots, seeds_plot(averaged))] == [[], [], []]

    def test_what_the_font_lacks_is_escaped(self) -> None:
        assert legible("a\u4e00b") == r"a\u4e00b"
        assert legible("\U0001f480") == r"\U0001f480"
        assert legible("é β ∞ Ж") == "é β ∞ Ж"

    def test_truncated_names_stay_different(self) -> None:
        long = "x" * 40
        names = legible_names([f"{long}1", f"{long}2", f"{long}3", "y"])
        assert len(set(names)) == 4
        assert names[3] == "y"
        assert names[1].endswith(" (2)")
        assert all(len(name) <= NAME_WIDTH for name in names)


class TestLooks:
    def test_forty_neighbours_differ_in_grey_and_56_in_colour_and_marker(self) -> None:
        styles = [style_of(place, place) for place in range(56)]
        assert len({(style.marker, str(style.dashes)) for style in styles[:40]}) == 40
        assert len({(style.colour, style.marker) for style in styles}) == 56

    def test_a_model_has_one_colour_and_marker_in_all_figures(self) -> None:
        """In lines, points and rows, of other models in another order, and for its seeds."""
        registry = ("other", "symvit", "symvit@1", "vit", "rpc", "vit@1")
        found: dict[str, set[tuple[str, str]]] = {}
        for plot in (
            budget_plot(board(), all_models=True),
            corruption_plot(board(average_seeds=True), all_models=True),
            with_panels(training_plot([history("rpc"), history("vit@1")]), ("training",)),
        ):
            figure = drawn(plot, registry=registry)
            for model, container in zip(plot.models, figure.axes[0].containers, strict=True):
                line = container.lines[0]
                found.setdefault(model.partition("@")[0], set()).add((line.get_color(), line.get_marker()))
        numbers = {"symvit": 1, "vit": 2, "rpc": 3}
        assert found == {name: {(COLOURS[each], MARKERS[each])} for name, each in numbers.items()}

    def test_models_of_no_registry_follow_their_names_and_other_lines_their_places(self) -> None:
        plot = replace(line_plot("a", "b"), models=("x@3", "y"))
        assert looks_of(plot, ("y",))[1] == 0
        assert looks_of(plot, ("y",))[0] == looks_of(replace(plot, models=("x",)), ())[0] > 0
        assert looks_of(replace(plot, looks=(5, "y")), ("z", "y")) == (5, 1)

    def test_texts_have_8_points_in_a_column(self) -> None:
        from matplotlib.text import Text

        averaged = board(average_seeds=True)
        plots = [(budget_plot(averaged, all_models=True), 3.25), (seeds_plot(averaged), 6.75)]
        for plot, width in plots:
            figure = drawn(plot, width)
            assert figure.get_figwidth() == width
            assert {text.get_fontsize() for text in figure.findobj(Text)} == {SIZE} == {8.0}
            assert outside(figure) == []

    def test_colours_are_dark_enough_and_far_apart_in_any_vision(self) -> None:
        """As 60 is visible on white; distances after the simulations of Viénot, Brettel and Mollon 1999."""
        for simulate in (lambda rgb: rgb, protanope, deuteranope):
            seen = [simulate(to_rgb(colour)) for colour in COLOURS]
            for place, first in enumerate(seen):
                assert luminance(first) < 0.65
                for second in seen[:place]:
                    assert sum((a - b) ** 2 for a, b in zip(first, second, strict=True)) ** 0.5 > 0.12

    def test_each_model_has_its_look_in_every_panel(self) -> None:
        figure = drawn(corruption_plot(board(), all_models=True))
        for axes in figure.axes:
            for place, container in enumerate(axes.containers):
                line, entry = container.lines[0], figure.legends[0].get_lines()[place]
                assert (line.get_color(), line.get_marker()) == (entry.get_color(), entry.get_marker())
                assert line.get_linestyle() == ("-" if place == 0 else "--")
        assert len(DASHES) == 5

    def test_settings_are_given_back_and_the_users_do_not_count(self) -> None:
        with matplotlib.rc_context({"lines.linewidth": 17.0, "text.parse_math": True, "font.size": 40.0}):
            figure = drawn(line_plot("m"))
            assert matplotlib.rcParams["lines.linewidth"] == 17.0
            assert matplotlib.rcParams["text.parse_math"] is True
        (container,) = figure.axes[0].containers
        assert container.lines[0].get_linewidth() == SETTINGS["lines.linewidth"]


def luminance(rgb) -> float:
    return 0.2126 * linear(rgb[0]) + 0.7152 * linear(rgb[1]) + 0.0722 * linear(rgb[2])


def linear(value: float) -> float:
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def seen_as(share_of_red: float, rgb) -> tuple[float, ...]:
    red, green, blue = map(linear, rgb)
    yellow = gamma(share_of_red * red + (1 - share_of_red) * green)
    return yellow, yellow, gamma(blue)


protanope, deuteranope = partial(seen_as, 0.11238), partial(seen_as, 0.29275)


def gamma(value: float) -> float:
    return 12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055
