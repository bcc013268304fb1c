"""DeiT's recipe: its parts and its step are the equations, also of distillation, and interruptions change nothing."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import cos, exp, log, pi
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save
from torch import Tensor
from training_examples import ARCHITECTURE, PREPROCESSING, checkpoint_of, recipe, write_tree
from trainings import interrupt_after, same

from robench.attention.mom import Mom
from robench.attention.primal import Primal
from robench.core.checkpoint import Checkpoint, Weights
from robench.core.errors import DeclarationError, UsageError, WeightsError
from robench.declare import find_checkpoints, read_registry, shipped_registry
from robench.models.build import build
from robench.models.foreign import Timm
from robench.models.vit import Fan, Vit
from robench.training.base import EpochReport, Host
from robench.training.deit import DeitTraining, Teacher
from robench.training.deit_impl import DeitLearner, Mixing, optimizer_of, schedule_of, train_deit
from robench.training.distillation_impl import LoadedTeacher, TwoHeaded
from robench.training.embedded_impl import train
from robench.training.optimization import seed_for, seeded

PRIMAL = replace(ARCHITECTURE, attention=Primal(num_directions=2))
STILL: dict[str, Any] = {"mixup": 0.0, "cutmix": 0.0, "drop_path_rate": 0.0}


@pytest.fixture(scope="module")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tree(tmp_path_factory.mktemp("data"))


def model_of(architecture: Vit = ARCHITECTURE) -> torch.nn.Module:
    torch.manual_seed(0)
    return build(architecture)


def some_batches() -> Iterator[list[Tensor]]:
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        images = torch.randn(4, 3, 32, 32, generator=generator)
        yield [images, torch.randint(0, 1000, (4,), generator=generator)]


def learned(
    architecture: Vit = ARCHITECTURE, micro: int | None = None, **changes: Any
) -> tuple[float, dict[str, Tensor]]:
    model, host = model_of(architecture), Host(data_root=None, micro_batch_size=micro)
    learner = DeitLearner(model, recipe(batch_size=4, **changes), host, lambda epoch: some_batches(), model)
    loss, num_images = learner.epoch(1)
    assert num_images == 12
    return loss, learner.weights()


class TestStep:
    def reference(self, **changes: Any) -> tuple[float, dict[str, Tensor], dict[str, Tensor]]:
        """The same three steps, written from the equations; the losses' mean, the weights and their average."""
        training = recipe(batch_size=4, **changes)
        architecture = PRIMAL if training.auxiliary_weight else ARCHITECTURE
        model, average = model_of(architecture).train(), model_of(architecture)
        vectors = [name for name, value in model.named_parameters() if value.ndim < 2]
        spared = {*vectors, "pos_embed", "cls_token"}
        groups = [
            {"params": [value], "weight_decay": 0.0 if name in spared else training.weight_decay}
            for name, value in model.named_parameters()
        ]
        # Epoch 1 of 2, after one of warm-up: half of the cosine.
        rate = 1e-5 + (training.learning_rate * 4 / 512 - 1e-5) / 2
        optimizer, total = torch.optim.AdamW(groups, lr=rate), 0.0
        for images, classes in some_batches():
            losses: list[Tensor] = []
            logits = model(images, losses_B=losses) if training.auxiliary_weight else model(images)
            loss = torch.nn.functional.cross_entropy(logits, classes, label_smoothing=training.label_smoothing)
            loss = loss + training.auxiliary_weight * sum(asked.mean() / len(losses) for asked in losses)
            optimizer.zero_grad()
            loss.backward()
            if training.clip_grad is not None:
                gradients = [value.grad for value in model.parameters() if value.grad is not None]
                norm = torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt()
                for gradient in gradients:
                    gradient.mul_(min(1.0, training.clip_grad / float(norm)))
            optimizer.step()
            for kept, value in zip(average.parameters(), model.parameters(), strict=True):
                kept.data = (training.ema_decay or 0) * kept.data + (1 - (training.ema_decay or 0)) * value.data
            total += float(loss.detach())
        return total / 3, model.state_dict(), average.state_dict()

    @pytest.mark.parametrize(
        "changes",
        [{}, {"clip_grad": 0.5}, {"label_smoothing": 0.0, "weight_decay": 0.4}, {"auxiliary_weight": 0.3}],
        ids=str,
    )
    def test_three_steps_are_those_of_the_equations(self, changes: dict[str, Any]) -> None:
        loss, weights, average = self.reference(ema_decay=0.9, **STILL, **changes)
        architecture = PRIMAL if "auxiliary_weight" in changes else ARCHITECTURE
        found_loss, found = learned(architecture, ema_decay=0.9, **STILL, **changes)
        assert found_loss == pytest.approx(loss, rel=1e-5)
        assert all(torch.allclose(found[name], weights[name], atol=1e-6) for name in weights)
        _, found = learned(architecture, ema_decay=0.9, published="average", **STILL, **changes)
        assert all(torch.allclose(found[name], average[name], atol=1e-6) for name in average)
        assert not same(found, weights)

    @pytest.mark.parametrize("micro", [1, 2, 3])
    def test_gradients_of_micro_batches_add_up(self, micro: int) -> None:
        whole, weights = learned(**STILL)
        parts, found = learned(micro=micro, **STILL)
        assert parts == pytest.approx(whole, rel=1e-6)
        assert all(torch.allclose(found[name], weights[name], atol=1e-5) for name in weights)

    def test_drop_path_and_mixing_change_what_is_learned(self) -> None:
        assert not same(learned(**STILL)[1], learned(**STILL | {"drop_path_rate": 0.5, "mixup": 0.8})[1])

    def test_without_a_decay_no_average_is_kept(self) -> None:
        model = model_of()
        learner = DeitLearner(model, recipe(ema_decay=None), Host(data_root=None), lambda epoch: some_batches(), model)
        assert learner.parts()["average"] == {}


class TestTraining:
    def test_it_lowers_the_loss_and_reports_every_epoch(self, data_root: Path) -> None:
        heard: list[EpochReport] = []
        changes = STILL | {"auto_augment": "", "random_erasing": 0.0, "num_repeats": 1, "label_smoothing": 0.0}
        checkpoint = checkpoint_of(num_epochs=8, learning_rate=0.3, **changes)
        train_deit(checkpoint, Host(data_root=data_root), heard.append)
        assert [(report.epoch, report.num_epochs) for report in heard] == [(epoch, 8) for epoch in range(1, 9)]
        assert heard[0].loss_nats == pytest.approx(6.9, abs=0.3)
        assert heard[-1].loss_nats < heard[0].loss_nats - 0.5
        assert all(report.examples_per_second > 0 for report in heard)

    def test_no_byte_depends_on_how_many_processes_decode(self, data_root: Path) -> None:
        alone = train_deit(checkpoint_of(), Host(data_root=data_root))
        assert same(alone, train_deit(checkpoint_of(), Host(data_root=data_root, decode_workers=2)))

    @pytest.mark.parametrize(
        "architecture",
        [pytest.param(ARCHITECTURE, marks=pytest.mark.slow), replace(ARCHITECTURE, attention=Mom())],
        ids=["softmax", "mom"],
    )
    @pytest.mark.parametrize("published", ["weights", "average"])
    def test_interrupted_and_resumed_it_ends_with_the_bytes_of_an_uninterrupted_one(
        self, data_root: Path, tmp_path: Path, architecture: Vit, published: str
    ) -> None:
        checkpoint = checkpoint_of(architecture, num_epochs=3, published=published, ema_decay=0.9)
        whole = train_deit(checkpoint, Host(data_root=data_root))
        host = Host(data_root=data_root, decode_workers=1, state_path=tmp_path / "state")

        heard: list[EpochReport] = []
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                train_deit(checkpoint, host, interrupt_after())
        assert same(train_deit(checkpoint, host, heard.append), whole)
        assert [report.epoch for report in heard] == [3]
        # Interrupted after the last epoch, it has nothing left to do.
        assert same(train_deit(checkpoint, host, heard.append), whole)
        assert len(heard) == 1

    def test_the_average_of_the_weights_may_be_published(self, data_root: Path) -> None:
        host = Host(data_root=data_root)
        weights, slow, fast = (
            train_deit(checkpoint_of(**changes), host)
            for changes in ({}, {"published": "average"}, {"published": "average", "ema_decay": 0.01})
        )
        start = build_with_seed(checkpoint_of())
        name = "head.weight"
        moved = float((weights[name] - start[name]).abs().max())
        assert 0 < float((slow[name] - start[name]).abs().max()) < 0.01 * moved
        assert 0 < float((fast[name] - weights[name]).abs().max()) < 0.1 * moved


def build_with_seed(checkpoint: Checkpoint) -> dict[str, Tensor]:
    torch.manual_seed(0)
    return build(checkpoint.architecture).state_dict()


# Those on images in memory are in tests/slow/test_large_cifar10_models.py.
ENTRIES = {
    name: entry
    for name, entry in read_registry(shipped_registry()).items()
    if isinstance(entry.training, DeitTraining) and entry.training.dataset == "imagenet-1k"
}


class TestEveryEntry:
    """Each ImageNet-scale entry learns, shrunk in all but its depth and what its mechanism is declared to be."""

    def small(self, entry: Checkpoint) -> Checkpoint:
        architecture, training = entry.architecture, entry.training
        assert isinstance(architecture, (Vit, Fan))
        assert isinstance(training, DeitTraining)
        dim = (2 if isinstance(architecture, Vit) else 8) * architecture.num_heads
        # The tests of distillation have teachers.
        short = replace(training, num_epochs=1, cooldown_epochs=0, batch_size=2, num_repeats=1)
        return replace(
            checkpoint_of(),
            # 101 tokens: more than any entry has directions.
            architecture=replace(architecture, image_size=80, patch_size=8, dim=dim, mlp_ratio=1.0),
            preprocessing=replace(PREPROCESSING, crop=80),
            training=replace(short, distillation="none", teacher=None),
        )

    def test_there_are_as_many_as_the_papers_rows(self) -> None:
        assert len(ENTRIES) >= 36

    def check_learning(self, data_root: Path, entries: Mapping[str, Checkpoint]) -> None:
        host = Host(data_root=write_tree(data_root, per_class=1))
        done = set()
        for name, entry in entries.items():
            checkpoint = self.small(entry)
            assert isinstance(checkpoint.training, DeitTraining)
            # Thresholds and numbers of iterations of one mechanism are not trained again.
            attention = checkpoint.architecture.attention
            form = attention.kind, getattr(attention, "formula", None), attention.layers == "all"
            kind = form, type(checkpoint.architecture), checkpoint.architecture.residual, checkpoint.training
            if kind in done:
                continue
            done.add(kind)
            heard: list[EpochReport] = []
            weights = train_deit(checkpoint, host, heard.append)
            assert heard[0].loss_nats > 0, name
            torch.manual_seed(0)
            start = build(checkpoint.architecture, 0.1).state_dict()
            assert not torch.equal(weights["head.weight"], start["head.weight"]), name
            assert all(value.isfinite().all() for value in weights.values()), name

    def test_a_vit_and_a_fan_learn(self, tmp_path: Path) -> None:
        """``tests/slow`` has the other entries."""
        kinds = {type(entry.architecture): name for name, entry in ENTRIES.items()}
        assert kinds.keys() == {Vit, Fan}
        self.check_learning(tmp_path, {name: ENTRIES[name] for name in kinds.values()})

    def test_primals_loss_and_the_clipping_of_the_base_models_are_declared(self) -> None:
        trainings = {name: entry.training for name, entry in ENTRIES.items()}
        others = DeitTraining(dataset="imagenet-1k")
        assert trainings.pop("primal-deit-small") == replace(others, auxiliary_weight=0.05)
        trainings.pop("deit-tiny-distilled-robust-kde")
        for name in ("symvit-base", "rpc-symvit-base-2iter-all-layer"):
            assert trainings.pop(name) == replace(others, clip_grad=1.0)
        vits = {training for name, training in trainings.items() if isinstance(ENTRIES[name].architecture, Vit)}
        assert vits == {others}


def test_in_embedded_data_too_an_auxiliary_loss_teaches_the_parameter_that_no_output_depends_on() -> None:
    (checkpoint,) = find_checkpoints(["digits-primal-vit"])
    architecture: Any = checkpoint.architecture
    attention = replace(architecture.attention, layers=(0,))
    small = replace(architecture, depth=1, dim=32, num_heads=2, attention=attention)
    start = build_with_seed(replace(checkpoint, architecture=small))
    (name,) = [name for name in start if name.endswith("Lambda")]
    # Weight decay alone shrinks it, by the same factor everywhere.
    factors = []
    for weight in (0.0, 0.05):
        training = replace(checkpoint.training, num_epochs=1, auxiliary_weight=weight)  # type: ignore[type-var]
        factors.append(train(replace(checkpoint, architecture=small, training=training))[name] / start[name])
    assert float(factors[0].std()) < 1e-5
    assert float(factors[1].std()) > 1e-3


def rates(**changes: object) -> list[float]:
    training = recipe(**changes)
    optimizer = torch.optim.AdamW([torch.zeros(1)], lr=training.learning_rate)
    schedule = schedule_of(optimizer, training)
    found = []
    for epoch in range(training.num_epochs):
        schedule.step(epoch)
        found.append(float(optimizer.param_groups[0]["lr"]))
    return found


class TestLearningRate:
    def test_it_rises_linearly_and_then_follows_a_cosine_that_began_with_it(self) -> None:
        found = rates(num_epochs=20, warmup_epochs=5, learning_rate=1e-3)
        rising = [1e-6 + (1e-3 - 1e-6) * epoch / 5 for epoch in range(5)]
        falling = [1e-5 + (1e-3 - 1e-5) * (1 + cos(pi * epoch / 20)) / 2 for epoch in range(5, 20)]
        assert found == pytest.approx(rising + falling, rel=1e-12)

    def test_without_warm_up_it_starts_at_the_peak(self) -> None:
        assert rates(warmup_epochs=0, learning_rate=0.5)[0] == 0.5

    @pytest.mark.parametrize(("batch_size", "peak"), [(512, 5e-4), (1024, 1e-3), (128, 1.25e-4)])
    def test_the_peak_is_proportional_to_the_batch(self, batch_size: int, peak: float) -> None:
        training = recipe(learning_rate=5e-4, batch_size=batch_size)
        groups = optimizer_of(torch.nn.Linear(2, 2), training).param_groups
        assert [group["lr"] for group in groups] == [pytest.approx(peak)] * 2


class TestWeightDecay:
    def names(self, model: torch.nn.Module) -> dict[float, set[str]]:
        groups = optimizer_of(model, recipe(weight_decay=0.3)).param_groups
        by_value = {id(value): name for name, value in model.named_parameters()}
        return {group["weight_decay"]: {by_value[id(value)] for value in group["params"]} for group in groups}

    def test_vectors_biases_positions_and_tokens_are_spared_and_every_parameter_is_in_one_group(self) -> None:
        model = build(ARCHITECTURE)
        found = self.names(model)
        assert found[0.0] | found[0.3] == {name for name, _ in model.named_parameters()}
        assert not found[0.0] & found[0.3]
        assert {"pos_embed", "cls_token", "norm.weight", "head.bias", "blocks.1.attn.qkv.bias"} <= found[0.0]
        assert {"head.weight", "patch_embed.proj.weight", "blocks.0.attn.qkv.weight"} <= found[0.3]
        assert all(model.get_parameter(name).ndim > 1 for name in found[0.3])

    def test_both_tokens_of_a_distilled_model_are_spared(self) -> None:
        distilled = build(Timm(name="deit_tiny_distilled_patch16_224", arguments={"depth": 1}))
        assert {"cls_token", "dist_token", "pos_embed"} <= self.names(distilled)[0.0]

    def test_a_model_that_names_no_such_parameters_itself_has_its_token_spared(self) -> None:
        fan = build(Fan(image_size=32, patch_size=8, num_classes=10, depth=1, dim=8, num_heads=2))
        assert "cls_token" in self.names(fan)[0.0]


def batch(size: int) -> tuple[Tensor, Tensor]:
    """Images whose pixels all are the number of the example, of classes that are the number too."""
    numbers = torch.arange(size)
    return numbers.float().reshape(-1, 1, 1, 1).expand(-1, 3, 8, 8).clone(), numbers


def mixed(seed: int, size: int = 4, **changes: object) -> tuple[Tensor, Tensor]:
    images, classes = batch(size)
    targets = Mixing(recipe(batch_size=size, **changes), num_classes=size)(images, classes, seed)
    return images, targets


class TestMixing:
    @pytest.mark.parametrize("seed", range(12))
    def test_an_answer_is_as_much_of_each_example_as_the_image_shows(self, seed: int) -> None:
        images, targets = mixed(seed, label_smoothing=0.0)
        numbers = torch.arange(4.0)
        shown = images.mean(dim=(1, 2, 3))
        assert torch.allclose(targets @ numbers, shown, atol=1e-5)
        assert torch.allclose(targets.sum(dim=1), torch.ones(4))
        # The first is mixed with the last, the second with the one before.
        assert all(set(row.nonzero().flatten().tolist()) <= {i, 3 - i} for i, row in enumerate(targets))

    def test_mixup_blends_every_pixel_alike_and_cutmix_takes_each_from_one_of_the_two(self) -> None:
        blended = [mixed(seed, cutmix=0.0)[0] for seed in range(8)]
        assert all(torch.equal(images, images[:, :1, :1, :1].expand_as(images)) for images in blended)
        cut = [mixed(seed, mixup=0.0)[0] for seed in range(8)]
        assert all(
            set(image.unique().tolist()) <= {float(i), 3.0 - i} for images in cut for i, image in enumerate(images)
        )
        assert any(len(images[0].unique()) == 2 for images in cut)

    def test_both_ways_occur_where_both_are_asked_for(self) -> None:
        ways = {len(mixed(seed)[0][0].unique()) for seed in range(30)}
        assert ways == {1, 2}

    def test_without_mixing_targets_are_smoothed_one_hots(self) -> None:
        images, targets = mixed(0, mixup=0.0, cutmix=0.0, label_smoothing=0.2)
        assert torch.equal(images, batch(4)[0])
        assert torch.allclose(targets, 0.8 * torch.eye(4) + 0.05)

    def test_examples_are_mixed_in_groups_of_256_by_default(self) -> None:
        size = 2 * 256
        _, targets = mixed(1, size, label_smoothing=0.0)
        partners = [set(row.nonzero().flatten().tolist()) for row in targets]
        assert partners[0] <= {0, 255}
        assert partners[256] <= {256, 511}
        assert targets[0].max() != targets[256].max()

    def test_it_is_a_function_of_the_seed_and_leaves_the_generators_alone(self) -> None:
        before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # type: ignore[index]  # a tuple by default
        first, again, other = mixed(3)[0], mixed(3)[0], mixed(4)[0]
        assert torch.equal(first, again)
        assert not torch.equal(first, other)
        assert before == (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())  # type: ignore[index]  # likewise


class TestSeeds:
    def test_every_purpose_epoch_and_position_has_its_own(self) -> None:
        places = [(purpose, epoch, at) for purpose in ("a", "b") for epoch in range(3) for at in range(3)]
        assert len({seed_for(0, *place) for place in places} | {seed_for(1, *place) for place in places}) == 36

    def test_within_a_seed_all_three_libraries_draw_the_same_and_after_it_as_before(self) -> None:
        def draws() -> tuple[float, float, float]:
            return random.random(), float(np.random.rand()), float(torch.rand(()))

        def around() -> tuple[object, object, object]:
            random.seed(1)
            np.random.seed(1)
            torch.manual_seed(1)
            before = draws()
            with seeded(2**63 + 5):
                within = draws()
            return before, within, draws()

        first = around()
        with seeded(2**63 + 5):
            assert draws() == first[1]
        assert around() == first
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)
        assert (draws(), draws()) == (first[0], first[2])

    def test_generators_are_restored_where_something_fails_within(self) -> None:
        torch.manual_seed(1)
        wanted = float(torch.rand(()))
        torch.manual_seed(1)
        with pytest.raises(ZeroDivisionError), seeded(2):
            raise ZeroDivisionError
        assert float(torch.rand(())) == wanted


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
    with pytest.raises(WeightsError, match=rf"of the teacher of tiny are missing: .*{NAME}.* How to get them: Ask\.$"):
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
