"""Baselines of printed tables: which gains the papers print, and what is wrong with a file's baselines."""

import re
from collections import Counter
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest
from papers_examples import load_published, shipped_tables, suite

from robench.core.errors import DeclarationError
from robench.declare import published_tables, read_published
from robench.declare.printed import PublishedCell, PublishedTable
from robench.metrics import METRICS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "published.md").read_text()
TABLES = sorted(published_tables())
# Printed gains, and those of them that rounding alone may have made.
CLAIMS = {"rpc": (282, 8), "bilateral": (73, 4), "twicing": (106, 0), "primal": (17, 2), "rkde": (264, 11)}
WITHOUT_CLAIMS = {("primal", 1), ("primal", 2), *(("rkde", number) for number in range(6, 11))}

TABLE = """\
paper: mine
table: 1
title: A table of three models
source: Me 2024
text: mine.txt
caption_line: 7
runs: 1
defaults: {unit: "%", missing: nothing}
columns:
  - name: Accuracy
  - {name: Error, better: lower}
  - {name: Size, better: neither}
rows:
  - label: Ours
    baseline: Theirs
    line: 9
    lines: ["Ours 72.0 27.5 5.7"]
    printed: ["72.0", "27.5", "5.7"]
  - label: Mixed
    baseline: Theirs
    line: 10
    lines: ["Mixed 71.0 - 9"]
    printed: ["71.0", null, "9"]
  - label: Theirs
    line: 11
    lines: ["Theirs 70.9 29 5.7"]
    printed: ["70.9", "29", "5.7"]
"""
OF_COLUMNS = """\
paper: mine
table: 1
title: A table of two models
source: Me 2024
text: mine.txt
caption_line: 7
runs: 1
defaults: {unit: "%", missing: nothing}
columns: [{name: Theirs}, {name: Ours, baseline: Theirs}]
rows:
  - {label: Accuracy, line: 9, lines: ["70.9 72"], printed: ["70.9", "72"]}
  - {label: Error, better: lower, line: 10, lines: ["29 27.5"], printed: ["29", "27.5"]}
"""


def read(folder: Path, text: str) -> PublishedTable:
    path = folder / "mine-1.yaml"
    path.write_text(text)
    return read_published(path)


def problems_of(folder: Path, text: str) -> list[str]:
    with pytest.raises(DeclarationError) as caught:
        read(folder, text)
    return [problem.strip() for problem in str(caught.value).splitlines()[1:]]


@cache
def lower_metrics(name: str) -> dict[str, bool]:
    return {column.key: METRICS[column.metric].lower_is_better for column in suite(name).columns}


def better_of(cell: PublishedCell) -> str:
    """Return which direction is better by the metric of a cell's column."""
    is_lower = lower_metrics(str(cell.suite))[str(cell.column_key)]
    return "lower" if is_lower != cell.complement else "higher"


def test_a_gain_is_a_rows_number_less_its_baselines_where_both_are_printed(tmp_path: Path) -> None:
    table = read(tmp_path, TABLE)
    assert dict(table.baselines) == {"Ours": "Theirs", "Mixed": "Theirs"}
    assert [(claim.model, claim.baseline_model, claim.place, claim.gain) for claim in table.claims] == [
        ("Ours", "Theirs", "Accuracy", Fraction(11, 10)),
        ("Ours", "Theirs", "Error", Fraction(15, 10)),
        ("Mixed", "Theirs", "Accuracy", Fraction(1, 10)),
    ]
    # 27.5 and 29 may have been rounded by 0.05 and 0.5.
    assert [claim.rounding for claim in table.claims] == [Fraction(1, 10), Fraction(55, 100), Fraction(1, 10)]
    assert [claim.is_within_rounding for claim in table.claims] == [False, False, True]


def test_columns_have_baselines_where_models_are_columns(tmp_path: Path) -> None:
    table = read(tmp_path, OF_COLUMNS)
    assert table.has_models_in_columns
    assert [(claim.model, claim.baseline_model, claim.place, claim.gain) for claim in table.claims] == [
        ("Ours", "Theirs", "Accuracy", Fraction(11, 10)),
        ("Ours", "Theirs", "Error", Fraction(15, 10)),
    ]
    assert not read(tmp_path, TABLE).has_models_in_columns


def test_a_table_may_state_that_it_claims_nothing(tmp_path: Path) -> None:
    text = TABLE.replace("    baseline: Theirs\n", "").replace("runs: 1\n", "runs: 1\nclaims: none\nreason: settings\n")
    table = read(tmp_path, text)
    assert (table.claims, table.no_claims) == ((), "settings")
    assert read(tmp_path, TABLE).no_claims is None


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        (
            "{name: Error, better",
            "{name: Error, baseline: Accuracy, better",
            "line 15: rows[0].baseline: row 'Ours' has a baseline, and so have columns; leave out one",
        ),
        (
            "baseline: Theirs",
            "baseline: Thiers",
            "line 15: rows[0].baseline: must be another of the rows, got 'Thiers'",
        ),
        ("baseline: Theirs", "baseline: Ours", "line 15: rows[0].baseline: must be another of the rows, got 'Ours'"),
        (
            "baseline: Theirs",
            "baseline: Mixed",
            "line 15: rows[0].baseline: 'Mixed' has a baseline of its own, 'Theirs'; name that one",
        ),
        (
            "    baseline: Theirs\n    line: 10",
            "    line: 10",
            "rows[1]: 'Mixed' needs a baseline, since no other has it as baseline; name one of the rows",
        ),
        ("baseline: Theirs", "baseline: [Theirs, Mixed]", "line 15: rows[0].baseline: must be text, got a list"),
        (
            "runs: 1",
            "runs: 1\nclaims: none",
            "line 8: claims: must be given with the other: claims: none, and in reason",
        ),
        (
            "runs: 1",
            "runs: 1\nreason: none",
            "line 8: reason: must be given with the other: claims: none, and in reason",
        ),
        ("runs: 1", "runs: 1\nclaims: all", "line 8: claims: unknown value 'all'. Known: none."),
    ],
)
def test_wrong_baselines_are_told_with_line_and_remedy(tmp_path: Path, old: str, new: str, wanted: str) -> None:
    assert old in TABLE
    assert wanted in problems_of(tmp_path, TABLE.replace(old, new, 1))[0]


def test_a_table_needs_baselines_or_says_that_it_claims_nothing(tmp_path: Path) -> None:
    bare = TABLE.replace("    baseline: Theirs\n", "")
    (problem,) = problems_of(tmp_path, bare)
    assert problem == (
        "line 13: rows: no row or column has a baseline; name them, or state claims: none and the reason"
    )
    problems = problems_of(tmp_path, TABLE.replace("runs: 1\n", "runs: 1\nclaims: none\nreason: settings\n"))
    assert [problem.partition(": ")[2] for problem in problems] == [
        f"rows[{index}].baseline: must be left out where the table has claims: none, or counts no results"
        for index in (0, 1)
    ]
    problems = problems_of(tmp_path, OF_COLUMNS.replace("baseline: Theirs", "baseline: Accuracy"))
    assert [problem.partition(": ")[2] for problem in problems] == [
        "columns[0]: 'Theirs' needs a baseline, since no other has it as baseline; name one of the columns",
        "columns[1].baseline: must be another of the columns, got 'Accuracy'; 'Ours'",
    ]


@pytest.mark.parametrize(("paper", "number"), TABLES)
def test_what_is_better_is_the_direction_of_the_metric(paper: str, number: int) -> None:
    for cell in load_published(paper, number).cells:
        if cell.column_key:
            assert cell.better == better_of(cell), (cell.row, cell.column)


def test_costs_are_better_where_they_are_lower_and_sizes_are_no_gain() -> None:
    units = {"s": "lower", "ms": "lower", "MB": "lower", "GMac": "lower", "GFLOP": "lower", "nats": "lower"}
    counted = list(shipped_tables().values())
    found = {
        (cell.unit, cell.better, cell.column)
        for table in counted
        for cell in table.cells
        if table.is_counted and cell.unit not in ("%", "")
    }
    assert {(unit, better) for unit, better, _ in found if unit != "M"} == set(units.items())
    assert {(better, column) for unit, better, column in found if unit == "M"} == {
        ("lower", "Flop/Sample"),
        ("neither", "Parameters"),
    }


def test_every_paper_has_so_many_gains() -> None:
    gains, within = Counter[str](), Counter[str]()
    for paper, number in TABLES:
        claims = load_published(paper, number).claims
        gains[paper] += len(claims)
        within[paper] += sum(claim.is_within_rounding for claim in claims)
    assert {paper: (gains[paper], within[paper]) for paper in gains} == CLAIMS
    rows = re.findall(r"^\| `([a-z]+)` \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE)
    assert {paper: (int(gained), int(rounded)) for paper, gained, rounded in rows} == CLAIMS


def test_tables_of_settings_claim_nothing() -> None:
    tables = shipped_tables()
    assert {key for key, table in tables.items() if table.no_claims is not None} == WITHOUT_CLAIMS
    assert {key for key, table in tables.items() if not table.claims} == {*WITHOUT_CLAIMS, ("primal", 5)}


def test_rows_are_compared_with_the_model_that_they_change() -> None:
    baselines = {key: dict(table.baselines) for key, table in shipped_tables().items()}
    assert set(baselines["rpc", 11].items()) == {("RPC-SymSMoE", "SymSMoE (baseline)"), ("RPC-SMoE", "SMoE (baseline)")}
    assert baselines["twicing", 1]["FAN-Twicing"] == "FAN"
    assert baselines["twicing", 1]["NeuTRENO"] == "DeiT"
    assert baselines["bilateral", 3]["FAN + Boost"] == "FAN"
    assert set(baselines["rkde", 1].values()) == set(baselines["rkde", 5].values()) == {"Transformer"}
    assert baselines["bilateral", 1]["Linformer + ALiBi"] == "Linformer"
    with_baseline = [key for key, found in baselines.items() if any("(baseline)" in name for name in found.values())]
    named = [
        (paper, number)
        for paper, number in TABLES
        for names in [
            (*load_published(paper, number).columns, *(row.label for row in load_published(paper, number).rows))
        ]
        if any("(baseline)" in name for name in names)
    ]
    assert with_baseline == named
