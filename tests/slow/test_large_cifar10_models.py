"""Models of 5 million parameters on CIFAR-10: sizes, equal recipes, and two epochs of each mechanism in small."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from trainings import interrupt_after, same

from robench.attention.softmax import Softmax
from robench.declare import read_registry, shipped_registry
from robench.models.build import build
from robench.models.vit import Vit
from robench.training.base import EpochReport, Host
from robench.training.deit import DeitTraining
from robench.training.deit_impl import train_deit
from robench.training.folder_images import TrainingImages, transform_of
from robench.training.images import OneCycleTraining
from robench.training.optimization import seeded

ENTRIES = {name: each for name, each in read_registry(shipped_registry()).items() if name.startswith("cifar10-l-")}
PLAIN = [name for name in ENTRIES if "adversarial" not in name]


def small(name: str, **changes: Any) -> Any:
    """The entry with a narrow model of two layers, for two epochs of 1,197 digits."""
    entry = ENTRIES[name]
    assert isinstance(entry.architecture, Vit)
    assert isinstance(entry.training, DeitTraining)
    attention: Any = entry.architecture.attention
    if getattr(attention, "layers", None) == (11,):
        attention = replace(attention, layers=(1,))
    architecture = replace(entry.architecture, depth=2, dim=24, num_heads=2, attention=attention)
    training = replace(
        entry.training, dataset="digits", num_epochs=2, warmup_epochs=0, learning_rate=0.003, batch_size=64, **changes
    )
    return replace(entry, architecture=architecture, training=training)


@pytest.mark.parametrize("name", ENTRIES)
def test_a_model_has_5_million_parameters_and_64_tokens(name: str) -> None:
    architecture = ENTRIES[name].architecture
    assert isinstance(architecture, Vit)
    assert (architecture.depth, architecture.dim, architecture.image_size // architecture.patch_size) == (12, 192, 8)
    with torch.device("meta"):
        count = sum(each.numel() for each in build(architecture).parameters())
    assert 5e6 < count < 5.8e6


def test_models_differ_in_their_attention_alone() -> None:
    assert len(PLAIN) == 8
    for names, kind, num_epochs in ((PLAIN, DeitTraining, 100), ({*ENTRIES} - {*PLAIN}, OneCycleTraining, 40)):
        recipes = {replace(ENTRIES[name].training, auxiliary_weight=0.0) for name in names}  # type: ignore[type-var]
        (recipe,) = recipes
        assert isinstance(recipe, kind)
        assert recipe.total_epochs == num_epochs
        assert {replace(ENTRIES[name].architecture, attention=Softmax()) for name in names} == {  # type: ignore[type-var]
            replace(ENTRIES["cifar10-l-vit"].architecture, attention=Softmax())  # type: ignore[type-var]
        }


@pytest.mark.parametrize("name", PLAIN)
def test_two_epochs_lower_the_loss_and_resume_to_the_same_bytes(name: str, tmp_path: Path) -> None:
    heard: list[EpochReport] = []
    whole = train_deit(small(name), Host(data_root=None), heard.append)
    assert heard[1].loss_nats < heard[0].loss_nats < 2.5
    host = Host(data_root=None, state_path=tmp_path / "state")
    with pytest.raises(KeyboardInterrupt):
        train_deit(small(name), host, interrupt_after(1))
    assert same(train_deit(small(name), host), whole)


def test_images_in_memory_are_padded_and_cropped_to_their_size() -> None:
    entry = small("cifar10-l-vit")
    images = TrainingImages(None, entry.training, entry.preprocessing)
    image, seeds = Image.fromarray(images._pixels_of(0)), range(60)
    pixels = torch.from_numpy(images._pixels_of(0))
    padded = torch.nn.functional.pad(pixels, (0, 0, 4, 4, 4, 4))
    windows = [padded[top : top + 32, left : left + 32] for top in range(9) for left in range(9)]
    found = set()
    for seed in seeds:
        with seeded(seed):
            cropped = torch.from_numpy(np.array(transform_of(entry.training, entry.preprocessing).transforms[0](image)))
        (place,) = [place for place, each in enumerate(windows) if torch.equal(each, cropped)]
        found.add(place)
    assert len(found) > 30
    assert {images[0, seed][0].shape for seed in seeds} == {(3, 32, 32)}
    assert len({float(images[0, seed][0].sum()) for seed in seeds}) > 50
