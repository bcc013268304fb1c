"""What every renderer promises, over the whole registry: the same bytes, nothing lost, and no name that acts."""

import csv
import hashlib
import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hostile_texts import HOSTILE, Page, bare_latex
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from robench.core.report import Cell, Estimate, Report, Row
from robench.core.suite import Column
from robench.reports import RENDERERS

NUMBER_LIKE = ["1e5", "68.70", "007", "nan", "None", "True", "1_000", ""]
READERS = [name for name in RENDERERS if name not in ("json", "csv")]
ESTIMATE = Estimate(value=0.465, low=0.4254, high=0.505, num_examples=600)
FULL = Cell(estimate=ESTIMATE, num_examples=600, missing=0)
GAP = Cell(estimate=None, num_examples=400, missing=200)


def column(key: str, label: str | None = None, condition: str = "pgd") -> Column:
    return Column(key=key, label=label or key, metric="top1_accuracy", conditions=(condition,))


COLUMNS = (column("clean"), column("pgd"))


def report_of(*models: str, columns=COLUMNS, notes=(), suite="digits-adv", facts=None):
    rows = [
        Row(model=model, cells={each.key: GAP if each.key == "pgd" else FULL for each in columns}, notes=tuple(notes))
        for model in models
    ]
    return Report(
        suite=suite, version=1, seed=0, columns=tuple(columns), rows=tuple(rows), provenance=facts or {"seed": "0"}
    )


def everywhere(text: str) -> Report:
    """The text in every place that a stranger can fill."""
    columns = (column("clean"), column(text, text, text))
    return report_of(text, "vit", columns=columns, notes=(text,), suite=text, facts={"devices": text, text: "1"})


def table_lines(text: str) -> list[str]:
    return text.split("\n\n")[0].splitlines()


def markdown_cells(line: str) -> list[str]:
    parts = re.split(r"(?<!\\)(?:\\\\)*\|", line)
    assert parts[0] == parts[-1] == ""
    return [part.strip() for part in parts[1:-1]]


@pytest.mark.parametrize("name", RENDERERS)
class TestRendererContract:
    def test_it_ends_with_one_newline(self, name: str):
        text = RENDERERS[name](report_of("vit"))
        assert text.endswith("\n")
        assert not text.endswith("\n\n")

    def test_a_report_without_rows_has_its_text(self, name: str):
        text = RENDERERS[name](report_of())
        if name == "json":
            assert json.loads(text)["rows"] == []
        elif name == "csv":
            assert len(text.splitlines()) == 1
        else:
            assert "no model has been measured" in text

    def test_columns_may_share_a_label(self, name: str):
        columns = (column("clean", "top-1"), column("pgd", "top-1"))
        assert RENDERERS[name](report_of("vit", columns=columns))

    def test_a_limited_row_says_so(self, name: str):
        limited = Row(model="vit", cells={"clean": FULL, "pgd": FULL}, limit=100)
        whole = report_of("vit")
        text = RENDERERS[name](replace(whole, rows=(limited,)))
        wanted = {"json": '"limit": 100', "csv": "vit,100,clean"}.get(name, "vit (first 100)")
        assert wanted in text
        assert wanted not in RENDERERS[name](whole)

    @pytest.mark.parametrize(("limit", "scope"), [(None, "all examples"), (100, "first 100 of all examples")])
    def test_a_row_of_all_examples_says_so(self, name: str, limit: int | None, scope: str):
        stated = report_of("vit")
        whole = Row(model="vit", cells={"clean": FULL, "pgd": FULL}, limit=limit, all_examples=True)
        wanted = {"json": '"all_examples": true', "csv": ",True,"}.get(name, f"vit ({scope})")
        assert wanted in RENDERERS[name](replace(stated, rows=(whole,)))
        assert wanted not in RENDERERS[name](stated)

    @pytest.mark.parametrize(("limit", "restrictions"), [(None, "batch size 20"), (100, "first 100, batch size 20")])
    def test_a_coupled_row_says_at_which_batch_size_it_holds(self, name: str, limit: int | None, restrictions: str):
        coupled = Row(model="vit", cells={"clean": FULL, "pgd": FULL}, limit=limit, batch_size=20)
        whole = report_of("vit")
        text = RENDERERS[name](replace(whole, rows=(coupled,)))
        wanted = {"json": '"batch_size": 20', "csv": ",20,\n"}.get(name, f"vit ({restrictions})")
        assert wanted in text
        assert wanted not in RENDERERS[name](whole)

    def test_no_clock_and_no_hash_seed_changes_it(self, name: str, subprocess_digests: dict[str, str]):
        assert digest(RENDERERS[name](everywhere("a_b"))) == subprocess_digests[name]

    @pytest.mark.parametrize("kind", HOSTILE)
    def test_it_shows_nothing_that_a_terminal_obeys_and_encodes(self, name: str, kind: str):
        text = RENDERERS[name](everywhere(HOSTILE[kind]))
        text.encode("utf-8")
        assert all(character == "\n" or character.isprintable() for character in text)

    @settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
    @given(text=st.text(max_size=20))
    def test_so_does_any_text(self, name: str, text: str):
        rendered = RENDERERS[name](everywhere(text or "x"))
        assert all(character == "\n" or character.isprintable() for character in rendered)


@pytest.mark.parametrize("name", READERS)
class TestFormatsForReaders:
    @pytest.mark.parametrize("model", ["1e5", "68.70", "007", "nan", "None", "True"])
    def test_names_that_look_like_numbers_stay_text(self, name: str, model: str):
        assert re.search(rf"(?m)(^|[ >]){re.escape(model)}($|[ <])", RENDERERS[name](report_of(model)))

    def test_a_gap_says_how_large_it_is(self, name: str):
        assert "(200 of 600 missing)" in RENDERERS[name](report_of("vit"))

    def test_a_long_name_does_not_swell_the_table(self, name: str):
        long, short = (len(RENDERERS[name](report_of(first, "vit"))) for first in ("x" * 10_000, "x"))
        assert long - short < 1000

    def test_notes_name_their_model(self, name: str):
        assert "vit: image 3 cannot be read" in RENDERERS[name](report_of("vit", notes=["image 3 cannot be read"]))


@pytest.mark.parametrize("kind", HOSTILE)
class TestHostileNames:
    def test_html_shows_them_and_adds_no_element(self, kind: str):
        hostile, harmless = Page(RENDERERS["html"](everywhere(HOSTILE[kind]))), Page(RENDERERS["html"](everywhere("x")))
        assert hostile.tags == harmless.tags
        assert hostile.attributes == harmless.attributes
        assert not {"script", "img", "a", "link", "iframe"} & set(hostile.tags)
        assert not {"src", "href", "style", "onerror", "onload"} & hostile.attributes

    def test_markdown_keeps_its_cells_and_lines(self, kind: str):
        hostile, harmless = RENDERERS["md"](everywhere(HOSTILE[kind])), RENDERERS["md"](everywhere("x"))
        assert len(hostile.splitlines()) == len(harmless.splitlines())
        assert [len(markdown_cells(line)) for line in table_lines(hostile)] == [3, 3, 3, 3]

    def test_markdown_has_nothing_that_it_would_act_on(self, kind: str):
        rendered = RENDERERS["md"](everywhere(HOSTILE[kind])).replace("46.5 [42.5, 50.5]", "46.5")
        bare = re.sub(r"\\[!-/:-@\[-`{-~]", "", rendered)
        assert not re.search(r"[<>`*\[\]$~#]|(?<!\w)_|_(?!\w)", bare)

    def test_latex_has_no_command_of_theirs(self, kind: str):
        hostile, harmless = RENDERERS["latex"](everywhere(HOSTILE[kind])), RENDERERS["latex"](everywhere("x"))
        bare = bare_latex(hostile)
        assert set(re.findall(r"\\[a-z]+", bare)) <= set(re.findall(r"\\[a-z]+", harmless))
        assert [bare.count(each) for each in "\\&%$#^~<>|"] == [harmless.count(each) for each in "\\&%$#^~<>|"]
        assert bare.count("{") == bare.count("}")
        # After \\ or a rule, LaTeX takes these for an argument.
        assert not re.search(r"(\\\\|rule)\s*[\[*]", hostile)

    def test_csv_has_no_formula_and_its_thirteen_fields(self, kind: str):
        lines = list(csv.reader(io.StringIO(RENDERERS["csv"](everywhere(HOSTILE[kind])))))
        assert [len(line) for line in lines] == [13] * 5
        assert not any(re.match(r"\s*[=+@\uff1d-]", field) for line in lines for field in line)

    def test_json_gives_the_name_back_as_it_was(self, kind: str):
        document = json.loads(RENDERERS["json"](everywhere(HOSTILE[kind])))
        assert document["rows"][0]["model"] == document["suite"] == HOSTILE[kind]
        assert document["rows"][0]["notes"] == [HOSTILE[kind]]

    def test_plain_text_keeps_its_lines(self, kind: str):
        hostile, harmless = RENDERERS["text"](everywhere(HOSTILE[kind])), RENDERERS["text"](everywhere("x"))
        # Labels of a wide table are wrapped.
        after = [text[text.index("\n---") :].splitlines() for text in (hostile, harmless)]
        assert len(after[0]) == len(after[1])


@pytest.mark.parametrize("model", [*HOSTILE.values(), *NUMBER_LIKE])
def test_html_shows_visible_names_letter_by_letter(model: str):
    shown = Page(RENDERERS["html"](report_of(model))).cells[3]
    if model.isprintable() and len(model) <= 80:
        assert shown == model


@pytest.mark.parametrize("model", NUMBER_LIKE)
def test_csv_and_json_leave_number_like_names_alone(model: str):
    lines = list(csv.reader(io.StringIO(RENDERERS["csv"](report_of(model)))))
    assert lines[1][0] == model
    assert json.loads(RENDERERS["json"](report_of(model)))["rows"][0]["model"] == model


def test_html_asks_for_nothing_outside_itself():
    page = RENDERERS["html"](report_of("vit"))
    assert not re.search(r"https?:|//|@import|url\(|<script|<link", page)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture(scope="module")
def subprocess_digests() -> dict[str, str]:
    """Digests of all formats of one report, from a process with another hash seed and another clock zone."""
    return of_another_process("test_renderers_contract", "everywhere('a_b')")


def of_another_process(module: str, report: str) -> dict[str, str]:
    code = (
        f"import json, sys; sys.path[:0] = sys.argv[1:]; import {module} as of\n"
        f"print(json.dumps({{name: of.digest(render(of.{report})) for name, render in of.RENDERERS.items()}}))"
    )
    folders, environment = Path(__file__).parents[:2], {"PYTHONHASHSEED": "12345", "TZ": "Asia/Tokyo"}
    command = [sys.executable, "-c", code, *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | environment)
    return dict(json.loads(done.stdout))
