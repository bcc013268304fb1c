"""What each format says of one small report, word for word."""

import base64
import csv
import hashlib
import io
import json
import re
from dataclasses import replace

import pytest
from presence import present

from robench.core.inert import clipped, printable
from robench.core.report import Cell, Estimate, Report, Row
from robench.core.suite import Column
from robench.reports import RENDERERS
from robench.reports.grid import cell_text, grid_of

CLEAN = Column(key="clean/top1_accuracy", label="clean", metric="top1_accuracy", conditions=("clean",))
ROBUST = Column(key="robust", label="linf 8/255", metric="robust_accuracy", conditions=("clean", "pgd"))


def cell(value=0.465, low=0.4254397266753681, high=0.505005592395591, num_examples=600, unit="share") -> Cell:
    estimate = Estimate(value=value, low=low, high=high, num_examples=num_examples, unit=unit)
    return Cell(estimate=estimate, num_examples=num_examples, missing=0)


def gap(num_in: int, missing: int | None) -> Cell:
    return Cell(estimate=None, num_examples=num_in, missing=missing)


def report(*rows: Row) -> Report:
    return Report(
        suite="digits-adv",
        version=1,
        seed=0,
        columns=(CLEAN, ROBUST),
        rows=rows,
        provenance={"torch": "2.15.0", "devices": "cpu", "seed": "0", "interval": "Wilson 95 %"},
    )


REPORT = report(
    Row(model="digits-vit", cells={CLEAN.key: cell(), ROBUST.key: gap(400, 200)}, notes=("pgd: 2 shards failed",)),
    Row(model="digits-rpc_symvit", cells={CLEAN.key: cell(1.0, 0.99, 1.0, 100), ROBUST.key: gap(0, None)}, limit=100),
)


class TestCells:
    @pytest.mark.parametrize(
        ("shown", "text"),
        [
            (cell(), "46.5 [42.5, 50.5]"),
            (cell(1.0, 0.99364, 1.0), "100.0 [99.4, 100.0]"),
            (cell(0.0, 0.0, 0.00636), "0.0 [0.0, 0.6]"),
            (cell(low=None, high=None), "46.5"),
            (cell(2.25, 2.0, 2.5, unit="nats"), "2.25 [2, 2.5]"),
            (gap(400, 200), "— (200 of 600 missing)"),
            (gap(0, 600), "— (600 of 600 missing)"),
            (gap(0, None), "— (missing)"),
            (gap(600, 0), "— (missing)"),
        ],
    )
    def test_shares_are_in_per_cent_with_bounds_and_a_gap_says_how_large_it_is(self, shown: Cell, text: str):
        assert cell_text(shown) == text


class TestFormats:
    def test_text_of_a_wide_table_has_a_column_a_model(self):
        columns = tuple(
            Column(key=f"c{n}", label=f"pgd-{n}", metric="top1_accuracy", conditions=("pgd",)) for n in range(9)
        )
        wide = report(*(Row(model=model, cells={each.key: cell() for each in columns}) for model in ("vit", "symvit")))
        lines = RENDERERS["text"](replace(wide, columns=columns)).splitlines()
        assert lines[0].split() == ["model", "vit", "symvit"]
        assert [line.split()[0] for line in lines[2:11]] == [f"pgd-{n}" for n in range(9)]
        assert {line.count("46.5 [42.5, 50.5]") for line in lines[2:11]} == {2}

    def test_text_keeps_a_row_a_model_where_sideways_is_no_narrower(self):
        models = [Row(model=f"{n}" * 60, cells=dict(REPORT.rows[0].cells)) for n in range(3)]
        long_label = replace(CLEAN, label="x" * 70)
        lines = RENDERERS["text"](replace(report(*models), columns=(long_label, ROBUST))).splitlines()
        assert [line.split()[0] for line in lines[2:5]] == ["0" * 60, "1" * 60, "2" * 60]

    def test_text_without_rows_keeps_its_columns(self):
        columns = tuple(replace(CLEAN, key=f"c{n}", label=f"label-{n}" * 5) for n in range(9))
        lines = RENDERERS["text"](replace(report(), columns=columns)).splitlines()
        assert lines[0].split() == ["model", *(column.label for column in columns)]

    def test_json_refuses_a_number_that_it_cannot_say(self):
        row = Row(model="vit", cells={CLEAN.key: cell(float("nan")), ROBUST.key: cell()})
        with pytest.raises(ValueError, match="not JSON compliant"):
            RENDERERS["json"](report(row))

    def test_numbers_of_examples_that_differ_between_columns_are_listed(self):
        few, many = (replace(CLEAN, key=name, label=name) for name in ("few", "many"))
        cells = {CLEAN.key: cell(), few.key: cell(num_examples=2000), many.key: cell(num_examples=600)}
        shown = replace(report(Row(model="vit", cells=cells)), columns=(CLEAN, few, many))
        assert "columns are not all of the same examples: 600 in clean, many; 2,000 in few" in grid_of(shown).notes
        # A limit of one model's results is a note of its own.
        limited = {key: cell(num_examples=100) for key in cells}
        equal = replace(report(Row(model="vit", cells=limited), Row(model="rpc", cells=limited)), columns=shown.columns)
        assert not [note for note in grid_of(equal).notes if "same examples" in note]
        both = {CLEAN.key: cell(), ROBUST.key: cell()}
        rows = Row(model="vit", cells=both), Row(model="rpc", cells={key: cell(num_examples=100) for key in both})
        assert not [note for note in grid_of(report(*rows)).notes if "same examples" in note]

    def test_models_whose_attacks_are_compared_alone_are_not_audited(self):
        row = Row(model="vit", cells={CLEAN.key: cell(), ROBUST.key: cell()}, flags=())
        rows = (row, replace(row, model="rpc", is_audited=True), replace(row, model="fan", flags=None))
        lines = grid_of(report(*rows)).rows
        assert [line[-1] for line in lines] == ["none (not audited)", "none", "— (not audited)"]

    def test_a_coupled_models_flags_have_its_batch_size_in_csv_too(self):
        row = Row(model="vit", cells={CLEAN.key: cell(), ROBUST.key: cell()}, flags=(), batch_size=20)
        lines = list(csv.DictReader(io.StringIO(RENDERERS["csv"](report(row)))))
        places = [(line["column"], line["batch_size"]) for line in lines]
        assert places == [(CLEAN.key, "20"), (ROBUST.key, "20"), ("flags", "20")]

    def test_csv_numbers_read_back_to_the_last_bit(self):
        third = 1 / 3
        row = Row(model="vit", cells={CLEAN.key: cell(third, third / 7, third * 2), ROBUST.key: gap(0, None)})
        line = next(csv.DictReader(io.StringIO(RENDERERS["csv"](report(row)))))
        assert (float(line["value"]), float(line["low"]), float(line["high"])) == (third, third / 7, third * 2)

    def test_latex_keeps_two_hyphens_apart(self):
        row = Row(model="a---b", cells=dict(REPORT.rows[0].cells))
        assert "\na-{}-{}-b & " in RENDERERS["latex"](report(row))

    def test_html_is_a_whole_page_for_light_and_dark(self):
        page = RENDERERS["html"](REPORT)
        assert page.startswith('<!doctype html>\n<html lang="en">\n')
        assert "<title>digits-adv, version 1</title>" in page
        assert "color-scheme: light dark" in page
        style, policy = (
            re.search(each, page, re.DOTALL) for each in ("<style>(.*?)</style>", "style-src 'sha256-(.*?)'")
        )
        assert present(policy)[1] == base64.b64encode(hashlib.sha256(present(style)[1].encode()).digest()).decode()
        assert "<script" not in page
        assert "<li>digits-vit: pgd: 2 shards failed</li>" in page
        assert "<footer>digits-adv, version 1; torch 2.15.0;" in page


class TestTexts:
    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("ViT-B/16 ≥ β", "ViT-B/16 ≥ β"),
            ("a\x1b[31mb", r"a\x1b[31mb"),
            ("a\u202eb\u2066c", r"a\u202eb\u2066c"),
            ("one\r\n\ttwo\x00\x7f\x85", r"one\r\n\ttwo\x00\x7f\x85"),
            ("zero\u200bwidth\ufeff", r"zero\u200bwidth\ufeff"),
            ("line\u2028paragraph\u2029", r"line\u2028paragraph\u2029"),
            ("lone \ud800 surrogate", r"lone \ud800 surrogate"),
            ("tag \U000e0041", r"tag \U000e0041"),
        ],
    )
    def test_what_cannot_be_seen_is_shown_as_an_escape(self, text: str, shown: str):
        assert printable(text) == shown

    @pytest.mark.parametrize("text", ["x" * 81, "\u202e" * 81, "x" * 10_000])
    def test_long_text_ends_in_an_ellipsis_at_its_width(self, text: str):
        assert len(clipped(text)) == 80
        assert clipped(text).endswith("…")

    def test_text_of_just_the_width_stays_whole(self):
        assert clipped("x" * 80) == "x" * 80

    def test_a_report_without_rows_says_so(self):
        assert grid_of(report()).notes == ("no model has been measured on this suite yet",)


class TestNotesOfTheWholeReport:
    NOTED = replace(REPORT, notes=("of four examples",))

    @pytest.mark.parametrize("name", ["text", "md", "latex", "html"])
    def test_readers_see_them_before_those_of_rows(self, name: str):
        shown = RENDERERS[name](self.NOTED)
        assert shown.index("of four examples") < shown.index("2 shards failed")
        assert "of four examples" not in RENDERERS[name](REPORT)

    def test_json_has_them_only_where_there_are_any(self):
        assert json.loads(RENDERERS["json"](self.NOTED))["notes"] == ["of four examples"]
        assert "notes" not in json.loads(RENDERERS["json"](REPORT))

    def test_csv_has_cells_alone(self):
        assert RENDERERS["csv"](self.NOTED) == RENDERERS["csv"](REPORT)

    def test_a_report_without_rows_has_them_too(self):
        assert grid_of(replace(self.NOTED, rows=())).notes[0] == "of four examples"

    def test_a_note_of_several_models_is_shown_once(self) -> None:
        names, notes = [f"m{place}" for place in range(8)], (["slow"], ["slow", "old"])
        rows = [Row(model=name, cells={}, notes=tuple(notes[place != 0])) for place, name in enumerate(names)]
        shown = grid_of(replace(REPORT, columns=(), rows=tuple(rows))).notes
        assert shown[:2] == ("all models: slow", "m1, m2, m3, m4, m5 and 2 more models: old")
