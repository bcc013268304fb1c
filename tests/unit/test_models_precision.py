"""Passes in half precision: what runs in it, what stays float32, and what cannot run in it."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from examples import MEASUREMENT, SHARD
from robench.core.errors import ContractError
from robench.core.records import Failure
from robench.core.shard import Shard
from robench.declarations.preprocessing import ImagePreprocessing
from robench.evaluation import evaluator
from robench.evaluation.evaluator import Evaluator
from robench.models.loaded import LoadedModel
from robench.models.precision import arithmetic_of, running_in

PREPROCESSING = ImagePreprocessing(mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
HALVES = ("bfloat16", "float16")


class Watched(nn.Module):
    """A classifier that notes the number formats it meets."""

    stops_gradients = True

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(12, 4)
        self.formats: list[tuple[torch.dtype, torch.dtype, bool]] = []

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        outputs = self.layer(images.flatten(1))
        self.formats.append((images.dtype, outputs.dtype, self.stops_gradients))
        return outputs


class Picky(nn.Module):
    """A mechanism without kernels for half precision."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        if values.dtype != torch.float32:
            raise NotImplementedError(f'"cholesky_cpu" not implemented for {values.dtype}')
        return values


class Exhausted(nn.Module):
    def forward(self, values: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory")


def model_of(*layers: nn.Module) -> LoadedModel:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = Watched() if not layers else nn.Sequential(nn.Flatten(), nn.Linear(12, 4), *layers)
    return LoadedModel(module, PREPROCESSING)


def images() -> torch.Tensor:
    return torch.rand(5, 3, 2, 2, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", HALVES)
def test_passes_run_in_it_and_inputs_outputs_and_gradients_are_float32(name: str) -> None:
    model = model_of()
    half, inputs = model.in_precision(name), images().requires_grad_(True)
    outputs = half.outputs(inputs)
    (gradient,) = torch.autograd.grad(outputs.sum(), inputs)
    assert outputs.dtype == gradient.dtype == torch.float32
    module = half._module
    assert module.formats == [(torch.float32, arithmetic_of(name).dtype, True)]
    assert not torch.is_autocast_enabled("cpu")
    # Near those of float32, and not the same.
    exact = model.outputs(images())
    assert module.formats[-1][1] == torch.float32
    torch.testing.assert_close(outputs, exact, atol=0.05, rtol=0.05)
    assert not torch.equal(outputs, exact)


def test_float32_is_the_model_to_the_bit() -> None:
    model = model_of()
    again = model.in_precision("bfloat16").in_precision("float32")
    assert torch.equal(again.outputs(images()), model.outputs(images()))


def test_gradients_through_solvers_are_in_it_too() -> None:
    half = model_of().in_precision("bfloat16")
    half.through_solvers().outputs(images())
    assert half._module.formats == [(torch.float32, torch.bfloat16, False)]


@pytest.mark.parametrize("name", HALVES)
def test_a_mechanism_that_cannot_run_in_it_is_named(name: str) -> None:
    model = model_of(Picky())
    model.outputs(images())
    with pytest.raises(
        ContractError, match=rf"^Picky cannot run in {name}: .*cholesky.*\. Measure the model in float32"
    ):
        model.in_precision(name).outputs(images())


def test_an_error_of_a_layer_of_torch_names_the_module_that_calls_it() -> None:
    half = model_of().in_precision("bfloat16")
    with pytest.raises(ContractError, match=r"^Watched cannot run in bfloat16"):
        half.outputs(torch.rand(1, 3, 5, 5))


def test_exhausted_memory_is_no_matter_of_precision() -> None:
    with pytest.raises(torch.OutOfMemoryError, match=r"^CUDA out of memory$"):
        model_of(Exhausted()).in_precision("bfloat16").outputs(images())


def test_others_are_refused_and_none_changes_nothing() -> None:
    with pytest.raises(ContractError, match=r"precision must be one of float32, bfloat16, .*, got 'int8'"):
        arithmetic_of("int8")
    with running_in(None, torch.device("cpu")), pytest.raises(ValueError, match=r"^as it is$"):
        raise ValueError("as it is")


class TestEvaluator:
    def test_runs_the_model_in_the_precision_of_each_measurement(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model, loaded = model_of(), []
        monkeypatch.setattr(evaluator, "load_model", lambda *given: loaded.append(given) or model)
        found = Evaluator()
        for name, expected in (("float32", torch.float32), ("bfloat16", torch.bfloat16), ("float32", torch.float32)):
            found._model_of(replace(MEASUREMENT, dtype=name)).outputs(images())
            assert model._module.formats[-1][1] == expected
        # Weights are read once.
        assert len(loaded) == 1

    def test_headers_of_failures_say_in_which_precision_they_happened(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def load(*given: object) -> LoadedModel:
            raise ContractError("the model returned NaN")

        monkeypatch.setattr(evaluator, "load_model", load)
        exact = Evaluator()(SHARD)
        half = Evaluator()(Shard(measurement=replace(MEASUREMENT, dtype="float16"), start=0, stop=100))
        assert isinstance(exact, Failure)
        assert isinstance(half, Failure)
        assert exact.error == "the model returned NaN"
        assert half.error == exact.error
        assert half.shard.dtype == "float16"
        assert half.shard.title == "m (float16) / pgd / examples 0-99"
        assert exact.shard.title == "m / pgd / examples 0-99"
