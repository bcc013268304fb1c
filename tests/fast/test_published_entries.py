"""Entries and twins of printed cells are the models that rows and columns name, in one formula."""

import re
from functools import cache
from typing import Any

import pytest
from papers_examples import load_published, registry
from presence import present

from robench.datasets import DATASETS
from robench.declare import published_tables
from robench.declare.printed import PublishedCell

# Cells that an entry, a suite and a metric measure, and how many of them have a twin, by paper and table.
MEASURABLE = {
    "bilateral": {1: (45, 0), 2: (8, 8), 3: (36, 36), 4: (12, 9)},
    "primal": {1: (120, 0), 2: (27, 9), 3: (20, 0), 4: (10, 0)},
    "rkde": {
        1: (72, 72), 2: (72, 72), 3: (45, 45), 4: (30, 0), 5: (72, 72), 6: (48, 8), 7: (30, 30), 8: (30, 30),
        9: (30, 30), 10: (40, 40),
    },
    "rpc": {
        1: (35, 35), 2: (70, 70), 3: (8, 8), 4: (150, 150), 5: (4, 4), 6: (20, 8), 7: (12, 0), 8: (8, 0), 9: (8, 8),
        10: (8, 8), 11: (12, 8), 12: (4, 0), 14: (15, 15),
    },
    "twicing": {
        1: (48, 48), 2: (20, 20), 3: (6, 6), 4: (4, 4), 6: (12, 12), 7: (2, 2), 8: (4, 4), 9: (32, 32), 10: (20, 20),
        11: (6, 6),
    },
}  # fmt: skip
UEA_ROWS = (
    *("EthanolConcentration", "FaceDetection", "HandWriting", "HeartBeat", "JapaneseVowels", "PEMS-SF"),
    *("SelfRegulationSCP1", "SelfRegulationSCP2", "SpokenArabicDigits", "UWaveGestureLibrary"),
)
LOSSES = {7: "huber", 8: "hampel"}
LANGUAGE = [
    *(("bilateral", 2), ("rpc", 3)),
    *(("rkde", number) for number in (1, 5, 6)),
    *(("twicing", number) for number in (4, 6, 8)),
]


@cache
def models() -> dict[str, Any]:
    return {name: entry.architecture for name, entry in registry().items()}


def cells(paper: str, number: int) -> list[PublishedCell]:
    return list(load_published(paper, number).cells)


def both(cell: PublishedCell) -> list[Any]:
    """Return the architectures of a cell's entry and of its twin."""
    return [models()[present(cell.model)], models()[present(cell.twin).model]]


def test_as_many_cells_are_measurable_and_have_twins_as_are_counted_here() -> None:
    found: dict[str, dict[int, tuple[int, int]]] = {}
    for paper, number in published_tables():
        measurable = [cell for cell in cells(paper, number) if cell.column_key]
        if measurable:
            counts = len(measurable), sum(cell.twin is not None for cell in measurable)
            found.setdefault(paper, {})[number] = counts
    assert found == MEASURABLE
    assert sum(count for tables in found.values() for count, _ in tables.values()) == 1255


def test_every_counted_number_is_a_column_a_cost_or_a_mean() -> None:
    tables = [load_published(*each) for each in published_tables()]
    counted = [cell for table in tables if table.is_counted for cell in table.cells]
    assert [(cell.row, cell.column) for cell in counted if cell.missing is not None] == []
    found = [sum(map(bool, each)) for each in zip(*((c.column_key, c.cost, c.is_mean) for c in counted), strict=True)]
    assert (found, sum(found), len(counted)) == ([1255, 55, 4], 1314, 1314)


@pytest.mark.parametrize(("paper", "number"), [("primal", 3), ("primal", 4)])
def test_a_printed_mean_is_that_of_its_row(paper: str, number: int) -> None:
    for row in load_published(paper, number).rows:
        parts = [float(present(cell).value) for cell in row.cells if not present(cell).is_mean]
        (printed,) = (cell for cell in row.cells if present(cell).is_mean)
        assert float(present(printed).value) == pytest.approx(sum(parts) / len(parts), abs=0.05), row.label


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


@pytest.mark.parametrize("number", [7, 8, 9, 10])
def test_columns_of_thresholds_factors_and_iterations_are_models_of_these(number: int) -> None:
    for cell in cells("rkde", number):
        for attention in (each.attention for each in both(cell)):
            if number in LOSSES:
                found = (attention.loss, f"a = {attention.threshold:g}", attention.num_iterations)
                assert found == (LOSSES[number], cell.column, 1)
            elif number == 9:
                assert f"β = {attention.beta:g}" == cell.column
            else:
                assert f"{attention.loss.capitalize()}, {attention.num_iterations}" == cell.column
                assert attention.threshold == 0.2


def test_trends_over_parameters_are_of_one_formula() -> None:
    """The columns of the chosen parameters have the numbers of table 2, row for row; all are of the paper's formula."""
    rows = {"Clean data": "Clean", "FGSM": "FGSM", "PGD": "PGD", "SPSA": "SPSA"}
    chosen = {
        (7, "a = 0.2"): "ViT-RKDE (Huber)", (8, "a = 0.2"): "ViT-RKDE (Hampel)", (9, "β = 1.4"): "ViT-SPKDE",
        (10, "Huber, 1"): "ViT-RKDE (Huber)", (10, "Hampel, 1"): "ViT-RKDE (Hampel)",
    }  # fmt: skip
    for (number, column), model in chosen.items():
        for label, name in rows.items():
            again = load_published("rkde", number).cell(label, column)
            first = present(load_published("rkde", 2).cell(model, f"{name} top-1"))
            assert present(again).printed == first.printed
    formulas = {
        part.attention.formula for number in (7, 8, 9, 10) for cell in cells("rkde", number) for part in both(cell)
    }
    assert formulas == {"paper"}
    models_of = {(cell.column, cell.model) for cell in cells("rkde", 10)}
    assert len(models_of) == len({column for column, _ in models_of})


def test_rows_of_rpc_have_their_iterations_and_layers_in_entry_and_twin() -> None:
    labelled = [
        cell for number in (1, 2, 4, 5, 14) for cell in cells("rpc", number) if "iter" in f"{cell.row}{cell.column}"
    ]
    assert len(labelled) == 28 + 56 + 120 + 2 + 5
    for cell in labelled:
        found = present(re.search(r"(\d)iter/(layer1|all-layer)", f"{cell.row} {cell.column}"))
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
    found = {name: models()[name].attention.parameterization for name in ("scaled-vit-tiny", "scaled-scalar-vit-tiny")}
    assert found == {"scaled-vit-tiny": "matrix", "scaled-scalar-vit-tiny": "scalar"}
    # The text prints the accuracy of the scalar variant alone (appendix E.1).
    assert [dict(registry()[name].expected) for name in found] == [{}, {"top1_accuracy": 0.7302}]


# Backbone, attention and residual of rows, or of columns where models are columns; with the formula of the attention
# where it has two: the released one where the authors' code has the model, which prints the numbers, else the paper's.
MECHANISMS = {
    "bilateral": {
        "token-classifier softmax plain": ["Transformer"],
        "token-classifier alibi plain": ["Transformer + ALiBi"],
        "token-classifier bilateral plain": ["Transformer + Bilateral"],
        "token-classifier linformer plain": [f"Linformer{each}" for each in ("", " + ALiBi", " + Bilateral")],
        "token-classifier nystrom plain released": [
            f"Nyströmformer{each}" for each in ("", " + ALiBi", " + Bilateral")
        ],
        "language softmax plain": ["Transformer"],
        "language softmax boost": ["Transformer + Boost"],
        "language bilateral plain": ["Transformer + Bilateral"],
        "language bilateral boost": ["Transformer + Bilateral + Boost"],
        "vit softmax plain": ["DeiT"],
        "vit softmax boost": ["DeiT + Boost"],
        "vit bilateral plain": ["DeiT + Bilateral"],
        "vit bilateral boost": ["DeiT + Bilateral + Boost"],
        "fan softmax plain": ["FAN"],
        "fan softmax boost": ["FAN + Boost"],
        "segmenter softmax plain": ["DeiT"],
        "segmenter softmax boost": ["DeiT + Boost"],
        "segmenter bilateral plain": ["DeiT + Bilateral"],
        "segmenter bilateral boost": ["DeiT + Bilateral + Boost"],
    },
    "rkde": {
        "language softmax plain": ["Transformer"],
        "language performer plain paper": ["Performer"],
        "language mgk plain": ["Transformer-MGK"],
        "language fourier plain": ["FourierFormer"],
        "language rkde plain paper": [
            "Transformer-RKDE (Huber)",
            "Transformer-RKDE (Hampel)",
            *(f"{loss}, {data}" for loss in ("Huber", "Hampel") for data in ("clean data", "word swap")),
        ],
        "language spkde plain paper": ["Transformer-SPKDE"],
        "language mom plain paper": ["Transformer-MoM"],
        "language fourier-mom plain paper": ["FourierFormer-MoM"],
        "vit softmax plain": ["ViT"],
        "vit softmax plain distilled": ["DeiT"],
        "vit rvt plain released": ["RVT"],
        "vit fourier plain": ["FourierFormer"],
        "vit rkde plain released": ["ViT-RKDE (Huber)", "ViT-RKDE (Hampel)"],
        "vit rkde plain paper": [
            *(f"a = {threshold}" for threshold in ("0.1", "0.2", "0.4", "0.6", "0.8", "1")),
            *(f"{loss}, {count}" for loss in ("Huber", "Hampel") for count in (1, 2, 3, 5)),
        ],
        "vit spkde plain released": ["ViT-SPKDE"],
        "vit spkde plain paper": [f"β = {factor}" for factor in ("1.05", "1.2", "1.4", "1.6", "1.8", "2")],
        "series softmax plain": ["Transformer"],
        "series fourier plain": ["FourierFormer"],
        "series rkde plain paper": ["Transformer-RKDE (Huber)"],
        "series spkde plain paper": ["Transformer-SPKDE"],
        "series mom plain paper": ["Transformer-MoM"],
        "series fourier-mom plain paper": ["FourierFormer-MoM"],
        "vit mom plain released": ["ViT-MoM"],
        "vit fourier-mom plain released": ["FourierFormer-MoM"],
    },
    "rpc": {
        "vit symmetric plain": ["SymViT (baseline)", "SymViT", "SymViT-base (baseline)"],
        "vit rpc plain released": [
            *(f"RPC-SymViT ({count}iter/layer1)" for count in (4, 5, 6)),
            "RPC-SymViT (2iter/all-layer)",
            "RPC-SymViT-base (2iter/all-layer)",
            "RPC-AsymViT (Sym/Asym)",
        ],
        "vit softmax plain": ["ViT"],
        "vit rpc-asymmetric plain released": ["RPC-AsymViT (4iter/layer1)"],
        "fan symmetric plain": ["FAN-tiny (baseline)"],
        "fan rpc plain released": ["RPC-FAN-tiny (4iter/layer1)"],
        "segmenter symmetric plain": ["SymViT"],
        "segmenter rpc plain released": [
            *(f"RPC-SymViT ({count}iter/layer1)" for count in (4, 5, 6)),
            "RPC-SymViT (2iter/all-layer)",
        ],
        "language symmetric plain": ["Symmlm"],
        "language rpc plain paper": ["RPC-Symmlm (4iter/layer1-4)"],
        "text-classifier symmetric plain": ["SymSMoE (baseline)"],
        "text-classifier rpc plain paper": ["RPC-SymSMoE"],
        "text-classifier softmax plain": ["SMoE (baseline)", "Baseline-LM"],
        "text-classifier rpc-asymmetric plain paper": ["RPC-SMoE", "RPC-LM"],
    },
    "primal": {
        "series primal plain released": [
            *(f"{name}, s = {count}" for name in UEA_ROWS for count in (20, 30, 40)),
            "data-independent",
            "data-dependent",
        ],
        "token-classifier primal plain released": ["data-independent", "data-dependent"],
        "decision-transformer primal plain released": ["HalfCheetah", "Hopper", "Walker"],
    },
    "twicing": {
        "vit softmax plain": ["DeiT"],
        "segmenter softmax plain": ["DeiT"],
        "segmenter twicing plain": ["DeiT-Twicing"],
        "vit neutreno plain": ["NeuTRENO"],
        "vit softmax featscale": ["DeiT-FeatScale"],
        "vit twicing plain": ["DeiT-Twicing", *(f"DeiT-Twicing [{layers}]" for layers in ("1-12", "7-12", "10-12"))],
        "fan softmax plain": ["FAN"],
        "fan twicing plain": ["FAN-Twicing"],
        "language softmax plain": ["Transformer", "Transformer (small)", "Transformer (med)"],
        "language twicing plain": ["TrTwicing", "TrTwicing (small)", "TrTwicing (med)"],
        "language linear plain": ["Linear Trans."],
        "language linear-twicing plain": ["Linear-Twicing"],
        "text-classifier softmax plain": ["Self-attention"],
        "text-classifier twicing plain": ["Twicing Attention"],
    },
}


@pytest.mark.parametrize(("paper", "number"), [(paper, table) for paper in MEASURABLE for table in MEASURABLE[paper]])
def test_entries_have_the_mechanism_and_the_formula_that_rows_or_columns_name(paper: str, number: int) -> None:
    table = load_published(paper, number)
    are_columns = table.has_models_in_columns or (paper == "rkde" and 7 <= number <= 10)
    for cell in table.cells:
        if cell.column_key is None:
            continue
        found = models()[str(cell.model)]
        parts = (found.kind, found.attention.kind, found.residual.kind, getattr(found.attention, "formula", None))
        name = " ".join(part for part in parts if part) + " distilled" * getattr(found, "distilled", False)
        assert (cell.column if are_columns else cell.row) in MECHANISMS[paper].get(name, []), name


@pytest.mark.parametrize(("paper", "number"), [("primal", 1), ("primal", 3), ("rkde", 4)])
def test_models_of_series_have_the_sizes_of_their_set_and_the_settings_of_their_cell(paper: str, number: int) -> None:
    for cell in cells(paper, number):
        if cell.model is None:
            continue
        checkpoint: Any = registry()[cell.model]
        found, recipe = checkpoint.architecture, checkpoint.training
        declared: Any = DATASETS[recipe.dataset]
        assert cell.suite == f"uea-{recipe.dataset}"
        assert cell.model.startswith(f"{recipe.dataset}-")
        sizes = declared.num_steps, declared.num_channels, declared.num_classes
        assert (found.num_steps, found.num_channels, found.num_classes) == sizes
        assert (found.depth, found.dim, found.num_heads, found.feedforward, found.dropout) == (2, 512, 8, 2048, 0.1)
        stated = recipe.selection, recipe.batch_size, recipe.clip_grad, recipe.learning_rate
        assert stated == ("best-on-test", 16, 4, 1e-3)
        assert recipe.optimizer == ("adam" if recipe.dataset == "spoken-arabic-digits" else "radam")
        assert recipe.num_epochs == (400 if recipe.dataset == "pems-sf" else 100)
        if number == 1:
            assert cell.row.endswith(f"s = {found.attention.num_directions}")
            assert cell.column == f"η = {recipe.auxiliary_weight:g}"
            assert str(found.attention.rank_multiplier) == cell.protocol["rank_multiplier"]
        if number == 3:
            assert found.attention.layers == (1,)
            assert found.attention.data_dependent == (cell.row == "data-dependent")


@pytest.mark.parametrize(("paper", "number"), [("bilateral", 1), ("primal", 4)])
def test_models_of_long_sequences_have_the_sizes_and_the_recipe_of_the_released_code(paper: str, number: int) -> None:
    # Batch size, steps, warm-up, steps between scorings and places of each task: released code of Primal-Attention.
    recipes = {
        "listops": (32, 5_000, 1_000, 50, 2048),
        "text": (32, 20_000, 8_000, 500, 4096),
        "retrieval": (32, 30_000, 800, 300, 4096),
        "image": (256, 35_000, 175, 175, 1024),
        "pathfinder": (256, 62_400, 312, 312, 1024),
    }
    settings = {"listops": (30, 0.05), "text": (30, 0.1), "retrieval": (20, 0.05), "image": (30, 0.1)}
    for cell in cells(paper, number):
        if cell.model is None:
            continue
        checkpoint: Any = registry()[cell.model]
        found, recipe, task = checkpoint.architecture, checkpoint.training, str(cell.suite).removeprefix("lra-")
        num_steps = recipe.num_epochs * recipe.steps_per_epoch
        given = recipe.batch_size, num_steps, recipe.warmup_steps, recipe.steps_per_epoch, found.num_steps
        assert given == recipes[task], cell.model
        assert (found.depth, found.dim, found.num_heads, found.feedforward, found.dropout) == (2, 64, 2, 128, 0.1)
        stated = recipe.optimizer, recipe.learning_rate, recipe.schedule, recipe.clip_grad
        assert stated == ("adamw", 1e-4, "one-cycle", None)
        assert (found.is_pair, recipe.selection == "best-on-test") == (task == "retrieval", task == "text")
        attention = found.attention
        if paper == "primal":
            assert (attention.num_directions, recipe.auxiliary_weight) == settings.get(task, (20, 0.05))
            assert attention.layers == (1,)
            assert attention.data_dependent == (cell.row == "data-dependent")
        else:
            # The bias of a mechanism, and tokens with positions times 0.3 inside Linformer alone.
            positions = getattr(attention, "positions", "none")
            bias = attention.kind if attention.kind in ("alibi", "bilateral") else positions
            named = cell.row.partition(" + ")[2].lower() or "none"
            assert (bias if attention.kind != "softmax" else "none") == named
            assert found.position_scale == (0.3 if cell.row.startswith("Linformer +") else 1)
            assert checkpoint.coupled == (attention.kind == "nystrom")


@pytest.mark.parametrize(("paper", "number"), LANGUAGE)
def test_language_models_are_those_of_their_rows(paper: str, number: int) -> None:
    is_medium = (paper, number) == ("rkde", 5)
    for cell in cells(paper, number):
        found = models()[present(cell.model)]
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
        if number == 6 and paper == "rkde" and "a = 0.4" not in cell.column:
            assert cell.twin is None
            continue
        (entry, twin), measured = both(cell), present(cell.twin)
        assert measured.suite == str(cell.suite).replace("wikitext-103", "sotu")
        assert (measured.condition, measured.metric) == (cell.condition, cell.metric)
        for name in ("loss", "threshold", "num_iterations", "num_mixtures", "power", "positions", "sparsity", "beta"):
            assert getattr(twin.attention, name, None) == getattr(entry.attention, name, None), (cell.row, name)


def test_every_model_of_a_table_can_be_trained_or_has_a_published_file() -> None:
    named = {
        name
        for paper, number in published_tables()
        for cell in cells(paper, number)
        for name in (cell.model, cell.twin.model if cell.twin else None)
        if name is not None
    }
    assert len(named) > 150
    lacking = [
        name
        for name in sorted(named)
        if (entry := registry()[name]).training is None
        and not (entry.weights.by == "authors" and entry.weights.source and entry.weights.sha256)
    ]
    assert lacking == []


def test_initial_weights_and_teachers_are_those_of_an_entry_or_published() -> None:
    trained = {entry.weights.uri for entry in registry().values() if entry.training is not None}
    for name, entry in registry().items():
        initial = getattr(entry.training, "initial_weights", None)
        teacher = getattr(entry.training, "teacher", None)
        assert initial is None or initial.uri in trained, name
        assert teacher is None or (teacher.weights.sha256 and teacher.weights.source), name


def test_layers_of_language_models_are_those_that_the_papers_name() -> None:
    assert models()["wikitext-rpc-small"].attention.layers == (0, 1, 2, 3)
    assert models()["wikitext-rpc-small"].attention.num_iterations == 4
    assert models()["wikitext-mgk-small"].num_heads == 4
    assert {models()[f"wikitext-twicing-{size}"].attention.layers for size in ("small", "medium")} == {(14, 15)}


def test_classifiers_have_the_classes_of_what_they_are_trained_on() -> None:
    checked, wrong = 0, {}
    for name, entry in registry().items():
        declared = DATASETS.get(entry.training.dataset if entry.training else entry.trained_on or "")
        found, wanted = (getattr(each, "num_classes", None) for each in (entry.architecture, declared))
        if found is not None and wanted is not None:
            checked += 1
            wrong |= {name: (found, wanted)} if found != wanted else {}
    assert wrong == {}
    assert checked > 300
