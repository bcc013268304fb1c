"""Printed tables beside reports made by hand: which number is compared with which, in which unit, and what is said."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from papers_examples import (
    CLEAN,
    FLAG,
    THEIRS,
    TWIN,
    basis_with,
    cell_of,
    load_published,
    printed,
    registry,
    report_with,
    shipped_tables,
    suite,
    table_with,
)
from presence import present

from robench.comparison.evidence import Difference
from robench.core.report import Cell, Report
from robench.declare import published_tables
from robench.declare.printed import PublishedCell
from robench.papers import num_measured
from robench.papers.basis import AuthorsWeights, Basis
from robench.papers.claims import JudgedClaim
from robench.papers.reading import models_by_suite
from robench.papers.table import PaperTable, TableCell, table_of
from robench.papers.twins import twins_of

TABLES = list(published_tables())


def only_cell(cell: PublishedCell, basis: Basis, runs: int = 5) -> TableCell:
    (found,) = table_of(table_with(cell, runs=runs), basis).cells
    return found


def measured_at(value: float, **changes) -> Basis:
    of_authors = changes.pop("of_authors", {})
    cells = {CLEAN: cell_of(value, value - 0.004, value + 0.004)}
    return basis_with(report_with("symvit", cells, **changes), of_authors=of_authors)


@pytest.mark.parametrize("cell", [Cell(estimate=None, num_examples=4, missing=49_996), cell_of(float("inf"))])
def test_half_a_measurement_is_none(cell: Cell) -> None:
    found = only_cell(printed(), basis_with(report_with("symvit", {CLEAN: cell})))
    assert (found.verdict.name, found.ours.measured) == ("not measured", None)


def test_a_complement_turns_number_and_bounds_around() -> None:
    found = only_cell(printed("29.49", complement=True), measured_at(0.7051))
    assert found.ours.measured == pytest.approx(29.49)
    assert (found.ours.low, found.ours.high) == pytest.approx((29.09, 29.89))
    assert found.difference == pytest.approx(0, abs=1e-9)


def test_other_units_are_left_as_they_are() -> None:
    found = only_cell(printed("0.71", unit=""), measured_at(0.7051))
    assert found.ours.measured == 0.7051
    assert found.ours.unit == ""


@pytest.mark.parametrize("of_authors", [{}, THEIRS])
def test_one_checkpoint_is_evidence_only_if_it_is_the_authors(of_authors: dict[str, AuthorsWeights]) -> None:
    basis = measured_at(0.7044, of_authors=of_authors)
    for runs, verdict in ((1, "reproduced"), (5, "one of m runs")):
        found = only_cell(printed(), basis, runs=runs)
        assert (found.verdict.name, found.ours.num_seeds) == (verdict if of_authors else "one seed", 1)


ATTACKED = {"suite": "imagenet-adv-rpc", "condition": "pgd-1", "metric": "top1_accuracy"}


def attacked(**changes) -> TableCell:
    reports = report_with("symvit", {"pgd-1/top1_accuracy": cell_of(0.7044)}, "imagenet-adv-rpc", **changes)
    return only_cell(printed(**ATTACKED), basis_with(reports, of_authors=THEIRS), runs=1)


def test_raised_flags_are_shown_and_take_the_agreement_away() -> None:
    calm = replace(FLAG, name="calm", is_raised=False)
    found = attacked(flags=(FLAG, calm))
    assert found.ours.raised == (FLAG.name,)
    assert found.verdict.name == "flagged"
    assert FLAG.name in found.verdict.reason


def test_flags_of_attacks_do_not_concern_the_clean_column() -> None:
    coupled = replace(FLAG, name="coupled rows")
    for flags, verdict in (((FLAG,), "reproduced"), ((coupled,), "flagged")):
        found = only_cell(printed(), measured_at(0.7044, of_authors=THEIRS, flags=flags), runs=1)
        assert found.verdict.name == verdict


def test_a_number_under_attack_without_audit_says_so() -> None:
    assert attacked(flags=None).verdict.reason.endswith("; the model is not audited")
    assert "not audited" not in attacked(flags=()).verdict.reason
    assert "not audited" not in only_cell(printed(), measured_at(0.7044), runs=1).verdict.reason


@pytest.mark.parametrize(("value", "verdict"), [(0.7044, "consistent"), (0.9, "differs")])
def test_means_over_seeds_are_compared_with_the_papers_runs(value: float, verdict: str) -> None:
    seeds = (value - 0.002, value, value + 0.002)
    cells = {CLEAN: cell_of(value, value - 0.005, value + 0.005, of_seeds=seeds)}
    basis = basis_with(report_with("symvit", cells, seeds=("symvit", "symvit@1", "symvit@2")))
    found = only_cell(printed(), basis)
    assert (found.verdict.name, found.ours.num_seeds) == (verdict, 3)
    # t(2, 0.95) 2.919986, s 0.2 points, 1/3 + 1/5 and 1/3 + 1/1.
    low, high = (value * 100 - 70.44 + sign * 0.42649 for sign in (-1, 1))
    assert f"for 5 runs of the paper; 90 % interval [{low:+.3f}, {high:+.3f}], margin 0.500" in found.verdict.reason
    assert f"{value * 100 - 70.44 + 0.67434:+.3f}], margin" in only_cell(printed(), basis, runs=1).verdict.reason


def test_seeds_of_a_complement_are_complements() -> None:
    cells = {CLEAN: cell_of(0.7, of_seeds=(0.699, 0.70, 0.701))}
    basis = basis_with(report_with("symvit", cells, seeds=("a", "b", "c")))
    assert only_cell(printed("30.0", complement=True), basis).verdict.name == "consistent"
    assert only_cell(printed("70.0", complement=True), basis).verdict.name == "differs"


def test_a_mean_is_over_its_row_seed_by_seed() -> None:
    clean, other = (cell_of(values[1], of_seeds=values) for values in ((0.69, 0.7, 0.71), (0.32, 0.3, 0.28)))
    whole = replace(other, estimate=replace(present(other.estimate), num_examples=30_000))
    mean = printed("51.0", None, column="Mean", suite=None, condition=None, metric=None, is_mean=True)
    table = table_with(mean, printed(), printed(column="R", condition="r"), columns=("Mean", "Clean", "R"))

    def found(**cells: Cell) -> TableCell:
        columns = {f"{name}/top1_accuracy": cell for name, cell in cells.items()}
        (row,) = table_of(table, basis_with(report_with("symvit", columns, seeds=("a", "b", "c")))).rows
        assert list(row.cells) == ["Mean", "Clean", "R"]
        return row.cells["Mean"]

    of_both = found(clean=clean, r=whole)
    assert (of_both.ours.measured, of_both.difference) == pytest.approx((50.0, -1.0))
    assert of_both.ours.seeds.values == pytest.approx((50.5, 50.0, 49.5))
    assert of_both.verdict.name == "undecided"
    assert str(found(clean=clean, r=other).verdict) == "other protocol: R: examples"
    lacking = str(found(clean=clean).verdict)
    assert lacking == "not measured: robench reproduce mine:1 --rows Ours; it is a mean, and R not measured"
    # Seeds with equal scores deviate by the step of one example, of a mean of two columns by half of it at least.
    same = replace(clean, estimate=replace(present(clean.estimate), of_seeds=(0.7, 0.7, 0.7)))
    constant = replace(whole, estimate=replace(present(whole.estimate), of_seeds=(0.3, 0.3, 0.3)))
    assert found(clean=same, r=constant).ours.seeds.step == pytest.approx(100 / 50_000 / 2)


def test_a_differing_protocol_is_named_and_the_number_still_shown() -> None:
    found = only_cell(printed(protocol={"examples": "5000", "dataset": "imagenet-1k"}), measured_at(0.7044))
    assert str(found.verdict) == "other protocol: examples"
    assert found.ours.measured == pytest.approx(70.44)


def test_a_limited_row_is_no_whole_set() -> None:
    part = Cell(estimate=replace(cell_of(0.7044).estimate, num_examples=100), num_examples=100, missing=0)  # type: ignore[type-var]
    basis = basis_with(report_with("symvit", {CLEAN: part}, limit=100), of_authors=THEIRS)
    assert str(only_cell(printed(), basis).verdict) == "other protocol: examples"


def test_a_lone_seed_is_found_under_its_entry() -> None:
    basis = basis_with(report_with("symvit@2", {CLEAN: cell_of(0.7)}))
    assert only_cell(printed(), basis).verdict.name == "one seed"


def test_formulas_are_shown_where_an_attention_has_two() -> None:
    assert only_cell(printed(model="rpc-symvit"), basis_with()).ours.formula == "released"
    assert only_cell(printed(), basis_with()).ours.formula is None


def test_twins_are_a_table_of_their_own_and_give_the_printed_number_nothing() -> None:
    reports = report_with("digits-symvit", {CLEAN: cell_of(0.97, 0.95, 0.98)}, "digits-shift")
    published, basis = table_with(printed(twin=TWIN), printed(row="Theirs")), basis_with(reports)
    table, twins = table_of(published, basis), twins_of(published, basis)
    assert [cell.verdict.name for cell in table.cells] == ["not measured"] * 2
    assert all(cell.ours.measured is None for cell in table.cells)
    assert num_measured([table]) == (0, 2)
    ((row,), (twin,)) = present(twins).rows, present(twins).cells
    assert (row.model, row.twin_of, twin.twin_of) == ("digits-symvit", "Ours", (("Ours", "Clean"),))
    assert (twin.ours.measured, twin.ours.low, twin.ours.high) == pytest.approx((97.0, 95.0, 98.0))


def test_the_command_that_measures_a_table_names_registries() -> None:
    table = table_of(table_with(printed()), basis_with(registries=(Path("/a b.yaml"),)))
    assert table.command == "robench reproduce mine:1 --registry '/a b.yaml'"


def together(*reports: Mapping[str, Report]) -> dict[str, Report]:
    """One report with the rows of all."""
    rows = tuple(row for report in reports for row in report["imagenet-shift"].rows)
    return {"imagenet-shift": replace(reports[0]["imagenet-shift"], rows=rows)}


def claims_of(*reports: Mapping[str, Report], differences=None, errors=None, **changes) -> tuple[JudgedClaim, ...]:
    """Claims of a row over another, in clean accuracy and, a printed gain within rounding, under PGD."""
    cells = (
        printed("71.4"),
        printed("30.01", column="PGD", **ATTACKED),
        printed("70.4", "deit-tiny", row="Theirs"),
        printed("30.02", "deit-tiny", row="Theirs", column="PGD", **ATTACKED),
    )
    published = replace(table_with(*cells, columns=("Clean", "PGD"), **changes), baselines={"Ours": "Theirs"})
    found = table_of(published, basis_with(together(*reports), differences=differences, errors=errors))
    assert found.num_within_rounding == 1
    return found.claims


def over_seeds(model: str, value: float, **changes) -> dict[str, Report]:
    seeds = tuple(value + offset for offset in (-0.001, 0.0, 0.0005, 0.001))
    return report_with(model, {CLEAN: cell_of(value, of_seeds=seeds)}, seeds=tuple("abcd"), **changes)


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [(0.715, 0.705, "supported"), (0.705, 0.715, "contradicted"), (0.71, 0.71, "smaller")],
)
def test_a_row_is_judged_against_its_baseline(ours: float, theirs: float, verdict: str) -> None:
    (claim,) = claims_of(over_seeds("symvit", ours), over_seeds("deit-tiny", theirs))
    assert (claim.row, claim.baseline, claim.column, claim.unit) == ("Ours", "Theirs", "Clean", "%")
    assert claim.printed_gain == pytest.approx(1.0)
    assert claim.verdict.name == verdict
    assert claim.verdict.gain == pytest.approx(100 * (ours - theirs))
    assert claim.verdict.num_seeds == 4


@pytest.mark.parametrize(("error", "verdict"), [(0.001, "supported"), (0.02, "undecided")])
def test_a_claim_over_seeds_covers_other_examples(error: float, verdict: str) -> None:
    asked = []

    def errors(*names: str) -> float:
        asked.append(names)
        return error

    (claim,) = claims_of(over_seeds("symvit", 0.715), over_seeds("deit-tiny", 0.705), errors=errors)
    assert asked == [("imagenet-shift", "symvit", "deit-tiny", CLEAN)]
    assert claim.verdict.name == verdict
    assert "4 seeds of each and examples" in claim.verdict.reason


def test_a_flag_of_either_model_takes_the_support_away() -> None:
    flagged = over_seeds("deit-tiny", 0.705, flags=(replace(FLAG, name="coupled rows"),))
    (claim,) = claims_of(over_seeds("symvit", 0.715), flagged)
    assert claim.verdict.name == "flagged"
    assert claim.verdict.reason.startswith("raised: coupled rows; measured gain +1.000")


def test_single_checkpoints_are_compared_by_example() -> None:
    asked = []

    def differences(*names: str) -> Difference:
        asked.append(names)
        return Difference(value=0.01, low=0.002, high=0.018, method="m")

    reports = [report_with(name, {CLEAN: cell_of(value)}) for name, value in (("symvit", 0.71), ("deit-tiny", 0.70))]
    (claim,) = claims_of(*reports, differences=differences)
    assert asked == [("imagenet-shift", "symvit", "deit-tiny", CLEAN)]
    assert (claim.verdict.name, claim.verdict.low, claim.verdict.high) == ("one seed", *map(pytest.approx, (0.2, 1.8)))


def test_a_claim_of_which_one_side_is_not_measured_says_how() -> None:
    (claim,) = claims_of(over_seeds("symvit", 0.715))
    assert claim.verdict.name == "not measured"
    assert claim.verdict.gain is None
    assert claim.verdict.reason == "robench reproduce mine:1 --rows deit-tiny"


def test_smaller_numbers_are_gains_where_they_are_better() -> None:
    loss = {"unit": "", "better": "lower"}
    cells = printed("33.0", **loss), printed("34.0", "deit-tiny", row="Theirs", **loss)
    published = replace(table_with(*cells), baselines={"Ours": "Theirs"})
    one = together(over_seeds("symvit", 33.0), over_seeds("deit-tiny", 34.0))
    (claim,) = table_of(published, basis_with(one)).claims
    assert (claim.printed_gain, claim.verdict.gain) == pytest.approx((1.0, 1.0))
    assert claim.verdict.name == "supported"


def test_only_counted_tables_count() -> None:
    table = table_of(table_with(printed(), printed(row="b")), measured_at(0.7))
    assert num_measured([table, replace(table, is_counted=False)]) == (2, 2)


@cache
def all_tables() -> tuple[PaperTable, ...]:
    published = list(shipped_tables().values())
    suites = {name: suite(name) for name in models_by_suite(published)}
    basis = Basis(reports={}, suites=suites, checkpoints=registry())
    return tuple(table_of(each, basis) for each in published)


@pytest.mark.parametrize(("paper", "number"), TABLES)
def test_every_table_has_every_printed_number(paper: str, number: int) -> None:
    published = load_published(paper, number)
    table = all_tables()[TABLES.index((paper, number))]
    assert (table.name, table.columns) == (f"{paper}:{number}", published.columns)
    assert [row.label for row in table.rows] == [row.label for row in published.rows]
    for row, of_paper in zip(table.rows, published.rows, strict=True):
        wanted = {cell.column: cell.printed for cell in of_paper.cells if cell is not None}
        assert {name: cell.printed for name, cell in row.cells.items()} == wanted
    for cell, of_paper_cell in zip(table.cells, published.cells, strict=True):
        if of_paper_cell.cost is None:
            assert cell.verdict.name == ("no entry" if of_paper_cell.missing else "not measured")
        assert cell.verdict.reason


def test_all_tables_have_1314_counted_numbers() -> None:
    assert num_measured(all_tables()) == (24, 1314)
    assert len(all_tables()) == 46
