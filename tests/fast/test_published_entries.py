"""Entries and twins of printed cells are the models that rows and columns name, in one formula."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest

from robench.core.published import PublishedCell
from robench.declare import load_published, published_tables, read_registries

# Cells that an entry, a suite and a metric measure, and how many of them have a twin, by paper and table.
MEASURABLE = {
    "bilateral": {3: (36, 36)},
    "rkde": {2: (72, 72), 3: (45, 45), 7: (30, 30), 8: (30, 30), 9: (30, 30), 10: (40, 40)},
    "rpc": {
        1: (35, 35),
        2: (70, 70),
        4: (150, 150),
        5: (4, 4),
        7: (12, 0),
        8: (8, 0),
        9: (8, 8),
        10: (8, 8),
        14: (15, 15),
    },
    "twicing": {1: (48, 48), 2: (20, 20), 9: (32, 32), 10: (20, 20), 11: (6, 6)},
}
LOSSES = {7: "huber", 8: "hampel"}


@cache
def models() -> dict[str, Any]:
    return {name: entry.architecture for name, entry in read_registries().items()}


def cells(paper: str, number: int) -> list[PublishedCell]:
    return list(load_published(paper, number).cells)


def both(cell: PublishedCell) -> list[Any]:
    """Return the architectures of a cell's entry and of its twin."""
    assert cell.model is not None
    assert cell.twin is not None
    return [models()[cell.model], models()[cell.twin.model]]


def test_as_many_cells_are_measurable_and_have_twins_as_are_counted_here() -> None:
    found: dict[str, dict[int, tuple[int, int]]] = {}
    for paper, number in published_tables():
        measurable = [cell for cell in cells(paper, number) if cell.missing is None]
        if measurable:
            counts = len(measurable), sum(cell.twin is not None for cell in measurable)
            found.setdefault(paper, {})[number] = counts
    assert found == MEASURABLE
    assert sum(count for tables in found.values() for count, _ in tables.values()) == 719


@pytest.mark.parametrize(("paper", "number"), [(paper, table) for paper in MEASURABLE for table in MEASURABLE[paper]])
def test_a_twin_has_the_mechanism_and_the_formula_of_its_entry(paper: str, number: int) -> None:
    for cell in cells(paper, number):
        if cell.twin is None:
            continue
        (entry, twin), where = both(cell), f"{cell.row}, {cell.column}"
        assert twin.kind == entry.kind, where
        for part in ("attention", "residual"):
            ours, theirs = getattr(twin, part), getattr(entry, part)
            assert ours.kind == theirs.kind, where
            assert getattr(ours, "formula", None) == getattr(theirs, "formula", None), where
        assert getattr(twin, "distilled", False) == getattr(entry, "distilled", False), where


@pytest.mark.parametrize("number", [7, 8])
def test_columns_of_thresholds_are_models_of_these_thresholds(number: int) -> None:
    for cell in cells("rkde", number):
        for architecture in both(cell):
            attention = architecture.attention
            found = (attention.loss, f"a = {attention.threshold:g}", attention.num_iterations, attention.formula)
            assert found == (LOSSES[number], cell.column, 1, "paper")


def test_columns_of_scaling_factors_are_models_of_these_factors() -> None:
    for cell in cells("rkde", 9):
        for architecture in both(cell):
            attention = architecture.attention
            assert (f"β = {attention.beta:g}", attention.formula) == (cell.column, "paper")


def test_columns_of_iterations_are_models_of_so_many() -> None:
    for cell in cells("rkde", 10):
        for architecture in both(cell):
            attention = architecture.attention
            assert f"{attention.loss.capitalize()}, {attention.num_iterations}" == cell.column
            assert (attention.threshold, attention.formula) == (0.2, "paper")


def test_rows_of_rpc_have_their_iterations_and_layers_in_entry_and_twin() -> None:
    labelled = [
        cell for number in (1, 2, 4, 5, 14) for cell in cells("rpc", number) if "iter" in f"{cell.row}{cell.column}"
    ]
    assert len(labelled) == 28 + 56 + 120 + 2 + 5
    for cell in labelled:
        found = re.search(r"(\d)iter/(layer1|all-layer)", f"{cell.row} {cell.column}")
        assert found is not None
        for architecture in both(cell):
            attention = architecture.attention
            assert attention.num_iterations == int(found[1])
            assert attention.layers == ("all" if found[2] == "all-layer" else (0,))
            assert attention.sparsity == (3 if found[2] == "all-layer" else 4)


@pytest.mark.parametrize(("label", "share"), [("[7-12]", 0.5), ("[10-12]", 0.25)])
def test_twins_twice_in_the_same_share_of_the_layers(label: str, share: float) -> None:
    found = [cell for number in (1, 2, 9, 10) for cell in cells("twicing", number) if label in cell.row]
    assert found
    for cell in found:
        for architecture in both(cell):
            first = round(architecture.depth * (1 - share))
            assert architecture.attention.layers == tuple(range(first, architecture.depth))


def test_scaled_attention_has_an_entry_for_each_of_its_two_curves() -> None:
    entries = read_registries()
    found = {name: models()[name].attention.parameterization for name in ("scaled-vit-tiny", "scaled-scalar-vit-tiny")}
    assert found == {"scaled-vit-tiny": "matrix", "scaled-scalar-vit-tiny": "scalar"}
    # The text prints the accuracy of the scalar variant alone (appendix E.1).
    assert [dict(entries[name].expected) for name in found] == [{}, {"top1_accuracy": 0.7302}]
