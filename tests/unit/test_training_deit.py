"""DeiT's recipe as a whole: its step is the equation, and interruptions, processes and micro-batches change nothing."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from training_examples import ARCHITECTURE, checkpoint_of, recipe, write_tree
from trainings import interrupt_after, same

from robench.attention.mom import Mom
from robench.attention.primal import Primal
from robench.core.checkpoint import Checkpoint
from robench.declare import find_checkpoints, read_registry, shipped_registry
from robench.models.build import build
from robench.models.vit import Fan, Vit
from robench.training.base import EpochReport, Host
from robench.training.deit import DeitTraining
from robench.training.deit_impl import DeitLearner, train_deit
from robench.training.embedded_impl import train

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
        "architecture", [ARCHITECTURE, replace(ARCHITECTURE, attention=Mom())], ids=["softmax", "mom"]
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


ENTRIES = {
    name: entry for name, entry in read_registry(shipped_registry()).items() if isinstance(entry.training, DeitTraining)
}


class TestEveryEntry:
    """Each ImageNet-scale entry learns, shrunk in all but its depth and what its mechanism is declared to be."""

    def small(self, entry: Checkpoint) -> Checkpoint:
        architecture, training = entry.architecture, entry.training
        assert isinstance(architecture, (Vit, Fan))
        assert isinstance(training, DeitTraining)
        dim = (2 if isinstance(architecture, Vit) else 8) * architecture.num_heads
        return replace(
            checkpoint_of(),
            # 101 tokens: more than any entry has directions.
            architecture=replace(architecture, image_size=80, patch_size=8, dim=dim, mlp_ratio=1.0),
            preprocessing=replace(checkpoint_of().preprocessing, crop=80),
            # tests/unit/test_training_distillation.py has teachers.
            training=replace(
                training,
                num_epochs=1,
                cooldown_epochs=0,
                batch_size=2,
                num_repeats=1,
                distillation="none",
                teacher=None,
            ),
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
