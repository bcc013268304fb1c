"""Entries and twins of printed cells are the models that rows and columns name, in one formula."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest

from robench.declare import load_published, published_tables, read_registries
from robench.declare.printed import PublishedCell

# Cells that an entry, a suite and a metric measure, and how many of them have a twin, by paper and table.
MEASURABLE = {
    "bilateral": {2: (8, 8), 3: (36, 36)},
    "rkde": {
        1: (64, 64),
        2: (72, 72),
        3: (45, 45),
        5: (64, 64),
        6: (48, 8),
        7: (30, 30),
        8: (30, 30),
        9: (30, 30),
        10: (40, 40),
    },
    "rpc": {
        1: (35, 35),
        2: (70, 70),
        3: (8, 8),
        4: (150, 150),
        5: (4, 4),
        7: (12, 0),
        8: (8, 0),
        9: (8, 8),
        10: (8, 8),
        11: (12, 8),
        14: (15, 15),
    },
    "twicing": {
        1: (48, 48),
        2: (20, 20),
        4: (4, 4),
        6: (12, 12),
        7: (2, 2),
        8: (4, 4),
        9: (32, 32),
        10: (20, 20),
        11: (6, 6),
    },
}
LOSSES = {7: "huber", 8: "hampel"}
LANGUAGE = [
    ("bilateral", 2),
    ("rkde", 1),
    ("rkde", 5),
    ("rkde", 6),
    ("rpc", 3),
    ("twicing", 4),
    ("twicing", 6),
    ("twicing", 8),
]


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
    assert sum(count for tables in found.values() for count, _ in tables.values()) == 945


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


MECHANISMS = {
    "Symmlm": ("symmetric", "plain"),
    "RPC-Symmlm (4iter/layer1-4)": ("rpc", "plain"),
    "Transformer": ("softmax", "plain"),
    "Transformer + Boost": ("softmax", "boost"),
    "Transformer + Bilateral": ("bilateral", "plain"),
    "Transformer + Bilateral + Boost": ("bilateral", "boost"),
    "TrTwicing": ("twicing", "plain"),
    "Transformer (small)": ("softmax", "plain"),
    "TrTwicing (small)": ("twicing", "plain"),
    "Transformer (med)": ("softmax", "plain"),
    "TrTwicing (med)": ("twicing", "plain"),
    "Linear Trans.": ("linear", "plain"),
    "Linear-Twicing": ("linear-twicing", "plain"),
    "Performer": ("performer", "plain"),
    "Transformer-MGK": ("mgk", "plain"),
    "FourierFormer": ("fourier", "plain"),
    "Transformer-RKDE (Huber)": ("rkde", "plain"),
    "Transformer-RKDE (Hampel)": ("rkde", "plain"),
    "Transformer-MoM": ("mom", "plain"),
    "FourierFormer-MoM": ("fourier-mom", "plain"),
    **{f"{loss}, {data}": ("rkde", "plain") for loss in ("Huber", "Hampel") for data in ("clean data", "word swap")},
}


@pytest.mark.parametrize(("paper", "number"), LANGUAGE)
def test_language_models_are_those_of_their_rows(paper: str, number: int) -> None:
    is_medium = (paper, number) == ("rkde", 5)
    for cell in cells(paper, number):
        if cell.missing is not None:
            assert cell.row == "Transformer-SPKDE" or "validation" in cell.missing
            assert cell.model is None or "valid" in cell.column.lower()
            continue
        assert cell.model is not None
        found = models()[cell.model]
        assert (found.attention.kind, found.residual.kind) == MECHANISMS[cell.row], cell.row
        medium = is_medium or "(med)" in cell.row
        assert (found.depth, found.dim, found.context) == ((16, 256, 384) if medium else (16, 128, 256))
        assert (found.norm, found.positions, found.stride, found.vocabulary_size) == ("post", "backward", 1, 267_735)
        assert cell.condition == (
            "swap-4" if re.search("word swap|attacked", f"{cell.row} {cell.column}", re.I) else "clean"
        )
        assert cell.metric == ("token_loss" if cell.unit == "nats" else "perplexity")
        if found.attention.kind == "rkde":
            wanted = re.search(r"a = ([0-9.]+)", cell.column)
            assert found.attention.threshold == (float(wanted[1]) if wanted else 0.4)
            assert found.attention.loss.capitalize() in cell.row


@pytest.mark.parametrize(("paper", "number"), LANGUAGE)
def test_twins_of_language_models_are_measured_as_these_are(paper: str, number: int) -> None:
    """Of columns of thresholds that have an entry of sotu, 0.4, and of all others."""
    for cell in cells(paper, number):
        if cell.missing is not None or (number == 6 and paper == "rkde" and "a = 0.4" not in cell.column):
            assert cell.twin is None
            continue
        entry, twin = both(cell)
        assert cell.twin is not None
        assert cell.twin.suite == str(cell.suite).replace("wikitext-103", "sotu")
        assert (cell.twin.condition, cell.twin.metric) == (cell.condition, cell.metric)
        for name in ("loss", "threshold", "num_iterations", "num_mixtures", "power", "positions", "sparsity"):
            assert getattr(twin.attention, name, None) == getattr(entry.attention, name, None), (cell.row, name)


def test_layers_of_language_models_are_those_that_the_papers_name() -> None:
    assert models()["wikitext-rpc-small"].attention.layers == (0, 1, 2, 3)
    assert models()["wikitext-rpc-small"].attention.num_iterations == 4
    assert models()["wikitext-mgk-small"].num_heads == 4
    assert {models()[f"wikitext-twicing-{size}"].attention.layers for size in ("small", "medium")} == {(14, 15)}
