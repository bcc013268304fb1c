"""What every format of a leaderboard promises: the same numbers and gaps, the same bytes, and no name that acts."""

import csv
import hashlib
import io
import json
import re
import subprocess
import sys
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path

import pytest
from hostile_texts import HOSTILE, Page, bare_latex
from leaderboard_examples import MASKED, adv_suite, fill, shift_suite
from test_renderers_contract import digest, markdown_cells, of_another_process

from robench.leaderboard import RENDERERS, leaderboard_of
from robench.leaderboard.board import Entry, Settings
from robench.reports.grid import ONE_CHECKPOINT, cell_text
from robench.reports.page import inert_data
from robench.store import FolderStore, MemoryStore

# Three models under four conditions, the last of them half done.
SKILLS = {"rpc": 0.35, "symvit": 0.6, "vit": 0.5}
GAP = "— (60 of 120 missing)"


@lru_cache
def board_of(*, shifted: bool = False):
    store = MemoryStore()
    fill(store, adv_suite(), SKILLS, half=["vit"], flags={"rpc": (MASKED,)})
    if shifted:
        fill(store, shift_suite(), {"vit": 0.5, "rpc": 0.3})
    return leaderboard_of([adv_suite(), shift_suite()] if shifted else [adv_suite()], store)


def hostile(text: str):
    """The text in every place that a stranger can fill."""
    board = board_of(shifted=True)
    flag = replace(MASKED, name=text, source=text, finding=text, advice=text)
    rows = []
    for row in board.rows:
        measured = {
            key: tuple(replace(each, checkpoint=text, condition=text, dataset=text) for each in found)
            for key, found in row.measured.items()
        }
        is_theirs = row.model == "rpc"
        rows.append(
            replace(
                row,
                model=text if is_theirs else row.model,
                entry=Entry(**dict.fromkeys((each.name for each in fields(Entry)), text)),
                unranked=text,
                measured=measured,
                notes=(text,),
                flags=(flag,) if is_theirs else None,
                flag_suites=((text,),) if is_theirs else (),
            )
        )
    columns = [replace(column, label=text) for column in board.columns[:3]]
    of_suite = {"name": text, "description": text, "provenance": {text: text}, "notes": (text,)}
    suites = [replace(each, **of_suite) for each in board.suites]
    charts = []
    for chart in (*board.curves, *board.profiles):
        lines = {text if model == "rpc" else model: points for model, points in chart.lines.items()}
        ticks = tuple((x, text) for x, _ in chart.ticks)
        charts.append(replace(chart, group=text, title=text, x_label=text, ticks=ticks, lines=lines))
    return replace(
        board,
        suites=tuple(suites),
        rows=tuple(rows),
        columns=(*columns, *board.columns[3:]),
        curves=tuple(charts[:1]),
        profiles=tuple(charts[1:]),
        settings=Settings(
            title=text, note=text, headline=tuple(each.key for each in board.columns[:2]), sort=board.columns[0].key
        ),
    )


class Whole(Page):
    """A page with its data, all values of attributes, and the whole text of each cell."""

    def __init__(self, text: str) -> None:
        self.values: list[str] = []
        self.data = ""
        self.inside_data = False
        super().__init__(text)

    def handle_starttag(self, tag, attrs):
        self.values += [value or "" for _, value in attrs]
        self.inside_data = ("id", "data") in attrs
        was_inside = self.inside_cell
        super().handle_starttag(tag, attrs)
        self.inside_cell = self.inside_cell or was_inside

    def handle_endtag(self, tag):
        self.inside_data = False
        self.inside_cell = self.inside_cell and tag not in ("td", "th")

    def handle_data(self, data):
        if self.inside_data:
            self.data += data
        super().handle_data(data)


def unpacked(code, length: int) -> list:
    """The values that ``packed`` of the page's data stands for, as its script reads them."""
    if "lengths" in code:
        lengths = unpacked(code["lengths"], length)
        items = iter(unpacked(code["items"], sum(lengths)))
        return [[next(items) for _ in range(each)] for each in lengths]
    if "of" in code:
        distinct = code["of"]
        if "places" in code:
            return [distinct[place] for place in code["places"]]
        return distinct if len(distinct) == length else distinct * length
    if "names" in code:
        named = zip(unpacked(code["names"], length), unpacked(code["values"], length), strict=True)
        return [dict(zip(names, values, strict=True)) for names, values in named]
    objects: list[dict] = [{} for _ in range(length)]
    for name, (values, *lacking) in code["fields"].items():
        having = [each for place, each in enumerate(objects) if place not in (lacking or [[]])[0]]
        for each, value in zip(having, unpacked(values, len(having)), strict=True):
            each[name] = value
    return objects


def document_in(page: str):
    (document,) = unpacked(json.loads(Whole(page).data), 1)
    return document


def numbers_in_csv(text: str):
    lines = csv.DictReader(io.StringIO(text))
    return {
        (line["model"], f"{line['suite']}/{line['column']}"): (
            line["value"], line["low"], line["high"], line["missing"],
        )
        for line in lines
        if line["column"] != "flags"
    }  # fmt: skip


@pytest.mark.parametrize("name", RENDERERS)
class TestFormats:
    def test_made_twice_it_is_the_same_to_the_byte(self, name: str, tmp_path: Path) -> None:
        """Also from a folder, whose files come in another order than they were put."""
        store = FolderStore(tmp_path)
        fill(store, adv_suite(), dict(reversed(SKILLS.items())), half=["vit"], flags={"rpc": (MASKED,)})
        again = RENDERERS[name](leaderboard_of([adv_suite()], store))
        assert RENDERERS[name](board_of()) == again
        assert again.endswith("\n")

    def test_no_clock_and_no_hash_seed_changes_it(self, name: str, subprocess_digests: dict[str, str]) -> None:
        assert digest(RENDERERS[name](board_of())) == subprocess_digests[name]

    @pytest.mark.parametrize("kind", HOSTILE)
    def test_it_shows_nothing_that_a_terminal_obeys(self, name: str, kind: str) -> None:
        text = RENDERERS[name](hostile(HOSTILE[kind]))
        text.encode("utf-8")
        assert all(character == "\n" or character.isprintable() for character in text)

    def test_an_empty_leaderboard_has_its_text(self, name: str) -> None:
        empty = leaderboard_of([adv_suite()], MemoryStore())
        text = RENDERERS[name](empty)
        if name == "json":
            assert json.loads(text)["rows"] == []
        elif name == "csv":
            assert len(text.splitlines()) == 1
        else:
            assert re.search("(?i)no model has been measured", text)


class TestSameNumbers:
    def test_json_page_and_csv_have_the_same_numbers_and_gaps(self) -> None:
        board = board_of()
        document = json.loads(RENDERERS["json"](board))
        assert document_in(RENDERERS["html"](board)) == document
        in_csv = numbers_in_csv(RENDERERS["csv"](board))
        for row in document["rows"]:
            for key, cell in row["cells"].items():
                numbers = [cell[each] for each in ("value", "low", "high", "missing")]
                assert in_csv[row["model"], key] == tuple("" if each is None else str(each) for each in numbers)
        assert len(in_csv) == 3 * len(board.columns)

    def test_the_page_has_the_document_of_models_with_several_seeds(self) -> None:
        store = MemoryStore()
        fill(store, adv_suite(), SKILLS | {"vit@1": 0.5}, half=["vit"], flags={"rpc": (MASKED,)})
        board = leaderboard_of([adv_suite()], store)
        document = json.loads(RENDERERS["json"](board))
        assert [len(document[rows]) for rows in ("rows", "mechanisms")] == [4, 3]
        assert document_in(RENDERERS["html"](board)) == document

    def test_tables_and_page_print_the_same_texts(self) -> None:
        board = board_of()
        wanted = [[cell_text(row.cells[column.key]) for column in board.columns] for row in board.rows]
        assert sum(text == GAP for texts in wanted for text in texts) == 4
        assert [[bare(text) for text in texts] for texts in markdown_rows(board)] == wanted
        assert [[bare(text) for text in texts] for texts in latex_rows(board)] == wanted
        assert [[bare(text) for text in texts] for texts in page_rows(board)] == wanted
        rows = json.loads(RENDERERS["json"](board))["rows"]
        assert [[cell["text"] for cell in row["cells"].values()] for row in rows] == wanted

    def test_what_is_close_to_the_best_is_marked_on_the_page_and_in_tables_where_it_is_not_all(self) -> None:
        board = board_of()
        close = [[row.ranks[key].is_close if key in row.ranks else False for key in row.cells] for row in board.rows]
        assert [["†" in text for text in texts] for texts in page_rows(board)] == close
        in_markdown = [[re.match(r"\**", text)[0] for text in texts] for texts in markdown_rows(board)]
        signs = {"": "", "*": "\\underline", "**": "\\textbf"}
        in_latex = [[re.match(r"(\\textbf|\\underline)?", text)[0] for text in texts] for texts in latex_rows(board)]
        assert in_latex == [[signs[mark] for mark in marks] for marks in in_markdown]
        assert len({mark for marks in in_latex for mark in marks}) > 1
        for place, key in enumerate(board.rows[0].cells):
            marks, are_close = ([texts[place] for texts in rows] for rows in (in_markdown, close))
            ranked = [row for row in board.rows if key in row.ranks]
            if "**" in marks:
                assert [row.ranks[key].is_best for row in ranked] == [mark == "**" for mark in marks][: len(ranked)]
            elif any(marks):
                assert [bool(mark) for mark in marks] == are_close
                assert sum(map(bool, marks)) < len(ranked)

    def test_what_example_intervals_do_not_say_is_said(self) -> None:
        for name in ("html", "md", "latex", "json"):
            assert RENDERERS[name](board_of()).count(ONE_CHECKPOINT) == (2 if name == "html" else 1)


def markdown_rows(board) -> list[list[str]]:
    lines = RENDERERS["md"](board).split("\n\n")[0].splitlines()[2:]
    return [markdown_cells(line)[1 : len(board.columns) + 1] for line in lines]


def latex_rows(board) -> list[list[str]]:
    body = RENDERERS["latex"](board).split("\\midrule\n")[1].split("\\bottomrule")[0]
    return [line.removesuffix(" \\\\").split(" & ")[1 : len(board.columns) + 1] for line in body.splitlines()]


def page_rows(board) -> list[list[str]]:
    cells, width = Whole(RENDERERS["html"](board)).cells, len(board.columns) + 2
    rows = [cells[start : start + width] for start in range(width, width * (len(board.rows) + 1), width)]
    return [row[1:-1] for row in rows]


def bare(text: str) -> str:
    text = re.sub(r"\\,\{\\scriptsize (.*)\}|\{\\scriptsize (.*)\}", r" \1\2", text.replace("\\textemdash{}", "—"))
    return re.sub(r"\\(?:textbf|underline)\{(.*?)\}", r"\1", text).replace("*", "").replace("†", "").strip()


@pytest.mark.parametrize("kind", HOSTILE)
class TestHostileNames:
    def test_the_page_has_no_element_and_attribute_of_theirs(self, kind: str) -> None:
        page, harmless = (Whole(RENDERERS["html"](hostile(text))) for text in (HOSTILE[kind], "x"))
        assert page.tags == harmless.tags
        assert page.attributes == harmless.attributes
        assert page.tags.count("script") == 2
        assert not {"img", "a", "link", "iframe", "form", "base", "object"} & set(page.tags)
        assert not {"src", "href", "style", "onerror", "onload", "onclick"} & page.attributes
        # Of attributes, a label alone has a name; it is text to a browser.
        acting = [value for value in page.values if re.match(r"\s*javascript:", value)]
        assert acting == []

    def test_the_data_of_the_page_end_nowhere_and_give_the_name_back(self, kind: str) -> None:
        text = RENDERERS["html"](hostile(HOSTILE[kind]))
        data = text.split('id="data">')[1].split("</script>")[0]
        assert not re.search("[<>&\u2028\u2029\x00-\x1f\x7f-\uffff]", data)
        (document,) = unpacked(json.loads(data), 1)
        assert document["rows"][0]["model"] == HOSTILE[kind]

    def test_every_chart_is_well_formed_and_draws_alone(self, kind: str) -> None:
        from xml.etree import ElementTree

        charts = re.findall(r'<svg class="chart".*?</svg>', RENDERERS["html"](hostile(HOSTILE[kind])), re.DOTALL)
        assert len(charts) == 4
        for chart in charts:
            found = list(ElementTree.fromstring(chart).iter())
            assert {each.tag for each in found} <= {"svg", "g", "path", "text", "title"}
            names = {name for each in found for name in each.attrib}
            assert names <= {"class", "viewBox", "role", "aria-label", "d", "x", "y", "text-anchor"}

    def test_markdown_keeps_its_cells_and_lines(self, kind: str) -> None:
        texts = [RENDERERS["md"](hostile(text)) for text in (HOSTILE[kind], "x")]
        lines = [text.splitlines() for text in texts]
        assert len(lines[0]) == len(lines[1])
        tables = [[line for line in text.splitlines() if line.startswith("|")] for text in texts]
        assert len(tables[1]) == 3 * (2 + len(hostile("x").rows))
        assert [len(markdown_cells(line)) for line in tables[0]] == [len(markdown_cells(line)) for line in tables[1]]

    def test_latex_has_no_command_of_theirs(self, kind: str) -> None:
        theirs, ours = (RENDERERS["latex"](hostile(text)) for text in (HOSTILE[kind], "x"))
        stripped = bare_latex(theirs)
        assert set(re.findall(r"\\[a-z]+", stripped)) <= set(re.findall(r"\\[a-z]+", ours))
        assert stripped.count("{") == stripped.count("}")
        assert not re.search(r"(\\\\|rule)\s*[\[*]", theirs)

    def test_csv_has_no_formula_and_as_many_fields(self, kind: str) -> None:
        lines = list(csv.reader(io.StringIO(RENDERERS["csv"](hostile(HOSTILE[kind])))))
        assert {len(line) for line in lines} == {26}
        assert not any(re.match(r"\s*[=+@\uff1d-]", field) for line in lines for field in line)

    def test_json_gives_the_name_back(self, kind: str) -> None:
        document = json.loads(RENDERERS["json"](hostile(HOSTILE[kind])))
        assert document["rows"][0]["model"] == document["suites"][0]["name"] == HOSTILE[kind]


class TestPage:
    def test_it_asks_for_nothing_outside_itself(self) -> None:
        page = RENDERERS["html"](board_of())
        assert not re.search(r"https?:|@import|url\(|<link|\bsrc=|\bfetch\(|XMLHttpRequest|import\(", page)

    def test_its_policy_permits_its_own_script_and_style_alone(self) -> None:
        page = RENDERERS["html"](board_of())
        (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
        directives = dict(each.strip().split(" ", 1) for each in policy.split(";"))
        assert directives["default-src"] == directives["base-uri"] == directives["form-action"] == "'none'"
        for directive, element in (("script-src", "script"), ("style-src", "style")):
            (content,) = re.findall(rf"<{element}>(.*?)</{element}>", page, re.DOTALL)
            assert directives[directive] == f"'sha256-{sha256_of(content)}'"

    def test_its_script_adds_text_alone(self) -> None:
        folder = Path(__file__).parents[2] / "robench" / "leaderboard" / "page"
        for path in folder.glob("*.js"):
            script = path.read_text()
            acting = re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function|</", script)
            assert acting == [], path

    def test_its_files_are_short(self) -> None:
        folder = Path(__file__).parents[2] / "robench" / "leaderboard" / "page"
        assert {path.name: n for path in folder.iterdir() if (n := len(path.read_text().splitlines())) > 400} == {}
        for path in folder.glob("*.js"):
            starts = [place for place, line in enumerate(path.read_text().splitlines()) if line.startswith("function ")]
            ends = [place for place, line in enumerate(path.read_text().splitlines()) if line == "}"]
            assert all(min(end for end in ends if end > start) - start < 60 for start in starts), path

    def test_flags_are_explained_in_words(self) -> None:
        page = RENDERERS["html"](board_of())
        assert "A flag is a sign that a number under attack cannot be believed" in page
        assert "40 % of the gradients are zero; attack with square (rule: Carlini et al. 2019)" in page

    @pytest.mark.parametrize("value", ["</script>", "<!--<script>", "\u2028\u2029", "\ud800", "\x7f", "&lt;"])
    def test_data_come_back_as_they_were(self, value: str) -> None:
        written = inert_data({value: [value]})
        assert json.loads(written) == {value: [value]}
        assert re.fullmatch(r"[ -%'-;=?-~]*", written)

    def test_numbers_that_json_cannot_say_are_refused(self) -> None:
        with pytest.raises(ValueError, match="JSON"):
            inert_data(float("nan"))


def sha256_of(text: str) -> str:
    import base64

    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_importing_leaderboards_is_light() -> None:
    heavy = {"torch", "scipy", "pandas", "pyarrow", "jinja2", "sklearn", "rich", "selenium"}
    code = f"import sys, robench.leaderboard; print(sorted({heavy!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def subprocess_digests() -> dict[str, str]:
    """Digests of all formats, from a process with another hash seed and another clock zone."""
    return of_another_process("test_leaderboard_contract", "board_of()")
