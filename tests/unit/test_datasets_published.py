"""Published sets, and where the folders of their datasets are looked for."""

import pytest

from robench.datasets import DATASETS
from robench.datasets.base import DatasetBase, PublishedFolder
from robench.datasets.digits import DIGITS
from robench.datasets.imagenet_folder import VALIDATION, Layout, class_indices, layout_of
from robench.datasets.published import PUBLISHED_SETS
from robench.datasets.published_texts import WIKITEXT_103

ON_DISK = [declared for declared in DATASETS.values() if declared.folder is not None]
IMAGES = [declared for declared in ON_DISK if isinstance(declared, PublishedFolder)]


def layout(name: str) -> Layout:
    return layout_of(DATASETS[name])


def test_every_dataset_on_disk_is_of_exactly_one_set() -> None:
    listed = [name for published in PUBLISHED_SETS.values() for name in published.datasets]
    assert sorted(listed) == sorted(declared.name for declared in ON_DISK)


def test_the_size_of_imagenet_c_is_that_of_its_five_archives() -> None:
    # noise, blur, weather, digital and extra, as the archive's own listing has them.
    sizes = [22_565_673_785, 7_112_704_951, 12_797_438_995, 7_757_510_705, 15_789_490_144]
    assert PUBLISHED_SETS["imagenet-c"].num_bytes == sum(sizes)
    assert len(PUBLISHED_SETS["imagenet-c"].archives) == len(sizes)


def test_every_set_says_where_it_is_to_be_had_and_on_what_terms() -> None:
    assert all(each.where and each.licence and (each.num_bytes or 10**6) > 500_000 for each in PUBLISHED_SETS.values())


class TestLayouts:
    @pytest.mark.parametrize("declared", IMAGES, ids=lambda declared: declared.name)
    def test_each_dataset_on_disk_has_one_that_wants_its_size(self, declared: object) -> None:
        found = layout_of(declared)  # type: ignore[arg-type]  # a declaration
        assert found.num_images == declared.num_examples  # type: ignore[attr-defined]  # as above
        if found.images_per_class is not None:
            assert found.images_per_class * len(found.classes) == found.num_images

    @pytest.mark.parametrize("letter", ["a", "r", "o"])
    def test_the_same_classes_are_read_from_the_validation_images(self, letter: str) -> None:
        found = layout(f"imagenet-1k-{letter}-classes")
        assert found.places == VALIDATION.places
        assert found.classes == layout(f"imagenet-{letter}").classes
        assert found.passes_over_others
        assert len(found.classes) == 200

    def test_a_folder_unpacked_by_hand_is_found_by_its_published_name(self) -> None:
        assert layout("imagenet-sketch").places == ("imagenet-sketch", "imagenet-sketch/sketch", "sketch")
        assert "imagenetv2-matched-frequency-format-val" in layout("imagenet-v2").places
        assert "ImageNet-C/fog/5" in layout("imagenet-c/fog/5").places

    def test_the_data_root_itself_is_taken_for_imagenet_1k_alone(self) -> None:
        others = [layout_of(declared) for declared in IMAGES if declared.folder != "imagenet-1k"]
        assert not any("." in found.places or "val" in found.places for found in others)

    def test_the_classes_of_v2_are_numbers(self) -> None:
        classes = layout("imagenet-v2").classes
        assert [int(name) for name in classes] == list(classes.values()) == list(range(1000))

    @pytest.mark.parametrize("name", ["imagenet-sketch", "imagenet-c/snow/1"])
    def test_whole_sets_have_all_classes(self, name: str) -> None:
        assert layout(name).classes == class_indices()

    def test_the_example_is_of_a_class_that_the_dataset_has(self) -> None:
        for declared in IMAGES:
            found = layout_of(declared)
            assert found.example.split("/")[-2] in found.classes

    @pytest.mark.parametrize("declared", [DIGITS, WIKITEXT_103], ids=lambda declared: declared.name)
    def test_an_embedded_dataset_and_texts_have_none(self, declared: DatasetBase) -> None:
        with pytest.raises(ValueError, match=f"{declared.name!r} has no class folders"):
            layout_of(declared)
