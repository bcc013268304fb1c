"""What is declared of datasets: names, sizes, classes, resize rules."""

from collections import Counter
from dataclasses import replace

import pytest

from robench.corruptions import COMMON_CORRUPTIONS, EXTRA_CORRUPTIONS, SEVERITIES
from robench.datasets import DATASETS
from robench.datasets.digits import DIGITS

CORRUPTED = [name for name in DATASETS if name.startswith("imagenet-c/")]


def test_imagenet_c_has_15_types_and_4_extra_at_five_severities() -> None:
    assert (len(COMMON_CORRUPTIONS), len(EXTRA_CORRUPTIONS), SEVERITIES) == (15, 4, (1, 2, 3, 4, 5))
    wanted = {f"imagenet-c/{each}/{s}" for each in COMMON_CORRUPTIONS + EXTRA_CORRUPTIONS for s in SEVERITIES}
    assert set(CORRUPTED) == wanted
    assert len(CORRUPTED) == 95


def test_imagenet_c_lies_where_it_is_published_and_is_never_resized() -> None:
    for name in CORRUPTED:
        declared = DATASETS[name]
        assert declared.folder == name
        assert (declared.resize_rule, declared.image_size) == ("none", 224)


@pytest.mark.parametrize("letter", ["a", "r", "o"])
def test_beside_each_subset_stand_the_imagenet_1k_images_of_its_classes(letter: str) -> None:
    subset, beside = DATASETS[f"imagenet-{letter}"], DATASETS[f"imagenet-1k-{letter}-classes"]
    assert subset.class_subset == beside.class_subset == f"imagenet-{letter}"
    assert (beside.folder, beside.num_examples) == ("imagenet-1k", 200 * 50)
    assert not beside.is_out_of_distribution


@pytest.mark.parametrize("rule", ["bicubic", "bilinear"])
def test_a_resize_rule_is_offered_for_subsets_and_what_stands_beside_them_alike(rule: str) -> None:
    ruled = {name.removesuffix(f"/{rule}") for name, declared in DATASETS.items() if declared.resize_rule == rule}
    letters = ("a", "r", "o")
    assert ruled == {f"imagenet-{each}" for each in letters} | {f"imagenet-1k-{each}-classes" for each in letters}


def test_a_resize_rule_changes_nothing_else() -> None:
    plain, ruled = DATASETS["imagenet-o"], DATASETS["imagenet-o/bilinear"]
    assert replace(ruled, name=plain.name, title=plain.title, resize_rule=None) == plain


def test_the_two_sets_of_unknown_things_say_so() -> None:
    assert {name for name, each in DATASETS.items() if each.is_out_of_distribution} == {
        *("digits-o", "imagenet-o", "imagenet-o/bicubic", "imagenet-o/bilinear")
    }


def test_titles_tell_datasets_apart() -> None:
    assert Counter(each.title for each in DATASETS.values()).most_common(1)[0][1] == 1


def test_images_that_are_not_resized_have_a_size() -> None:
    with pytest.raises(ValueError, match="image_size must be given with resize_rule none"):
        replace(DIGITS, resize_rule="none", image_size=None)
