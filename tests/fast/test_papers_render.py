"""Tables and twins as text: numbers, signs and notes of every format, widths, and that no foreign text acts in any."""

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hostile_texts import HOSTILE, Page, bare_latex
from markdown_it import MarkdownIt
from papers_examples import CLEAN, FLAG, THEIRS, TWIN, basis_with, cell_of, printed, report_with, table_with
from presence import present

from robench.core.rendered import Rendered
from robench.papers import FORMATS, TWIN_FORMATS, PaperTable, TwinTable
from robench.papers.layout import WIDTH, Grid, fitted, markdown_grid, width_of
from robench.papers.notes import generic, grouped, whereabouts
from robench.papers.page import page_of
from robench.papers.signs import encodable
from robench.papers.table import table_of
from robench.papers.twins import twins_of
from robench.reports.grid import ONE_CHECKPOINT

READERS = ("text", "md", "html")
GOLDEN = Path(__file__).parents[1] / "golden" / "tables"
COLUMNS = ("Clean", "Robust")
COUPLED = replace(FLAG, name="coupled rows")
TWINS = {CLEAN: cell_of(0.97, 0.95, 0.98)}


def example() -> PaperTable:
    """Two rows and two columns: differing, of another protocol, no entry, a dash; and a claim."""
    first = printed(inconsistent="70.54 elsewhere")
    second = printed("12.5", column="Robust", protocol={"examples": "10"})
    third = printed("3.1", row="Theirs", missing="no metric: yet", metric=None, remark="as 3 .1", model=None)
    cells = {CLEAN: cell_of(0.7051, 0.7011, 0.7091)}
    reports = report_with("symvit", cells, flags=(COUPLED,), notes=("measured in batches of 50",))
    published = replace(table_with(first, second, third, None, columns=COLUMNS, runs=1), baselines={"Ours": "Theirs"})
    return replace(table_of(published, basis_with(reports, of_authors=THEIRS)), hours={"Ours": "training 210-340 h"})


def unmeasured(*, baselines: bool = False) -> PaperTable:
    cells = (printed("71.4"), printed("70.4", "deit-tiny", row="Theirs"))
    claims = {"Ours": "Theirs"} if baselines else {}
    return table_of(replace(table_with(*cells), baselines=claims), basis_with())


def twins() -> TwinTable:
    """A measured twin of two rows, and one that is not."""
    other = replace(TWIN, model="digits-rpc-symvit")
    cells = (printed(twin=TWIN), printed(row="Again", twin=TWIN), printed(row="Theirs", twin=other))
    return present(twins_of(table_with(*cells), basis_with(report_with("digits-symvit", TWINS, "digits-shift"))))


def everywhere(text: str) -> PaperTable:
    """The text in every place that a file can fill."""
    cell = printed(row=text, column=text, missing=text, metric=None, remark=text, inconsistent=text)
    published = replace(table_with(replace(cell, model=text, unit=text), columns=(text,)), title=text, source=text)
    return replace(table_of(published, basis_with()), hours={text: text}, command=text, no_claims=text)


def twins_everywhere(text: str) -> TwinTable:
    found = twins()
    flagged = replace(found.rows[0].cells["digits-shift/clean/top1_accuracy"], reason=text)
    flagged = replace(flagged, ours=replace(flagged.ours, raised=(text,), notes=(text,), model=text, formula=text))
    row = replace(found.rows[0], model=text, twin_of=text, cells={text: flagged})
    column = replace(found.columns[0], name=text, heading=text, is_at_ceiling=True)
    return replace(found, title=text, source=text, trained_on=(text,), rows=(row,), columns=(column,))


HOSTILE_TABLES = [(FORMATS, everywhere), (TWIN_FORMATS, twins_everywhere)]


def mixed() -> PaperTable:
    """Models that are neither those of rows nor of columns, and numbers of several units."""
    cells = (
        printed(column="A"),
        printed("1.0", model="rpc-symvit", column="B"),
        printed("2.0", model="rpc-symvit", row="b", column="A"),
        printed("3", row="b", column="B", unit="GMac", missing="x", metric=None),
    )
    return table_of(table_with(*cells, columns=("A", "B")), basis_with())


def in_columns() -> PaperTable:
    cells = (
        printed(row="PGD", column="A"),
        printed("1.0", model="rpc-symvit", row="PGD", column="B"),
        printed("2.0", row="FGSM", column="A"),
        printed("3.0", model="rpc-symvit", row="FGSM", column="B"),
    )
    return table_of(table_with(*cells, columns=("A", "B")), basis_with())


def with_hours() -> PaperTable:
    return replace(unmeasured(baselines=True), hours={"Ours": "training 9 h", "Theirs": "training 9 h"})


@pytest.mark.parametrize("name", FORMATS)
class TestFormats:
    @pytest.mark.parametrize("of_table", [example, with_hours, mixed, in_columns, twins])
    def test_a_table_is_rendered_as_the_golden_one(self, name: str, of_table: Callable[[], Rendered]) -> None:
        text = of_table().render(name)
        # Without the style sheet of HTML.
        shown = text.rpartition("</style>")[2]
        assert shown == (GOLDEN / f"{of_table.__name__}.{name}").read_text()
        assert of_table().render(name) == text

    @pytest.mark.parametrize("kind", HOSTILE)
    def test_it_shows_nothing_that_a_terminal_obeys(self, name: str, kind: str) -> None:
        for formats, of_text in HOSTILE_TABLES:
            text = formats[name](of_text(HOSTILE[kind]))
            text.encode("utf-8")
            assert all(character == "\n" or character.isprintable() for character in text)


@pytest.mark.parametrize("name", READERS)
def test_a_long_label_does_not_swell_the_table(name: str) -> None:
    assert all(len(formats[name](of_text("x" * 10_000))) < 9000 for formats, of_text in HOSTILE_TABLES)


class TestTwins:
    def test_a_ceiling_is_that_of_proportions_of_which_more_is_better(self) -> None:
        measured = {CLEAN: cell_of(0.996), "digits-o/fpr95": cell_of(0.996), "digits-a/top1_accuracy": cell_of(0.994)}
        places = {"A": "clean/top1_accuracy", "B": "digits-o/fpr95", "C": "digits-a/top1_accuracy"}
        parts = {column: key.split("/") for column, key in places.items()}
        cells = [
            printed(column=column, twin=replace(TWIN, condition=condition, metric=metric))
            for column, (condition, metric) in parts.items()
        ]
        reports = report_with("digits-symvit", measured, "digits-shift")
        found = present(twins_of(table_with(*cells, columns=tuple(places)), basis_with(reports)))
        assert [column.is_at_ceiling for column in found.columns] == [True, False, False]
        assert "above 99.5 %: digits-shift: clean top-1 accuracy." in TWIN_FORMATS["text"](found)

    def test_a_table_without_any_has_no_twins(self) -> None:
        assert twins_of(table_with(printed()), basis_with()) is None


class TestLatex:
    @pytest.mark.parametrize("kind", HOSTILE)
    def test_it_has_no_command_of_theirs(self, kind: str) -> None:
        for formats, of_text in HOSTILE_TABLES:
            hostile, harmless = (formats["latex"](of_text(text)) for text in (HOSTILE[kind], "x"))
            lines = [[line[:1] == "%" for line in text.splitlines()] for text in (hostile, harmless)]
            assert lines[0] == lines[1]
            bare = bare_latex(hostile)
            assert set(re.findall(r"\\[a-zA-Z]+", bare)) <= set(re.findall(r"\\[a-zA-Z]+", harmless))
            assert bare.count("{") == bare.count("}")
            assert [bare.count(each) for each in "^~<>|#$%&"] == [harmless.count(each) for each in "^~<>|#$%&"]
            assert not re.search(r"(\\\\|rule)\s*[\[*]", hostile)


class TestJson:
    @pytest.mark.parametrize("kind", HOSTILE)
    def test_names_come_back_as_they_were(self, kind: str) -> None:
        text = HOSTILE[kind]
        document = json.loads(FORMATS["json"](everywhere(text)))
        assert document["title"] == document["rows"][0]["label"] == text
        assert list(document["rows"][0]["cells"]) == [text]


@pytest.mark.parametrize("name", ["csv", "json"])
def test_last_bits_change_no_file(name: str) -> None:
    def written(bits: float) -> str:
        cells = {CLEAN: cell_of(*(value * bits for value in (0.7051, 0.7011, 0.7091)))}
        table = table_of(table_with(printed("70.54")), basis_with(report_with("symvit", cells), of_authors=THEIRS))
        return FORMATS[name](table)

    nearest, further = (written(1 + factor * 2**-52) for factor in (1, 2**30))
    assert nearest == written(1.0) != further


class TestCsv:
    @pytest.mark.parametrize("kind", HOSTILE)
    def test_no_field_is_a_formula(self, kind: str) -> None:
        for formats, of_text in HOSTILE_TABLES:
            lines = list(csv.reader(io.StringIO(formats["csv"](of_text(HOSTILE[kind])))))
            assert len({len(line) for line in lines}) == 1
            assert not any(re.match(r"\s*[=+@\uff1d-]", field) for line in lines for field in line)


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize(("formats", "of_text"), HOSTILE_TABLES, ids=("table", "twins"))
class TestHostileTexts:
    def test_html_shows_them_and_adds_no_element(self, formats, of_text, kind: str) -> None:
        hostile, harmless = Page(formats["html"](of_text(HOSTILE[kind]))), Page(formats["html"](of_text("x")))
        assert hostile.tags == harmless.tags
        assert hostile.attributes == harmless.attributes
        assert not {"script", "img", "a", "link", "iframe"} & set(hostile.tags)

    def test_markdown_acts_on_nothing(self, formats, of_text, kind: str) -> None:
        tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(formats["md"](of_text(HOSTILE[kind])))
        own = {"heading", "paragraph", "inline", "bullet_list", "list_item"}
        own |= {"table", "thead", "tbody", "tr", "th", "td"}
        assert {re.sub("_(open|close)$", "", token.type) for token in tokens} <= own
        within = {child.type for token in tokens for child in token.children or ()}
        assert within <= {"text", "softbreak"}
        assert max(token.level for token in tokens if token.type == "bullet_list_open") == 0

    def test_markdown_keeps_its_cells(self, formats, of_text, kind: str) -> None:
        bare = re.sub(r"\\[!-/:-@\[-`{-~]", "", formats["md"](of_text(HOSTILE[kind])))
        for block in bare.split("\n\n"):
            if block.startswith("|"):
                assert len({line.count("|") for line in block.splitlines()}) == 1
        assert not re.search(r"[<>`*\[\]$~]|(?<!\w)_|_(?!\w)", bare)


@pytest.mark.parametrize("text", ["a " * 90 + "- b", "a " * 90 + "1. b", "a " * 80 + "= = =" * 9, "- a", "+ a", "---"])
def test_no_line_of_a_long_note_begins_anything(text: str) -> None:
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(FORMATS["md"](everywhere(text)))
    lists = [token for token in tokens if token.type in ("bullet_list_open", "ordered_list_open", "hr")]
    assert [(token.type, token.level) for token in lists] == [("bullet_list_open", 0)]
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h1"]


def test_signs_become_ascii_where_an_encoding_lacks_any() -> None:
    text = FORMATS["text"](example())
    assert encodable(text, "utf-8") == text
    shown = encodable(text, "latin-1")
    assert shown.isascii()
    assert "70.44; 70.51 [70.11, 70.91] x !" in shown
    assert "x differs, " in shown
    assert list(map(len, shown.splitlines())) == list(map(len, text.splitlines()))


def grid(*, num_columns: int, width: int, facts: bool = True, by_column: bool = False, num_rows: int = 2) -> Grid:
    count = num_columns if by_column else num_rows
    return Grid(
        labels=tuple("abcdefgh"[:num_rows]),
        headings=tuple(str(each).ljust(width, "x") for each in range(num_columns)),
        cells=((*"0" * num_columns,),) * num_rows,
        facts={"model": tuple("m" * 20 for _ in range(count))} if facts else {},
        has_models_in_columns=by_column,
    )


class TestLayout:
    def test_it_stays_as_it_is_with_facts_beside_if_that_fits(self) -> None:
        ((header, *rows),) = fitted(grid(num_columns=3, width=10))
        assert header[:2] == ("", "model")
        assert [row[:2] for row in rows] == [("a", "m" * 20), ("b", "m" * 20)]

    def test_facts_are_above_columns_that_are_models(self) -> None:
        ((header, first, *_),) = fitted(grid(num_columns=3, width=10, by_column=True))
        assert header[1:] == ("0xxxxxxxxx", "1xxxxxxxxx", "2xxxxxxxxx")
        assert first == ("model", *["m" * 20] * 3)

    def test_facts_become_a_table_of_their_own_before_it_is_turned(self) -> None:
        numbers, models = fitted(grid(num_columns=10, width=11))
        assert numbers[0] == ("", *grid(num_columns=10, width=11).headings)
        assert models == (("", "model"), ("a", "m" * 20), ("b", "m" * 20))

    def test_it_is_turned_where_models_fit_as_columns_alone(self) -> None:
        ((header, first, *rows),) = fitted(grid(num_columns=30, width=20))
        assert (header, first) == (("", "a", "b"), ("model", "m" * 20, "m" * 20))
        assert len(rows) == 30

    def test_it_is_split_evenly_where_neither_fits(self) -> None:
        wide = grid(num_columns=9, width=25, facts=False, num_rows=8)
        wide = replace(wide, labels=tuple(label * 30 for label in wide.labels))
        tables = fitted(wide)
        assert [len(table[0]) for table in tables] == [4] * 3
        assert [row[0] for row in tables[0]] == [row[0] for row in tables[1]]
        assert [name for table in tables for name in table[0][1:]] == list(wide.headings)
        assert max(map(width_of, tables)) <= WIDTH

    def test_the_width_is_that_of_markdown(self) -> None:
        (lines,) = fitted(grid(num_columns=3, width=10))
        assert {len(line) for line in markdown_grid(lines).splitlines()} == {width_of(lines)}

    def test_units_are_in_the_key_or_in_headings_or_else_beside_the_number(self) -> None:
        same = page_of(unmeasured()).sections[0]
        assert (present(same.grid).headings, same.paragraphs[0].split(";")[0]) == (
            ("Clean",),
            "Cells: printed number, in %",
        )
        other = printed("3", column="Cost", unit="GMac", missing="x", metric=None)
        grid = page_of(table_of(table_with(printed(), other, columns=("Clean", "Cost")), basis_with())).sections[0].grid
        assert present(grid).headings == ("Clean (%)", "Cost (GMac)")

    def test_means_over_seeds_say_of_how_many(self) -> None:
        seeds = (0.70, 0.71, 0.72)
        reports = report_with("symvit", {CLEAN: cell_of(0.71, 0.69, 0.73, of_seeds=seeds)}, seeds=("a", "b", "c"))
        page = page_of(table_of(table_with(printed()), basis_with(reports)))
        assert present(page.sections[0].grid).facts["model"] == ("symvit (3 seeds)",)
        assert ONE_CHECKPOINT not in page.closing

    def test_a_table_without_results_does_not_count_them(self) -> None:
        assert page_of(replace(unmeasured(), is_counted=False)).closing == ("no results are printed.",)


PLACES = [(row, column) for row in "ab" for column in "XYZ"]


class TestNotes:
    @pytest.mark.parametrize(
        ("places", "wanted"),
        [
            (PLACES, ""),
            (PLACES[:3], "a"),
            ([("a", "X"), ("b", "X")], "X"),
            ([("a", "X"), ("a", "Y")], "a in X, Y"),
            ([*PLACES[:3], ("b", "X")], "a; b in X"),
        ],
    )
    def test_places_are_named_as_shortly_as_rows_and_columns_allow(self, places, wanted: str) -> None:
        assert whereabouts(places, PLACES) == wanted

    def test_equal_reasons_are_one_note_and_single_ones_of_a_row_together(self) -> None:
        reasons = [(("a", "X"), "r"), (("a", "Y"), "s"), (("a", "Z"), "t"), (("b", "Z"), "t"), (("b", "X"), "u")]
        assert grouped(reasons, PLACES) == ["a: X: r. Y: s", "Z: t", "b in X: u"]

    def test_reasons_that_differ_in_the_model_alone_are_one(self) -> None:
        reasons = {place: f"cost {place[0]} over b" for place in (("vit", "X"), ("rpc-vit", "X"))}
        models = {place: (place[0], "b") for place in reasons}
        assert set(generic(reasons, models).values()) == {"cost MODEL over BASELINE"}
        only = {("vit", "X"): "cost vit over rpc-vit"}
        assert generic(only, {("vit", "X"): ("vit",)}) == only
