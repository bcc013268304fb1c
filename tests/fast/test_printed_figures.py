"""The papers' figures: the file that states them, tests of their shapes, and the choice of results."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robench.analyses import ANALYSES
from robench.analyses.base import Statistic
from robench.analyses.results import Analysed, Numbers, write_analysis
from robench.core.errors import DeclarationError, IncompleteError
from robench.core.identity import to_plain
from robench.datasets import DATASETS
from robench.declare import read_registries, shipped_suites
from robench.declare.figures import Expectation, Source, find_figure, printed_figures, read_figures
from robench.figures.plots import LinePanel, Plot, Series
from robench.figures.printed import Results, drawn_part, index_of, numbers_of, verdicts_on
from robench.leaderboard.board import Point
from robench.store import FolderStore


def test_the_papers_have_26_figures_in_order_and_each_is_drawn_or_has_a_reason() -> None:
    figures = printed_figures()
    numbers = {"rpc": 5, "bilateral": 6, "twicing": 10, "rkde": 5}
    assert list(figures) == [f"{paper}:{number}" for paper, count in numbers.items() for number in range(1, count + 1)]
    assert all(bool(figure.parts) != bool(figure.missing) for figure in figures.values())
    names = [figure.file_name(part) for figure in figures.values() for part in figure.parts]
    assert len(set(names)) == len(names)


def sources() -> list[Source]:
    parts = (part for figure in printed_figures().values() for part in figure.parts)
    return [source for part in parts for source in (part.paper, part.twin) if source is not None]


def test_figures_name_models_data_and_analyses_that_exist() -> None:
    models = read_registries(())
    assert {name for source in sources() for name in source.models} <= set(models)
    assert {source.suite for source in sources() if source.suite} <= set(shipped_suites())
    # WikiText and others are named where they are missing.
    assert all(source.dataset in DATASETS for source in sources() if source.dataset)
    parts = [part for figure in printed_figures().values() for part in figure.parts]
    assert {part.analysis for part in parts if part.analysis} <= set(ANALYSES)
    assert {name for part in parts for several in part.sizes.values() for name in several} <= set(models)


def panel(lines: Mapping[str, Sequence[float]], **fields: bool) -> LinePanel:
    series = tuple(
        Series(model=name, points=tuple(Point(x=10.0**place, value=value) for place, value in enumerate(values)))
        for name, values in lines.items()
    )
    return LinePanel(title="pgd: top-1", x_label="x", y_label="y", ticks=(), series=series, is_per_cent=False, **fields)


def plot(lines: Mapping[str, Sequence[float]]) -> Plot:
    return Plot(panels=(panel(lines, is_logarithmic=True),), models=tuple(lines), labels=tuple(lines))


@pytest.mark.parametrize(
    ("expected", "holds"),
    [
        (Expectation(test="falls", panel="pgd", line="a"), True),
        (Expectation(test="rises", panel="pgd", line="a"), False),
        (Expectation(test="above", panel="pgd", line="a", than="b"), True),
        (Expectation(test="above", panel="pgd", line="b", than="a"), False),
        (Expectation(test="stays", panel="pgd", line="a"), False),
        (Expectation(test="stays", panel="pgd", line="b"), True),
        # Over the numbers themselves it would rise.
        (Expectation(test="falls", panel="pgd", line="b"), True),
    ],
)
def test_shapes_are_tested_as_stated(expected: Expectation, holds: bool) -> None:
    (verdict,) = verdicts_on(expected, plot({"a": [9.0, 5.0, 4.0], "b": [2.1, 1.0, 2.05]}))
    assert verdict.holds is holds
    assert verdict.text.startswith("as printed: " if verdict.holds else "differs: ")


def test_shapes_under_attack_are_tested_without_the_clean_number() -> None:
    """With it, the mean of a would be 4.33 and that of b 4.17."""
    given = panel({"a": [9.0, 2.0, 2.0], "b": [6.5, 3.0, 3.0]})
    series = tuple(
        replace(each, points=tuple(replace(point, x=float(x)) for x, point in enumerate(each.points)))
        for each in given.series
    )
    budgets = replace(given, ticks=((0.0, "0"), (1.0, "1"), (2.0, "2")), series=series, is_per_cent=True)
    stated = Expectation(test="above", panel="pgd", line="b", than="a")
    (verdict,) = verdicts_on(stated, Plot(panels=(budgets,), models=("a", "b"), labels=("a", "b")))
    assert verdict.holds


def test_shapes_of_lines_that_are_missing_get_no_verdict() -> None:
    assert verdicts_on(Expectation(test="falls", panel="fgsm", line="a"), plot({"a": [2.0, 1.0]})) == []
    assert verdicts_on(Expectation(test="above", panel="pgd", line="a", than="c"), plot({"a": [2.0, 1.0]})) == []


def similarity(model: str, dataset: str, value: float, count: int = 3) -> Analysed:
    declared = ANALYSES["token-similarity"]()
    facts = {"analysis": declared.kind, "settings": to_plain(declared), "seed": 0, "condition": "clean"}
    statistic: Statistic = declared.statistics["similarity"]
    values = np.full((count, 4), value) + 0.01 * np.arange(count)[:, None]
    numbers = Numbers(name="similarity", statistic=statistic, axes=("example", "layer"), values=values)
    examples = tuple(f"{dataset}/{place}" for place in range(count))
    return Analysed(facts={**facts, "model": model, "dataset": dataset}, examples=examples, numbers=(numbers,))


def results_in(folder: Path, analysed: Sequence[Analysed]) -> Results:
    for place, each in enumerate(analysed):
        write_analysis(each, folder / "analyses" / f"{each.facts['analysis']}-{place}.parquet")
    return Results(store=FolderStore(folder), folder=folder)


TWINS = (("digits-vit", 0.4), ("digits-twicing-vit", 0.7))
MODELS = (("deit-tiny-baseline-twicing", 0.9), ("twicing-deit-tiny", 0.7))


def test_a_twin_is_drawn_under_its_own_name_and_compared_with_nothing(tmp_path: Path) -> None:
    figure = find_figure("twicing:1")
    (part,) = figure.parts
    # Results on fewer examples of one model alone are left out.
    given = [similarity("digits-vit", "digits", 0.1, count=5), *(similarity(name, "digits", of) for name, of in TWINS)]
    drawn = drawn_part(figure, part, results_in(tmp_path, given))
    assert drawn.is_twin
    assert drawn.verdicts == ()
    assert drawn.plot.labels == ("digits-vit", "digits-twicing-vit")
    assert drawn.plot.looks == drawn.plot.labels
    assert drawn.plot.notes[0] == "Figure 1 of twicing, a twin on digits, not compared with the print."
    rows = numbers_of(drawn.plot)
    assert [row[1] for row in rows] == ["digits-vit"] * 4 + ["digits-twicing-vit"] * 4
    assert rows[0][4] == pytest.approx(0.41)


def test_results_at_the_papers_scale_come_before_twins_and_get_verdicts(tmp_path: Path) -> None:
    figure = find_figure("twicing:1")
    (part,) = figure.parts
    both = [similarity(name, "digits", of) for name, of in TWINS]
    both += [similarity(name, "imagenet-1k", of) for name, of in MODELS]
    drawn = drawn_part(figure, part, results_in(tmp_path, both))
    assert not drawn.is_twin
    (verdict,) = drawn.verdicts
    assert verdict.holds
    page = index_of([figure, find_figure("bilateral:1")], {"twicing-1": drawn}, ".svg")
    assert "From imagenet-1k; [numbers](twicing-1.csv)" in page
    assert f"- {verdict.text}" in page
    assert "Not drawn: the print copies a figure" in page


def test_without_results_the_reason_names_the_command(tmp_path: Path) -> None:
    figure = find_figure("twicing:1")
    with pytest.raises(IncompleteError, match="no result of 'robench analyse token-similarity' on digits"):
        drawn_part(figure, figure.parts[0], Results(store=FolderStore(tmp_path), folder=tmp_path))


@pytest.mark.parametrize(
    ("figure", "problem"),
    [
        ("{figure: 1, shows: x}", "must have one of missing, drawn_as and parts, got none"),
        ("{figure: 1, shows: x, drawn_as: 7}", "drawn_as must be the number of a figure with parts, got 7"),
        ("{figure: 1, shows: x, parts: [{draws: analysis}]}", "parts must have an analysis if they draw one"),
        ("{figure: 1, shows: x, parts: [{draws: sizes, ticks: [s], sizes: {a: [b, c]}}]}", "each of the 1 ticks"),
        ("{figure: 1, shows: x, parts: [{draws: sizes}]}", "parts must have sizes if they draw them"),
    ],
)
def test_mistakes_in_the_file_are_listed_with_their_lines(tmp_path: Path, figure: str, problem: str) -> None:
    path = tmp_path / "figures.yaml"
    path.write_text(f"papers:\n  rpc:\n    - {figure}\n")
    with pytest.raises(DeclarationError) as raised:
        read_figures(path)
    assert problem in str(raised.value)
    assert "line 3: papers.rpc[0]" in str(raised.value)
