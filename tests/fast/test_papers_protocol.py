"""A paper's protocol against what was measured: every field that differs is named, and no other."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from robench.core.checkpoint import Checkpoint
from robench.core.suite import Suite
from robench.declare import find_suite, load_published, published_tables, read_registries
from robench.declare.printed import PublishedCell
from robench.papers.cost import command_of, cost_of
from robench.papers.protocol import SETTINGS, MeasuredProtocol, differing_fields, measured_of

SPLIT = {"dataset": "imagenet-1k", "examples": "50000"}


@cache
def suite(name: str) -> Suite:
    return find_suite(name)


@cache
def registry() -> dict[str, Checkpoint]:
    return read_registries()


def measured(suite_name: str, key: str, model: str = "symvit", **changes) -> MeasuredProtocol:
    column = next(each for each in suite(suite_name).columns if each.key == key)
    return measured_of(suite(suite_name), column, registry()[model], **changes)


def cell(**protocol: str) -> PublishedCell:
    return PublishedCell(row="r", column="c", printed="1.0", unit="%", protocol=protocol)


def differing(found: MeasuredProtocol, of_authors: bool = False, **protocol: str) -> tuple[str, ...]:
    return differing_fields(cell(**protocol), found, of_authors=of_authors)


CLEAN = "clean/top1_accuracy"


@pytest.mark.parametrize(
    ("protocol", "fields"),
    [
        ({}, ()),
        (SPLIT, ()),
        (SPLIT | {"dataset": "imagenet-a"}, ("dataset",)),
        (SPLIT | {"dataset": "imagenet"}, ("dataset",)),
        (SPLIT | {"examples": "5000"}, ("examples",)),
        ({"dataset": "imagenet-a", "examples": "1"}, ("dataset", "examples")),
        (SPLIT | {"device": "A100"}, ("device",)),
        (SPLIT | {"split": "valid"}, ("split",)),
    ],
)
def test_data_are_compared(protocol: dict[str, str], fields: tuple[str, ...]) -> None:
    found = measured("imagenet-shift", CLEAN, num_examples=50_000)
    assert differing(found, **protocol) == fields


@pytest.mark.parametrize(("num_examples", "limit"), [(4, None), (None, 4), (49_999, None)])
def test_a_part_of_the_set_is_another_protocol(num_examples: int | None, limit: int | None) -> None:
    found = measured("imagenet-shift", CLEAN, num_examples=num_examples, limit=limit)
    assert differing(found) == ("examples",)
    assert differing(found, dataset="imagenet-1k") == ("examples",)
    part = str(num_examples or limit)
    assert differing(found, examples=part) == ()


def test_a_condition_of_fewer_examples_than_the_set_is_a_part_of_it() -> None:
    square = next(each for each in suite("imagenet-square").columns if each.metric == "top1_accuracy")
    found = measured_of(suite("imagenet-square"), square, registry()["symvit"])
    conditions = {each.name: each.num_examples for each in suite("imagenet-square").conditions}
    assert conditions[square.conditions[0]] == 1000
    assert differing(found) == ("examples",)


@pytest.mark.parametrize(
    ("key", "protocol", "fields"),
    [
        ("imagenet-c/mean_corruption_error", {"corruptions": "15", "severities": "5"}, ()),
        ("imagenet-c/mean_corruption_error", {"corruptions": "4", "severities": "3"}, ("corruptions", "severities")),
        ("imagenet-c/snow/corruption_error", {"severities": "5"}, ()),
        ("imagenet-c/snow/corruption_error", {"corruptions": "15"}, ("corruptions",)),
        ("imagenet-c/mean_error", {"dataset": "imagenet-c"}, ()),
        ("imagenet-c/mean_error", {"dataset": "imagenet-1k"}, ("dataset",)),
    ],
)
def test_corruptions_are_counted(key: str, protocol: dict[str, str], fields: tuple[str, ...]) -> None:
    # The estimate counts images once, whatever it averages over.
    assert differing(measured("imagenet-c", key, num_examples=50_000), **protocol) == fields


def test_corruptions_made_on_the_fly_are_another_set() -> None:
    (key,) = (each.key for each in suite("imagenet-c-live").columns if each.metric == "mean_error")
    assert differing(measured("imagenet-c-live", key), dataset="imagenet-c") == ("dataset",)


def test_negatives_are_no_part_of_what_is_measured() -> None:
    assert differing(measured("imagenet-shift", "o/aupr", num_examples=12_000), dataset="imagenet-o") == ()


@pytest.mark.parametrize(
    ("condition", "protocol", "fields"),
    [
        ("pgd-6", {"norm": "linf", "step_size": "0.15", "num_steps": "20"}, ()),
        ("pgd-6", {"epsilon": "6/255"}, ()),
        ("pgd-6", {"epsilon": "1/255", "num_steps": "10"}, ("epsilon", "num_steps")),
        ("pgd-6", {"step_size": "0.1", "norm": "l2"}, ("step_size", "norm")),
        ("pgd-6", {"step_size": "0.150"}, ()),
        ("spsa", {"norm": "linf", "epsilon": "0.1", "num_steps": "40"}, ("num_steps",)),
        ("spsa-paper", {"norm": "linf", "epsilon": "0.10", "num_steps": "40"}, ()),
        ("sld", {"norm": "linf", "epsilon": "1/255"}, ("norm", "epsilon")),
        ("cw", {"norm": "linf", "epsilon": "1/255"}, ("norm", "epsilon")),
        ("cw", {"norm": "l2"}, ()),
        ("noise", {"norm": "linf", "epsilon": "1/255"}, ("epsilon",)),
        ("autoattack", {"variant": "standard", "norm": "linf", "epsilon": "1/255"}, ()),
        ("autoattack", {"variant": "plus"}, ("variant",)),
        ("square", {"num_queries": "5000", "space": "normalised"}, ()),
        ("clean", {"epsilon": "1/255"}, ("epsilon",)),
        ("fgsm-6", {"step_size": "0.15"}, ("step_size",)),
    ],
)
def test_attacks_are_compared_with_their_declaration(
    condition: str, protocol: dict[str, str], fields: tuple[str, ...]
) -> None:
    found = measured("imagenet-adv-rpc", f"{condition}/top1_accuracy", num_examples=50_000)
    assert differing(found, **(SPLIT | protocol)) == fields


@pytest.mark.parametrize(
    ("model", "protocol", "fields"),
    [
        ("symvit", {"training": "deit", "epochs": "300"}, ()),
        ("symvit", {"training": "elliptical", "epochs": "100"}, ("training", "epochs")),
        ("symvit", {"batch_size": "1024"}, ()),
        ("symvit", {"batch_size": "512", "pretraining": "imagenet-21k"}, ("batch_size", "pretraining")),
        ("boost-fan", {"training": "elliptical", "epochs": "130"}, ()),
        ("fan-tiny", {"training": "elliptical"}, ("training",)),
        ("deit-tiny-distilled", {"training": "deit", "epochs": "300"}, ("training", "epochs")),
        ("rkde-huber-vit-tiny", {"threshold": "0.2"}, ()),
        ("rkde-huber-vit-tiny", {"threshold": "0.4"}, ("threshold",)),
    ],
)
def test_retrained_models_are_compared_by_their_recipe(
    model: str, protocol: dict[str, str], fields: tuple[str, ...]
) -> None:
    found = measured("imagenet-shift", CLEAN, model, num_examples=50_000)
    assert differing(found, **(SPLIT | protocol)) == fields


@pytest.mark.parametrize(("stated", "fields"), [("valid", ()), ("test", ("split",))])
def test_the_split_is_that_of_the_suites_dataset(stated: str, fields: tuple[str, ...]) -> None:
    found = measured("wikitext-103-swap-valid", "clean/perplexity", "wikitext-softmax-small")
    assert differing(found, dataset="wikitext-103", split=stated) == fields


def test_authors_weights_were_trained_as_they_were() -> None:
    found = measured("imagenet-shift", CLEAN, "deit-tiny", num_examples=50_000)
    protocol = {"training": "another", "epochs": "1", "pretraining": "x", "batch_size": "2"}
    assert differing(found, True, **protocol) == ()
    assert differing(found, False, **protocol) == tuple(protocol)
    assert differing(found, True, **protocol, examples="7") == ("examples",)


def test_settings_name_fields_of_a_recipe() -> None:
    recipe = registry()["boost-fan"].training
    for fields in SETTINGS.values():
        assert all(hasattr(recipe, name) for name in fields)


def test_every_measurable_cell_is_compared_and_only_known_ones_differ() -> None:
    """Where code and text of the papers differ, and nowhere else (docs/protocols.md)."""
    found: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for paper, number in published_tables():
        for each in load_published(paper, number).cells:
            if each.missing is None:
                assert each.suite is not None
                of_cell = measured(each.suite, str(each.column_key), str(each.model))
                # robench has no recipe of the papers' language models.
                of_authors = each.suite.startswith("wikitext-103-swap")
                fields = differing_fields(each, of_cell, of_authors=of_authors)
                if fields:
                    found.setdefault((each.suite, str(each.condition)), set()).add(fields)
    assert found == {
        ("imagenet-adv-rpc", "spsa"): {("num_steps",)},
        ("imagenet-adv-rpc", "sld"): {("norm", "epsilon")},
        ("imagenet-adv-rpc", "cw"): {("norm", "epsilon")},
        ("imagenet-adv-rpc", "noise"): {("epsilon",)},
        ("imagenet-adv-rkde", "spsa"): {("epsilon",)},
        # Robust KDE says that its word swap searches greedily, and not how. Medium models read 384 words in its code.
        ("wikitext-103-swap", "clean"): {("context",)},
        ("wikitext-103-swap", "swap-4"): {("search",), ("context", "search")},
        ("wikitext-103-swap-valid", "clean"): {("context",)},
        ("wikitext-103-swap-valid", "swap-4"): {("search",), ("context", "search")},
        # Initial weights are a file, which does not say what it was trained on; IMDb has no validation split.
        **{("sst2-splits", name): {("pretraining",)} for name in ("train", "dev", "test")},
        ("imdb-splits", "train"): {("pretraining",)},
        ("imdb-splits", "test"): {("pretraining", "split")},
    }


@pytest.mark.parametrize(
    ("name", "stated", "is_equal"),
    [
        ("perturbation", "word-swap", True),
        ("perturbation", "typos", False),
        ("replacement", "AAA", True),
        ("replacement", "BBB", False),
        ("rate", "4%", True),
        ("rate", "0.04", True),
        ("rate", "4", False),
        ("rate", "1.5%", False),
        ("split", "test", True),
        ("split", "valid", False),
        ("context", "256", True),
        ("context", "384", False),
        ("search", "greedy", False),
        ("training", "lmtool-fwp", False),
        ("epochs", "120", False),
    ],
)
def test_protocols_of_word_swap_are_compared_field_by_field(name: str, stated: str, is_equal: bool) -> None:
    of_cell = measured("wikitext-103-swap", "swap-4/perplexity", "wikitext-softmax-small")
    printed = load_published("twicing", 4).rows[0].cells[1]
    assert printed is not None
    assert differing_fields(replace(printed, protocol={name: stated}), of_cell, of_authors=False) == (
        () if is_equal else (name,)
    )


def test_costs_are_images_and_passes() -> None:
    shift = cost_of(suite("imagenet-shift"))
    sizes = [each.dataset.num_examples for each in suite("imagenet-shift").conditions]
    total = sum(size for size in sizes if size is not None)
    assert (shift.inputs, shift.forward, shift.backward, shift.is_whole) == (total, total, 0, True)
    assert str(shift) == f"{total:,} images, {total:,} forward passes"
    corrupted = cost_of(suite("imagenet-c"), 5)
    assert corrupted.inputs == corrupted.forward == 5 * len(suite("imagenet-c").conditions) * 50_000


def test_costs_of_attacks_follow_from_their_declarations() -> None:
    boost = suite("imagenet-adv-boost")
    attacks = {each.name: each for each in boost.conditions if each.name in ("clean", "fgsm-1", "pgd-1")}
    # Scored once each; one gradient of FGSM, twenty of PGD.
    cost = cost_of(replace(boost, conditions=tuple(attacks.values())))
    assert (cost.inputs, cost.forward, cost.backward) == (150_000, 50_000 * (3 + 1 + 20), 50_000 * 21)
    assert str(cost) == "150,000 images, 1,200,000 forward and 1,050,000 backward passes"
    spsa = next(each for each in suite("imagenet-adv-rkde").conditions if each.name == "spsa")
    assert cost_of(replace(boost, conditions=(spsa,))).forward == 50_000 * (1 + 40 * 2 * 128)


def test_a_sweep_costs_its_budgets_together() -> None:
    sweep = suite("digits-sweep")
    (swept,) = (each for each in sweep.conditions if each.perturbation.at_budgets)
    budgets = swept.perturbation.at_budgets
    passes = sum(forward for each in budgets for forward, _ in [each.most_passes or (0, 0)])
    cost = cost_of(replace(sweep, conditions=(swept,)))
    assert cost.inputs == 600 * len(budgets)
    assert cost.forward == 600 * (len(budgets) + passes)
    assert passes > 0


def test_costs_name_what_is_measured() -> None:
    assert str(cost_of(suite("sst2-splits"))) == "70,042 texts, 70,042 forward passes"
    assert cost_of(suite("imagenet-shift")).noun == "images"


def test_what_tells_no_size_or_passes_leaves_a_lower_bound() -> None:
    assert str(cost_of(suite("pgd-standard"))) == "cost known once the data are on disk"
    one, *others = suite("imagenet-shift").conditions
    unknown = replace(one, dataset=replace(one.dataset, num_examples=None))
    assert str(cost_of(replace(suite("imagenet-shift"), conditions=(unknown, *others)))).startswith("at least ")


def test_commands_are_quoted_as_a_shell_reads_them(tmp_path) -> None:
    assert command_of("s", "m") == "robench run --suite s --model m"
    path = tmp_path / "my file.yaml"
    assert command_of("s", "m", all_seeds=True, registries=[path]).endswith(f"--all-seeds --registry '{path}'")
    assert command_of("s", "a;b") == "robench run --suite s --model 'a;b'"
