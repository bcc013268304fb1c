"""Compiled passes and passes in half precision: near those of the model, the same each time, and what cannot run so."""

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from examples import MEASUREMENT, SHARD
from robench.attention.mom import Mom
from robench.attention.rpc import Rpc
from robench.attention.softmax import Softmax
from robench.core.errors import ContractError, UsageError
from robench.core.records import Failure
from robench.core.seeds import LazySeeds
from robench.core.shard import Shard
from robench.declarations.preprocessing import ImagePreprocessing
from robench.declare import find_checkpoints, find_suite
from robench.evaluation import evaluator
from robench.evaluation.evaluator import Evaluator
from robench.models import precision
from robench.models.loaded import LoadedModel
from robench.models.precision import arithmetic_of, running_in
from robench.models.vit import Vit
from robench.models.vit_impl import build_vit
from robench.runs import RunRequest

PREPROCESSING = ImagePreprocessing(mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))


class Traced:
    """Compiler that runs graphs as they are, and keeps the names of their operations."""

    def __init__(self) -> None:
        self.graphs: list[set[str]] = []

    def __call__(self, graph: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
        self.graphs.append({getattr(node.target, "__name__", str(node.target)) for node in graph.graph.nodes})
        return graph.forward


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Traced:
    made = Traced()
    monkeypatch.setattr(precision, "COMPILER", made)
    return made


def vit(attention: Any = None) -> LoadedModel:
    architecture = Vit(
        image_size=8, patch_size=4, num_classes=3, depth=1, dim=8, num_heads=2, attention=attention or Softmax()
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return LoadedModel(build_vit(architecture), PREPROCESSING)


def images(count: int = 4) -> torch.Tensor:
    return torch.rand(count, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def gradient_of(model: LoadedModel, inputs: torch.Tensor, seeds: Any = None) -> torch.Tensor:
    leaf = inputs.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(model.outputs(leaf, seeds).logsumexp(1).sum(), leaf)
    return gradient


def test_outputs_and_gradients_are_near_those_of_the_model(traced: Traced) -> None:
    model = vit()
    fast = model.in_precision("float32-compiled")
    torch.testing.assert_close(fast.outputs(images()), model.outputs(images()), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(gradient_of(fast, images()), gradient_of(model, images()), atol=1e-5, rtol=1e-4)
    assert fast.outputs(images()).grad_fn is None


def test_attention_is_fused_in_compiled_passes_alone(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    model = vit()
    model.in_precision("float32-compiled").outputs(images())
    assert sum("scaled_dot_product_attention" in graph for graph in traced.graphs) == 1
    monkeypatch.setattr("robench.attention.heads.scaled_dot_product_attention", None)
    model.outputs(images())


def test_a_graph_is_made_for_each_shape_whatever_the_mode_of_gradients(traced: Traced) -> None:
    fast = vit().in_precision("float32-compiled")
    first, gradient, in_parts = fast.outputs(images()), gradient_of(fast, images()), fast.outputs(images(2))
    for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):
        for seeds in (None, (1, 2, 3, 4), LazySeeds(lambda: (5, 6, 7, 8), 4)):
            with mode():
                assert torch.equal(fast.outputs(images(), seeds), first)
    assert torch.equal(gradient_of(fast, images()), gradient)
    assert torch.equal(fast.outputs(images(2)), in_parts)
    assert len(traced.graphs) == 2


def test_graphs_of_many_models_with_the_same_code_are_not_counted_together(traced: Traced) -> None:
    with torch._dynamo.config.patch(accumulated_recompile_limit=3):
        for _ in range(4):
            vit().in_precision("float32-compiled").outputs(images())
    assert len(traced.graphs) == 4


def test_a_model_is_compiled_once_for_all_its_copies(traced: Traced) -> None:
    model = vit()
    outputs = model.in_precision("float32-compiled").outputs(images())
    num_graphs = len(traced.graphs)
    assert torch.equal(model.in_precision("float32").in_precision("float32-compiled").outputs(images()), outputs)
    assert len(traced.graphs) == num_graphs


def test_models_with_the_same_code_have_graphs_of_their_own(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "MOST_GRAPHS", 2)
    for _ in range(4):
        vit().in_precision("float32-compiled").outputs(images())


def test_a_model_that_is_dropped_is_freed_with_its_graphs(traced: Traced) -> None:
    model = vit()
    gradient_of(model.in_precision("float32-compiled"), images())
    module = weakref.ref(model._module)
    del model
    gc.collect()
    assert module() is None


def test_gradients_through_solvers_are_compiled_too(traced: Traced) -> None:
    model = vit(Rpc(layers=(0,), num_iterations=2))
    fast = model.in_precision("float32-compiled").with_gradients("through_solvers")
    torch.testing.assert_close(gradient_of(fast, images()), gradient_of(model, images()), atol=1e-5, rtol=1e-4)
    assert traced.graphs


def test_half_precision_and_compilation_go_together(traced: Traced) -> None:
    model = vit()
    outputs = model.in_precision("bfloat16-compiled").outputs(images())
    assert outputs.dtype == torch.float32
    torch.testing.assert_close(outputs, model.in_precision("bfloat16").outputs(images()), atol=0.05, rtol=0.05)
    assert not torch.equal(outputs, model.in_precision("float32-compiled").outputs(images()))


def test_nothing_falls_back_to_passes_that_are_not_compiled(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "MOST_GRAPHS", 2)
    fast = vit().in_precision("float32-compiled")
    for count in (1, 2):
        fast.outputs(images(count))
    with pytest.raises(ContractError, match=r"Transformer needs more than 2 compiled graphs.*not compiled"):
        fast.outputs(images(3))


def test_a_model_that_draws_is_refused(traced: Traced) -> None:
    fast = vit(Mom(num_blocks=3, block_fraction=0.5)).in_precision("float32-compiled")
    with pytest.raises(ContractError, match="draws random numbers in its passes, which cannot be compiled"):
        fast.outputs(images(), (1, 2, 3, 4))
    assert traced.graphs == []


def test_what_cannot_be_compiled_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(graph: object, inputs: object) -> None:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(precision, "COMPILER", broken)
    with pytest.raises(ContractError, match=r"Transformer cannot be compiled: .*RuntimeError: no compiler\. Measure"):
        vit().in_precision("float32-compiled").outputs(images())


def test_models_of_texts_are_refused_before_a_run() -> None:
    checkpoints, suites = tuple(find_checkpoints(["sotu-lm"])), (find_suite("sotu-swap"),)
    with pytest.raises(UsageError, match=r"inputs of one shape, but model 'sotu-lm' is of texts; use bfloat16$"):
        RunRequest(suites=suites, checkpoints=checkpoints, precision="bfloat16-compiled")


def test_a_loaded_model_of_texts_refuses_it() -> None:
    (checkpoint,) = find_checkpoints(["sotu-lm"])
    model = LoadedModel(nn.Embedding(4, 4), checkpoint.preprocessing)
    with pytest.raises(ContractError, match="passes for texts, of any length, cannot be compiled"):
        model.in_precision("float32-compiled")


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


def noise() -> torch.Tensor:
    return torch.rand(5, 3, 2, 2, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", HALVES)
def test_passes_run_in_it_and_inputs_outputs_and_gradients_are_float32(name: str) -> None:
    model = model_of()
    half, inputs = model.in_precision(name), noise().requires_grad_(True)
    outputs = half.outputs(inputs)
    (gradient,) = torch.autograd.grad(outputs.sum(), inputs)
    assert outputs.dtype == gradient.dtype == torch.float32
    module = half._module
    assert module.formats == [(torch.float32, arithmetic_of(name).dtype, True)]
    assert not torch.is_autocast_enabled("cpu")
    # Near those of float32, and not the same.
    exact = model.outputs(noise())
    assert module.formats[-1][1] == torch.float32
    torch.testing.assert_close(outputs, exact, atol=0.05, rtol=0.05)
    assert not torch.equal(outputs, exact)


def test_float32_is_the_model_to_the_bit() -> None:
    model = model_of()
    again = model.in_precision("bfloat16").in_precision("float32")
    assert torch.equal(again.outputs(noise()), model.outputs(noise()))


def test_gradients_through_solvers_are_in_it_too() -> None:
    half = model_of().in_precision("bfloat16")
    half.with_gradients("through_solvers").outputs(noise())
    assert half._module.formats == [(torch.float32, torch.bfloat16, False)]


@pytest.mark.parametrize("name", HALVES)
def test_a_mechanism_that_cannot_run_in_it_is_named(name: str) -> None:
    model = model_of(Picky())
    model.outputs(noise())
    with pytest.raises(ContractError, match=rf"^Picky cannot run in {name}: .*cholesky.*Measure the model in float32"):
        model.in_precision(name).outputs(noise())


def test_an_error_of_a_layer_of_torch_names_the_module_that_calls_it() -> None:
    half = model_of().in_precision("bfloat16")
    with pytest.raises(ContractError, match=r"^Watched cannot run in bfloat16"):
        half.outputs(torch.rand(1, 3, 5, 5))


def test_exhausted_memory_is_no_matter_of_precision() -> None:
    with pytest.raises(torch.OutOfMemoryError, match=r"^CUDA out of memory$"):
        model_of(Exhausted()).in_precision("bfloat16").outputs(noise())


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
            found._model_of(replace(MEASUREMENT, dtype=name)).outputs(noise())
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


def test_compilers_are_told_that_one_pass_has_several_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """As FAB takes them; tests/slow/test_compiled_passes.py runs it with machine code, which else fails."""
    reused = []

    def compiler(graph: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
        reused.append(torch._functorch.config.donated_buffer)
        return graph.forward

    monkeypatch.setattr(precision, "COMPILER", compiler)
    vit().in_precision("float32-compiled").outputs(images())
    assert reused == [False]
