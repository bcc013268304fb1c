"""Datasets are opened by name, and what opens them is imported only then."""

import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from robench.attacks.fgsm import Fgsm
from robench.core.errors import DeclarationError, MissingDataError, UnknownNameError, UsageError
from robench.datasets import DATASETS, open_dataset
from robench.datasets.imagenet import IMAGENET_1K
from robench.datasets.imagenet_impl import USUAL_PREPROCESSING, ImagenetFolder
from robench.declarations.preprocessing import ImagePreprocessing

HEAVY = {"torch", "torchvision", "timm", "sklearn", "numpy", "PIL"}


def image_preprocessing(**fields: Any) -> ImagePreprocessing:
    return ImagePreprocessing(mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5), **fields)


def open_digits(**changes: Any) -> Any:
    return open_dataset("digits", **{"data_root": None, "preprocessing": None, **changes})


def test_an_unknown_dataset_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown dataset 'digitz'. Did you mean 'digits'\?") as caught:
        open_dataset("digitz", data_root=None, preprocessing=None)
    assert caught.value.exit_code == 2


def test_the_evaluation_split_is_the_default() -> None:
    assert open_digits().identity == open_digits(split="test").identity
    assert open_digits().identity != open_digits(split="train").identity


@pytest.mark.parametrize("name", [name for name, each in DATASETS.items() if each.folder and each.domain != "tokens"])
def test_each_dataset_on_disk_says_where_it_was_looked_for(tmp_path: Path, name: str) -> None:
    with pytest.raises(MissingDataError) as caught:
        open_dataset(name, data_root=tmp_path, preprocessing=None)
    assert f"dataset {name!r} not found. Tried:" in str(caught.value)
    assert str(tmp_path / str(DATASETS[name].folder)) in str(caught.value)


def test_only_digits_has_a_split_to_train_on(tmp_path: Path) -> None:
    assert len(open_digits(split="train")) == 1197
    with pytest.raises(UsageError, match="'imagenet-1k' has no split 'train'"):
        open_dataset("imagenet-1k", data_root=tmp_path, preprocessing=None, split="train")


def test_imagenet_is_cropped_as_usual_where_no_checkpoint_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr(ImagenetFolder, "__init__", lambda _, *arguments: seen.extend(arguments))
    open_dataset("imagenet-1k", data_root=Path("data"), preprocessing=None, decode_workers=3)
    assert seen == [IMAGENET_1K, Path("data"), USUAL_PREPROCESSING, 3]
    assert (USUAL_PREPROCESSING.resize, USUAL_PREPROCESSING.crop) == (256, 224)


@pytest.mark.parametrize("name", ["digits", "digits-r"])
@pytest.mark.parametrize("field", ["resize", "crop"])
def test_digits_refuse_to_be_resized_instead_of_ignoring_it(name: str, field: str) -> None:
    with pytest.raises(DeclarationError, match=f"'{name}' has images of 32x32 pixels and no other: {field} .* got 224"):
        open_dataset(name, data_root=None, preprocessing=image_preprocessing(**{field: 224}))


@pytest.mark.parametrize("fields", [{}, {"resize": 32, "crop": 32}])
def test_digits_take_a_preprocessing_that_leaves_their_size(fields: dict[str, int]) -> None:
    assert open_digits(preprocessing=image_preprocessing(**fields)).identity == open_digits().identity


def test_what_is_no_preprocessing_and_no_number_of_processes_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 0, got -1"):
        open_digits(decode_workers=-1)
    with pytest.raises(DeclarationError, match="of dataset 'digits' must be a PreprocessingBase, got Fgsm"):
        open_digits(preprocessing=Fgsm(epsilon=Fraction(0)))


@pytest.mark.parametrize("module", ["robench.datasets", "robench.core.child_processes"])
def test_nothing_heavy_is_imported_before_a_dataset_is_opened(module: str) -> None:
    script = f"import {module}, sys; print(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert not HEAVY & set(printed.split())
