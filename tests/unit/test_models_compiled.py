"""Compiled passes: near those of the model, the same each time, fused where they can be, and never partly compiled.

Graphs are traced here and not translated to machine code, which takes seconds each: tests/slow/test_compiled_passes.py.
"""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from robench.attention.mom import Mom
from robench.attention.rpc import Rpc
from robench.attention.softmax import Softmax
from robench.core.errors import ContractError, UsageError
from robench.core.seeds import LazySeeds
from robench.declarations.preprocessing import ImagePreprocessing
from robench.declare import find_checkpoints, find_suite
from robench.models import precision
from robench.models.loaded import LoadedModel
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


def test_a_graph_is_made_for_each_shape_with_and_without_gradients(traced: Traced) -> None:
    fast = vit().in_precision("float32-compiled")
    first = fast.outputs(images())
    gradient = gradient_of(fast, images())
    in_parts = fast.outputs(images(2))
    num_graphs = len(traced.graphs)
    for seeds in (None, (1, 2, 3, 4), LazySeeds(lambda: (5, 6, 7, 8), 4), (1, 2, 3, 5)):
        assert torch.equal(fast.outputs(images(), seeds), first)
    assert torch.equal(gradient_of(fast, images()), gradient)
    assert torch.equal(fast.outputs(images(2)), in_parts)
    # None more but for a pass with seeds, whatever they are.
    assert len(traced.graphs) <= num_graphs + 1


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
    fast = model.in_precision("float32-compiled").through_solvers()
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
