"""Tables as text: every format has every number and verdict, and no text of a stranger acts in any."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from papers_examples import CLEAN, FLAG, THEIRS, TWIN, basis_with, cell_of, printed, report_with, table_with

from robench.papers import FORMATS, PaperTable
from robench.papers.render import page_of
from robench.papers.table import table_of
from robench.reports.grid import ONE_CHECKPOINT

READERS = [name for name in FORMATS if name not in ("json", "csv")]
HOSTILE = {
    "html": "<script>alert(1)</script>",
    "html end": '"></td></table></script><img src=x onerror=alert(1)>',
    "entity": "a&lt;b&amp;c",
    "pipe": "a|b",
    "formula": '=HYPERLINK("x")',
    "plus": "+1+cmd|' /C calc'!A0",
    "minus": "-2+3",
    "at": "@SUM(A1)",
    "full-width formula": "\uff1d1+1",
    "escape": "\x1b[31mred\x1b]0;title\x07",
    "newline": "a\nb\r\n| c |\u2028- d",
    "bidi": "abc\u202edef\u2066ghi",
    "nul": "a\x00b\x7fc\x9bd",
    "surrogate": "a\ud800b",
    "long": "x" * 10_000,
    "link": "[click](javascript:alert(1)) ![i](https://example.org/i.png)",
    "markdown": "**bold** _slanted_ `code` ~~gone~~ # title \\",
}
COLUMNS = ("Clean", "Robust")
COUPLED = replace(FLAG, name="coupled rows")
TWINS = (
    "twins trained on digits, 1,197 training images: other sizes and budgets; they neither support nor refute the paper"
)


def example() -> PaperTable:
    """Two rows and two columns: differing, of another protocol, no entry, a dash; a claim, and one twin is measured."""
    first = printed(twin=TWIN, inconsistent="70.54 elsewhere")
    second = printed("12.5", column="Robust", protocol={"examples": "10"})
    third = printed("3.1", row="Theirs", missing="no metric: yet", metric=None, remark="as 3 .1", model=None)
    cells = {CLEAN: cell_of(0.7051, 0.7011, 0.7091)}
    reports = report_with("symvit", cells, flags=(COUPLED,), notes=("measured in batches of 50",)) | report_with(
        "digits-symvit", {CLEAN: cell_of(0.97, 0.95, 0.98)}, "digits-shift"
    )
    published = replace(table_with(first, second, third, None, columns=COLUMNS, runs=1), baselines={"Ours": "Theirs"})
    return table_of(published, basis_with(reports, of_authors=THEIRS))


def everywhere(text: str) -> PaperTable:
    """The text in every place that a file can fill."""
    cell = printed(row=text, column=text, twin=TWIN, missing=text, metric=None, remark=text, inconsistent=text)
    flagged = (replace(FLAG, name=text),)
    reports = report_with("digits-symvit", {CLEAN: cell_of(0.97, 0.95, 0.98)}, "digits-shift", flags=flagged)
    published = replace(table_with(replace(cell, model=text, unit=text), columns=(text,)), title=text, source=text)
    return table_of(published, basis_with(reports))


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.cells: list[str] = []
        self.inside = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.inside = tag in ("td", "th")
        self.cells += [""] if self.inside else []

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.cells[-1] += data


@pytest.mark.parametrize("name", FORMATS)
class TestFormats:
    def test_it_ends_with_one_newline_and_is_the_same_twice(self, name: str) -> None:
        text = FORMATS[name](example())
        assert text.endswith("\n")
        assert not text.endswith("\n\n")
        assert FORMATS[name](example()) == text

    def test_every_number_and_verdict_is_there(self, name: str) -> None:
        text = FORMATS[name](example())
        for wanted in (
            "70.44",
            "12.5",
            "3.1",
            "other protocol",
            "no entry",
            "no metric: yet",
            "symvit",
            "digits-symvit",
        ):
            assert wanted in text
        assert COUPLED.name in text
        assert "70.54 elsewhere" in text

    @pytest.mark.parametrize("kind", HOSTILE)
    def test_it_shows_nothing_that_a_terminal_obeys(self, name: str, kind: str) -> None:
        text = FORMATS[name](everywhere(HOSTILE[kind]))
        text.encode("utf-8")
        assert all(character == "\n" or character.isprintable() for character in text)


@pytest.mark.parametrize("name", READERS)
class TestFormatsForReaders:
    def test_ours_stands_beside_the_printed_number(self, name: str) -> None:
        text = FORMATS[name](example()).replace("\\", "")
        assert "ours 70.51 [70.11, 70.91], +0.07" in text
        assert "print inconsistent" in text

    def test_twins_have_a_block_of_their_own(self, name: str) -> None:
        before, heading, after = FORMATS[name](example()).partition(TWINS)
        assert heading
        assert "97.0" not in before
        assert "97.0" in after
        assert not re.search("reproduced|consistent|differs|one seed", after)
        assert TWINS not in FORMATS[name](table_of(table_with(printed()), basis_with()))

    def test_single_checkpoints_say_what_their_intervals_are(self, name: str) -> None:
        assert ONE_CHECKPOINT in FORMATS[name](example())
        assert ONE_CHECKPOINT not in FORMATS[name](table_of(table_with(printed()), basis_with()))

    def test_it_says_how_much_is_measured(self, name: str) -> None:
        assert "2 of 3 printed numbers are measured." in FORMATS[name](example())

    def test_a_long_label_does_not_swell_the_table(self, name: str) -> None:
        assert len(FORMATS[name](everywhere("x" * 10_000))) < 9000


class TestJson:
    def test_it_has_the_promised_shape(self) -> None:
        document = json.loads(FORMATS["json"](example()))
        assert (document["table"], document["columns"]) == ("mine:1", list(COLUMNS))
        assert [row["label"] for row in document["rows"]] == ["Ours", "Theirs"]
        cell = document["rows"][0]["cells"]["Clean"]
        assert cell["printed"] == "70.44"
        assert cell["unit"] == "%"
        assert (cell["measured"], cell["low"], cell["high"]) == pytest.approx((70.51, 70.11, 70.91))
        assert cell["verdict"] == "differs"
        assert cell["flags"] == [COUPLED.name]
        assert cell["inconsistent"] == "70.54 elsewhere"
        other = document["rows"][0]["cells"]["Robust"]
        assert (other["verdict"], other["reason"]) == ("other protocol", "examples")

    def test_claims_are_listed_with_null_where_nothing_is_measured(self) -> None:
        document = json.loads(FORMATS["json"](example()))
        (claim,) = document["claims"]
        assert {name: claim[name] for name in ("row", "baseline", "column", "printed_gain", "verdict", "reason")} == {
            "row": "Ours",
            "baseline": "Theirs",
            "column": "Clean",
            "printed_gain": pytest.approx(67.34),
            "verdict": "no entry",
            "reason": "no metric: yet",
        }
        assert [claim[name] for name in ("gain", "low", "high")] == [None] * 3
        assert (document["num_within_rounding"], document["no_claims"]) == (0, None)

    def test_what_is_not_measured_is_null_and_a_dash_is_absent(self) -> None:
        cells = json.loads(FORMATS["json"](example()))["rows"][1]["cells"]
        assert list(cells) == ["Clean"]
        assert [cells["Clean"][name] for name in ("measured", "low", "high", "difference")] == [None] * 4
        assert (cells["Clean"]["verdict"], cells["Clean"]["remark"]) == ("no entry", "as 3 .1")

    def test_twins_are_rows_without_verdicts(self) -> None:
        document = json.loads(FORMATS["json"](example()))
        ((label, cells),) = [row.values() for row in document["twins"]]
        assert (label, list(cells)) == ("Ours", ["Clean"])
        assert cells["Clean"]["measured"] == pytest.approx(97.0)
        assert cells["Clean"]["suite"] == "digits-shift"
        assert not {"verdict", "printed"} & cells["Clean"].keys()
        assert document["twins_are"] == TWINS

    @pytest.mark.parametrize("kind", HOSTILE)
    def test_names_come_back_as_they_were(self, kind: str) -> None:
        text = HOSTILE[kind]
        document = json.loads(FORMATS["json"](everywhere(text)))
        assert document["title"] == document["rows"][0]["label"] == text
        assert list(document["rows"][0]["cells"]) == [text]


class TestCsv:
    def test_it_has_a_line_a_number(self) -> None:
        lines = list(csv.DictReader(io.StringIO(FORMATS["csv"](example()))))
        assert [(line["block"], line["row"], line["column"]) for line in lines] == [
            ("printed", "Ours", "Clean"),
            ("printed", "Ours", "Robust"),
            ("printed", "Theirs", "Clean"),
            ("twin", "Ours", "Clean"),
            ("claim", "Ours", "Clean"),
        ]
        assert float(lines[0]["difference"]) == pytest.approx(0.07)
        assert (lines[3]["printed"], lines[3]["verdict"], lines[2]["measured"]) == ("", "", "")

    @pytest.mark.parametrize("kind", HOSTILE)
    def test_no_field_is_a_formula(self, kind: str) -> None:
        lines = list(csv.reader(io.StringIO(FORMATS["csv"](everywhere(HOSTILE[kind])))))
        assert len({len(line) for line in lines}) == 1
        assert len(lines) == 3
        assert not any(re.match(r"\s*[=+@\uff1d-]", field) for line in lines for field in line)


def test_readers_see_claims_with_a_summary_and_what_was_measured_with() -> None:
    text = FORMATS["text"](example())
    assert re.search(r"Ours +Theirs +Clean +\+67\.340 points +— +no entry", text)
    assert "1 claim of gains over baselines: 1 no entry." in text
    assert "at least one is supported in at most 2.5 % of rows, and in at most 2.5 % of tables of 1 row." in text
    assert "symvit: measured in batches of 50" in text
    assert "imagenet-shift: seed 0" in text


@pytest.mark.parametrize("kind", HOSTILE)
class TestHostileTexts:
    def test_html_shows_them_and_adds_no_element(self, kind: str) -> None:
        hostile, harmless = Page(FORMATS["html"](everywhere(HOSTILE[kind]))), Page(FORMATS["html"](everywhere("x")))
        assert hostile.tags == harmless.tags
        assert hostile.attributes == harmless.attributes
        assert not {"script", "img", "a", "link", "iframe"} & set(hostile.tags)

    def test_markdown_keeps_its_lines_and_acts_on_nothing(self, kind: str) -> None:
        hostile, harmless = FORMATS["md"](everywhere(HOSTILE[kind])), FORMATS["md"](everywhere("x"))
        assert len(hostile.splitlines()) == len(harmless.splitlines())
        bare = re.sub(r"\\[!-/:-@\[-`{-~]", "", hostile)
        assert not re.search(r"[<>`*\[\]$~]|(?<!\w)_|_(?!\w)", bare)
        assert [line[:3] for line in bare.splitlines() if "#" in line] == ["# m", "## "]
        assert bare.count("#") == 3
        grids = [line for line in bare.splitlines() if line.startswith("|")]
        of_harmless = [line for line in harmless.splitlines() if line.startswith("|")]
        assert [line.count("|") for line in grids] == [line.count("|") for line in of_harmless]

    def test_plain_text_keeps_its_lines(self, kind: str) -> None:
        hostile, harmless = FORMATS["text"](everywhere(HOSTILE[kind])), FORMATS["text"](everywhere("x"))
        assert len(hostile.splitlines()) == len(harmless.splitlines())


class TestLayout:
    def test_models_stand_beside_rows(self) -> None:
        block = page_of(example()).blocks[0]
        assert block.header == ("", "model", "flags", "Clean (%)", "Robust (%)")
        assert [row[:3] for row in block.rows] == [("Ours", "symvit", COUPLED.name), ("Theirs", "—", "—")]
        assert block.rows[1][-1] == "—"

    def test_models_stand_above_columns_where_the_paper_has_them_there(self) -> None:
        cells = (
            printed(row="PGD", column="A"),
            printed("1.0", model="rpc-symvit", row="PGD", column="B"),
            printed("2.0", row="FGSM", column="A"),
            printed("3.0", model="rpc-symvit", row="FGSM", column="B"),
        )
        block = page_of(table_of(table_with(*cells, columns=("A", "B")), basis_with())).blocks[0]
        assert block.header == ("", "A (%)", "B (%)")
        assert [row[0] for row in block.rows] == ["model", "formula", "PGD", "FGSM"]
        assert [row[1:] for row in block.rows[:2]] == [("symvit", "rpc-symvit"), ("—", "released")]

    def test_a_table_of_mixed_models_has_none_beside_or_above(self) -> None:
        cells = (
            printed(column="A"),
            printed("1.0", model="rpc-symvit", column="B"),
            printed("2.0", model="rpc-symvit", row="b", column="A"),
            printed("3.0", row="b", column="B"),
        )
        block = page_of(table_of(table_with(*cells, columns=("A", "B")), basis_with())).blocks[0]
        assert block.header == ("", "A (%)", "B (%)")
        assert [row[0] for row in block.rows] == ["Ours", "b"]

    def test_units_stand_in_the_header_or_else_beside_the_number(self) -> None:
        cells = (printed(), printed("3", row="b", unit="GMac", missing="x", metric=None))
        block = page_of(table_of(table_with(*cells), basis_with())).blocks[0]
        assert block.header[-1] == "Clean"
        assert [row[-1].split(";")[0] for row in block.rows] == ["70.44 %", "3 GMac"]

    def test_equal_reasons_are_one_note(self) -> None:
        cells = [printed(row=each) for each in "abc"]
        block = page_of(table_of(table_with(*cells, printed("1", row="d", model="rpc-symvit")), basis_with())).blocks[0]
        assert [re.findall(r"\((\d)\)", row[-1]) for row in block.rows] == [["1"], ["1"], ["1"], ["2"]]
        assert [note[:3] for note in block.notes] == ["(1)", "(2)"]

    def test_means_over_seeds_say_of_how_many(self) -> None:
        seeds = (0.70, 0.71, 0.72)
        reports = report_with("symvit", {CLEAN: cell_of(0.71, 0.69, 0.73, of_seeds=seeds)}, seeds=("a", "b", "c"))
        page = page_of(table_of(table_with(printed()), basis_with(reports)))
        assert page.blocks[0].rows[0][1] == "symvit (3 seeds)"
        assert ONE_CHECKPOINT not in page.closing

    def test_a_table_without_results_does_not_count_them(self) -> None:
        table = replace(table_of(table_with(printed()), basis_with()), is_counted=False)
        assert page_of(table).closing == ("no results are printed.",)
