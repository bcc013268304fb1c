"""Trainings that are refused: fields that contradict each other, entries of registry files, and what does not fit."""

import os
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from refusals import Refusal, check
from training_examples import ARCHITECTURE, PREPROCESSING, checkpoint_of, entry_of, recipe, write_tree

from robench.core.checkpoint import Checkpoint, Weights
from robench.core.errors import ContractError, DeclarationError, MissingDataError, UsageError
from robench.declare import find_checkpoints, read_registry
from robench.models.foreign import Python, Timm
from robench.models.segmenter import Segmenter
from robench.training.base import Host
from robench.training.deit import Teacher
from robench.training.deit_impl import train_deit
from robench.training.embedded_impl import train as train_embedded
from robench.training.folder_images import TrainingImages
from robench.training.images import OneCycleTraining
from robench.training.one_cycle_impl import train as train_one_cycle
from robench.training.segmentation import SegmentationTraining
from robench.training.segmentation_impl import train as train_segmenter
from robench.training.sequences import SequenceTraining
from robench.training.texts import LanguageTraining

TEACHER = Teacher(architecture=Timm(name="regnetx_002"), weights=Weights(uri="teacher.pth", sha256=None))
EPSILON = Fraction(8, 255)
LEARNED: dict[str, Any] = {"seed": 0, "num_epochs": 1, "batch_size": 4}
RATE = LEARNED | {"learning_rate": 0.1}
CYCLE: dict[str, Any] = {"schedule": "one-cycle", "steps_per_epoch": 3, "seed": 3, "num_epochs": 4, "batch_size": 64}


def of(declared: Callable[..., object], message: str, **fields: Any) -> Refusal:
    return Refusal(lambda _: declared(**fields), ValueError, message)


def series(message: str, **fields: Any) -> Refusal:
    return of(SequenceTraining, message, dataset="japanese-vowels", **fields)


def words(message: str, dataset: str = "wikitext-103", **fields: Any) -> Refusal:
    return of(LanguageTraining, message, dataset=dataset, **RATE | fields)


def scenes(message: str, **fields: Any) -> Refusal:
    return of(SegmentationTraining, message, dataset="digit-scenes", **LEARNED, crop_size=16, **fields)


def one_cycle(message: str, **fields: Any) -> Refusal:
    return of(OneCycleTraining, message, dataset="digits", **RATE, adversarial_epsilon=EPSILON, **fields)


FIELDS = {
    "odd group": of(recipe, "mixing_group_size must be even, since two examples are mixed, got 3", mixing_group_size=3),
    "no teacher": of(recipe, "teacher missing, with distillation hard", distillation="hard"),
    "unused teacher": of(recipe, "teacher must be left out with distillation none", teacher=TEACHER),
    "held out": series(r"held_out must be left out without selection best-on-split, got 0\.2", **LEARNED, held_out=0.2),
    "warm-up alone": series("num_epochs times steps_per_epoch, 12, got 12", **CYCLE, warmup_steps=12),
    "warm-up of a shortened one": Refusal(
        lambda _: SequenceTraining(dataset="japanese-vowels", **CYCLE, warmup_steps=11).shortened(1),
        ValueError,
        "warmup_steps must be below num_epochs times steps_per_epoch, 3, got 11",
    ),
    "steps of sotu": words("num_steps must be left out for sotu, whose epochs differ", "sotu", num_steps=5),
    "warm-ups": words("_share must be left out beside warmup_steps, got 0.1", warmup_steps=5, warmup_share=0.1),
    "clipping": words("clip_grad must be above 0", clip_grad=0.0),
    "scales": scenes("scales must be a smaller", scales=(2.0, 0.5)),
    "last rate": scenes("last_rate must", last_rate=1.0),
    "step beyond twice the budget": one_cycle(
        "must be at most 2 times adversarial_epsilon 8/255, got 1/15",
        adversarial_step_size=Fraction(17, 255),
        adversarial_num_steps=1,
    ),
    "budget alone": one_cycle("must all be positive"),
}

ENTRY = """checkpoints:
  mine:
    architecture: {{{architecture}}}
    weights: {{uri: mine.safetensors, sha256: null}}
    preprocessing: {{{preprocessing}}}
    training: {{seed: 0, num_epochs: 1, batch_size: 8, learning_rate: 0.1, {fields}}}
"""
CLASSIFIER = (
    "backbone: text-classifier, vocabulary_size: 9, num_classes: 6, context: 5, depth: 1, dim: 8, num_heads: 2,"
    " feedforward: 8, is_causal: true"
)


def read(folder: Path, **parts: str) -> object:
    os.mkfifo(folder / "pipe")
    (folder / "mine.yaml").write_text(ENTRY.format(**parts))
    return read_registry(folder / "mine.yaml")


def images(message: str, fields: str) -> Refusal:
    parts = {
        "architecture": "backbone: timm, name: deit",
        "preprocessing": "kind: image, mean: [0, 0, 0], std: [1, 1, 1]",
    }
    return Refusal(lambda folder: read(folder, **parts, fields=f"dataset: digits, {fields}"), DeclarationError, message)


def texts(message: str, fields: str) -> Refusal:
    parts = {"architecture": CLASSIFIER, "preprocessing": "kind: none, inputs: texts"}
    parts["fields"] = f"kind: text-training, dataset: sotu-eras, {fields}"
    return Refusal(lambda folder: read(folder, **parts), DeclarationError, message)


ENTRIES = {
    "no steps": images("must all be positive, or all be left out, got 8/255, 0, 0", "adversarial_epsilon: 8/255"),
    "steps without budget": images("must all be positive, or all be left out, got 0, 0, 7", "adversarial_num_steps: 7"),
    "step beyond the budget": images(
        "adversarial_step_size: must be at most adversarial_epsilon 1/255, got 2/255",
        "adversarial_epsilon: 1/255, adversarial_step_size: 2/255, adversarial_num_steps: 7",
    ),
    "budget beyond the box": images(
        r"adversarial_epsilon: must be at most 1 for images in \[0, 1\], got 2; such as 8/255",
        "adversarial_epsilon: 2, adversarial_step_size: 1, adversarial_num_steps: 1",
    ),
    "type": images(r"saved_as: unknown value 'int8'\. Known: float16, float32\.", "saved_as: int8"),
    "digest": texts(
        r"weights\.sha256: must be 8 to 64 hexadecimal digits", "initial_weights: {uri: lm.pt, sha256: xyz}"
    ),
    "address": texts(r"initial_weights\.uri: must be a path", "initial_weights: {uri: 'http://a/b', sha256: null}"),
    "no digest": texts(r"initial_weights\.sha256: missing", "initial_weights: {uri: lm.pt}"),
    "layout": texts(
        "unknown layout 'diet'. Did you mean 'deit'", "initial_weights: {uri: lm.pt, sha256: null, layout: diet}"
    ),
    "no mapping": texts("initial_weights: must be a mapping, got", "initial_weights: lm.pt"),
    "pipe": texts(r"initial_weights\.uri: must be a regular file", "initial_weights: {uri: pipe, sha256: null}"),
    "vocabulary": texts(
        r"training\.min_count: must be left out, since the vocabulary is that of initial_weights, got 2",
        "initial_weights: {uri: lm.pt, sha256: null}, min_count: 2",
    ),
    "loss": texts("loss: unknown value 'hinge'. Known: cross-entropy, double-softmax", "loss: hinge"),
}


def deit(message: str, checkpoint: Checkpoint, error: type[Exception] = DeclarationError) -> Refusal:
    """What does not fit is found before images are looked for, and told in one line."""
    return Refusal(lambda _: train_deit(checkpoint, Host(data_root=None)), error, rf"^(?!.*\n){message}")


def shown(message: str, checkpoint: Checkpoint, error: type[Exception]) -> Refusal:
    def train(folder: Path) -> object:
        return train_deit(checkpoint, Host(data_root=write_tree(folder), state_path=folder / "state"))

    return Refusal(train, error, rf"^(?!.*\n){message}")


def diverging() -> Checkpoint:
    """Return an entry of a rate that no registry may ask for, so that the first epoch is enough."""
    checkpoint = checkpoint_of(warmup_epochs=0)
    object.__setattr__(checkpoint.training, "learning_rate", 1e30)
    return checkpoint


def kept(message: str, error: type[Exception], crop: int | None = 32, split: str = "train", **fields: Any) -> Refusal:
    def opened(folder: Path) -> object:
        write_tree(folder, split, per_class=1)
        return TrainingImages(folder, recipe(**fields), replace(PREPROCESSING, crop=crop))

    return Refusal(opened, error, message)


PIXELS = replace(PREPROCESSING, resize=None, crop=None)


def cycled(message: str, error: type[Exception] = DeclarationError, dataset: str = "digits", **fields: Any) -> Refusal:
    training = OneCycleTraining(dataset=dataset, **LEARNED | {"batch_size": 400, "learning_rate": 0.01} | fields)
    checkpoint = entry_of(replace(ARCHITECTURE, num_classes=10), PIXELS, training)
    return Refusal(lambda _: train_one_cycle(checkpoint, Host(data_root=None)), error, message)


def embedded(folder: Path) -> object:
    (checkpoint,) = find_checkpoints(["digits-vit"])
    training: Any = checkpoint.training
    return train_embedded(replace(checkpoint, training=replace(training, auxiliary_weight=1.0)))


def segmenter(folder: Path) -> object:
    sizes: dict[str, Any] = {"image_size": 16, "patch_size": 4, "num_channels": 3, "depth": 1}
    sizes |= {"dim": 16, "num_heads": 2, "mlp_ratio": 1.0}
    architecture = Segmenter(**sizes, num_classes=5, decoder="linear")
    training = SegmentationTraining(dataset="digit-scenes", **LEARNED, crop_size=16)
    return train_segmenter(entry_of(architecture, PREPROCESSING, training, task="segmentation"), Host(data_root=None))


NO_LAYER = "no layer of the model asks training for a loss"
OTHER_CLASSES = "has num_classes 5 in its architecture, and dataset 'digit-scenes' has 11"
NO_IMAGES = "(?s)training set of dataset 'imagenet-1k' not found.*/imagenet-1k/train: absent"
FEW_IMAGES = "an epoch of 16 training images is less than one batch of 18"
HUGE: dict[str, Any] = {"learning_rate": 1e6, "weight_decay": 1e6, "num_epochs": 10}
RESNET = Python(target="timm:create_model", arguments={"model_name": "resnet18"})
SMALL_VIT = Timm(name="vit_tiny_patch16_224", arguments={"img_size": 32, "depth": 1})
TRAINED = {
    "no data root": deit(".*--data-root", checkpoint_of(), MissingDataError),
    "classes": deit(r".*gives \(2, 10\) for 2 images", checkpoint_of(replace(ARCHITECTURE, num_classes=10))),
    "size": deit(".*cannot take images of 32x32 pixels", checkpoint_of(replace(ARCHITECTURE, image_size=64))),
    "losses of no layer": deit("auxiliary_weight is 0.05, but no layer", checkpoint_of(auxiliary_weight=0.05)),
    "losses of another library": deit(".*no layer of the model", checkpoint_of(SMALL_VIT, auxiliary_weight=1.0)),
    "drop path of the user's own": deit(".*backbone 'python' takes no drop path", checkpoint_of(RESNET)),
    "images": shown(FEW_IMAGES, checkpoint_of(batch_size=18), UsageError),
    "no number": shown(".*training has diverged", diverging(), ContractError),
    "no number in one cycle": cycled("training has diverged", ContractError, **HUGE),
    "no split": cycled("has no split 'train'", UsageError, dataset="digits-r"),
    "losses of no layer in one cycle": cycled("auxiliary_weight", auxiliary_weight=0.1),
    "classes of a segmenter": Refusal(segmenter, DeclarationError, OTHER_CLASSES),
    "losses of no layer in embedded data": Refusal(embedded, DeclarationError, NO_LAYER),
    "policy": kept("no augmentation 'sharp-m9'", DeclarationError, auto_augment="sharp-m9"),
    "no crop": kept("has no crop", DeclarationError, crop=None),
    "no training images": kept(NO_IMAGES, MissingDataError, split="val"),
}
REFUSALS = FIELDS | ENTRIES | TRAINED


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_be_trained_is_refused(name: str, tmp_path: Path) -> None:
    check(REFUSALS[name], tmp_path)
    assert not (tmp_path / "state").exists()
