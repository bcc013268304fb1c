"""Attention layers seen in a pass: gradients of losses on them, for every mechanism, against finite differences."""

import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from attention_settings import one_per_form, title
from presence import present
from test_attention_contract import DECLARATIONS, made, reference_of
from test_masks_contract import DECLARED, LENGTHS, SMALL, is_by_place, model_of, padded_series
from torch import Tensor, nn

from robench.attention import ATTENTIONS
from robench.attention.base import AttentionBase
from robench.attention.elliptical import Elliptical
from robench.attention.elliptical_impl import EllipticalAttention
from robench.attention.geometry import Geometry
from robench.attention.mom import Mom
from robench.attention.primal import Primal
from robench.attention.rkde import Rkde
from robench.attention.rpc import Rpc
from robench.attention.seen import Seen, ShowsInside
from robench.attention.softmax import Softmax
from robench.attention.spkde import Spkde
from robench.attention.state import ForwardState
from robench.core.errors import ContractError
from robench.core.protocols import ShownLayer, ShowsLayers
from robench.declarations.preprocessing import ImagePreprocessing
from robench.models.build import build
from robench.models.loaded import LoadedModel
from robench.models.shown import showing
from robench.models.vit import Vit
from robench.testing.attention import StandaloneLayer, tokens

PAGE = Path(__file__).parents[2] / "docs/analysis.md"
GEOMETRY = Geometry(dim=4, num_heads=2, num_tokens=3, depth=1, layer=0)
WITHOUT_WEIGHTS = [each for each in DECLARATIONS if isinstance(each, Primal) and not each.data_dependent]
# Two of three keys in a subset: with one, its weight is 1 whatever the tokens are.
LARGER_SUBSETS = {"mom": Mom(num_blocks=3, block_fraction=0.7), "primal": Primal(num_directions=2, rank_multiplier=1)}
SETTINGS = [
    each if each not in WITHOUT_WEIGHTS and each.kind not in LARGER_SUBSETS else LARGER_SUBSETS[each.kind]
    for each in {each.kind: each for each in one_per_form(DECLARATIONS)}.values()
]
# By their sources no gradient flows through the metric, or the solver; their own tests follow below.
STOPPED = [
    *(Elliptical(estimator=each) for each in ("finite_differences", "over_layers")),
    *(each for each in DECLARATIONS if isinstance(each, Spkde) and each.formula == "released"),
]
FLOWING = [each for each in SETTINGS if each.kind != "elliptical" and not reference_of(each).stops_gradients]
ARCHITECTURE = Vit(image_size=4, patch_size=2, num_classes=3, depth=2, dim=8, num_heads=2, attention=Softmax())
PREPROCESSING = ImagePreprocessing(mean=(0.5, 0.4, 0.3), std=(0.25, 0.3, 0.2))
SEEDS = (3, 4)


def received(layers: Sequence[ShownLayer]) -> Tensor:
    """What the tokens 0 and 1 receive in all layers; squared, since columns of some mechanisms have equal sums."""
    return torch.stack([layer.weights_BHNM[..., :2].square().sum() for layer in layers]).sum()


def largest_product(layers: Sequence[ShownLayer]) -> Tensor:
    return torch.stack([(each.queries_BHND @ each.keys_BHMD.mT).flatten().logsumexp(0) for each in layers]).sum()


def differences(value: Callable[[Tensor], Tensor], x: Tensor, every: int = 1, step: float = 1e-5) -> Tensor:
    """Central finite differences of a number by the entries of x, or one of ``every`` so many, in float64."""
    with torch.no_grad():
        moves = step * torch.eye(x.numel(), dtype=torch.float64)[::every].reshape(-1, *x.shape)
        found = [(value(x + move) - value(x - move)) / (2 * step) for move in moves]
    return torch.stack(found)


def layers_of(module: nn.Module, *given: Any) -> list[ShownLayer]:
    with showing(module) as layers:
        module(*given)
    return layers


def layer_inside(module: StandaloneLayer) -> ShowsInside:
    assert isinstance(module.layer, ShowsInside)
    return module.layer


def require_gradient(value: Callable[[Tensor], Tensor], x: Tensor, reference: Callable[[Tensor], Tensor]) -> None:
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(value(leaf), leaf)
    expected = differences(reference, x)
    assert expected.abs().max() > 1e-4
    torch.testing.assert_close(gradient.flatten(), expected, rtol=1e-6, atol=1e-8)


def test_every_mechanism_is_checked_and_the_page_says_what_its_weights_are() -> None:
    assert {each.kind for each in (*FLOWING, *STOPPED)} == set(ATTENTIONS)
    table = PAGE.read_text().partition("| mechanism | weights |")[2]
    assert re.findall(r"^\| `([a-z-]+)` \| .{10,} \|$", table, re.MULTILINE) == list(ATTENTIONS.builtin)


@pytest.mark.parametrize("declaration", FLOWING, ids=title)
def test_gradients_of_weights_and_products_are_finite_differences(declaration: AttentionBase) -> None:
    module = made(declaration, spread=0.7, geometry=GEOMETRY).eval()
    x_BNC = tokens(batch=1, num_tokens=3, dim=4, seed=3)
    for loss in (received, largest_product):

        def value(x: Tensor, loss: Callable[[Sequence[ShownLayer]], Tensor] = loss) -> Tensor:
            return loss(layers_of(module, x))

        if declaration.kind == "mgk" and loss is largest_product:
            with pytest.raises(ContractError, match=r"attention layer 0 \(MgkAttention\) shows no keys"):
                value(x_BNC)
        else:
            require_gradient(value, x_BNC, value)


@pytest.mark.parametrize("declaration", [*SETTINGS, *STOPPED], ids=title)
def test_a_layer_shows_what_it_computes(declaration: AttentionBase) -> None:
    module = made(declaration, geometry=GEOMETRY).eval()
    x_BNC = tokens(num_tokens=3, dim=4)
    plain_BNC = module(x_BNC)
    with showing(module) as layers:
        assert torch.equal(module(x_BNC), plain_BNC)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())
    (layer,), seen = layers, layer_inside(module).seen(x_BNC, module.state_for(x_BNC))
    assert layer.weights_BHNM.shape == (2, 2, 3, 3)
    rest_BHND = 0 if seen.rest_BHND is None else seen.rest_BHND
    torch.testing.assert_close(layer.weights_BHNM @ present(seen.values_BHMD) + rest_BHND, seen.heads_BHND)
    assert torch.equal(layer.queries_BHND, present(seen.queries_BHND))
    assert torch.equal(layer.tokens_BNC, x_BNC)
    assert layer.weights_BHNM is layer.weights_BHNM
    assert torch.equal(layer.rows(1).weights_BHNM, layer.weights_BHNM[:1])


@pytest.mark.parametrize("declaration", WITHOUT_WEIGHTS[:1], ids=title)
def test_directions_that_are_parameters_give_no_weights(declaration: AttentionBase) -> None:
    (layer,) = layers_of(made(declaration, geometry=GEOMETRY), tokens(num_tokens=3, dim=4))
    assert layer.keys_BHMD.shape == (2, 2, 3, 2)
    with pytest.raises(ContractError, match=r"attention layer 0 \(PrimalAttention\) shows no weights"):
        _ = layer.weights_BHNM


@pytest.mark.parametrize("declaration", STOPPED[:2], ids=title)
def test_the_metric_of_elliptical_attention_is_constant(declaration: Elliptical) -> None:
    module = made(declaration, spread=0.7, geometry=GEOMETRY).eval()
    x_BNC, layer = tokens(batch=1, num_tokens=3, dim=4, seed=3), module.layer
    assert isinstance(layer, EllipticalAttention)
    with torch.no_grad():
        heads = layer.project(x_BNC)
        metric_BHND = layer.stretched(heads, module.state_for(x_BNC)) / heads[0]

    def with_constant_metric(x: Tensor) -> Tensor:
        q_BHND, k_BHND, _ = layer.project(x)
        exponentials: Tensor = ((q_BHND * metric_BHND) @ k_BHND.mT / 2**0.5).exp()
        return (exponentials / exponentials.sum(-1, keepdim=True))[..., :2].square().sum()

    assert metric_BHND.std() > 0
    require_gradient(lambda x: received(layers_of(module, x)), x_BNC, with_constant_metric)


@pytest.mark.parametrize(
    "declared",
    {
        each.kind: each for each in DECLARED if not (each.mask_problem or is_by_place(each) or each in WITHOUT_WEIGHTS)
    }.values(),
    ids=title,
)
def test_weights_of_padded_examples_are_those_of_their_valid_tokens(declared: AttentionBase) -> None:
    model, seeds, (series, mask) = (
        model_of(replace(SMALL, attention=declared, depth=2)),
        (1, 2, 3, 4),
        padded_series(3.0),
    )
    with torch.no_grad():
        with showing(model) as layers:
            model.tokens(series, seeds, None, mask)
        for row, length in enumerate(LENGTHS):
            with showing(model) as own_layers:
                model.tokens(series[row : row + 1, :length], seeds[row : row + 1])
            for layer, own in zip(layers, own_layers, strict=True):
                wanted = torch.zeros(2, 9, 9, dtype=torch.float64)
                wanted[:, :length, :length] = own.weights_BHNM[0]
                torch.testing.assert_close(layer.weights_BHNM[row], wanted, rtol=0, atol=1e-9)


def loaded(declaration: AttentionBase = ARCHITECTURE.attention) -> LoadedModel:
    torch.manual_seed(5)
    module = build(replace(ARCHITECTURE, attention=declaration))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.4 * torch.randn(parameter.shape))
    return LoadedModel(module, PREPROCESSING)


def images() -> Tensor:
    return torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize(
    "declaration",
    [Softmax(), Rpc(num_iterations=2, layers=(0,)), Rkde(), Primal(num_directions=2), STOPPED[-1]],
    ids=title,
)
def test_gradients_by_pixels_are_finite_differences(declaration: AttentionBase) -> None:
    model = loaded(declaration).with_gradients("through_solvers")
    assert isinstance(model, ShowsLayers)
    pixels = images().requires_grad_()
    outputs, layers = model.outputs_and_layers(pixels, SEEDS)
    assert torch.equal(outputs, model.outputs(pixels, SEEDS))
    assert len(layers) == 2
    (gradient,) = torch.autograd.grad(outputs.square().sum() + received(layers), pixels)
    exact = deepcopy(model.module).double()
    mean, std = (each.double() for each in model.normalisation)

    def value(x: Tensor) -> Tensor:
        with showing(exact) as found:
            logits = exact((x - mean) / std, SEEDS)
        total: Tensor = logits.square().sum() + received(found)
        return total

    expected = differences(value, images().double(), every=7)
    torch.testing.assert_close(
        gradient.double().flatten()[::7], expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max())
    )


def test_gradients_through_a_solver_are_those_of_the_model_that_was_asked() -> None:
    model = loaded(STOPPED[-1])
    gradients = []
    for each in (model, model.with_gradients("through_solvers")):
        pixels = images().requires_grad_()
        layers = each.outputs_and_layers(pixels, SEEDS)[1]
        gradients.append(torch.autograd.grad(received(layers), pixels)[0])
    assert not torch.allclose(gradients[0], gradients[1], rtol=1e-2)


def test_half_precision_shows_the_weights_of_its_pass() -> None:
    (layer, _), single = (
        each.outputs_and_layers(images())[1] for each in (loaded().in_precision("bfloat16"), loaded())
    )
    assert layer.queries_BHND.dtype == layer.weights_BHNM.dtype == torch.float32
    assert 0 < (layer.weights_BHNM - single[0].weights_BHNM).abs().max() < 0.05


class Foreign(nn.Module):
    """Attention of somebody else with a method ``seen``, called without a state."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        return x.flip(1)

    def seen(self, x: Tensor) -> Seen:
        self.calls += 1
        weights_BHNM = torch.eye(x.shape[1], dtype=x.dtype).flip(1)[None, None] * x.sum(-1)[:, None, None]
        return Seen(heads_BHND=weights_BHNM @ x[:, None], keys_BHMD=2 * x[:, None], weights_BHNM=weights_BHNM)


def test_a_foreign_layer_is_asked_by_seen_once() -> None:
    module, x_BNC = Foreign(), tokens(num_tokens=3, dim=4).requires_grad_()
    with showing(module) as layers:
        module(x_BNC)
    assert module.calls == 0
    (gradient,) = torch.autograd.grad(layers[0].weights_BHNM.sum() + layers[0].keys_BHMD.sum(), x_BNC)
    assert torch.equal(gradient, torch.full_like(gradient, 3.0))
    assert module.calls == 1
    with pytest.raises(ContractError, match=r"attention layer 0 \(Foreign\) shows no queries"):
        _ = layers[0].queries_BHND


class Plain(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3))


def test_models_that_show_nothing_compiled_ones_and_broken_weights_are_refused() -> None:
    with pytest.raises(ContractError, match="nothing can be seen of the model: no part of it has a method 'seen'"):
        LoadedModel(Plain(), PREPROCESSING).outputs_and_layers(images())
    with pytest.raises(ContractError, match="compiled passes show no layers: measure the model in a precision that"):
        loaded().in_precision("float32-compiled").outputs_and_layers(images())
    model = loaded()
    model.module.get_parameter("blocks.1.attn.qkv.bias").fill_(torch.nan)
    _, (first, second) = model.outputs_and_layers(images())
    assert first.weights_BHNM.isfinite().all()
    with pytest.raises(ContractError, match=r"attention layer 1 \(SoftmaxAttention\) shows NaN or infinite weights"):
        _ = second.weights_BHNM


def test_an_error_leaves_no_hooks_and_nothing_is_kept_without_them() -> None:
    module, state = made(Softmax(), geometry=GEOMETRY), ForwardState()
    with pytest.raises(RuntimeError), showing(module):
        module(torch.zeros(1, 3, 5, dtype=torch.float64))
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())
    module.layer(tokens(num_tokens=3, dim=4), state)
    assert state.shown is None
