"""Choice and order of a report's columns and rows, marks of the best, and reports as data frames."""

import re
from collections.abc import Sequence
from dataclasses import replace
from math import isnan

import pytest

from robench.core.errors import UsageError
from robench.core.rendered import Style
from robench.core.report import Cell, Estimate, Rank, Report, Row
from robench.core.suite import CLEAN, MEASURED, Column
from robench.reports import RENDERERS, arranged
from robench.reports.grid import grid_of
from robench.reports.table import with_labels

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
UNTESTED = Rank(is_best=False, p=None, adjusted=None, is_close=False)
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


def bounded(report: Report) -> Report:
    """The report with both bounds of every interval."""
    rows = []
    for each in report.rows:
        estimates = {key: found.estimate for key, found in each.cells.items()}
        cells = {
            key: replace(each.cells[key], estimate=found and replace(found, high=found.value))
            for key, found in estimates.items()
        }
        rows.append(replace(each, cells=cells))
    return replace(report, rows=tuple(rows))


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


MARKED = replace(
    REPORT,
    tests="a test",
    rows=tuple(
        row(model, values, *ranks)
        for model, values, ranks in (
            # Better than both others; tied with all; tied with one; not tested against one.
            ("one", (0.91, 0.21, 3.1, 0.41), (BEST, BEST, BEST, BEST)),
            ("two", (0.52, 0.22, 3.2, 0.42), (WORSE, CLOSE, CLOSE, WORSE)),
            ("three", (0.53, 0.23, 3.3, 0.43), (WORSE, CLOSE, WORSE, UNTESTED)),
        )
    ),
)


@pytest.mark.parametrize(
    ("format_name", "best", "close"),
    [
        ("text", "{} [{}] *", "{} [{}] ~"),
        ("md", "**{} [{}]**", "*{} [{}]*"),
        ("latex", r"\textbf{{{}}}\,{{\scriptsize [{}]}}", r"\underline{{{}}}\,{{\scriptsize [{}]}}"),
        ("html", "<b>{} [{}]</b>", "<u>{} [{}]</u>"),
    ],
)
@pytest.mark.parametrize("is_transposed", [False, True])
def test_the_best_is_bold_where_it_is_distinguished_from_all(
    format_name: str, best: str, close: str, is_transposed: bool
) -> None:
    text = RENDERERS[format_name](replace(bounded(MARKED), style=Style(is_transposed=is_transposed)))
    bold, underlined = (
        re.findall(re.escape(each.format("N", "I")).replace("N", r"([\d.]+)").replace("I", r"[\d., ]+"), text)
        for each in (best, close)
    )
    if format_name == "md":
        underlined = [each for each in underlined if each not in bold]
    assert sorted(bold) == ["91.0"]
    assert sorted(underlined) == ["310.0", "320.0", "41.0"]
    legends = [line for line in text.splitlines() if "better than all other models" in line]
    assert len(legends) == 1
    assert "where no model is marked, none is distinguishable from the best (at 5 %; a test)" in legends[0].replace(
        "\\%", "%"
    )


def test_nothing_is_said_of_marks_that_there_are_not() -> None:
    tied = replace(MARKED, columns=COLUMNS[1:2])
    assert "- Where no model is marked, none is distinguishable from the best (at 5 %; a test).\n" in RENDERERS["text"](
        tied
    )
    assert "distinguishable" not in RENDERERS["text"](replace(tied, rows=(row("one", (0.9, 0.8, 7.0, 0.7)),)))


@pytest.mark.parametrize(
    ("intervals", "shown"), [("cell", "53.0 [26.5, 53.0]"), ("row", "53.0<br>[26.5, 53.0]"), ("none", "53.0")]
)
def test_intervals_are_beside_or_below_their_numbers_or_left_out(intervals: str, shown: str) -> None:
    lines = RENDERERS["md"](replace(bounded(MARKED), style=Style(intervals=intervals))).splitlines()
    assert lines[4].split("|")[2].strip() == shown
    latex = RENDERERS["latex"](replace(bounded(MARKED), style=Style(intervals=intervals)))
    assert (latex.count(r"\scriptsize"), latex.count(r"\\[-2pt]")) == {"cell": (12, 0), "row": (12, 3), "none": (0, 0)}[
        intervals
    ]


def test_digits_are_those_of_every_number() -> None:
    line = RENDERERS["md"](replace(bounded(MARKED), style=Style(digits=3))).splitlines()[4]
    assert [text.strip() for text in line.split("|")[2:6]] == [
        "53.000 [26.500, 53.000]", "23.000 [11.500, 23.000]", "330.000 [165.000, 330.000]", "43.000 [21.500, 43.000]",
    ]  # fmt: skip


def test_new_names_replace_whole_words_in_the_table_and_its_notes() -> None:
    noted = replace(MARKED, rows=(*MARKED.rows[:2], replace(MARKED.rows[2], model="one-b", notes=("as one",))))
    labels = {column.key: column.label for column in COLUMNS}
    given = Style(renames={"one": "A & B", "pgd/top1_accuracy": "PGD", "loss": "NLL", "clean": "one"})
    text = RENDERERS["md"](replace(noted, style=with_labels(given, labels, grid_of(noted).texts)))
    assert [each.strip() for each in text.splitlines()[0].split("|")[2:5]] == [
        "one top-1 accuracy",
        "PGD",
        "pgd mean NLL",
    ]
    assert [line.split("|")[1].strip() for line in text.splitlines()[2:5]] == ["A &amp; B", "two", "one-b"]
    assert "- one-b: as A &amp; B" in text
    with pytest.raises(UsageError, match=r"no model or column is named 'thre', to be renamed\. Did you mean 'three'\?"):
        with_labels(Style(renames={"thre": "x"}), {}, grid_of(MARKED).texts)


def test_a_transposed_table_has_models_as_columns() -> None:
    turned = replace(REPORT, style=Style(is_transposed=True))
    lines = RENDERERS["md"](turned).splitlines()
    assert re.findall(r"[a-z]+", lines[0]) == ["model", "low", "gap", "high"]
    assert [line.split("|")[1].strip() for line in lines[2:6]] == [column.label for column in COLUMNS]
    body = RENDERERS["latex"](turned).split(r"\midrule")[1]
    assert body.count(r"\\") == len(COLUMNS)


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
