"""Laws of twicing, NeuTRENO and elliptical attention, alone and in whole models."""

import gc
import math
import weakref
from functools import partial
from itertools import pairwise, product
from typing import Any

import pytest
import torch
from presence import present
from reference_base import head_projections
from reference_layers import CONNECTIONS, REFERENCES, block_of_softmax, relevances
from timm.models.vision_transformer import Block
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from robench.attention.build import build_attention, declaration_at
from robench.attention.elliptical import Elliptical
from robench.attention.elliptical_impl import sensitivity
from robench.attention.geometry import Geometry
from robench.attention.heads import merge_heads, split_heads
from robench.attention.neutreno import Neutreno
from robench.attention.softmax import Softmax
from robench.attention.state import ForwardState
from robench.attention.twicing import Twicing
from robench.core.declared import Declaration
from robench.core.errors import ContractError
from robench.core.identity import key_of
from robench.models import RESIDUALS
from robench.models.build import build
from robench.models.transformer import Boost, FeatScale, PlainResidual
from robench.models.transformer_impl import build_block, parts_of
from robench.models.vit import Vit
from robench.testing.attention import tokens

SMALL: dict[str, Any] = {"image_size": 8, "patch_size": 4, "num_classes": 5, "depth": 3, "dim": 12, "num_heads": 3}
NEEDING = [Neutreno(), Elliptical()]
CONNECTED = [PlainResidual(), Boost(), FeatScale(), FeatScale(formula="released")]


def made(declaration: Declaration, *, layer: int = 0, seed: int = 0) -> nn.Module:
    """A layer of two heads of width 3, in float64, whose parameters are the same for all kinds."""
    return scattered(build_attention(declaration, geometry(layer)).double(), seed)


def scattered(module: nn.Module, seed: int = 0) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return module


def projections(module: nn.Module, x_BNC: Tensor) -> tuple[Tensor, ...]:
    return split_heads(module.get_submodule("qkv")(x_BNC), num_heads=2, num_projections=3)


def after(values_BHND: Tensor, layer: int = 0) -> ForwardState:
    return ForwardState(values_BHND={layer: values_BHND})


def heads(seed: int = 7) -> Tensor:
    return torch.randn(2, 2, 5, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class TestTwicing:
    def test_it_equals_twice_the_weights_less_their_square(self) -> None:
        module = made(Twicing())
        q, k, v = projections(module, tokens())
        weights = (q @ k.transpose(-2, -1) / 3**0.5).softmax(dim=-1)
        output_BNC = module.get_submodule("proj")(merge_heads((2 * weights - weights @ weights) @ v))
        assert (module(tokens()) - output_BNC).abs().max() <= 1e-12

    def test_it_costs_one_more_product_with_the_values_and_no_square_of_the_weights(self) -> None:
        def cost(declaration: Declaration) -> int:
            with FlopCounterMode(display=False) as counter:
                made(declaration)(torch.zeros(1, 50, 6, dtype=torch.float64))
            return int(counter.get_total_flops())

        assert cost(Twicing()) - cost(Softmax()) == 2 * 50 * 50 * 6

    def test_layers_that_are_not_listed_are_softmax_attention_of_the_same_keys(self) -> None:
        declaration = Twicing(layers=(0, 2))
        assert [type(declaration_at(declaration, layer)) for layer in range(3)] == [Twicing, Softmax, Twicing]
        states = [build_attention(declaration, geometry(layer)).state_dict() for layer in range(3)]
        shapes = [{name: value.shape for name, value in state.items()} for state in states]
        assert all(one == other for one, other in pairwise(shapes))


def geometry(layer: int) -> Geometry:
    return Geometry(dim=6, num_heads=2, num_tokens=5, depth=3, layer=layer)


@pytest.mark.parametrize("declaration", NEEDING, ids=lambda declaration: declaration.kind)
class TestMechanismsThatReadEarlierValues:
    def test_their_first_layer_is_softmax_attention_and_hands_on_its_values(self, declaration: Declaration) -> None:
        module, state = made(declaration), ForwardState()
        assert torch.equal(module(tokens(), state), made(Softmax())(tokens()))
        assert set(state.values_BHND) == {0}
        assert torch.equal(state.values_of(0), projections(module, tokens())[2])

    @pytest.mark.parametrize("state", [None, ForwardState()])
    def test_a_later_layer_called_alone_says_what_it_misses(
        self, declaration: Declaration, state: ForwardState | None
    ) -> None:
        wanted = (
            r"layer 0 has published no values \(layers that have: none\); .* must be called with the state of a "
            r"forward pass in which layer 0 came first"
        )
        with pytest.raises(ContractError, match=wanted):
            made(declaration, layer=1)(tokens(), state)

    def test_values_of_another_layer_are_no_substitute(self, declaration: Declaration) -> None:
        with pytest.raises(ContractError, match=r"no values \(layers that have: 2, 7\)"):
            made(declaration, layer=1)(tokens(), ForwardState(values_BHND={7: heads(), 2: heads()}))


class TestNeutreno:
    def test_alpha_0_is_softmax_attention_in_every_layer(self) -> None:
        for layer in range(3):
            module = made(Neutreno(alpha=0.0), layer=layer)
            assert torch.equal(module(tokens(), after(heads())), made(Softmax())(tokens()))

    def test_later_layers_leave_the_values_of_the_first_in_place(self) -> None:
        state = after(heads())
        for layer in (1, 2):
            made(Neutreno(), layer=layer)(tokens(), state)
        assert set(state.values_BHND) == {0}
        assert torch.equal(state.values_of(0), heads())

    def test_gradients_reach_the_values_of_the_first_layer(self) -> None:
        first_BHND = heads().requires_grad_()
        made(Neutreno(), layer=1)(tokens(), after(first_BHND)).sum().backward()
        assert (present(first_BHND.grad) != 0).all()


class TestElliptical:
    def output_after_change(self, change_BHND: Tensor, declaration: Elliptical | None = None) -> Tensor:
        module = made(declaration or Elliptical(), layer=1)
        own_BHND = projections(module, tokens())[2]
        output_BNC: Tensor = module(tokens(), after(own_BHND - change_BHND))
        return output_BNC

    def test_each_layer_hands_on_its_values_and_reads_those_of_the_one_before(self) -> None:
        state = ForwardState()
        modules = [made(Elliptical(), layer=layer, seed=layer) for layer in range(3)]
        for module in modules:
            output_BNC = module(tokens(), state)
        assert sorted(state.values_BHND) == [0, 1, 2]
        for layer, module in enumerate(modules):
            assert torch.equal(state.values_of(layer), projections(module, tokens())[2])
        with pytest.raises(ContractError, match=r"layer 1 has published no values \(layers that have: 0\)"):
            modules[2](tokens(), after(heads()))
        assert torch.equal(modules[2](tokens(), after(state.values_of(1), layer=1)), output_BNC)

    def test_delta_cancels(self) -> None:
        outputs = [self.output_after_change(heads(), Elliptical(delta=delta)) for delta in (5.0, 1e-300, 1e6)]
        assert all(torch.equal(one, other) for one, other in pairwise(outputs))

    def test_only_the_ratios_of_the_changes_count(self) -> None:
        outputs = [self.output_after_change(factor * heads()) for factor in (1.0, -1.0, 1e-3, 1e3)]
        assert all(torch.allclose(one, other, rtol=0, atol=1e-9) for one, other in pairwise(outputs))

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_where_no_value_changes_it_is_softmax_attention_with_finite_gradients(self, dtype: torch.dtype) -> None:
        module, x_BNC = made(Elliptical(), layer=1).to(dtype), tokens().to(dtype).requires_grad_()
        output_BNC = module(x_BNC, after(projections(module, x_BNC)[2].detach()))
        assert torch.equal(output_BNC, made(Softmax()).to(dtype)(x_BNC))
        output_BNC.sum().backward()
        assert present(x_BNC.grad).isfinite().all()

    @pytest.mark.parametrize("size", [1e-45, 1e-30, 1e30])
    def test_changes_of_any_size_give_finite_float32_outputs(self, size: float) -> None:
        module = made(Elliptical(), layer=1).float()
        with torch.no_grad():
            module.get_parameter("qkv.weight")[12:] = 0
            module.get_parameter("qkv.bias")[12:] = 0
        change_BHND = torch.zeros(2, 2, 5, 3)
        change_BHND[..., 1] = size
        assert module(tokens().float(), after(change_BHND)).isfinite().all()

    def test_no_gradient_flows_through_the_relevance(self) -> None:
        module, earlier_BHND = made(Elliptical(), layer=1), heads().requires_grad_()
        x_BNC, held_BNC = tokens().requires_grad_(), tokens().requires_grad_()
        module(x_BNC, after(earlier_BHND)).square().sum().backward()
        q, k, v = projections(module, held_BNC)
        change = (v - heads()).abs().mean(dim=-2, keepdim=True)
        relevance = (change / change.amax(dim=-1, keepdim=True)).detach()
        module.get_submodule("proj")(merge_heads(softmax_heads(q * relevance, k, v))).square().sum().backward()
        assert earlier_BHND.grad is None
        assert torch.allclose(present(x_BNC.grad), present(held_BNC.grad), rtol=0, atol=1e-12)

    def test_the_relevances_of_the_contract_test_differ_between_coordinates(self) -> None:
        state = made(Elliptical(), layer=1).state_dict()
        weight, bias = state["qkv.weight"].tolist(), state["qkv.bias"].tolist()
        values = head_projections(REFERENCES["elliptical"], tokens()[0].tolist(), weight, bias, 2, 0)[2]
        found = relevances(Elliptical(), values, heads()[0, 0].tolist())
        assert max(found) == 1
        assert 0 < min(found) < 0.9


class TestFiniteDifferences:
    """The sensitivity of the layer's own output to each coordinate of its queries, in place of a change over layers."""

    FINITE = Elliptical(estimator="finite_differences")

    def outputs(self, change: Any) -> tuple[Tensor, Tensor]:
        """Outputs of elliptical and of softmax attention with parameters that ``change`` has changed."""
        found = []
        for declaration in (self.FINITE, Softmax()):
            module = made(declaration, layer=1)
            with torch.no_grad():
                change(module.get_parameter("qkv.weight"), module.get_parameter("qkv.bias"))
                found.append(module(tokens()))
        return found[0], found[1]

    @pytest.mark.parametrize("layer", [0, 1, 2])
    def test_every_layer_does_so_and_reads_none_before_it(self, layer: int) -> None:
        state = ForwardState()
        output_BNC = made(self.FINITE, layer=layer)(tokens(), state)
        assert state.values_BHND == {}
        assert torch.equal(output_BNC, made(self.FINITE, layer=0)(tokens()))
        assert (output_BNC - made(Softmax())(tokens())).abs().max() > 1e-2

    def test_it_is_near_the_sum_of_the_derivatives_sizes(self) -> None:
        q_BHND, k_BHND, v_BHND = projections(made(self.FINITE, layer=1), tokens())
        found_BH1D = sensitivity(q_BHND, k_BHND, v_BHND)
        for b, h in product(range(2), range(2)):

            def of_queries(q_ND: Tensor, b: int = b, h: int = h) -> Tensor:
                return (q_ND @ k_BHND[b, h].T / 3**0.5).softmax(dim=-1) @ v_BHND[b, h]

            slopes_NDND = torch.autograd.functional.jacobian(of_queries, q_BHND[b, h])
            of_own_ND = slopes_NDND.diagonal(dim1=0, dim2=2).abs().sum(dim=0)  # outputs summed; coordinate, token
            assert torch.allclose(found_BH1D[b, h, 0], of_own_ND.mean(dim=-1), rtol=0.05, atol=0)

    def test_each_coordinate_has_a_step_of_half_over_the_root_of_the_width(self) -> None:
        """A kink-free case by hand: one coordinate, two tokens with keys 0 and a, values 0 and 1, query 0."""
        a = 2.0
        q_BHND = torch.zeros(1, 1, 2, 1, dtype=torch.float64)
        k_BHND = torch.tensor([0.0, a], dtype=torch.float64).reshape(1, 1, 2, 1)
        v_BHND = torch.tensor([0.0, 1.0], dtype=torch.float64).reshape(1, 1, 2, 1)
        step = 0.5
        wanted = (1 / (1 + math.exp(-step * a)) - 1 / (1 + math.exp(step * a))) / (2 * step)
        assert sensitivity(q_BHND, k_BHND, v_BHND).item() == pytest.approx(wanted, rel=1e-12)

    def test_no_gradient_flows_through_it(self) -> None:
        module = made(self.FINITE, layer=1)
        x_BNC, held_BNC = tokens().requires_grad_(), tokens().requires_grad_()
        module(x_BNC).square().sum().backward()
        q, k, v = projections(module, held_BNC)
        held = sensitivity(q, k, v)
        assert not held.requires_grad
        module.get_submodule("proj")(merge_heads(softmax_heads(q * held, k, v))).square().sum().backward()
        assert torch.allclose(present(x_BNC.grad), present(held_BNC.grad), rtol=0, atol=1e-12)

    def test_delta_belongs_to_the_other_estimator(self) -> None:
        with pytest.raises(ValueError, match=r"delta has no effect with estimator finite_differences, got 2\.0"):
            Elliptical(estimator="finite_differences", delta=2.0)

    def test_keys_of_the_other_estimator_are_as_they_were(self) -> None:
        assert key_of(Elliptical()) == "3c231e3519c073fe51054eececc9663e"
        assert key_of(Elliptical(delta=2.0)) == "8fa67cfb6cf74e3e6cf76419b0211f5c"
        assert key_of(self.FINITE) != key_of(Elliptical())


def test_every_declared_residual_has_a_reference() -> None:
    assert set(RESIDUALS) == set(CONNECTIONS) == {declaration.kind for declaration in CONNECTED}


@pytest.mark.parametrize("residual", CONNECTED, ids=str)
def test_a_whole_block_equals_the_slow_reference_to_1e_10(residual: Any) -> None:
    timms = Block(dim=6, num_heads=2, norm_layer=partial(nn.LayerNorm, eps=1e-6))  # type: ignore[arg-type]  # any callable
    block = build_block(residual, parts_of(timms, build_attention(Softmax(), geometry(0))))
    scattered(block.double())
    parameters = {name: value.tolist() for name, value in block.state_dict().items()}
    output_BNC = block(tokens(), tokens(seed=2), ForwardState())
    wanted = [
        block_of_softmax(residual, parameters, y, first, num_heads=2)
        for y, first in zip(tokens().tolist(), tokens(seed=2).tolist(), strict=True)
    ]
    assert (output_BNC - torch.tensor(wanted, dtype=torch.float64)).abs().max() <= 1e-10


def images(seed: int = 3) -> Tensor:
    return torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def model_of(attention: Any) -> nn.Module:
    return scattered(build(Vit(**SMALL, attention=attention)).double()).eval()


def logits_by_hand(model: Any, heads_of: Any) -> Tensor:
    """The whole model, with ``heads_of(layer, q, k, v, values of all layers so far)`` for its attention."""
    x_BNC, values = model._pos_embed(model.patch_embed(images())), []
    for layer, block in enumerate(model.blocks):
        q, k, v = split_heads(block.attn.qkv(block.norm1(x_BNC)), num_heads=3, num_projections=3)
        values.append(v)
        x_BNC = x_BNC + block.attn.proj(merge_heads(heads_of(layer, q, k, v, values)))
        x_BNC = x_BNC + block.mlp(block.norm2(x_BNC))
    logits: Tensor = model.head(model.norm(x_BNC)[:, 0])
    return logits


def softmax_heads(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores: Tensor = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    return scores.softmax(dim=-1) @ v


def interrupt(block: nn.Module, arguments: Any) -> None:
    raise KeyboardInterrupt


class TestInWholeModels:
    def test_neutreno_draws_every_later_layer_towards_the_values_of_the_first(self) -> None:
        def heads_of(layer: int, q: Tensor, k: Tensor, v: Tensor, values: list[Tensor]) -> Tensor:
            return softmax_heads(q, k, v) + 0.6 * (values[0] - v)

        model = model_of(Neutreno())
        assert torch.allclose(model(images()), logits_by_hand(model, heads_of), rtol=0, atol=1e-10)

    def test_elliptical_layers_read_the_values_of_the_layer_before(self) -> None:
        def heads_of(layer: int, q: Tensor, k: Tensor, v: Tensor, values: list[Tensor]) -> Tensor:
            if layer == 0:
                return softmax_heads(q, k, v)
            change = (v - values[layer - 1]).abs().mean(dim=-2, keepdim=True)
            return softmax_heads(q * change / change.amax(dim=-1, keepdim=True), k, v)

        model = model_of(Elliptical())
        assert torch.allclose(model(images()), logits_by_hand(model, heads_of), rtol=0, atol=1e-10)

    @pytest.mark.parametrize("attention", [*NEEDING, Twicing()], ids=lambda declaration: declaration.kind)
    def test_a_pass_leaves_no_trace_on_the_next(self, attention: Declaration) -> None:
        model = model_of(attention)
        alone = model(images())
        model(100 * images(seed=4))
        interruption = model.get_submodule("blocks.2").register_forward_pre_hook(interrupt)
        with pytest.raises(KeyboardInterrupt):
            model(10 * images(seed=5))
        interruption.remove()
        assert torch.equal(model(images()), alone)

    @pytest.mark.parametrize("attention", NEEDING, ids=lambda declaration: declaration.kind)
    def test_values_are_let_go_when_the_pass_is_over(self, attention: Declaration) -> None:
        model, seen = model_of(attention), []

        def remember(block: nn.Module, arguments: Any, output: Tensor) -> None:
            seen.append(weakref.ref(arguments[2].values_of(0)))

        for block in model.get_submodule("blocks").children():
            block.register_forward_hook(remember)
        with torch.no_grad():
            model(images())
        gc.collect()
        assert [reference() for reference in seen] == [None] * 3
