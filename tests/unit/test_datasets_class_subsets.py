"""The shipped class lists are the authors'."""

import hashlib
from pathlib import Path

import pytest
import timm

from robench.core.errors import UnknownNameError
from robench.datasets import DATASETS
from robench.datasets.base import CLASS_SUBSETS, class_indices_of, class_subset
from robench.datasets.imagenet_folder import class_indices

TIMM_LISTS = Path(timm.__file__).parent / "data" / "_info"


@pytest.mark.parametrize("subset", ["imagenet-a", "imagenet-r"])
def test_the_lists_of_a_and_r_are_timm_s(subset: str) -> None:
    lines = (TIMM_LISTS / f"{subset.replace('-', '_')}_indices.txt").read_text().split()
    assert class_indices_of(subset) == tuple(map(int, lines))


def test_the_list_of_o_is_that_of_the_authors_mask() -> None:
    # Of the comma-separated indices in the mask of the authors' script.
    text = ",".join(map(str, class_indices_of("imagenet-o")))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "38e74578856f9077"


@pytest.mark.parametrize("subset", CLASS_SUBSETS)
def test_each_has_200_classes_in_ascending_order_with_the_indices_of_imagenet_1k(subset: str) -> None:
    indices = class_indices_of(subset)
    assert len(indices) == 200
    assert list(indices) == sorted(set(indices))
    assert list(class_subset(subset)) == sorted(class_subset(subset))
    assert class_subset(subset).items() <= class_indices().items()


@pytest.mark.parametrize("function", [class_subset, class_indices_of])
def test_an_unknown_subset_names_the_nearest(function: object) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown class subset 'imagenet_a'. Did you mean 'imagenet-a'\?"):
        function("imagenet_a")  # type: ignore[operator]  # one of the two


def test_every_declared_subset_has_a_list() -> None:
    declared = {each.class_subset for each in DATASETS.values()} - {None}
    assert declared == set(CLASS_SUBSETS)


def test_every_list_says_its_source() -> None:
    folder = Path(__file__).parents[2] / "robench" / "datasets" / "class_lists"
    # Names of ADE20K's classes are a list of their own.
    assert {path.stem for path in folder.iterdir()} == {*CLASS_SUBSETS, "ade20k"}
    assert all("# Source: " in path.read_text() for path in folder.iterdir())
