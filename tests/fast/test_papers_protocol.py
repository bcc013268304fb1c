"""A paper's protocol against what was measured: every field that differs is named, and no other."""

from collections import Counter
from dataclasses import replace

import pytest
from papers_examples import load_published, registry, suite
from presence import present

from robench.declare import published_tables
from robench.declare.printed import PublishedCell
from robench.papers.protocol import SETTINGS, MeasuredProtocol, differing_fields, measured_of
from robench.scheduling.estimates import passes_of

SPLIT = {"dataset": "imagenet-1k", "examples": "50000"}


def measured(suite_name: str, key: str, model: str = "symvit", **changes) -> MeasuredProtocol:
    column = next(each for each in suite(suite_name).columns if each.key == key)
    return measured_of(suite(suite_name), column, registry()[model], checkpoints=registry(), **changes)


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
    found = measured_of(suite("imagenet-square"), square, registry()["symvit"], checkpoints=registry())
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
        ("symvit", {"training": "elliptical-fan", "epochs": "100"}, ("training", "epochs")),
        ("symvit", {"training_batch_size": "1024", "learning_rate": "0.0005"}, ()),
        # The batch of one GPU in DeiT's code.
        ("symvit", {"training_batch_size": "256"}, ()),
        ("symvit", {"training_batch_size": "512", "learning_rate": "0.001"}, ("training_batch_size", "learning_rate")),
        ("symvit", {"pretraining": "imagenet-21k"}, ("pretraining",)),
        ("boost-fan", {"training": "elliptical-fan", "epochs": "130"}, ()),
        ("boost-fan", {"training": "elliptical-language"}, ("training",)),
        ("fan-tiny", {"training": "elliptical-fan"}, ("training",)),
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
    protocol = {
        "training": "other", "epochs": "1", "pretraining": "x", "training_batch_size": "2", "learning_rate": "9",
    }  # fmt: skip
    assert differing(found, True, **protocol) == ()
    assert differing(found, False, **protocol) == tuple(protocol)
    assert differing(found, True, **protocol, examples="7") == ("examples",)


def test_settings_name_fields_of_a_recipe() -> None:
    others = {"elliptical-fan": "boost-fan", "primal-long-range": "lra-listops-transformer"}
    others["segmenter"] = "segmenter-symvit"
    for name, fields in SETTINGS.items():
        recipe = registry()[others.get(name, "wikitext-softmax-small")].training
        assert all(hasattr(recipe, field) for field in fields)


@pytest.mark.parametrize(
    ("model", "stated", "fields"),
    [
        ("wikitext-softmax-small", "lmtool-fwp-small", ()),
        ("wikitext-softmax-small", "elliptical-language", ()),
        ("wikitext-softmax-small", "lmtool-fwp-medium", ("training",)),
        ("wikitext-softmax-medium", "lmtool-fwp-medium", ()),
        ("wikitext-softmax-medium", "lmtool-fwp-small", ("training",)),
        ("wikitext-linear-small", "lmtool-fwp-small", ("training",)),
        ("wikitext-softmax-small", "lmtool-fwp", ("training",)),
    ],
)
def test_settings_of_language_models_are_compared_by_size(model: str, stated: str, fields: tuple[str, ...]) -> None:
    assert differing(measured("wikitext-103-swap", "clean/perplexity", model), training=stated) == fields


def test_batches_of_evaluation_and_of_training_are_two_fields() -> None:
    found = measured("wikitext-103-swap", "clean/perplexity", "wikitext-softmax-small")
    assert (suite("wikitext-103-swap").batch_size, found.checkpoint.training.batch_size) == (1, 96)
    assert differing(found, batch_size="1", training_batch_size="96") == ()
    assert differing(found, batch_size="96", training_batch_size="1") == ("batch_size", "training_batch_size")
    assert differing(found, True, batch_size="96", training_batch_size="1") == ("batch_size",)


def test_an_attacks_learning_rate_is_none_of_training() -> None:
    found = measured("imagenet-adv-rpc", "spsa/top1_accuracy", num_examples=50_000)
    assert [float(view.attack.learning_rate) for view in found.views] == [0.01]
    assert differing(found, learning_rate="0.01") == ("learning_rate",)


def test_what_a_model_was_trained_on_before_is_told_by_its_initial_weights() -> None:
    found = measured("sst2-splits", "dev/top1_accuracy", "sst2-smoe-medium")
    assert differing(found, pretraining="wikitext-103") == ()
    assert differing(found, pretraining="wikitext-2") == ("pretraining",)
    other = measured("sst2-splits", "dev/top1_accuracy", "symvit")
    assert differing(other, pretraining="imagenet-1k") == ("pretraining",)


def test_every_measurable_cell_is_compared_and_only_known_ones_differ() -> None:
    found: dict[tuple[str, str], set[tuple[str, ...]]] = {}
    for paper, number in published_tables():
        for each in load_published(paper, number).cells:
            for _, read in each.as_read if each.column_key else ():
                of_cell = measured(str(each.suite), str(read.column_key), str(each.model))
                if fields := differing_fields(read, of_cell, of_authors=False):
                    found.setdefault((f"{paper}:{number}", str(read.condition)), set()).add(fields)
    assert found == {
        # Robust KDE says that its word swap searches greedily, and not how.
        **{(f"rkde:{number}", "swap-4"): {("search",)} for number in (1, 5, 6)},
        # IMDb has no validation split.
        ("rpc:11", "test"): {("split",)},
    }


def test_readings_by_code_and_text_have_conditions_and_protocols_of_their_own() -> None:
    def readings(paper: str, number: int, row: str, column: str) -> dict[str | None, tuple[str | None, dict[str, str]]]:
        printed = present(load_published(paper, number).cell(row, column))
        attack = ("norm", "epsilon", "num_steps")
        return {
            by: (read.condition, {name: read.protocol[name] for name in attack if name in read.protocol})
            for by, read in printed.as_read
        }

    rpc, linf = "SymViT (baseline)", {"norm": "linf"}
    assert readings("rpc", 2, "SPSA, top-1", rpc) == {
        "code": ("spsa", linf | {"epsilon": "0.1", "num_steps": "10"}),
        "text": ("spsa-paper", linf | {"epsilon": "0.1", "num_steps": "40"}),
    }
    assert readings("rpc", 2, "CW, top-5", rpc) == {"code": ("cw", {"norm": "l2"})}
    assert readings("rpc", 2, "SLD, top-5", rpc) == {"code": ("sld", {"norm": "l1", "epsilon": "10"})}
    assert readings("rkde", 9, "SPSA", "β = 2") == {
        "code": ("spsa", linf | {"epsilon": "0.1"}),
        "text": ("spsa-paper", linf | {"epsilon": "1/255"}),
    }
    # The same numbers, in normalised units or in pixels.
    for condition, column, steps in (("fgsm", "FGSM top-1", {}), ("pgd", "PGD top-5", {"num_steps": "20"})):
        assert readings("rkde", 2, "ViT", column) == {
            by: (f"{condition}-{suffix}", linf | {"epsilon": "1/255"} | steps)
            for by, suffix in (("code", "1"), ("text", "paper"))
        }
    assert readings("rkde", 2, "ViT", "Clean top-1") == {None: ("clean", {})}
    cells = [each for table in published_tables() for each in load_published(*table).cells if each.readings]
    counts = Counter(by for each in cells for by, _ in each.as_read)
    inferred = {(by, read.condition, read.inferred) for each in cells for by, read in each.as_read if read.inferred}
    # A series of budgets in the script, and no call.
    of_space = ("space", "clip")
    assert inferred == {
        ("code", "spsa", ("epsilon",)),
        ("code", "autoattack", of_space),
        ("code", "square", of_space),
        *((by, name, ("own definition",)) for by, name in (("code", "released"), ("text", "clean"))),
        *((by, name, ("num_directions", "auxiliary_weight")) for by, name in (("code", "released"), ("text", "clean"))),
    }
    # SPSA of both papers, AutoAttack and Square, and robust KDE's FGSM and PGD have both; SLD, CW and noise have no
    # condition of the text. The code of the Long-Range Arena's models leaves the last batch of the test split out.
    assert counts == {"code": 54 + 14 + 88 + 30 + 55, "text": 54 + 14 + 88 + 55}


def test_what_papers_do_not_print_is_inferred() -> None:
    found = Counter(
        (f"{paper}:{number}", each.inferred)
        for paper, number in published_tables()
        for each in load_published(paper, number).cells
        if each.inferred and each.cost is None
    )
    swap = ("rate", "count")
    assert found == {
        ("rpc:2", ("epsilon",)): 20,
        ("rpc:8", ("epsilon",)): 8,
        ("rpc:10", ("epsilon",)): 8,
        ("rpc:3", swap): 4,
        ("bilateral:2", swap): 4,
        ("rkde:1", swap): 36,
        ("rkde:5", swap): 36,
        ("rkde:6", swap): 24,
        ("twicing:4", ("count",)): 2,
        ("twicing:8", ("count",)): 2,
        # Two of them are the means over all sets or tasks.
        ("primal:3", ("num_directions", "auxiliary_weight")): 22,
        ("primal:4", ("num_directions", "auxiliary_weight")): 12,
        ("primal:2", ("target_return",)): 27,
        ("bilateral:1", ("own definition",)): 20,
        ("rpc:6", ("severity",)): 10,
        ("rpc:11", ("recipe", "sizes")): 6,
        ("rpc:11", ("recipe", "sizes", "sparsity")): 6,
        ("rpc:12", ("recipe", "sizes")): 2,
        ("rpc:12", ("recipe", "sizes", "sparsity")): 2,
        **{(f"twicing:{number}", ("space", "labels", "clip")): count for number, count in ((1, 24), (9, 16))},
        **{
            (f"twicing:{number}", ("space", "labels", "clip", "num_steps", "delta", "num_samples")): count
            for number, count in ((1, 12), (9, 8))
        },
        ("bilateral:3", ("norm", "space", "labels", "clip")): 12,
        ("bilateral:3", ("norm", "space", "labels", "clip", "num_steps", "step_size")): 12,
    }


def test_numbers_under_attacks_of_an_inferred_suite_are_inferred() -> None:
    """Every field of the threat model and the steps that a suite infers is printed, or marked as inferred."""
    fields = ("norm", "epsilon", "space", "labels", "clip", "num_steps")
    found = Counter[str]()
    for paper, number in published_tables():
        for each in load_published(paper, number).cells:
            if each.suite is None or "inferred" not in suite(each.suite).description:
                continue
            (attack,) = (one.perturbation for one in suite(each.suite).conditions if one.name == each.condition)
            of_attack = {name for name in fields if getattr(attack, name, None) is not None}
            if attack.threat_model is not None:
                assert of_attack <= {*each.protocol, *each.inferred}, (paper, number, each.row, each.column)
                found[f"{paper}:{number}"] += 1
    assert found == {"bilateral:3": 24, "twicing:1": 36, "twicing:9": 24}


def test_two_prints_of_one_model_that_no_training_can_agree_with_are_marked() -> None:
    """Of the same model, condition and metric; what is inferred may differ, such as the rate of a word swap."""
    prints: dict[tuple[str | None, ...], list[PublishedCell]] = {}
    for table in published_tables():
        for each in load_published(*table).cells:
            if each.model and each.condition and not each.inferred and not each.readings:
                prints.setdefault((each.model, each.suite, each.condition, each.metric), []).append(each)
    apart = {
        key: several
        for key, several in prints.items()
        if max(each.value - each.rounding for each in several) > min(each.value + each.rounding for each in several)
    }
    assert {(key[0], key[1]) for key in apart} == {
        (f"wikitext-softmax-{size}", f"wikitext-103-swap{split}")
        for size in ("small", "medium")
        for split in ("", "-valid")
    }
    for several in apart.values():
        for each in several:
            assert "no training of this model can agree with both" in present(each.inconsistent)


def test_a_recipe_is_stated_by_settings_and_not_by_a_length_alone() -> None:
    stated = {
        f"{paper}:{number}": {row.label for row in table.rows for each in row.cells if each and each.is_recipe_stated}
        for paper, number in published_tables()
        for table in [load_published(paper, number)]
    }
    assert stated["bilateral:3"] == {"FAN", "FAN + Boost"}
    assert stated["twicing:1"] == {"DeiT", "NeuTRENO", "DeiT-Twicing", "DeiT-Twicing [10-12]"}
    assert stated["twicing:6"] == {"Transformer (small)", "TrTwicing (small)"}
    assert all(not stated[f"rkde:{number}"] for number in (2, 3, 7, 8, 9, 10))
    assert all(not stated[f"rpc:{number}"] for number in (7, 8, 9, 10, 14))
    assert all(stated[f"rpc:{number}"] for number in (1, 2, 3, 4, 5))


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
        ("epochs", "120", True),
        ("epochs", "75", False),
    ],
)
def test_protocols_of_word_swap_are_compared_field_by_field(name: str, stated: str, is_equal: bool) -> None:
    of_cell = measured("wikitext-103-swap", "swap-4/perplexity", "wikitext-softmax-small")
    printed = present(load_published("twicing", 4).rows[0].cells[1])
    found = differing_fields(replace(printed, protocol={name: stated}), of_cell, of_authors=False)
    assert found == (() if is_equal else (name,))


def test_passes_of_attacks_follow_from_their_declarations() -> None:
    boost = {each.name: each for each in suite("imagenet-adv-boost").conditions}
    # Scored once each; one gradient of FGSM, twenty of PGD.
    assert [passes_of(boost[name])[1:3] for name in ("clean", "fgsm-1", "pgd-1")] == [(1, 0), (2, 1), (21, 20)]
    spsa = next(each for each in suite("imagenet-adv-rkde").conditions if each.name == "spsa")
    assert passes_of(spsa) == (1, 1 + 40 * 2 * 128, 0, True)


def test_a_sweep_has_the_passes_of_its_budgets_together() -> None:
    (swept,) = (each for each in suite("digits-sweep").conditions if each.perturbation.at_budgets)
    budgets = swept.perturbation.at_budgets
    passes = sum(forward for each in budgets for forward, _ in [each.most_passes or (0, 0)])
    assert passes_of(swept)[:2] == (len(budgets), len(budgets) + passes)
    assert passes > 0
