"""The suites of corruptions and natural shifts: as written by their script, and what they hold."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import shift_suites

from robench.corruptions import COMMON_CORRUPTIONS, EXTRA_CORRUPTIONS, SERIES_TYPES
from robench.corruptions.corruption import Corruption
from robench.datasets.base import corrupted_of
from robench.declare import read_suite

ROOT = Path(__file__).parents[2]
TYPES = {
    "imagenet-c": COMMON_CORRUPTIONS, "imagenet-c-extra": EXTRA_CORRUPTIONS, "imagenet-c-live": COMMON_CORRUPTIONS,
    "digits-c": (*COMMON_CORRUPTIONS, *EXTRA_CORRUPTIONS), "digits-c-extra": EXTRA_CORRUPTIONS,
    "cifar10-c": COMMON_CORRUPTIONS, "cifar10-c-published": COMMON_CORRUPTIONS,
    "corruptions-live": COMMON_CORRUPTIONS, "corruptions-live-224": COMMON_CORRUPTIONS,
    "series-c": tuple(SERIES_TYPES), "scenes-c": COMMON_CORRUPTIONS, "masks-c": COMMON_CORRUPTIONS,
    "ade20k-c": COMMON_CORRUPTIONS,
}  # fmt: skip
# Of masks, whose means are over the severities that there are.
OF_MASKS = {"scenes-c": (1, 3, 5), "masks-c": (1, 3, 5), "ade20k-c": (5,)}


def suite(name: str):
    return read_suite(ROOT / "suites" / f"{name}.yaml")


def test_the_script_writes_every_suite_of_corruptions() -> None:
    assert shift_suites.texts().keys() == {f"{name}.yaml" for name in (*TYPES, "cifar10-2")}


def test_the_second_edition_has_the_corruptions_of_the_first_on_a_thousand_images() -> None:
    whole, found = suite("cifar10-c").conditions[1:], suite("cifar10-2").conditions
    corrupted = [each for each in found if corrupted_of(each)]
    assert [replace(each, num_examples=1000) for each in whole] == corrupted
    assert [each.name for each in found[: -len(corrupted)]] == ["clean", "clean-2000", "pgd-1", "apgd-1"]
    pgd, apgd = found[2:4]
    attacks = {each.name: each for name in ("cifar10-adv", "cifar10-autoattack") for each in suite(name).conditions}
    assert pgd == replace(attacks["pgd-1"], num_examples=2000)
    assert (apgd.num_examples, apgd.perturbation) == (2000, attacks["apgd-1"].perturbation.members[0])
    assert [column.key for column in suite("cifar10-2").columns] == [
        "clean/top1_accuracy",
        "cifar-10-c-live/mean_top1_accuracy",
        "linf-1/255/robust_accuracy",
    ]


@pytest.mark.parametrize("name", TYPES)
def test_every_type_has_its_severities_beside_the_clean_images(name: str) -> None:
    clean, *corrupted = suite(name).conditions
    assert corrupted_of(clean) is None
    found = [corrupted_of(condition) for condition in corrupted]
    assert [(each.type, each.severity) for each in found if each] == [
        (corruption, severity) for corruption in TYPES[name] for severity in OF_MASKS.get(name, (1, 2, 3, 4, 5))
    ]


@pytest.mark.parametrize("name", TYPES)
def test_the_published_files_alone_have_the_published_name(name: str) -> None:
    families = {
        "corruptions-live": "any-c", "corruptions-live-224": "any-c", "series-c": "any-c",
        "cifar10-c": "cifar-10-c-live", "cifar10-c-published": "cifar-10-c", "scenes-c": "digit-scenes-c",
        "masks-c": "any-c",
    }  # fmt: skip
    family = families.get(name, name.removesuffix("-extra"))
    assert {column.key.partition("/")[0] for column in suite(name).columns if column.family} == {family}


def test_live_corruptions_are_compressed_as_the_published_files_are() -> None:
    live = [condition.perturbation for condition in suite("imagenet-c-live").conditions[1:]]
    assert all(
        isinstance(each, Corruption) and (each.constants, each.saved_as) == ("imagenet", "jpeg-85") for each in live
    )


def test_the_extra_digits_are_those_that_digits_c_has_and_are_measured_once_for_both() -> None:
    whole = {condition.name: condition for condition in suite("digits-c").conditions}
    extra = suite("digits-c-extra").conditions
    assert all(whole[condition.name] == condition for condition in extra)
    keys = json.loads((ROOT / "tests" / "golden" / "keys.json").read_text())["suites"]
    assert keys["digits-c-extra"].items() <= keys["digits-c"].items()


def test_the_digits_have_the_constants_of_small_images() -> None:
    small = [condition.perturbation for condition in suite("digits-c").conditions[1:]]
    assert {(each.constants, each.saved_as) for each in small if isinstance(each, Corruption)} == {("cifar", "float")}


def test_published_files_are_not_resized() -> None:
    datasets = [condition.dataset for condition in suite("imagenet-c").conditions[1:]]
    assert {each.resize_rule for each in datasets} == {"none"}


@pytest.mark.parametrize("subset", ["a", "r", "o"])
def test_the_same_classes_stand_beside_each_subset_under_the_same_mask(subset: str) -> None:
    datasets = {condition.name: condition.dataset for condition in suite("imagenet-shift").conditions}
    assert datasets[subset].class_subset == datasets[f"{subset}-classes"].class_subset == f"imagenet-{subset}"
    assert datasets[subset].resize_rule == datasets[f"{subset}-classes"].resize_rule == "bicubic"


@pytest.mark.parametrize(("name", "out"), [("imagenet-shift", "o"), ("digits-shift", "digits-o")])
def test_out_of_distribution_examples_have_detection_and_no_accuracy(name: str, out: str) -> None:
    columns = {column.key: column.conditions for column in suite(name).columns if column.key.startswith(f"{out}/")}
    negatives = {"o": "o-classes", "digits-o": "clean"}[out]
    assert columns == dict.fromkeys([f"{out}/aupr", f"{out}/auroc", f"{out}/fpr95"], (out, negatives))
