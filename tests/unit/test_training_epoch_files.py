"""Every kind of training: a function of its entry, which disturbs nobody, and keeps its state and each epoch."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from queue_examples import FIELDS, write_registry
from safetensors.torch import load_file
from torch import Tensor
from training_examples import checkpoint_of, write_tree
from trainings import interrupt_after, same

from robench.core.checkpoint import Checkpoint
from robench.core.errors import DeclarationError, StoreUnwritableError, UsageError
from robench.datasets.arrays_impl import ArrayImages
from robench.datasets.texts import LabelledTexts, Texts
from robench.declarations.preprocessing import ImagePreprocessing, NoPreprocessing
from robench.declare import read_registry
from robench.models.build import build
from robench.models.decision import DecisionTransformer
from robench.models.segmenter import Segmenter
from robench.models.tokens import Tokens
from robench.models.word_transformer import Language, TextClassifier
from robench.training import TRAININGS, segmentation_impl, texts_impl
from robench.training.base import Host, StepReport
from robench.training.decisions import DecisionTraining
from robench.training.epoch_files import EpochFiles
from robench.training.epochs import TrainingState, read_state, state_path, write_state
from robench.training.images import Training
from robench.training.optimization import reproducible
from robench.training.segmentation import SegmentationTraining
from robench.training.sequences import SequenceTraining
from robench.training.texts import LanguageTraining, TextTraining

LINES = [("people of war\n", 1), ("union of peace\n", 0), ("war war law\n", 1), ("law of people\n", 0)]
SIZES = {"vocabulary_size": 9, "context": 5, "depth": 1, "dim": 8, "num_heads": 2, "feedforward": 8}
DISTURBED: dict[str, Any] = {
    "noise_scale": 0.1, "max_shift": 1, "adversarial_epsilon": Fraction(8, 255),
    "adversarial_step_size": Fraction(2, 255), "adversarial_num_steps": 1,
}  # fmt: skip
LEARNED = {"seed": 0, "num_epochs": 2, "batch_size": 4, "learning_rate": 0.02, "min_count": 2}


@pytest.fixture
def entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Checkpoint]:
    """Return an entry of each kind of training, of two or three epochs."""

    def opened(name: str, **_: object) -> Texts | LabelledTexts:
        labelled = [(str(place), text, label) for place, (text, label) in enumerate(LINES * 8)]
        return LabelledTexts(name, labelled) if name == "sotu-eras" else Texts(name, [each[:2] for each in labelled])

    def scenes(name: str, **_: object) -> ArrayImages:
        masks = np.arange(6 * 64).reshape(6, 8, 8) % 3
        pixels = np.repeat((80 * masks)[..., None], 3, 3).astype(np.uint8)
        preprocessing = ImagePreprocessing(mean=(), std=())
        return ArrayImages(
            name, pixels=pixels, targets=masks, fingerprint="0", num_classes=11, preprocessing=preprocessing,
            task="segmentation",
        )  # fmt: skip

    monkeypatch.setattr(texts_impl, "open_dataset", opened)
    monkeypatch.setattr(segmentation_impl, "open_dataset", scenes)
    (one_cycle,) = read_registry(write_registry(tmp_path / "mine.yaml", {"tiny": FIELDS})).values()
    embedded = Training(dataset="digits", seed=0, num_epochs=2, batch_size=200, learning_rate=0.01, **DISTURBED)
    segmenter = Segmenter(
        image_size=8, patch_size=4, num_channels=3, num_classes=11, depth=1, dim=8, num_heads=2, mlp_ratio=1.0,
        decoder="linear",
    )  # fmt: skip
    text = replace(one_cycle, preprocessing=NoPreprocessing(inputs="texts"), expected={})
    language = Language(**SIZES, cutoffs=(4,), dropout=0.1)
    classifier = TextClassifier(**SIZES, num_classes=2, dropout=0.1)
    return {
        "training": replace(one_cycle, training=embedded),
        "one-cycle": one_cycle,
        # Its published weights are not those that are trained.
        "deit": checkpoint_of(ema_decay=0.5, published="average"),
        "sequence-training": replace(
            one_cycle,
            architecture=Tokens(
                vocabulary_size=18, num_steps=64, num_classes=10, dim=8, num_heads=2, feedforward=8, dropout=0.1
            ),
            preprocessing=NoPreprocessing(inputs="tokens"),
            training=SequenceTraining(dataset="digits-pixels", seed=0, num_epochs=2, batch_size=300),
        ),
        "segmentation-training": replace(
            one_cycle,
            architecture=segmenter,
            preprocessing=ImagePreprocessing(mean=(0.5,), std=(0.25,)),
            training=SegmentationTraining(dataset="digit-scenes", seed=0, num_epochs=2, batch_size=3, crop_size=8),
        ),
        "language-training": replace(text, architecture=language, training=LanguageTraining(dataset="sotu", **LEARNED)),
        "decision-training": replace(
            one_cycle,
            architecture=DecisionTransformer(
                num_observations=3, num_actions=1, dim=8, num_heads=2, feedforward=8, depth=1, context=4
            ),
            preprocessing=NoPreprocessing(inputs="episodes"),
            expected={},
            training=DecisionTraining(
                dataset="pendulum",
                trajectories="pendulum-offline-medium",
                seed=0,
                num_epochs=2,
                steps_per_epoch=3,
                batch_size=4,
                warmup_steps=2,
                learning_rate=0.02,
            ),
        ),
        "text-training": replace(
            text, architecture=classifier, training=TextTraining(dataset="sotu-eras", unknown_rate=0.2, **LEARNED)
        ),
    }


def trained(checkpoint: Checkpoint, host: Host, stop_after: int = 0) -> dict[str, Tensor]:
    assert checkpoint.training is not None
    found: dict[str, Tensor] = checkpoint.training.implemented()(checkpoint, host, interrupt_after(stop_after))
    return found


@pytest.mark.parametrize("kind", TRAININGS.builtin)
def test_each_kind_draws_by_its_seed_and_disturbs_nobody(
    kind: str, entries: dict[str, Checkpoint], tmp_path: Path
) -> None:
    checkpoint, host = entries[kind], Host(data_root=write_tree(tmp_path, per_class=2))
    assert checkpoint.training is not None
    torch.manual_seed(3)
    before = torch.random.get_rng_state(), torch.get_num_threads()
    first = trained(checkpoint, host)
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert torch.get_num_threads() == before[1]
    other = trained(replace(checkpoint, training=checkpoint.training.seeded(1)), host)
    assert not same(first, other)
    assert all(torch.equal(first[name], other[name]) for name in first.keys() & {"vocabulary"})


@pytest.mark.parametrize("kind", TRAININGS.builtin)
def test_entries_of_other_kinds_are_refused_by_name(kind: str, entries: dict[str, Checkpoint]) -> None:
    checkpoint, other = entries[kind], entries["one-cycle" if kind == "deit" else "deit"]
    assert checkpoint.training is not None
    for training in (None, other.training):
        wrong = replace(checkpoint, training=training)
        with pytest.raises(DeclarationError, match=rf"{wrong.name!r} has .*({kind}|'training' fields|kind 'deit')"):
            checkpoint.training.implemented()(wrong, Host(data_root=None))


@pytest.mark.parametrize("kind", TRAININGS.builtin)
def test_each_kind_keeps_epochs_and_trains_alike(kind: str, entries: dict[str, Checkpoint], tmp_path: Path) -> None:
    checkpoint, files = entries[kind], EpochFiles(folder=tmp_path / "epochs", name="tiny")
    assert checkpoint.training is not None
    assert checkpoint.training.keeps_epochs
    host = Host(data_root=write_tree(tmp_path, per_class=2))
    without = trained(checkpoint, host)
    steps: list[StepReport] = []
    assert same(trained(checkpoint, replace(host, epoch_files=files, on_step=steps.append)), without)
    for epoch in range(1, checkpoint.training.total_epochs + 1):
        done = [each.num_done for each in steps if each.epoch == epoch]
        assert done[0] == 0
        assert done == sorted({*done})
        assert steps[0].num_examples in (None, done[-1])
    assert [each.loss_nats is None for each in steps] == [each.num_done == 0 for each in steps]
    assert all(isfinite(each.loss_nats()) for each in steps if each.loss_nats)
    kept = [load_file(path) for path in files.found().values()]
    assert list(files.found()) == list(range(checkpoint.training.total_epochs + 1))
    assert same(kept[-1], without)
    assert not any(same(first, second) for first, second in pairwise(kept))
    with reproducible(checkpoint.training.seed):
        initial = build(checkpoint.architecture).state_dict()
    # The vocabulary is that of the texts, and statistics are those of the trajectories.
    names = initial.keys() - {"vocabulary", "observation_mean", "observation_std", "action_scale"}
    assert all(torch.equal(kept[0][name], initial[name].to(kept[0][name].dtype)) for name in names)


def test_a_resumed_training_goes_on_with_the_files(entries: dict[str, Checkpoint], tmp_path: Path) -> None:
    whole, cut = (EpochFiles(folder=tmp_path / name, name="tiny") for name in ("whole", "cut"))
    trained(entries["one-cycle"], Host(data_root=None, epoch_files=whole))
    host = Host(data_root=None, epoch_files=cut, state_path=state_path(tmp_path / "x.safetensors"))
    with pytest.raises(KeyboardInterrupt):
        trained(entries["one-cycle"], host, stop_after=2)
    assert list(cut.found()) == [0, 1, 2]
    cut.path(0).unlink()
    trained(entries["one-cycle"], host)
    assert list(cut.found()) == [1, 2, 3]
    assert all(cut.path(epoch).read_bytes() == whole.path(epoch).read_bytes() for epoch in (1, 2, 3))


def test_a_folder_that_cannot_be_written_is_named(entries: dict[str, Checkpoint], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    files = EpochFiles(folder=tmp_path / "file" / "epochs", name="tiny")
    with pytest.raises(StoreUnwritableError, match=r"tiny-epoch-000\.safetensors cannot be written: Not a directory"):
        trained(entries["one-cycle"], Host(data_root=None, epoch_files=files))


def test_files_of_others_are_not_found_and_later_epochs_are_refused(tmp_path: Path) -> None:
    files = EpochFiles(folder=tmp_path, name="a.b")
    names = ("a.b-epoch-1000", "a.b-epoch-002", "a.b-epoch-0003", "axb-epoch-004", "a.b@1-epoch-005", "a.b-epoch-6")
    for name in names:
        (tmp_path / f"{name}.safetensors").write_bytes(b"")
    assert list(files.found()) == [2, 1000]
    files.check_up_to(1000)
    with pytest.raises(UsageError, match=r"a\.b-epoch-1000\.safetensors is of another training, since a\.b is trained"):
        files.check_up_to(999)


STATE = TrainingState(
    key="k" * 32,
    num_epochs_done=3,
    parts={"model": {"w": torch.arange(3.0)}, "optimizer": {"state": {0: 1}}, "average": {}},
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "state"
    write_state(path, STATE)
    read = read_state(path, STATE.key)
    assert read is not None
    assert read.num_epochs_done == 3
    assert torch.equal(read.parts["model"]["w"], STATE.parts["model"]["w"])
    assert read.parts["optimizer"] == {"state": {0: 1}}
    assert [file.name for file in path.parent.iterdir()] == ["state"]


def test_where_there_is_none_training_begins_anew(tmp_path: Path) -> None:
    assert read_state(tmp_path / "state", STATE.key) is None


def test_the_state_of_another_training_is_not_gone_on_from(tmp_path: Path) -> None:
    write_state(tmp_path / "state", STATE)
    with pytest.raises(UsageError, match="of a training with other fields"):
        read_state(tmp_path / "state", "l" * 32)
    assert (tmp_path / "state").exists()


@pytest.mark.parametrize("content", [b"", b"no state", b"PK\x03\x04 half of one"])
def test_a_file_that_is_no_state_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "state").write_bytes(content)
    with pytest.raises(UsageError, match=f"^{tmp_path / 'state'} is not the state of a training"):
        read_state(tmp_path / "state", STATE.key)


def test_a_state_is_read_without_running_what_it_holds(tmp_path: Path) -> None:
    torch.save({"key": STATE.key, "num_epochs_done": 1, "parts": {"model": Path}}, tmp_path / "state")
    with pytest.raises(UsageError, match="is not the state of a training"):
        read_state(tmp_path / "state", STATE.key)


def test_a_state_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnwritableError, match="cannot write the state of training"):
        write_state(tmp_path / "file" / "state", STATE)


def test_it_lies_beside_the_weights() -> None:
    assert state_path(Path("weights/a.safetensors")) == Path("weights/a.safetensors.training")
