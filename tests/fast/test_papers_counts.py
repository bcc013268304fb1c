"""Verdicts on printed costs: the 24 counts of the papers, and times and memory of other devices."""

import re
from collections import Counter
from dataclasses import replace

import pytest
from conftest import ROOT
from papers_examples import basis_with, load_published, printed, table_with

from robench.costs import Counts
from robench.declare import published_tables
from robench.declare.printed import PrintedCost, PublishedCell
from robench.papers.counts import judged_cost
from robench.papers.table import TableCell, table_of

MODE = Counts(parameters=5_272_744, linear=987_657_216, products=178_831_872, biases=3_000, norm_elements=955_131)
COUNTS = {"mine": {"inference": MODE, "training": replace(MODE, linear=2 * MODE.linear)}}
PARAMETERS = PrintedCost(kind="parameters")
OPERATIONS = PrintedCost(kind="multiply-adds", rule="products")


def cost_cell(text: str, unit: str, **changes: object) -> PublishedCell:
    fields = {"suite": None, "condition": None, "metric": None, "better": "lower"} | changes
    return printed(text, "mine", unit=unit, **fields)


@pytest.mark.parametrize(
    ("text", "unit", "cost", "value", "verdict", "reason"),
    [
        ("5.3", "M", PARAMETERS, 5.272744, "reproduced", "5,272,744 parameters, -0.027 M of the printed number"),
        ("5.2", "M", PARAMETERS, 5.272744, "differs", "+0.073 M of the printed number, 0.05 allowed"),
        ("5272744", "", PARAMETERS, 5_272_744, "reproduced", "+0.000 of the printed number, 0.5 allowed"),
        ("1.17", "GMac", OPERATIONS, 1.166489, "reproduced", "multiply-adds in inference by the rule products"),
        ("1.16", "GMac", OPERATIONS, 1.166489, "differs", "1,166,489,088 multiply-adds in inference"),
        ("2.15", "GFLOP", replace(OPERATIONS, mode="training"), 2.154146, "reproduced", "in training by the rule"),
        ("1.17", "M", replace(OPERATIONS, unit="G"), 1166.489, "print inconsistent", "whose unit M must be G"),
        ("1.18", "M", replace(OPERATIONS, unit="G"), 1166.489, "differs", "-0.014 G of the printed number"),
    ],
)
def test_counts_are_compared_to_the_printed_digits(
    text: str, unit: str, cost: PrintedCost, value: float, verdict: str, reason: str
) -> None:
    found, judged = judged_cost(cost_cell(text, unit), cost, COUNTS)
    assert found == pytest.approx(value, rel=1e-6)
    assert judged.name == verdict
    assert reason in judged.reason


def test_agreement_by_a_rule_that_was_fitted_is_inferred_and_disagreement_is_none() -> None:
    fitted = cost_cell("1.17", "G", inferred=("rule",))
    verdict = judged_cost(fitted, OPERATIONS, COUNTS)[1]
    assert verdict.name == "inferred"
    assert verdict.reason.startswith("rule not printed but inferred, so that agreement is circular; 1,166,489,088")
    assert judged_cost(replace(fitted, printed="1.19"), OPERATIONS, COUNTS)[1].name == "differs"


def test_seconds_of_another_device_are_not_compared() -> None:
    cell = cost_cell("0.1", "s", protocol={"device": "A100"})
    value, verdict = judged_cost(cell, PrintedCost(kind="seconds"), COUNTS)
    assert (value, verdict.name) == (None, "other device")
    assert verdict.reason == "seconds of A100, not compared; robench cost mine measures those of another"
    without = judged_cost(replace(cell, model=None, protocol={}), PrintedCost(kind="bytes"), COUNTS)[1]
    assert without.reason == "bytes of the paper's device, not compared; robench has no entry of it"


@pytest.mark.parametrize(
    ("baseline", "verdict", "gain"), [("1.10", "supported", -0.1788), ("1.30", "contradicted", -0.1788)]
)
def test_claims_on_counts_have_exact_gains(baseline: str, verdict: str, gain: float) -> None:
    other = replace(MODE, products=0)
    cells = [
        replace(cost_cell("1.20", "G", cost=OPERATIONS), row="Ours"),
        replace(cost_cell(baseline, "G", cost=OPERATIONS), row="Theirs", model="theirs"),
    ]
    table = replace(table_with(*cells), baselines={"Ours": "Theirs"})
    (claim,) = table_of(table, basis_with(counts={**COUNTS, "theirs": {"inference": other}})).claims
    assert claim.verdict.name == verdict
    assert claim.verdict.gain == pytest.approx(gain, abs=1e-4)
    assert "which is exact" in claim.verdict.reason


def counted() -> dict[tuple[str, str, str], TableCell]:
    """Return the papers' printed counts by table, row and column."""
    found = {}
    for key in published_tables():
        published = load_published(*key)
        if any(cell.cost is not None for cell in published.cells):
            # Suites are of the other cells.
            only = replace(
                published,
                rows=tuple(
                    replace(row, cells=tuple(each if each is not None and each.cost else None for each in row.cells))
                    for row in published.rows
                ),
            )
            table = table_of(only, basis_with())
            for row in table.rows:
                found |= {(table.name, row.label, name): cell for name, cell in row.cells.items()}
    return found


def test_the_papers_24_counts_have_these_verdicts() -> None:
    found = counted()
    names = Counter((table, cell.verdict.name) for (table, _, _), cell in found.items())
    assert names == {
        ("rpc:13", "print inconsistent"): 5, ("rpc:13", "differs"): 5, ("rpc:13", "other device"): 20,
        ("twicing:5", "reproduced"): 3, ("twicing:5", "inferred"): 1, ("twicing:5", "differs"): 2,
        ("twicing:5", "other device"): 3, ("twicing:7", "differs"): 2, ("bilateral:5", "inferred"): 3,
        ("bilateral:5", "differs"): 3, ("rkde:11", "other device"): 8,
    }  # fmt: skip
    counts = [cell for cell in found.values() if cell.ours.measured is not None]
    assert len(counts) == 24


def test_the_page_of_costs_lists_the_24_counts() -> None:
    page = (ROOT / "docs" / "costs.md").read_text()
    listed = re.findall(r"^\| `(\S+)` \| (.+?) \| (.+?) \| (\S+) \S+ \| \S+ \| (.+?) \|$", page, re.MULTILINE)
    found = {
        (table, row, column, cell.printed, cell.verdict.name)
        for (table, row, column), cell in counted().items()
        if cell.ours.measured is not None
    }
    assert set(listed) == found
    assert len(listed) == 24


def test_a_print_in_the_wrong_unit_is_told_once() -> None:
    cell = cost_cell("1.17", "M", cost=replace(OPERATIONS, unit="G"), inconsistent="M must be G")
    text = table_of(table_with(cell), basis_with(counts=COUNTS)).render("text")
    assert re.search(r"1\.17; 1166\.49 !$", text, re.MULTILINE)
    assert "M must be G" not in text.replace("whose unit M must be G", "")
    assert "whose unit M must be G" in text
    assert "1 of 1 printed numbers are measured." in text
