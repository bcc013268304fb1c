"""Memory: outputs are freed before the next pass, reading goes ahead, and what exhausts it is told with advice."""

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from gc import collect, freeze, unfreeze
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from classified_examples import Examples, ReadingAhead
from counting_device import DEVICE, waits_counted
from torch import Tensor, nn

from examples import CHECKPOINT, MEASUREMENT
from robench.attacks.fgsm import Fgsm
from robench.attacks.noise import UniformNoise
from robench.attacks.pgd import Pgd
from robench.cli import doctor_command
from robench.core.columns import Values
from robench.core.errors import ContractError, RobenchError, UsageError
from robench.core.outcomes import Outcome
from robench.core.protocols import Batch
from robench.core.records import Failure, Record
from robench.core.shard import DatasetIdentity, Shard
from robench.core.suite import Condition
from robench.datasets import open_dataset
from robench.datasets.digits import DIGITS
from robench.declarations.preprocessing import ImagePreprocessing
from robench.devices import is_out_of_memory
from robench.evaluation import evaluator, memory
from robench.evaluation.actions import Audit
from robench.evaluation.evaluate import evaluate
from robench.evaluation.evaluator import Evaluator, ReadAhead
from robench.evaluation.memory import largest_fitting_power
from robench.models.loaded import LoadedModel
from robench.perturbations.clean import Clean
from robench.runs import RunRequest, devices
from robench.runs.devices import MOST_ROWS_ON_CPU, batch_size_text
from robench.tasks import TASKS, Task
from robench.tasks.base import Scoring

PREPROCESSING = ImagePreprocessing(mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
CPU_ERROR = "[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 9"


class Small(nn.Module):
    """A classifier for which the memory is enough up to a number of rows; it notes what it was shown."""

    def __init__(self, most: int, error: Exception | None = None, needs_gradients: bool = False) -> None:
        super().__init__()
        self.most, self.error, self.needs_gradients = (
            most,
            error or torch.OutOfMemoryError("CUDA out of memory"),
            needs_gradients,
        )
        self.layer = nn.Linear(3, 10)
        self.shown: list[int] = []

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.shown.append(len(images))
        if len(images) > self.most:
            raise self.error
        return self.layer(images.mean((2, 3)))


@pytest.fixture(autouse=True)
def _no_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Collecting the garbage of a whole test session takes a third of a second."""
    monkeypatch.setattr(memory.gc, "collect", lambda: 0)


def model_of(module: nn.Module) -> LoadedModel:
    return LoadedModel(module, PREPROCESSING)


def shard_of(size: int, **changes: Any) -> Shard:
    declared = {"condition": Condition(name="clean", dataset=DIGITS, perturbation=Clean()), **changes}
    dataset = open_dataset(DIGITS, data_root=None, preprocessing=MEASUREMENT.checkpoint.preprocessing)
    measurement = replace(MEASUREMENT, batch_size=size, dataset=dataset.identity, **declared)
    return Shard(measurement=measurement, start=0, stop=size)


def evaluated(monkeypatch: pytest.MonkeyPatch, module: nn.Module, shard: Shard) -> Record | Failure:
    monkeypatch.setattr(evaluator, "load_model", lambda *given: model_of(module))
    return Evaluator()(shard)


@pytest.mark.parametrize(
    ("error", "is_it"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"), True),
        (MemoryError(), True),
        (RuntimeError(CPU_ERROR), True),
        (RuntimeError("shape mismatch"), False),
        (ValueError(CPU_ERROR), False),
        (ContractError("out of memory"), False),
    ],
)
def test_errors_of_memory_are_told_from_others(error: Exception, is_it: bool) -> None:
    assert is_out_of_memory(error) is is_it


class TestFitting:
    INPUTS = torch.rand(5, 3, 2, 2)

    @pytest.mark.parametrize(("most", "expected"), [(0, None), (1, 1), (13, 8), (16, 16), (1000, 64)])
    def test_powers_are_tried_from_the_smallest(self, most: int, expected: int | None) -> None:
        module = Small(most)
        assert largest_fitting_power(model_of(module), self.INPUTS, 64) == expected
        assert module.shown == sorted(module.shown)
        assert max(module.shown) <= min(64, 2 * max(most, 1))

    def test_the_backward_pass_counts(self) -> None:
        class Backward(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, values: torch.Tensor) -> torch.Tensor:
                return values.clone()

            @staticmethod
            def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
                if len(gradient) > 3:
                    raise torch.OutOfMemoryError("CUDA out of memory")
                return gradient

        class Model(Small):
            def forward(self, images: torch.Tensor) -> torch.Tensor:
                outputs: torch.Tensor = Backward.apply(super().forward(images))
                return outputs

        assert largest_fitting_power(model_of(Model(100)), self.INPUTS, 64) == 2

    def test_texts_need_no_gradient(self) -> None:
        class OfNumbers:
            device = torch.device("cpu")

            def outputs(self, inputs: torch.Tensor, seeds: Any) -> torch.Tensor:
                assert not torch.is_grad_enabled()
                if len(inputs) > 4:
                    raise MemoryError
                return inputs.float()

        model: Any = OfNumbers()
        assert largest_fitting_power(model, torch.ones(2, 7, dtype=torch.int64), 64) == 4

    def test_memory_is_freed_before_each_pass(self, monkeypatch: pytest.MonkeyPatch) -> None:
        module, freed = Small(13), []
        monkeypatch.setattr(memory, "free", lambda: freed.append(len(module.shown)))
        largest_fitting_power(model_of(module), self.INPUTS, 2)
        assert freed == [0, 1]

    def test_other_errors_are_raised(self) -> None:
        with pytest.raises(RuntimeError, match="no kernel"):
            largest_fitting_power(model_of(Small(3, RuntimeError("no kernel"))), self.INPUTS, 64)


ERRORS = [torch.OutOfMemoryError("CUDA out of memory"), MemoryError("none left"), RuntimeError(CPU_ERROR)]
COUPLED = replace(CHECKPOINT, coupled=True)


class TestSmallerPasses:
    @pytest.mark.parametrize("error", ERRORS)
    def test_a_shard_is_measured_again_in_half_as_many_rows_and_later_ones_at_once(
        self, monkeypatch: pytest.MonkeyPatch, error: Exception
    ) -> None:
        module, shard = Small(13, error), shard_of(100)
        monkeypatch.setattr(evaluator, "load_model", lambda *given: model_of(module))
        measuring = Evaluator()
        record, whole = measuring(shard), evaluated(monkeypatch, Small(100), shard)
        assert isinstance(record, Record)
        assert isinstance(whole, Record)
        assert module.shown[:4] == [100, 50, 25, 12]
        # The last rows fill a pass.
        assert set(module.shown[3:]) == {12}
        assert (record.shard, record.provenance.rows_per_pass) == (whole.shard, 12)
        assert [each.example_id for each in record.outcomes] == [each.example_id for each in whole.outcomes]
        module.shown.clear()
        measuring(shard)
        assert set(module.shown) == {12}

    def test_attacks_have_the_same_examples(self, monkeypatch: pytest.MonkeyPatch) -> None:
        attack = Pgd(epsilon=Fraction(8, 255), step_size=Fraction(2, 255), num_steps=3, stop="at_success")
        shard = shard_of(20, condition=Condition(name="pgd", dataset=DIGITS, perturbation=attack))
        torch.manual_seed(0)
        module = Small(100)
        whole = evaluated(monkeypatch, module, shard)
        module.most = 5
        record = evaluated(monkeypatch, module, shard)
        assert isinstance(record, Record)
        assert isinstance(whole, Record)
        assert record.provenance.rows_per_pass == 5
        assert record.outcomes == whole.outcomes

    def test_what_fits_is_tried_before_the_first_shard_where_that_is_asked_for(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        module = Small(13)
        monkeypatch.setattr(evaluator, "load_model", lambda *given: model_of(module))
        for size, fitting in ((100, 12), (10, None)):
            found = Evaluator(tries_batch_size=True)(shard_of(size))
            assert isinstance(found, Record)
            assert found.provenance.rows_per_pass == fitting

    def test_another_batch_size_is_refused(self) -> None:
        with pytest.raises(UsageError, match="--batch-size must be suite or auto, got 64; set others in the suite"):
            RunRequest(suites=(), checkpoints=(), batch_size=64)  # type: ignore[arg-type]


class TestFailure:
    @pytest.mark.parametrize("error", ERRORS)
    def test_of_rows_that_depend_on_each_other_says_how_to_find_a_batch_size_that_fits(
        self, monkeypatch: pytest.MonkeyPatch, error: Exception
    ) -> None:
        failure = evaluated(monkeypatch, Small(13, error), shard_of(100, checkpoint=COUPLED))
        assert isinstance(failure, Failure)
        reason = f"{type(error).__name__}: {error}"
        assert failure.error.startswith(f"{reason}. Memory was exhausted on cpu at batch size 100: set a smaller ")
        assert "('robench doctor --model m' says which fits)" in failure.error
        # With that advice followed, the shard is measured.
        assert isinstance(evaluated(monkeypatch, Small(13, error), shard_of(12, checkpoint=COUPLED)), Record)

    def test_not_even_one_row_fits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        failure = evaluated(monkeypatch, Small(0), shard_of(100))
        assert isinstance(failure, Failure)
        assert "Memory was exhausted on cpu at batch size 1: " in failure.error

    def test_audits_have_a_batch_size_that_no_suite_sets(self, monkeypatch: pytest.MonkeyPatch) -> None:
        audit = Condition(name="audit", dataset=DIGITS, perturbation=Clean(), action=Audit())
        failure = evaluated(monkeypatch, Small(13), shard_of(100, condition=audit))
        assert isinstance(failure, Failure)
        assert "at batch size 100, which is audit's own: use another device" in failure.error

    def test_other_failures_are_as_they_were(self, monkeypatch: pytest.MonkeyPatch) -> None:
        failure = evaluated(monkeypatch, Small(13, ValueError("no")), shard_of(100))
        assert isinstance(failure, Failure)
        assert failure.error == "ValueError: no"


class TestDoctor:
    @pytest.mark.parametrize(
        ("most", "expected"),
        [(13, "8 on cpu in float32 (16 do not fit)"), (1000, f"{MOST_ROWS_ON_CPU} on cpu in float32 (the most")],
    )
    def test_it_proposes_a_power_of_two(self, monkeypatch: pytest.MonkeyPatch, most: int, expected: str) -> None:
        monkeypatch.setattr(devices, "load_model", lambda *given: model_of(Small(most)))
        assert batch_size_text("digits-vit", (), "cpu", "float32").startswith(expected)

    def test_it_runs_the_model_in_the_precision_asked_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        formats = []

        class Model(Small):
            def forward(self, images: torch.Tensor) -> torch.Tensor:
                outputs = super().forward(images)
                formats.append(outputs.dtype)
                return outputs

        monkeypatch.setattr(devices, "load_model", lambda *given: model_of(Model(3)))
        assert batch_size_text("digits-vit", (), "cpu", "bfloat16").startswith("2 on cpu in bfloat16 (4 do not fit)")
        assert set(formats) == {torch.bfloat16}

    def test_it_says_where_not_one_example_fits_or_a_pass_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(devices, "load_model", lambda *given: model_of(Small(0)))
        with pytest.raises(RobenchError, match="not even one example fits into the memory of cpu"):
            batch_size_text("digits-vit", (), "cpu", "float32")
        monkeypatch.setattr(devices, "load_model", lambda *given: model_of(Small(0, ValueError("no kernel"))))
        with pytest.raises(RobenchError, match="a pass on cpu failed: ValueError: no kernel"):
            batch_size_text("digits-vit", (), "cpu", "float32")

    def test_without_the_data_an_image_of_the_cut_size_is_enough(self, monkeypatch: pytest.MonkeyPatch) -> None:
        shapes = []

        class Model(Small):
            def forward(self, images: torch.Tensor) -> torch.Tensor:
                shapes.append(images.shape[1:])
                return super().forward(images)

        monkeypatch.setattr(devices, "load_model", lambda *given: model_of(Model(1)))
        assert batch_size_text("deit-tiny", (), "cpu", "float32").startswith("1 on cpu")
        assert set(shapes) == {(3, 224, 224)}

    def test_the_command_has_a_line_for_each_model(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(devices, "load_model", lambda *given: model_of(Small(13)))
        found = doctor_command._batch_size("digits-vit", (), "cpu", "float32", None)
        assert (found.name, found.state, found.lines[0][:9]) == ("batch size of digits-vit", "ok", "8 on cpu ")
        absent = doctor_command._batch_size("digits-vit", (), "cuda:7", "float32", None)
        assert absent.state == "missing"
        assert "no device 'cuda:7' on this machine" in absent.lines[0]

    def test_an_unknown_model_is_refused_before_anything_is_checked(self, robench: Any) -> None:
        ended = robench("doctor", "--model", "no-such-*")
        assert ended.code == 2
        assert ended.stdout == ""
        assert "no-such-*" in ended.stderr


NUM_TOKENS, NUM_WORDS, BATCH_SIZE = 4, 50, 2


class Tokens:
    """Rules of a task with many outputs an example, of which one number is kept."""

    def check_outputs(self, outputs: Tensor, num_rows: int, model: str) -> None:
        assert outputs.shape == (num_rows, NUM_TOKENS, NUM_WORDS)

    def columns(self, outputs: Sequence[Tensor], targets: Tensor, scoring: Scoring) -> Mapping[str, Values]:
        assert {len(each) for each in (*outputs, targets)} == {BATCH_SIZE}
        return {"l1": Values(np.stack([each.double().numpy().mean((1, 2)) for each in outputs]).mean(0))}


RULES = Tokens()


class Reader:
    """A model that counts how many of its outputs are alive, at most."""

    takes_seeds = False
    device = torch.device("cpu")
    normalisation = torch.zeros(1), torch.ones(1)

    def __init__(self) -> None:
        self.alive: list[weakref.ref[Tensor]] = []
        self.most = 0

    def outputs(self, inputs: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        collect()
        outputs = inputs.mean((1, 2, 3))[:, None, None].expand(-1, NUM_TOKENS, NUM_WORDS).clone()
        self.alive = [each for each in self.alive if each() is not None]
        self.alive.append(weakref.ref(outputs))
        self.most = max(self.most, len(self.alive))
        return outputs


class Indices:
    """Examples of one value each: that of their index over the number of examples."""

    def __init__(self, num_examples: int) -> None:
        self.identity = DatasetIdentity(name="digits", fingerprint="f", num_examples=num_examples)

    def __len__(self) -> int:
        return self.identity.num_examples

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.full((1, 2, 2), index / len(self)), 0

    def batch(self, start: int, stop: int) -> Batch:
        inputs = torch.stack([self[index][0] for index in range(start, stop)])
        ids = tuple(f"{index:04d}" for index in range(start, stop))
        return Batch(ids=ids, inputs=inputs, targets=torch.zeros(len(inputs), dtype=torch.int64))


@pytest.fixture
def _tokens(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # What is there already is none of the outputs: each pass collects all the others.
    freeze()
    task = Task(name="tokens", title="", outcome=Outcome, implementation=f"{__name__}:RULES")
    builtin: Any = TASKS.builtin
    monkeypatch.setitem(builtin, "tokens", task)
    yield
    unfreeze()


def run(num_examples: int, num_predictions: int = 1, attack: Any = None) -> tuple[Reader, list[Any]]:
    examples, reader = Indices(num_examples), Reader()
    condition = Condition(name="c", dataset=DIGITS, perturbation=attack or Clean(), num_predictions=num_predictions)
    measurement = replace(
        MEASUREMENT, checkpoint=replace(CHECKPOINT, task="tokens"), condition=condition, dataset=examples.identity,
        batch_size=BATCH_SIZE,
    )  # fmt: skip
    model, dataset = SimpleNamespace(reader=reader), examples
    record = evaluate(Shard(measurement=measurement, start=0, stop=num_examples), model.reader, dataset)  # type: ignore[arg-type]
    return reader, [outcome.l1 for outcome in record.outcomes]


@pytest.mark.usefixtures("_tokens")
@pytest.mark.parametrize("num_examples", [4, 40, 101])
def test_as_many_outputs_are_alive_of_many_examples_as_of_few(num_examples: int) -> None:
    reader, values = run(num_examples)
    assert reader.most == 1
    assert values == pytest.approx([index / num_examples for index in range(num_examples)])


@pytest.mark.usefixtures("_tokens")
def test_all_predictions_of_an_example_are_together() -> None:
    reader, values = run(10, num_predictions=3)
    assert reader.most == 3
    assert values == pytest.approx([index / 10 for index in range(10)])


SHAPE = 3, 2, 2


def test_the_batches_of_a_shard_and_then_what_follows_are_read_ahead() -> None:
    dataset, other = ReadingAhead(60, SHAPE, num_classes=3), ReadingAhead(40, SHAPE, num_classes=3)
    reading = ReadAhead(dataset, dataset.shard(Clean(), 10, 35), lambda: (other, 5, 15))
    for start, stop in ((10, 20), (20, 30), (30, 35)):
        reading.batch(start, stop)
    # The last batch of a shard is shorter.
    assert dataset.calls == [(10, 20), "ahead", (20, 30), (20, 30), "ahead", (30, 35), (30, 35)]
    assert other.calls == ["ahead", (5, 15)]


def test_nothing_is_read_past_the_end_where_nothing_follows() -> None:
    dataset = ReadingAhead(60, SHAPE, num_classes=3)
    ReadAhead(dataset, dataset.shard(Clean(), 0, 10), lambda: None).batch(0, 10)
    assert dataset.calls == [(0, 10)]


def test_a_dataset_that_cannot_read_ahead_is_passed_through() -> None:
    dataset = Examples(20, SHAPE, num_classes=3)
    reading = ReadAhead(dataset, dataset.shard(Clean(), 0, 20), lambda: (dataset, 0, 10))
    assert len(reading) == 20
    assert reading.identity == dataset.identity
    assert torch.equal(reading[3][0], dataset[3][0])
    for start, stop in ((0, 10), (10, 20)):
        found, wanted = reading.batch(start, stop), dataset.batch(start, stop)
        assert found.ids == wanted.ids
        assert torch.equal(found.inputs, wanted.inputs)
        assert torch.equal(found.targets, wanted.targets)


NUM_EXAMPLES, NUM_ROWS = 16, 8
EPSILON = Fraction(8, 255)
EXAMPLES = Examples(NUM_EXAMPLES, (3, 4, 4), num_classes=10)


def model_on(device: torch.device) -> LoadedModel:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = nn.Sequential(nn.Flatten(), nn.Linear(48, 16), nn.Tanh(), nn.Linear(16, 10))
    return LoadedModel(module, PREPROCESSING, device)


def record_on(device: torch.device, perturbation: Any) -> tuple[Record, int]:
    shard = EXAMPLES.shard(perturbation, batch_size=NUM_ROWS)
    with waits_counted() as waited:
        model = model_on(device)
        waited.counts.clear()
        return evaluate(shard, model, EXAMPLES), waited.total


@pytest.mark.parametrize(
    ("perturbation", "a_batch"),
    [
        (Clean(), 8),
        (UniformNoise(epsilon=EPSILON), 10),
        (Fgsm(epsilon=EPSILON), 11),
        # The same as of one step: none of PGD's own waits.
        (Pgd(epsilon=EPSILON, step_size=Fraction(2, 255), num_steps=10), 11),
    ],
)
def test_a_batch_waits_for_its_checks_and_its_columns_alone(perturbation: Any, a_batch: int) -> None:
    record, num_waits = record_on(DEVICE, perturbation)
    on_cpu, none = record_on(torch.device("cpu"), perturbation)
    assert none == 0
    # A shard of many passes ends with a comparison of the model's answer with that at the start.
    at_the_end = 4 if sum(perturbation.most_passes or (0,)) >= 10 else 0
    assert num_waits <= a_batch * NUM_EXAMPLES // NUM_ROWS + at_the_end
    assert record.outcomes == on_cpu.outcomes
    assert record.shard == on_cpu.shard
    assert record.provenance.device == DEVICE.type
