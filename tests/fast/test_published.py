"""Printed tables: how files are read, what is wrong with them, and that those shipped are what the papers print."""

import re
from fractions import Fraction
from functools import cache
from math import log
from pathlib import Path

import pytest
from papers_examples import load_published, registry, suite
from presence import present

from robench.core.errors import DeclarationError, UnknownNameError, UsageError
from robench.declare import published_tables, read_published, shipped, shipped_suites
from robench.declare.printed import PrintedCost, PublishedTable, PublishedTwin
from robench.declare.published import occurs
from robench.metrics.reference_errors import REFERENCES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "published.md").read_text()
TEXTS = ROOT.parent / "shared" / "papers"
# Numbers of cells by paper and table. The five of the last of primal's tables are architectures, and do not count.
COUNTS = {
    "bilateral": (45, 8, 36, 12, 6),
    "primal": (120, 27, 22, 12, 15),
    "rkde": (72, 72, 45, 30, 72, 48, 30, 30, 30, 40, 8),
    "rpc": (35, 70, 8, 150, 4, 20, 12, 8, 8, 8, 12, 4, 30, 15),
    "twicing": (48, 20, 6, 4, 9, 12, 4, 4, 32, 20, 6),
}
UNCOUNTED = ("primal", 5)
TABLES = sorted(published_tables())

TABLE = """\
paper: mine
table: 2
title: A table of two models
source: Me 2024
text: mine.txt
caption_line: 7
runs: 3
defaults:
  unit: "%"
  suite: imagenet-shift
  protocol: {training: deit, examples: 50000, epsilon: 0.10}
columns:
  - {name: Clean, condition: clean, metric: top1_accuracy, twin: {suite: digits-shift}}
  - name: IN-R error
    condition: r
    metric: top1_accuracy
    complement: true
    protocol: {examples: 30000}
    twin: {suite: digits-shift, condition: digits-r}
  - {name: PPL, unit: "", missing: no language model}
rows:
  - label: Ours
    baseline: Theirs
    model: symvit
    twin: {model: digits-symvit}
    protocol: {epochs: 300}
    line: 9
    lines: ["Ours 70.44 9 0.1", "34.29"]
    printed: ["70.44", "90.1", "34.29"]
    remarks: {IN-R error: printed as 9 0.1}
  - label: Theirs
    model: deit-tiny
    line: 11
    lines: ["Theirs 72.2 - -"]
    printed: ["72.2", null, null]
"""


def write(folder: Path, text: str = TABLE, name: str = "mine-2.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def problems_of(folder: Path, text: str, name: str = "mine-2.yaml") -> list[str]:
    path = write(folder, text, name)
    with pytest.raises(DeclarationError) as caught:
        read_published(path)
    header, *problems = str(caught.value).splitlines()
    assert header == f"{path}: {len(problems)} problem{'s' * (len(problems) > 1)}"
    return [problem.strip() for problem in problems]


@pytest.fixture
def table(tmp_path: Path) -> PublishedTable:
    return read_published(write(tmp_path))


@cache
def columns_of(name: str) -> frozenset[str]:
    return frozenset(column.key for column in suite(name).columns)


def test_a_table_has_what_its_file_states(table: PublishedTable) -> None:
    assert (table.name, table.paper, table.number, table.runs) == ("mine:2", "mine", 2, 3)
    assert (table.title, table.source) == ("A table of two models", "Me 2024")
    assert (table.text, table.caption_line, table.is_counted) == ("mine.txt", 7, True)
    assert table.columns == ("Clean", "IN-R error", "PPL")
    assert [(row.label, row.line, row.lines) for row in table.rows] == [
        ("Ours", 9, ("Ours 70.44 9 0.1", "34.29")),
        ("Theirs", 11, ("Theirs 72.2 - -",)),
    ]


def test_null_is_no_cell(table: PublishedTable) -> None:
    assert [cell.printed for cell in table.cells] == ["70.44", "90.1", "34.29", "72.2"]
    assert table.cell("Theirs", "PPL") is None
    for row, column in (("Theirs", "absent"), ("absent", "PPL")):
        with pytest.raises(KeyError, match="absent"):
            table.cell(row, column)


def test_a_cell_is_defaults_overlaid_by_its_column_overlaid_by_its_row(table: PublishedTable) -> None:
    cell = present(table.cell("Ours", "IN-R error"))
    assert (cell.row, cell.column, cell.unit, cell.model) == ("Ours", "IN-R error", "%", "symvit")
    assert (cell.suite, cell.column_key, cell.complement) == ("imagenet-shift", "r/top1_accuracy", True)
    assert cell.protocol == {"training": "deit", "examples": "30000", "epsilon": "0.10", "epochs": "300"}
    assert (cell.missing, cell.remark) == (None, "printed as 9 0.1")


def test_a_row_has_the_last_word(tmp_path: Path) -> None:
    row = "model: deit-tiny\n    unit: s\n    complement: false\n    protocol: {examples: 12}\n    condition: a"
    cell = present(read_published(write(tmp_path, TABLE.replace("model: deit-tiny", row))).cell("Theirs", "Clean"))
    assert (cell.unit, cell.complement, cell.condition, cell.protocol["examples"]) == ("s", False, "a", "12")


def test_a_cell_is_read_by_code_and_by_text(tmp_path: Path) -> None:
    by_code, by_text = "{protocol: {epsilon: 0.2, training: null}}", "{condition: a, inferred: [clip]}"
    fields = f"condition: clean, readings: {{code: {by_code}, text: {by_text}}}, inferred: [norm],"
    table = read_published(write(tmp_path, TABLE.replace("condition: clean,", fields)))
    cell, other = present(table.cell("Ours", "Clean")), present(table.cell("Ours", "IN-R error"))
    stated = {"training": "deit", "examples": "50000", "epsilon": "0.10", "epochs": "300"}
    assert (cell.condition, dict(cell.protocol), cell.inferred) == ("clean", stated, ("norm",))
    assert [(by, read.condition, dict(read.protocol), read.inferred) for by, read in cell.as_read] == [
        ("code", "clean", {"examples": "50000", "epsilon": "0.2", "epochs": "300"}, ("norm",)),
        ("text", "a", stated, ("clip",)),
    ]
    assert (other.as_read, other.inferred) == (((None, other),), ())
    assert cell.is_recipe_stated


def test_a_twin_differs_from_its_cell_in_what_is_stated_of_it(table: PublishedTable) -> None:
    twins = [cell.twin for cell in table.cells]
    assert twins == [
        PublishedTwin(model="digits-symvit", suite="digits-shift", condition="clean", metric="top1_accuracy"),
        PublishedTwin(
            model="digits-symvit", suite="digits-shift", condition="digits-r", metric="top1_accuracy", complement=True
        ),
        None,
        None,
    ]
    assert present(twins[1]).column_key == "digits-r/top1_accuracy"


def test_a_missing_cell_keeps_its_model_and_has_no_column(table: PublishedTable) -> None:
    cell = present(table.cell("Ours", "PPL"))
    assert (cell.model, cell.missing, cell.column_key, cell.unit) == ("symvit", "no language model", None, "")


def test_numbers_are_exact_and_know_their_rounding(table: PublishedTable) -> None:
    assert [cell.value for cell in table.cells][:2] == [Fraction(7044, 100), Fraction(901, 10)]
    assert [cell.rounding for cell in table.cells][:2] == [Fraction(5, 1000), Fraction(5, 100)]


def test_tables_that_are_not_counted_may_print_what_is_no_number(tmp_path: Path) -> None:
    text = TABLE.replace('"72.2"', '"11+[1]"').replace("Theirs 72.2", "Theirs 11+[1]").replace("runs: 3", "runs: 1")
    text = text.replace("    baseline: Theirs\n", "")
    table = read_published(write(tmp_path, f"counted: false\n{text}"))
    assert not table.is_counted
    with pytest.raises(ValueError, match="Invalid literal"):
        _ = table.cells[-1].value


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("runs: 3", "runs: 0", "line 7: runs: must be at least 1, got 0"),
        ("runs: 3\n", "", "line 1: runs: missing"),
        ("runs: 3", "runs: 3\nnotes: none", "line 8: notes: unknown field 'notes'. Known: caption_line"),
        ("    model: deit-tiny", "    modle: deit-tiny", "unknown field 'modle'. Did you mean 'model'?"),
        ('["72.2", null', "[72.2, null", "rows[1].printed[0]: must be text, got 72.2; put it in quotes"),
        (
            "model: deit-tiny",
            "model: deit-tiny\n    better: up",
            "rows[1].better: unknown value 'up'. Known: higher, lower, neither.",
        ),
        ("label: Theirs", "label: ''", "rows[1].label: must not be empty"),
        ("line: 11", "line: 0", "rows[1].line: must be at least 1, got 0"),
        ("epochs: 300", "epochs: [300]", "rows[0].protocol.epochs: must be text or a number, got a list"),
        ("table: 2", "table: 3", "table: must be in a file mine-3.yaml, got mine-2.yaml"),
        ("name: PPL", "name: Clean", "columns[2].name: 'Clean' is given twice, first as columns[0]"),
        ("label: Theirs", "label: Ours", "rows[1].label: 'Ours' is given twice, first as rows[0]"),
        (
            '"72.2", null, null',
            '"72.2", null',
            "rows[1].printed: row 'Theirs' must have a number or null for each of 3 columns, got 2",
        ),
        (
            "remarks: {IN-R error",
            "remarks: {In-R: odd, IN-R error",
            "rows[0].remarks.In-R: must be the name of a column, got 'In-R'; row 'Ours'",
        ),
        (
            "remarks: {IN-R error",
            "inconsistent: {In-R: odd}\n    remarks: {IN-R error",
            "rows[0].inconsistent.In-R: must be the name of a column, got 'In-R'; row 'Ours'",
        ),
        (
            '["72.2"',
            '["7.22"',
            "rows[1].printed[0]: row 'Theirs', column 'Clean': 7.22 is not in the row's lines; correct it",
        ),
        ("    remarks: {IN-R error: printed as 9 0.1}\n", "", "row 'Ours', column 'IN-R error': 90.1 is not in"),
        ('"72.2"', '"72.2 %"', "row 'Theirs', column 'Clean': must be a number without its unit, got '72.2 %'"),
        ('unit: "", ', "", None),
        ("    model: deit-tiny\n", "", "row 'Theirs', column 'Clean': lacks model; state them, or say in missing"),
        (
            "    model: deit-tiny\n",
            "    model: deit-tiny\n    missing: nothing\n",
            "row 'Theirs', column 'Clean': has model, suite, condition and metric, and also missing",
        ),
        (
            "    model: deit-tiny",
            "    model: deit-tiny\n    inferred: [epsilon]",
            "row 'Theirs', column 'Clean': epsilon is in protocol, and also inferred; leave it out of inferred",
        ),
        (
            "condition: clean, ",
            "condition: clean, readings: {paper: {}}, ",
            "columns[0].readings.paper: unknown field 'paper'. Known: code, text.",
        ),
        (
            "missing: no language model}",
            "missing: no language model, cost: {kind: seconds}}",
            "row 'Ours', column 'PPL': has a cost, and also missing, suite, condition or metric",
        ),
        (
            "missing: no language model}",
            "mean: true}",
            "row 'Ours', column 'PPL': is a mean over its row, and has also missing, cost, model or suite",
        ),
        (
            "missing: no language model}",
            "cost: {kind: flops}}",
            "columns[2].cost.kind: unknown value 'flops'. Known: bytes, multiply-adds, parameters, seconds.",
        ),
        (
            "missing: no language model}",
            "missing: no language model, twin: {suite: digits-shift}}",
            "row 'Ours', column 'PPL': its twin lacks condition, metric; state them in twin",
        ),
    ],
)
def test_what_breaks_the_schema_is_told_with_its_place(tmp_path: Path, old: str, new: str, wanted: str | None) -> None:
    assert old in TABLE
    text = TABLE.replace(old, new, 1)
    if wanted is None:
        assert len(read_published(write(tmp_path, text)).cells) == 4
    else:
        (problem,) = problems_of(tmp_path, text)
        assert wanted in problem
        assert problem.startswith("line ")


COSTS = """\
paper: mine
table: 2
title: Costs of a model
source: Me 2024
text: mine.txt
caption_line: 7
runs: 3
claims: none
reason: one model alone
columns:
  - {name: Operations, unit: G, model: symvit, cost: {kind: multiply-adds, rule: fvcore}}
  - {name: Time, unit: s, cost: {kind: seconds}}
rows:
  - {label: Ours, line: 9, lines: ["Ours 1.17 0.3"], printed: ["1.17", "0.3"]}
"""


def test_costs_need_no_suite_and_seconds_no_model(tmp_path: Path) -> None:
    operations, time = read_published(write(tmp_path, COSTS)).cells
    assert operations.cost == PrintedCost(kind="multiply-adds", rule="fvcore")
    assert (operations.column_key, operations.missing, operations.cost.is_count) == (None, None, True)
    assert (time.model, time.cost) == (None, PrintedCost(kind="seconds"))


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("model: symvit, ", "", "column 'Operations': has a cost that is counted, and lacks model; state it"),
        (", rule: fvcore", "", "column 'Operations': must have a cost.rule for multiply-adds, and for nothing else"),
        ("kind: seconds", "kind: seconds, rule: fvcore", "column 'Time': must have a cost.rule for multiply-adds, and"),
        ("rule: fvcore", "rule: vcore", "cost.rule must be one of linear, biases, products, fvcore, got 'vcore'"),
    ],
)
def test_what_breaks_the_schema_of_costs_is_told(tmp_path: Path, old: str, new: str, wanted: str) -> None:
    (problem,) = problems_of(tmp_path, COSTS.replace(old, new))
    assert wanted in problem


def test_each_cell_needs_a_unit(tmp_path: Path) -> None:
    problems = problems_of(tmp_path, TABLE.replace('  unit: "%"\n', ""))
    assert [problem.partition("printed")[2].split(";")[0] for problem in problems] == [
        "[0]: row 'Ours', column 'Clean': has no unit",
        "[1]: row 'Ours', column 'IN-R error': has no unit",
        "[0]: row 'Theirs', column 'Clean': has no unit",
    ]


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    text = TABLE.replace("label: Theirs", "label: Ours").replace('["72.2"', '["7.22"').replace("runs: 3", "runs: 0")
    assert len(problems_of(tmp_path, text)) == 1
    assert len(problems_of(tmp_path, text.replace("runs: 0", "runs: 3"))) == 2


@pytest.mark.parametrize(
    ("printed", "line", "found"),
    [
        ("70.44", "SymViT\t70.44\t90.17", True),
        ("70.44", "SymViT 170.44", False),
        ("70.44", "SymViT 70.441", False),
        ("70", "SymViT 70.44", False),
        ("44", "SymViT 70.44", False),
        ("3.51", "33.15/3.51", True),
        ("1.17", "1.17M", True),
        ("12.80", "<b>12.80</b>", True),
        ("5", "ended at 5.", True),
        ("1.5", "175", False),
    ],
)
def test_a_number_is_found_as_a_whole(printed: str, line: str, found: bool) -> None:
    assert occurs(printed, ("nothing", line)) == found


def test_a_wheel_ships_the_tables_inside_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "robench" / "shipped" / "reports" / "published"
    folder.mkdir(parents=True)
    for name in ("mine-10.yaml", "mine-2.yaml", "also-mine-1.yaml", "notes.yaml", "mine-3.txt"):
        write(folder, name=name)
    monkeypatch.setattr(shipped, "__file__", str(tmp_path / "robench" / "declare" / "shipped.py"))
    assert list(published_tables()) == [("also-mine", 1), ("mine", 2), ("mine", 10)]
    assert load_published("mine", 2).title == "A table of two models"
    with pytest.raises(DeclarationError, match=r"must be in a file mine-2\.yaml, got mine-10\.yaml"):
        load_published("mine", 10)


def test_the_build_takes_the_tables_to_where_they_are_looked_for() -> None:
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    assert '"reports/published" = "robench/shipped/reports/published"' in lines
    assert {path.parent for path in published_tables().values()} == {ROOT / "reports" / "published"}


def test_an_unknown_table_has_did_you_mean() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown printed table 'rcp:1'\. Did you mean 'rpc:1'\?"):
        load_published("rcp", 1)
    with pytest.raises(UsageError, match="no such file"):
        read_published(ROOT / "absent.yaml")


def test_every_file_is_a_table_of_a_paper() -> None:
    folder = ROOT / "reports" / "published"
    others = {folder / "counts.json", folder / "figures.yaml", folder / "operations.json"}
    assert set(folder.iterdir()) == {*published_tables().values(), *others}
    assert {paper for paper, _ in TABLES} <= COUNTS.keys()


def test_every_table_of_a_paper_is_there() -> None:
    wanted = [(paper, number + 1) for paper, counts in COUNTS.items() for number in range(len(counts))]
    assert wanted == TABLES


@pytest.mark.parametrize(("paper", "number"), TABLES)
def test_every_cell_is_there(paper: str, number: int) -> None:
    table = load_published(paper, number)
    assert len(table.cells) == COUNTS[paper][number - 1]
    assert table.is_counted == ((paper, number) != UNCOUNTED)


def test_the_papers_print_1314_numbers() -> None:
    uncounted = COUNTS[UNCOUNTED[0]][UNCOUNTED[1] - 1]
    assert sum(map(sum, COUNTS.values())) - uncounted == 1314


def test_the_page_has_the_numbers_of_tables_and_cells() -> None:
    rows = re.findall(r"^\| `([a-z]+)`: .* \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE)
    counted = {
        paper: [count for table, count in enumerate(counts, 1) if (paper, table) != UNCOUNTED]
        for paper, counts in COUNTS.items()
    }
    assert {paper: (int(tables), int(cells)) for paper, tables, cells in rows} == {
        paper: (len(COUNTS[paper]), sum(counts)) for paper, counts in counted.items()
    }


def test_the_page_explains_every_name_of_a_protocol_and_no_other() -> None:
    (rows,) = re.findall(r"\| name in `protocol` \|.*?\n\n", PAGE, re.DOTALL)
    explained = re.findall(r"`([a-z_]+)`", " ".join(row.split("|")[1] for row in rows.splitlines()[2:] if row))
    used = {name for table in TABLES for cell in load_published(*table).cells for name in cell.protocol}
    assert set(explained) == used


def test_the_example_of_the_page_is_a_table(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    table = read_published(write(tmp_path, example, "rpc-1.yaml"))
    assert [cell.printed for cell in table.cells] == ["28.98", "41.45", "5.2", "29.99", "42.35", "5.2"]
    assert [cell.twin is not None for cell in table.cells] == [True, False, False, False, False, False]
    assert [claim.place for claim in table.claims] == ["IN-R top-1", "IN-C top-1"]


def test_the_code_of_the_page_gives_what_its_comments_say() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    lines = [line.partition("  # ") for line in code.splitlines() if "  # " in line]
    namespace: dict[str, object] = {}
    exec(code, namespace)
    assert len(lines) == 2
    for expression, _, value in lines:
        assert eval(expression, namespace) == eval(value)


def test_the_mistake_of_the_page_is_told_as_it_says(tmp_path: Path) -> None:
    text = published_tables()["rpc", 1].read_text()
    (problem,) = problems_of(tmp_path, text.replace('"41.45"', '"41.54"'), "rpc-1.yaml")
    assert f": {problem.partition(': ')[2]}\n" in PAGE


@pytest.mark.parametrize(("paper", "number"), TABLES)
def test_every_name_is_one_of_robenchs(paper: str, number: int) -> None:
    for cell in load_published(paper, number).cells:
        where = f"{cell.row}, {cell.column}"
        assert cell.model is None or cell.model in registry(), where
        assert cell.suite is None or cell.suite in shipped_suites(), where
        if cell.column_key is not None:
            assert cell.column_key in columns_of(str(cell.suite)), where
            assert {read.column_key for _, read in cell.as_read} <= columns_of(str(cell.suite)), where
        elif cell.suite is not None and cell.condition is not None:
            assert any(key.startswith(f"{cell.condition}/") for key in columns_of(cell.suite)), where
        if cell.twin is not None:
            assert cell.twin.model in registry(), where
            assert cell.twin.column_key in columns_of(cell.twin.suite), where
            assert cell.twin.suite.startswith(("digits-", "sotu-", "scenes-", "pendulum")), where
            made_of = registry()[cell.twin.model].training_data
            assert made_of.startswith(("digits", "sotu", "digit-scenes", "500 episodes of Pendulum-v1")), where


@pytest.mark.parametrize(("paper", "number"), TABLES)
def test_every_number_is_in_the_lines_of_its_row(paper: str, number: int) -> None:
    for row in load_published(paper, number).rows:
        for cell in row.cells:
            assert cell is None or cell.remark is not None or occurs(cell.printed, row.lines), row.label


@pytest.mark.skipif(not TEXTS.is_dir(), reason="the papers' texts are not beside the repository")
@pytest.mark.parametrize(("paper", "number"), TABLES)
def test_every_line_is_where_the_paper_has_it(paper: str, number: int) -> None:
    table = load_published(paper, number)
    # As sed and editors count lines: the texts have form feeds, which splitlines would count too.
    lines = (TEXTS / table.text).read_text(encoding="utf-8").split("\n")
    # One caption's number is torn in two by a tab.
    assert f"Table{number}:" in "".join(lines[table.caption_line - 1].split())
    for row in table.rows:
        there = lines[row.line - 1 :][: len(row.lines)]
        assert len(there) == len(row.lines)
        # Of a row inside a sentence, the sentence is not quoted.
        whole = (paper, number, row.label) != ("twicing", 8, "Linear-Twicing")
        assert all(quoted == line if whole else quoted in line for quoted, line in zip(row.lines, there, strict=True))


@pytest.mark.parametrize(("paper", "number"), TABLES)
def test_clean_accuracies_are_those_that_the_registry_expects(paper: str, number: int) -> None:
    for cell in load_published(paper, number).cells:
        if cell.model is None or cell.column_key is None or cell.condition != "clean":
            continue
        entry = registry()[cell.model]
        expected = entry.expected.get(str(cell.metric))
        # Weights that robench trained have accuracies of their own.
        if expected is not None and entry.weights.by != "robench":
            assert float(cell.value) == pytest.approx(100 * expected, abs=1e-9), f"{cell.row}, {cell.column}"


def test_errors_by_type_follow_from_accuracies_but_where_an_inconsistency_says_what_would() -> None:
    table = load_published("rpc", 4)
    differing = []
    for row in (row.label.removesuffix(", mCE") for row in table.rows if row.label.endswith(", mCE")):
        reference = REFERENCES["imagenet-c"].corrupted[row.lower().replace(" ", "_")]
        for column in table.columns:
            accuracy, error = (present(table.cell(f"{row}, {kind}", column)) for kind in ("top-1", "mCE"))
            follows = float(100 - accuracy.value) / reference
            tolerance = float(accuracy.rounding) / reference + float(error.rounding)
            if error.inconsistent is not None:
                differing.append((row, column))
                assert error.inconsistent.startswith(f"{follows:.2f} follows")
            assert (abs(follows - float(error.value)) > tolerance) == (error.inconsistent is not None), (row, column)
    assert differing == [
        ("Brightness", "RPC-SymViT (2iter/all-layer)"),
        ("Contrast", "SymViT"),
        ("Motion Blur", "RPC-SymViT (2iter/all-layer)"),
    ]


def test_means_over_types_are_those_of_the_table_of_types() -> None:
    means, by_type = load_published("rpc", 1), load_published("rpc", 4)
    for model in ("RPC-SymViT (4iter/layer1)", "RPC-SymViT (5iter/layer1)", "RPC-SymViT (6iter/layer1)"):
        for column, kind in (("IN-C top-1", "top-1"), ("IN-C mCE", "mCE")):
            printed = means.cell(model, column)
            cells = [by_type.cell(row.label, model) for row in by_type.rows if row.label.endswith(f", {kind}")]
            values = [cell.value for cell in cells if cell is not None]
            assert len(values) == 15
            # Both the fifteen and their mean are rounded.
            assert abs(present(printed).value - sum(values) / 15) <= 2 * present(printed).rounding


def test_losses_are_logarithms_of_perplexities_but_where_an_inconsistency_says_what_is() -> None:
    pairs = differing = 0
    for number in (1, 5, 6):
        table = load_published("rkde", number)
        for row in table.rows:
            cells = [present(cell) for cell in row.cells]
            for perplexity, loss in zip(cells[::2], cells[1::2], strict=True):
                low, high = (log(perplexity.value + sign * perplexity.rounding) for sign in (-1, 1))
                is_rounding = low - float(loss.rounding) <= float(loss.value) <= high + float(loss.rounding)
                text = f"printed {loss.printed}; {log(perplexity.value):.2f} is the logarithm of the printed perplexity"
                assert loss.inconsistent == (None if is_rounding else f"{text} {perplexity.printed}"), row.label
                pairs, differing = pairs + 1, differing + (not is_rounding)
    assert (pairs, differing) == (96, 72)


def test_seconds_a_sample_of_training_are_no_seconds_a_sample() -> None:
    table = load_published("rpc", 13)
    for row in table.rows:
        cell = present(table.cell(row.label, "Sec/Sample (Training)"))
        days = round(1_281_167 * 300 * float(cell.value) / 86_400)
        said = f"printed {cell.printed} s a sample; 300 epochs of 1,281,167 images would take {days} days"
        assert cell.inconsistent == said
    assert "351 days" in str(table.rows[0].cells[1])


def test_a_contradiction_is_no_remark_on_the_transcription(tmp_path: Path) -> None:
    text = TABLE.replace("    remarks: {", "    inconsistent: {Clean: another table has 70.5}\n    remarks: {")
    row = read_published(write(tmp_path, text)).rows[0]
    assert [cell and (cell.remark, cell.inconsistent) for cell in row.cells] == [
        (None, "another table has 70.5"),
        ("printed as 9 0.1", None),
        (None, None),
    ]


def test_a_contradiction_excuses_no_transcription(tmp_path: Path) -> None:
    text = TABLE.replace('["72.2"', '["7.22"').replace("label: Theirs", "label: Theirs\n    inconsistent: {Clean: odd}")
    (problem,) = problems_of(tmp_path, text)
    assert "7.22 is not in the row's lines" in problem


def test_what_explains_the_transcription_is_no_contradiction() -> None:
    cells = [cell for table in TABLES for cell in load_published(*table).cells]
    explained = {(cell.printed, cell.remark) for cell in cells if cell.remark is not None}
    # Two spaces inside numbers, two numbers run together, one torn from its line; four that are merely odd.
    assert len([cell for cell in cells if cell.remark is not None]) == 9
    assert len(explained) == 9
    contradicted = [cell for cell in cells if cell.inconsistent is not None]
    assert len(contradicted) == 119
    assert all(cell.remark is None for cell in contradicted)
