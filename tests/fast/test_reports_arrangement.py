"""Choice and order of a report's columns and rows, marks of the best, and reports as data frames."""

import re
from collections.abc import Sequence
from dataclasses import replace
from math import isnan

import pytest

from robench.core.errors import UsageError
from robench.core.report import Cell, Estimate, Rank, Report, Row
from robench.core.suite import CLEAN, MEASURED, Column
from robench.reports import RENDERERS, arranged

COLUMNS = (
    Column(key="clean/top1_accuracy", label="clean top-1 accuracy", metric="top1_accuracy", conditions=("clean",)),
    Column(key="pgd/top1_accuracy", label="pgd top-1 accuracy", metric="top1_accuracy", conditions=("pgd",)),
    Column(key="pgd/mean_loss", label="pgd mean loss", metric="perplexity", conditions=("pgd",)),
    Column(
        key="linf-10/255/robust_accuracy", label="linf-10/255 robust accuracy", metric="robust_accuracy",
        conditions=("clean", "fgsm", "pgd"), roles=(CLEAN, MEASURED, MEASURED),
    ),
)  # fmt: skip
BEST = Rank(is_best=True, p=None, adjusted=None, is_close=True)
CLOSE = Rank(is_best=False, p=0.4, adjusted=0.4, is_close=True)
WORSE = Rank(is_best=False, p=0.001, adjusted=0.002, is_close=False)


def cell(value: float | None, unit: str = "share") -> Cell:
    if value is None:
        return Cell(estimate=None, num_examples=3, missing=7)
    estimate = Estimate(value=value, low=value / 2, high=None, num_examples=10, unit=unit)
    return Cell(estimate=estimate, num_examples=10, missing=0)


def row(model: str, values: Sequence[float | None], *ranks: Rank) -> Row:
    cells = {column.key: cell(value) for column, value in zip(COLUMNS, values, strict=True)}
    keys = [column.key for column in COLUMNS]
    return Row(model=model, cells=cells, ranks=dict(zip(keys, ranks, strict=False)))


REPORT = Report(
    suite="s",
    version=1,
    seed=0,
    columns=COLUMNS,
    rows=(
        row("low", (0.5, 0.1, 9.0, 0.1), WORSE, CLOSE),
        row("gap", (0.9, None, 7.0, None), BEST),
        row("high", (0.5, 0.4, 8.0, 0.4), WORSE, BEST),
    ),
    provenance={},
)


def without_bounds(found: Cell) -> Estimate | None:
    return found.estimate and replace(found.estimate, low=None)


def models(report: Report) -> list[str]:
    return [each.model for each in report.rows]


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("pgd/top1_accuracy", ["high", "low", "gap"]),
        # Of losses the least is best; equal ones stay as they were.
        ("pgd/mean_loss", ["gap", "high", "low"]),
        ("clean/top1_accuracy", ["gap", "low", "high"]),
        ("clean", ["gap", "low", "high"]),
        ("robust_accuracy", ["high", "low", "gap"]),
    ],
)
def test_rows_are_ordered_with_the_best_first_and_gaps_last(sort: str, order: list[str]) -> None:
    assert models(arranged(REPORT, sort=sort)) == order


@pytest.mark.parametrize(
    ("columns", "places"),
    [
        (["pgd*"], [1, 2]),
        (["*/top1_accuracy"], [0, 1]),
        (["robust_accuracy", "clean"], [0, 3]),
        (["linf-10/255/robust_accuracy"], [3]),
        ([], [0, 1, 2, 3]),
    ],
)
def test_columns_are_chosen_by_key_metric_condition_or_pattern(columns: list[str], places: list[int]) -> None:
    report = arranged(REPORT, columns=columns)
    assert report.columns == tuple(COLUMNS[place] for place in places)
    assert models(report) == models(REPORT)


@pytest.mark.parametrize("name", ["sort", "columns"])
def test_an_unknown_column_is_refused_with_a_suggestion(name: str) -> None:
    wrong = "pgd/top1_acuracy"
    with pytest.raises(UsageError, match=r"no column is named 'pgd/top1_acuracy'. Did you mean 'pgd/top1_accuracy'"):
        arranged(REPORT, **{name: wrong if name == "sort" else [wrong]})


def test_a_name_of_several_columns_is_no_order() -> None:
    with pytest.raises(UsageError, match="'pgd' names several columns; sort by one of pgd/top1_accuracy, pgd/mean_los"):
        arranged(REPORT, sort="pgd")


@pytest.mark.parametrize(
    ("format_name", "best", "close", "worse"),
    [
        ("text", "90.0 *", "10.0 *", "50.0 "),
        ("md", "**90.0**", "**10.0**", "50.0"),
        ("latex", r"\textbf{90.0}", r"\textbf{10.0}", "50.0"),
        ("html", "<b>90.0</b>", "<b>10.0</b>", "<td>50.0</td>"),
    ],
)
def test_the_best_and_what_is_not_worse_is_marked(format_name: str, best: str, close: str, worse: str) -> None:
    marked = ("clean/top1_accuracy", "pgd/top1_accuracy")
    rows = []
    for each in REPORT.rows:
        cells = dict.fromkeys(each.cells, cell(None))
        cells |= {
            key: replace(found, estimate=without_bounds(found)) for key, found in each.cells.items() if key in marked
        }
        rows.append(replace(each, cells=cells))
    for is_transposed in (False, True):
        text = RENDERERS[format_name](replace(REPORT, rows=tuple(rows), is_transposed=is_transposed))
        assert best in text
        assert close in text
        assert worse in text
        assert worse.strip().join(("**", "**")) not in text
        assert text.count(best[:-1] if format_name == "text" else best) == 1


def test_a_transposed_table_has_models_as_columns() -> None:
    lines = RENDERERS["md"](arranged(REPORT, is_transposed=True)).splitlines()
    assert re.findall(r"[a-z]+", lines[0]) == ["model", "low", "gap", "high"]
    assert [line.split("|")[1].strip() for line in lines[2:6]] == [column.label for column in COLUMNS]
    assert RENDERERS["latex"](arranged(REPORT, is_transposed=True)).count(r"\\") == 1 + len(COLUMNS)


def test_headers_of_a_wide_table_are_wrapped_before_it_is_turned() -> None:
    labels = [replace(column, label=f"{column.label} of all the examples there are") for column in COLUMNS]
    lines = RENDERERS["text"](replace(REPORT, columns=tuple(labels))).splitlines()
    rule = next(place for place, line in enumerate(lines) if line.startswith("---"))
    assert rule > 1
    assert max(map(len, lines[: rule + 4])) <= 120
    assert [line.split()[0] for line in lines[rule + 1 : rule + 4]] == ["low", "gap", "high"]


@pytest.mark.parametrize("format_name", ["text", "md", "latex", "html"])
def test_a_key_says_what_robust_accuracy_is_over(format_name: str) -> None:
    text = RENDERERS[format_name](REPORT)
    assert "linf-10/255 robust accuracy: examples that are right under all of clean, fgsm, pgd" in text
    assert "examples that are right" not in RENDERERS[format_name](arranged(REPORT, columns=["clean"]))


def test_a_frame_has_a_row_a_model_and_a_column_a_number() -> None:
    frame = REPORT.to_frame()
    assert list(frame.columns) == [column.key for column in COLUMNS]
    assert frame.index.name == "model"
    assert frame.loc["high", "pgd/top1_accuracy"] == 0.4
    assert isnan(frame.loc["gap", "pgd/top1_accuracy"])  # type: ignore[arg-type]  # is a float
    assert set(map(str, frame.dtypes)) == {"float64"}


def test_a_frame_with_intervals_has_their_bounds() -> None:
    frame = REPORT.to_frame(intervals=True)
    assert frame.shape == (3, 12)
    assert frame["pgd/top1_accuracy"].loc["high", ["value", "low"]].tolist() == [0.4, 0.2]
    assert frame["pgd/top1_accuracy"]["high"].isna().all()


def test_a_frame_without_rows_has_its_columns() -> None:
    assert list(replace(REPORT, rows=()).to_frame().columns) == [column.key for column in COLUMNS]
    assert replace(REPORT, rows=()).to_frame(intervals=True).shape == (0, 12)


def test_a_notebook_shows_the_table_and_its_notes() -> None:
    hostile = replace(REPORT, rows=(*REPORT.rows, row("<script>alert(1)</script>", (0.1, 0.1, 1.0, 0.1))))
    shown = hostile._repr_html_()
    assert "<b>90.0 [45.0" in shown or "<b>90.0</b>" in shown
    assert "&lt;script&gt;" in shown
    assert "<script" not in shown
    assert "<html" not in shown
    assert "examples that are right under all of" in shown
