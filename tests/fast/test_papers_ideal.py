"""Best verdicts that printed numbers can get: counted for every table, and held to the page on the tables.

They are those of ideal measurements, whose mean over seeds is the printed number. What keeps a number from more than
``undecided`` is then its print alone: a gain too small for the spread of seeds.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev

import pytest
from papers_examples import load_published, registry, shipped_tables, suite
from presence import present

from robench.comparison.spread import PER_CENT, Seeds
from robench.core.checkpoint import Checkpoint
from robench.core.suite import Suite
from robench.declare.printed import PublishedCell, PublishedTable
from robench.papers.protocol import differing_fields, measured_of
from robench.papers.verdicts import Evidence, Verdict, VerdictName, evidence_on, judged

PAGE = (Path(__file__).parents[2] / "reports" / "judged.md").read_text()
NAMES = ("consistent", "undecided", "inferred", "other protocol")
NUM_SEEDS = 5
LOSS = "nats"
# Standard deviations of single seeds: points of per cent, and the part of a perplexity.
STD_POINTS = 0.15
STD_OF_PERPLEXITY = 0.01
# From worst to best.
_ORDER: tuple[VerdictName, ...] = ("other protocol", "inferred", "undecided", "consistent")


def best_verdict(
    table: PublishedTable, cell: PublishedCell, suites: Mapping[str, Suite], checkpoints: Mapping[str, Checkpoint]
) -> Verdict:
    """Return the best verdict that a measurable cell of a table can get by retrained models, over its readings."""
    verdicts = [judged(evidence) for evidence in ideal_evidence(table, cell, suites, checkpoints)]
    return max(verdicts, key=lambda verdict: _ORDER.index(verdict.name))


def ideal_evidence(
    table: PublishedTable, cell: PublishedCell, suites: Mapping[str, Suite], checkpoints: Mapping[str, Checkpoint]
) -> list[Evidence]:
    """Return the evidence of ``NUM_SEEDS`` seeds of a measurable cell's entry on whole datasets, for each reading."""
    assert cell.suite is not None and cell.model is not None  # noqa: PT018  # by schema
    suite, printed = suites[cell.suite], float(cell.value)
    evidence = []
    for _, read in cell.as_read:
        column = next(each for each in suite.columns if each.key == read.column_key)
        measured = measured_of(suite, column, checkpoints[cell.model], checkpoints=checkpoints)
        differing = differing_fields(read, measured, of_authors=False)
        evidence.append(evidence_on(table, read, printed, Seeds(_around(printed, _std(cell))), differing))
    return evidence


def _std(cell: PublishedCell) -> float:
    if cell.unit == PER_CENT:
        return STD_POINTS
    # A loss is the logarithm of a perplexity.
    return STD_OF_PERPLEXITY if cell.unit == LOSS else STD_OF_PERPLEXITY * float(cell.value)


def _around(mean: float, std: float) -> tuple[float, ...]:
    """Return evenly spaced numbers with this mean and standard deviation."""
    steps = [index - (NUM_SEEDS - 1) / 2 for index in range(NUM_SEEDS)]
    unit = std / sqrt(sum(step**2 for step in steps) / (NUM_SEEDS - 1))
    return tuple(mean + step * unit for step in steps)


@cache
def suites() -> dict[str, Suite]:
    names = {cell.suite for table in shipped_tables().values() for cell in table.cells if cell.column_key}
    return {name: suite(name) for name in names if name is not None}


def cell_of(table: PublishedTable, row: str, column: str) -> PublishedCell:
    return present(table.cell(row, column))


def evidence_of(paper: str, number: int, row: str, column: str) -> list[Evidence]:
    table = load_published(paper, number)
    return ideal_evidence(table, cell_of(table, row, column), suites(), registry())


def best(paper: str, number: int, row: str, column: str) -> str:
    table = load_published(paper, number)
    return best_verdict(table, cell_of(table, row, column), suites(), registry()).name


@cache
def verdicts() -> list[tuple[PublishedTable, PublishedCell, str]]:
    """The best verdict of every cell that can be measured."""
    cells = [(table, cell) for table in shipped_tables().values() for cell in table.cells if cell.column_key]
    return [(table, cell, best_verdict(table, cell, suites(), registry()).name) for table, cell in cells]


def test_as_many_numbers_could_be_judged_as_the_page_says() -> None:
    counted: dict[str, Counter[str]] = {}
    for table, _, verdict in verdicts():
        counted.setdefault(table.name, Counter())[verdict] += 1
    found = {table: tuple(counts[verdict] for verdict in NAMES) for table, counts in counted.items()}
    assert sum(map(sum, found.values())) == len(verdicts())
    rows = re.findall(r"^\| `([a-z]+:\d+)` \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE)
    assert {name: tuple(map(int, counts)) for name, *counts in rows} == found
    total = tuple(map(sum, zip(*found.values(), strict=True)))
    assert total == (637, 287, 233, 98)
    assert f"| all | {' | '.join(map(str, total))} |" in PAGE
    assert f"{total[0]} could be `consistent`" in PAGE


def test_what_is_undecided_has_too_small_a_gain_or_is_a_perplexity_without_claims() -> None:
    undecided = [(table, cell) for table, cell, verdict in verdicts() if verdict == "undecided"]
    without = Counter((table.name, cell.metric) for table, cell in undecided if not table.gains_of(cell))
    assert without == {("rkde:6", "perplexity"): 12}
    assert f"The gains of {len(undecided) - 12} are\n  smaller" in PAGE
    # Twice the half-width of the 90 % interval: t(4, 0.95) = 2.132.
    for table, cell in undecided:
        if gains := table.gains_of(cell):
            share = {"%": 0.15, "nats": 0.01}.get(cell.unit, float(cell.value) / 100)
            assert min(map(abs, gains)) < 2 * 2.132 * share * (1 / 5 + 1 / table.runs) ** 0.5
    assert pytest.approx(0.70, abs=0.005) == 2 * 2.132 * 0.15 * 1.2**0.5
    assert pytest.approx(4.7, abs=0.05) == 2 * 2.132 * 1.2**0.5
    assert pytest.approx(0.40, abs=0.005) == 2 * 2.132 * 0.15 * 0.4**0.5
    assert pytest.approx(2.7, abs=0.05) == 2 * 2.132 * 0.4**0.5


def test_ideal_seeds_have_the_printed_mean_and_the_deviation_of_their_unit() -> None:
    for paper, number, row, column, std in (
        ("rpc", 1, "SymViT (baseline)", "IN-1K top-1", 0.15),
        ("rpc", 3, "Symmlm", "Test PPL", 0.3636),
        ("rkde", 1, "Transformer", "Clean test loss", 0.01),
    ):
        (evidence,) = evidence_of(paper, number, row, column)
        assert len(evidence.seeds) == 5
        assert fmean(evidence.seeds.values) == pytest.approx(evidence.printed) == pytest.approx(evidence.measured)
        assert stdev(evidence.seeds.values) == pytest.approx(std)


def test_margins_are_halves_of_a_rows_own_gain_or_of_the_smallest_over_a_baseline() -> None:
    # 72.31, 72.44 and 72.60 over 72.00; FAN's gain is over its own baseline.
    margins = {"DeiT": 0.155, "NeuTRENO": 0.22, "DeiT-Twicing": 0.3, "FAN": 0.045}
    found = {row: evidence_of("twicing", 1, row, "ImageNet top-1")[0].margin for row in margins}
    assert found == pytest.approx(margins)
    # Nothing is claimed.
    assert evidence_of("rkde", 7, "FGSM", "a = 1")[0].margin == 0.5
    # Models are columns: 23.38 and 26.62, 26.75, 27.22, 29.20.
    columns = ("SymViT (baseline)", "RPC-SymViT (2iter/all-layer)")
    of_fgsm = [evidence_of("rpc", 2, "FGSM, top-1", column)[0] for column in columns]
    assert [evidence.margin for evidence in of_fgsm] == pytest.approx([1.62, 2.91])
    assert {evidence.num_printed for evidence in of_fgsm} == {14}
    assert evidence_of("twicing", 1, "DeiT", "ImageNet top-1")[0].num_printed == 8


def test_verdicts_are_those_that_protocol_and_print_allow() -> None:
    assert best("rpc", 1, "RPC-SymViT (6iter/layer1)", "IN-1K top-1") == "consistent"
    assert best("twicing", 11, "DeiT", "Top-1") == "undecided"
    assert best("rpc", 2, "PGD, top-1", "SymViT (baseline)") == "inferred"
    assert best("rkde", 1, "Transformer", "Word swap test PPL") == "other protocol"
    assert best("rpc", 11, "SMoE (baseline)", "IMDB valid accuracy") == "other protocol"


def test_the_best_of_two_readings_counts() -> None:
    table = load_published("rkde", 2)
    cell = cell_of(table, "ViT-SPKDE", "SPSA top-1")
    both = ideal_evidence(table, cell, suites(), registry())
    assert [evidence.differing for evidence in both] == [(), ()]
    by_code, by_text = cell.readings
    wrong = replace(by_code, protocol={**by_code.protocol, "epsilon": "9"})
    half = replace(cell, readings=(wrong, by_text))
    assert [evidence.differing for evidence in ideal_evidence(table, half, suites(), registry())] == [("epsilon",), ()]
    none = replace(cell, readings=(wrong,))
    found = [best_verdict(table, each, suites(), registry()).name for each in (half, none)]
    assert found == ["consistent", "other protocol"]


def test_every_reading_of_a_cell_has_the_gains_of_its_place() -> None:
    read = [
        (table, cell, each)
        for table in shipped_tables().values()
        for cell in table.cells
        for _, each in cell.as_read
        if each is not cell
    ]
    assert read
    assert any(table.gains_of(cell) for table, cell, _ in read)
    assert all(table.gains_of(each) == table.gains_of(cell) for table, cell, each in read)
