"""Exhausted memory: what counts as it, the advice of a failure, and the batch size that ``robench doctor`` proposes."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from examples import MEASUREMENT
from robench.cli import doctor_command
from robench.core.errors import ContractError, RobenchError
from robench.core.records import Failure, Record
from robench.core.shard import Shard
from robench.core.suite import Condition
from robench.datasets import open_dataset
from robench.datasets.digits import DIGITS
from robench.declarations.preprocessing import ImagePreprocessing
from robench.devices import is_out_of_memory
from robench.evaluation import evaluator, memory
from robench.evaluation.actions import Audit
from robench.evaluation.evaluator import Evaluator
from robench.evaluation.memory import largest_fitting_power
from robench.models.loaded import LoadedModel
from robench.perturbations.clean import Clean
from robench.runs import devices
from robench.runs.devices import MOST_ROWS_ON_CPU, batch_size_text

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


class TestFailure:
    @pytest.mark.parametrize(
        "error", [torch.OutOfMemoryError("CUDA out of memory"), MemoryError("none left"), RuntimeError(CPU_ERROR)]
    )
    def test_says_how_to_find_a_batch_size_that_fits(self, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
        failure = evaluated(monkeypatch, Small(13, error), shard_of(100))
        assert isinstance(failure, Failure)
        reason = f"{type(error).__name__}: {error}"
        assert failure.error.startswith(f"{reason}. Memory was exhausted on cpu at batch size 100: set a smaller ")
        assert "('robench doctor --model m' says which fits)" in failure.error
        # With that advice followed, the shard is measured.
        assert isinstance(evaluated(monkeypatch, Small(13, error), shard_of(12)), Record)

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
