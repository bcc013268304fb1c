"""Hard distillation: its loss is the equation, written as loops; resumed trainings, and teachers that do not fit."""

from dataclasses import replace
from math import exp, log
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save
from torch import Tensor
from training_examples import ARCHITECTURE, checkpoint_of, recipe, write_tree
from trainings import interrupt_after, same

from robench.core.checkpoint import Checkpoint, Weights
from robench.core.errors import DeclarationError, UsageError, WeightsError
from robench.declare import read_registry, shipped_registry
from robench.models.build import build
from robench.models.foreign import Timm
from robench.training.base import Host
from robench.training.deit import DeitTraining, Teacher
from robench.training.deit_impl import DeitLearner, train_deit
from robench.training.distillation_impl import LoadedTeacher, TwoHeaded

DISTILLED = replace(ARCHITECTURE, distilled=True)
# Batch normalisation has to be in evaluation mode.
TEACHER = Timm(name="regnetx_002", arguments={"num_classes": 1000})
NAME = "teacher.safetensors"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a teacher's weights, and images."""
    folder = write_tree(tmp_path_factory.mktemp("data"), per_class=2)
    torch.manual_seed(7)
    (folder / NAME).write_bytes(save(build(TEACHER).state_dict()))
    return folder


def distilled(folder: Path, architecture: Any = DISTILLED, teacher: Any = TEACHER, **changes: Any) -> Checkpoint:
    declared = Teacher(architecture=teacher, weights=Weights(uri=NAME, sha256=None, how_to_get="Ask."))
    entry = checkpoint_of(architecture, distillation="hard", teacher=declared, **changes)
    return replace(entry, folder=folder)


def cross_entropy(logits: list[float], targets: list[float]) -> float:
    total = sum(exp(value) for value in logits)
    return -sum(target * log(exp(value) / total) for value, target in zip(logits, targets, strict=True))


@pytest.mark.parametrize("micro", [None, 3])
def test_the_loss_is_that_of_the_equation(folder: Path, micro: int | None) -> None:
    torch.manual_seed(0)
    model, cpu = build(DISTILLED), torch.device("cpu")
    training = recipe(batch_size=4, mixup=0.0, cutmix=0.0, drop_path_rate=0.0)
    checkpoint = distilled(folder)
    assert isinstance(checkpoint.training, DeitTraining)
    assert checkpoint.training.teacher is not None
    loaded, two_headed = LoadedTeacher(checkpoint.training.teacher, checkpoint, cpu), TwoHeaded(model, "tiny")
    teacher = build(TEACHER).eval()
    torch.manual_seed(7)
    teacher.load_state_dict(build(TEACHER).state_dict())
    images = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    classes = torch.tensor([3, 999, 0, 3])
    with torch.no_grad():
        labels, taught = (part.double().tolist() for part in model.train()(images))
        predictions = teacher(images).double().tolist()
        model.eval()
        mean = model(images)
        model.train()
    expected = 0.0
    for row, target in enumerate(classes.tolist()):
        smoothed = [0.1 / 1000 + (0.9 if place == target else 0.0) for place in range(1000)]
        best = predictions[row].index(max(predictions[row]))
        one_hot = [float(place == best) for place in range(1000)]
        expected += cross_entropy(labels[row], smoothed) / 8 + cross_entropy(taught[row], one_hot) / 8
    assert torch.allclose(mean, (torch.tensor(labels) + torch.tensor(taught)).float() / 2, atol=1e-5)
    host = Host(data_root=None, micro_batch_size=micro)
    learner = DeitLearner(model, training, host, lambda epoch: iter([[images.clone(), classes]]), two_headed, loaded)
    assert learner.epoch(1)[0] == pytest.approx(expected, rel=1e-6)
    # Both heads have learned.
    torch.manual_seed(0)
    before, after = build(DISTILLED).state_dict(), learner.weights()
    assert not any(torch.equal(before[name], after[name]) for name in ("head.weight", "head_dist.weight", "dist_token"))


def test_it_resumes_with_the_same_teacher_alone(folder: Path, tmp_path: Path) -> None:
    checkpoint = distilled(folder, ema_decay=0.9, published="average")
    whole = train_deit(checkpoint, Host(data_root=folder))
    host = Host(data_root=folder, state_path=tmp_path / "state")
    with pytest.raises(KeyboardInterrupt):
        train_deit(checkpoint, host, interrupt_after())
    moved = tmp_path / "other"
    moved.mkdir()
    (moved / NAME).write_bytes(save(build(TEACHER).state_dict()))
    with pytest.raises(UsageError, match="is of a training with other fields, other data"):
        train_deit(replace(checkpoint, folder=moved), host)
    assert same(train_deit(checkpoint, host), whole)
    assert differs(
        whole, train_deit(checkpoint_of(DISTILLED, ema_decay=0.9, published="average"), host=Host(data_root=folder))
    )


def differs(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return not torch.equal(first["head_dist.weight"], second["head_dist.weight"])


def test_mixed_precision_is_near(folder: Path) -> None:
    checkpoint = distilled(folder, mixup=0.0, cutmix=0.0)
    heard: list[Any] = []
    exact = train_deit(checkpoint, Host(data_root=folder), heard.append)
    mixed = train_deit(checkpoint, Host(data_root=folder, precision="bfloat16"), heard.append)
    assert differs(exact, mixed)
    assert mixed["head.weight"].dtype == torch.float32
    assert [each.loss_nats for each in heard[:2]] == pytest.approx([each.loss_nats for each in heard[2:]], rel=0.01)


def test_what_does_not_fit_is_refused_before_any_image_is_looked_for(folder: Path, tmp_path: Path) -> None:
    host = Host(data_root=None)
    with pytest.raises(DeclarationError, match=r"'tiny' has no distillation token, .*: set distilled: true"):
        train_deit(distilled(folder, ARCHITECTURE), host)
    with pytest.raises(
        WeightsError, match=rf"weights of the teacher of tiny are missing: .*{NAME}.* How to get them: Ask\.$"
    ):
        train_deit(distilled(tmp_path), host)
    with pytest.raises(WeightsError, match=rf"{NAME} \(teacher of tiny\) does not fit the architecture"):
        train_deit(distilled(folder, teacher=replace(TEACHER, name="regnetx_004")), host)
    ten = replace(TEACHER, arguments={"num_classes": 10})
    (tmp_path / NAME).write_bytes(save(build(ten).state_dict()))
    with pytest.raises(DeclarationError, match=r"the teacher gives \(2, 10\) for 2 images, .* has 1000 classes"):
        train_deit(distilled(tmp_path, teacher=ten), host)
    with pytest.raises(DeclarationError, match="'mine' has no distillation token"):
        TwoHeaded(torch.nn.Identity(), "mine")


def test_the_shipped_entry_has_deits_teacher_and_else_its_recipe(tmp_path: Path) -> None:
    name = "deit-tiny-distilled-robust-kde"
    training = read_registry(shipped_registry())[name].training
    assert isinstance(training, DeitTraining)
    assert training.teacher is not None
    assert training == replace(DeitTraining(dataset="imagenet-1k"), distillation="hard", teacher=training.teacher)
    assert training.teacher.architecture == Timm(name="regnety_160")
    assert training.teacher.weights.sha256 == "a5fe301d"
    # Weights of the user's own for this entry: the teacher stays where the shipped registry has it.
    own = tmp_path / "mine.yaml"
    own.write_text(f"checkpoints:\n  mine: {{of: {name}, weights: {{uri: mine.pth, sha256: null}}}}\n")
    inherited = read_registry(own)["mine"].training
    assert isinstance(inherited, DeitTraining)
    assert inherited.teacher is not None
    assert inherited.teacher.weights.uri == str(shipped_registry().parent / training.teacher.weights.uri)
