"""How an entry says that it is trained: two kinds, of which the older one needs not be named."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from training_examples import recipe

from robench.core.errors import DeclarationError
from robench.core.identity import to_plain
from robench.declare import read_registry
from robench.training import TRAININGS
from robench.training.deit import DeitTraining
from robench.training.images import Training

DEIT = DeitTraining(dataset="imagenet-1k")
DIGITS = "dataset: digits, seed: 0, num_epochs: 1, batch_size: 2, learning_rate: 0.1"


def read(folder: Path, training: str) -> Any:
    path = folder / "mine.yaml"
    path.write_text(
        "checkpoints:\n  mine:\n    architecture: {backbone: timm, name: deit}\n"
        "    weights: {uri: mine.pth, sha256: null}\n"
        "    preprocessing: {kind: image, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}\n"
        f"    training: {training}\n"
    )
    return read_registry(path)["mine"].training


def test_kinds_are_called_by_their_own_name() -> None:
    assert {kind: declared.kind for kind, declared in TRAININGS.items()} == {kind: kind for kind in TRAININGS}


def test_deits_defaults_are_those_of_its_paper_and_code() -> None:
    """Touvron et al. 2021, table 9, column DeiT-B; below the line what main.py alone says."""
    printed = {
        "num_epochs": 300, "batch_size": 1024, "learning_rate": 0.0005, "weight_decay": 0.05, "warmup_epochs": 5,
        "label_smoothing": 0.1, "drop_path_rate": 0.1, "num_repeats": 3, "clip_grad": None,
        "auto_augment": "rand-m9-mstd0.5-inc1", "mixup": 0.8, "cutmix": 1.0, "random_erasing": 0.25,
    }  # fmt: skip
    in_code = {"warmup_learning_rate": 1e-6, "min_learning_rate": 1e-5, "ema_decay": 0.99996, "seed": 0}
    in_code |= {"learning_rate_batch_size": 512, "cooldown_epochs": 0, "mixing_group_size": 256}
    own = {"dataset": "imagenet-1k", "published": "weights", "auxiliary_weight": 0.0, "interpolation": "preprocessing"}
    own |= {"distillation": "none", "teacher": None}
    assert {field.name: getattr(DEIT, field.name) for field in fields(DEIT)} == printed | in_code | own


def test_an_entry_without_a_kind_is_of_the_older_one(tmp_path: Path) -> None:
    older = Training(dataset="digits", seed=0, num_epochs=1, batch_size=2, learning_rate=0.1)
    assert read(tmp_path, f"{{{DIGITS}}}") == older
    assert read(tmp_path, f"{{kind: training, {DIGITS}}}") == older
    assert to_plain(older) == {
        "kind": "training", "dataset": "digits", "seed": 0, "num_epochs": 1, "batch_size": 2, "learning_rate": 0.1,
    }  # fmt: skip


def test_deit_is_told_by_its_kind_and_needs_its_dataset_alone(tmp_path: Path) -> None:
    assert read(tmp_path, "{kind: deit, dataset: imagenet-1k}") == DEIT
    changed = "{kind: deit, dataset: imagenet-1k, clip_grad: 1, ema_decay: null, published: weights, seed: 3}"
    assert read(tmp_path, changed) == replace(DEIT, clip_grad=1.0, ema_decay=None, seed=3)


@pytest.mark.parametrize(
    ("training", "problem"),
    [
        ("{kind: deit}", "training.dataset: missing"),
        ("{kind: deit, dataset: imagenet-1k, max_shift: 1}", "training.max_shift: unknown field 'max_shift'."),
        ("{kind: deit, dataset: imagenet-2k}", "training.dataset: unknown dataset 'imagenet-2k'."),
        ("{kind: deit, dataset: sst2}", "training.dataset: must have images to learn from, in a folder as imagenet-1k"),
        ("{kind: deit, dataset: imagenet-1k, batch_size: 1023}", "training.batch_size: must be even"),
        ("{kind: deit, dataset: imagenet-1k, mixing_group_size: 127}", "training.mixing_group_size: must be even"),
        (
            "{kind: deit, dataset: imagenet-1k, learning_rate_batch_size: 0}",
            "training.learning_rate_batch_size: must be",
        ),
        ("{kind: deit, dataset: imagenet-1k, cooldown_epochs: -1}", "training.cooldown_epochs: must be at least 0"),
        (
            "{kind: deit, dataset: imagenet-1k, interpolation: nearest}",
            "training.interpolation: unknown value 'nearest'.",
        ),
        ("{kind: deit, dataset: imagenet-1k, drop_path_rate: 1}", "training.drop_path_rate: must be below 1, got 1"),
        ("{kind: deit, dataset: imagenet-1k, clip_grad: 0}", "training.clip_grad: must be above 0, got 0"),
        ("{kind: deit, dataset: imagenet-1k, published: ema}", "training.published: unknown value 'ema'."),
        ("{kind: deit, dataset: imagenet-1k, auxiliary_weight: -1}", "training.auxiliary_weight: must be at least 0"),
        ("{kind: diet, dataset: imagenet-1k}", "training.kind: unknown training 'diet'. Did you mean 'deit'?"),
        (f"{{{DIGITS}, mixup: 0.8}}", "training.mixup: unknown field 'mixup'."),
        ("deit", "training: must be a mapping such as {kind: deit}, got 'deit'"),
    ],
)
def test_a_mistake_is_one_problem_at_its_place(tmp_path: Path, training: str, problem: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        read(tmp_path, training)
    head, line = str(caught.value).splitlines()
    assert head.endswith("1 problem")
    assert line.strip().split(": ", 1)[1].removeprefix("checkpoints.mine.").startswith(problem)


def test_an_average_is_published_only_where_one_is_kept() -> None:
    with pytest.raises(ValueError, match="published must be weights where ema_decay is null"):
        recipe(published="average", ema_decay=None)
