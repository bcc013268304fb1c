"""What every attention mechanism promises, run over the whole registry, and the laws of single mechanisms."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from attention_references import REFERENCES
from attention_settings import one_per_form, one_per_kind
from attention_settings import title as title
from presence import present
from reference_base import Reference, head_projections, layer
from reference_rpc import RPC_DECLARATIONS, Pursuit, bites, kink_distance, pursuits
from timm.layers.attention import Attention
from timm.models.vision_transformer import Block
from torch import Tensor, nn

from robench.attention import ATTENTIONS
from robench.attention.base import AttentionBase
from robench.attention.build import build_attention, declaration_at
from robench.attention.geometry import Geometry
from robench.attention.heads import merge_heads
from robench.attention.nystrom import Nystrom
from robench.attention.rpc import Rpc
from robench.attention.softmax import Softmax
from robench.attention.state import ForwardState
from robench.attention.symmetric import Symmetric
from robench.core.declared import Declaration
from robench.models.transformer import PlainResidual
from robench.models.transformer_impl import PlainBlock, parts_of
from robench.testing.attention import (
    ATTENTION_CHECKS,
    StandaloneLayer,
    earlier_values,
    layer_of,
    positions,
    tokens,
    values_and_gradients_are_finite,
)
from robench.testing.expectations import DECLARATION_CHECKS

SPREADS = (0.2, 0.5)
GEOMETRY = Geometry(dim=6, num_heads=2, num_tokens=5, depth=3, layer=0)
DECLARATIONS = [declaration for reference in REFERENCES.values() for declaration in reference.declarations]
COUPLED = [Nystrom(num_landmarks=count, formula="released") for count in (2, 3)]

WITHOUT_COST = [Rpc(sparsity=0.0, formula="paper"), Rpc(sparsity=0.0, formula="released")]


def reference_of(declaration: Declaration) -> Reference:
    return REFERENCES[declaration.kind].at(declaration)


def geometry_of(declaration: Declaration, geometry: Geometry = GEOMETRY) -> Geometry:
    """The geometry of the layer in which the declared mechanism has the earlier layers that it needs."""
    own_layer = reference_of(declaration).own_layer
    return replace(geometry, layer=own_layer, depth=max(geometry.depth, own_layer + 1))


def needs(declaration: Declaration) -> tuple[int, ...]:
    """Earlier layers whose values it reads: it is given no others."""
    return reference_of(declaration).needs_layers if declaration.kind in REFERENCES else ()


def made(
    declaration: AttentionBase, *, seed: int = 0, spread: float = 0.5, geometry: Geometry = GEOMETRY
) -> StandaloneLayer:
    geometry = geometry_of(declaration, geometry)
    return layer_of(declaration, geometry, seed=seed, spread=spread, earlier=needs(declaration))


class Stateless(nn.Module):
    """A layer with a state of its own in the place of one that is given the block's."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x_BNC: Tensor, state: ForwardState) -> Tensor:
        mixed_BNC: Tensor = self.module(x_BNC)
        return mixed_BNC


def gradients_are_finite(module: nn.Module, without: tuple[str, ...] = ()) -> bool:
    gradients = [parameter.grad for name, parameter in module.named_parameters() if not name.endswith(without)]
    return all(gradient is not None and bool(gradient.isfinite().all()) for gradient in gradients)


def reference_output(declaration: Declaration, module: nn.Module, x_BNC: Tensor) -> Tensor:
    reference, num_heads = reference_of(declaration), GEOMETRY.num_heads
    parameters = {name: value.tolist() for name, value in module.state_dict().items()}
    earlier = {place: values.tolist() for place, values in earlier_values(x_BNC, reference.needs_layers, 2).items()}
    places = positions(*x_BNC.shape[1:]).tolist()
    output = layer(reference, declaration, x_BNC.tolist(), parameters, num_heads, earlier, places)
    return torch.tensor(output, dtype=torch.float64)


def test_every_declared_attention_has_an_implementation_and_a_reference() -> None:
    lacking = [kind for kind in ATTENTIONS if kind not in REFERENCES]
    assert lacking == [], "write REFERENCES = {kind: Reference(...)} in a new file tests/contract/reference_KIND.py"
    assert set(ATTENTIONS) == set(REFERENCES)
    assert all(callable(declared.implemented()) for declared in ATTENTIONS.values())
    for kind, reference in REFERENCES.items():
        assert {declaration.kind for declaration in reference.declarations} == {kind}


def test_the_coupled_settings_are_these_and_the_contract_holds_them() -> None:
    """A mechanism that is coupled is a decision, not a slip: it is listed here too."""
    assert all(issubclass(declared, AttentionBase) for declared in ATTENTIONS.values())
    coupled = [found for found in DECLARATIONS if isinstance(found, AttentionBase) and found.is_coupled]
    assert coupled == COUPLED


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the settings at which laws are checked; tests/slow/test_attention_sweep.py has all."""
    if metafunc.cls is TestEveryMechanism:
        is_reference = "spread" in metafunc.fixturenames
        settings = one_per_form(DECLARATIONS) if is_reference else one_per_kind(DECLARATIONS)
        metafunc.parametrize("declaration", settings, ids=title)
        if is_reference:
            metafunc.parametrize("spread", SPREADS[-1:])


class TestEveryMechanism:
    def test_it_equals_the_slow_reference_to_1e_10(self, declaration: Declaration, spread: float) -> None:
        module = made(declaration, spread=spread)
        x_BNC = tokens()
        assert (module(x_BNC) - reference_output(declaration, module, x_BNC)).abs().max() <= 1e-10

    @pytest.mark.parametrize("check", ATTENTION_CHECKS, ids=lambda check: check.__name__)
    def test_it_keeps_what_every_attention_promises(self, declaration: AttentionBase, check: Any) -> None:
        check(declaration, geometry_of(declaration))

    def test_float32_stays_near_float64(self, declaration: AttentionBase) -> None:
        double, single = made(declaration, spread=0.3), made(declaration, spread=0.3).float()
        assert (double(tokens()) - single(tokens().float())).abs().max() < 1e-3

    def test_its_shown_heads_are_those_of_its_output(self, declaration: AttentionBase) -> None:
        module, x_BNC = made(declaration).eval(), tokens()
        shown = module.layer.seen(x_BNC, module.state_for(x_BNC))
        assert torch.equal(module.layer.proj(merge_heads(shown.heads_BHND)), module(x_BNC))

    def test_it_keeps_what_every_declaration_promises(self, declaration: AttentionBase) -> None:
        for check in DECLARATION_CHECKS:
            check(declaration)

    def test_one_layer_takes_other_numbers_of_tokens(self, declaration: AttentionBase) -> None:
        module = StandaloneLayer(declaration, geometry_of(declaration), needs(declaration))
        any_length = reference_of(declaration).takes_any_length
        for batch, num_tokens in [(1, 1), (3, 5), (2, 7)] if any_length else [(1, 5), (3, 5)]:
            x_BNC = tokens(batch=batch, num_tokens=num_tokens).float()
            assert module(x_BNC).shape == x_BNC.shape
            assert module(x_BNC).dtype == torch.float32

    def test_its_parameters_are_timms_and_those_that_are_documented(self, declaration: Declaration) -> None:
        reference, geometry = reference_of(declaration), geometry_of(declaration)
        rows = len(reference.projections) * geometry.dim
        state = build_attention(declaration, geometry).state_dict()
        name = reference.projection_name
        wanted = {f"{name}.weight": (rows, 6), f"{name}.bias": (rows,), "proj.weight": (6, 6), "proj.bias": (6,)}
        wanted |= reference.more_shapes(geometry)
        assert {name: tuple(value.shape) for name, value in state.items()} == wanted

    def test_permuted_tokens_give_permuted_outputs_unless_places_count(self, declaration: Declaration) -> None:
        module, x_BNC = made(declaration), tokens()
        order = torch.tensor([3, 0, 4, 1, 2])
        difference = (module(x_BNC[:, order]) - module(x_BNC)[:, order]).abs().max()
        assert (difference <= 1e-10) == reference_of(declaration).treats_tokens_alike

    def test_its_gradients_agree_with_finite_differences_unless_it_stops_them(self, declaration: Declaration) -> None:
        geometry = Geometry(dim=4, num_heads=2, num_tokens=3, depth=1, layer=0)
        module = made(declaration, spread=0.7, geometry=geometry)
        names = [name for name, _ in module.named_parameters()]
        x_BNC = tokens(batch=1, num_tokens=3, dim=4, seed=3).requires_grad_()

        def output(x: Tensor, *parameters: Tensor) -> Tensor:
            called: Tensor = torch.func.functional_call(module, dict(zip(names, parameters, strict=True)), (x,))
            return called

        parameters = [value.detach().clone().requires_grad_() for value in module.parameters()]
        stops = reference_of(declaration).stops_gradients
        inputs = (x_BNC, *parameters)
        assert torch.autograd.gradcheck(output, inputs, eps=1e-6, atol=1e-6, raise_exception=not stops) != stops

    def test_every_parameter_gets_a_gradient_but_those_of_losses(self, declaration: Declaration) -> None:
        module = made(declaration)
        module(tokens()).square().sum().backward()
        for name, parameter in module.named_parameters():
            assert (parameter.grad is None) == name.endswith(reference_of(declaration).of_losses), name
            assert parameter.grad is None or parameter.grad.abs().max() > 0, name

    def test_float32_outputs_and_gradients_are_finite_where_projections_are_zero(
        self, declaration: AttentionBase
    ) -> None:
        reference = reference_of(declaration)
        zeroed = f"{reference.projection_name}.bias"
        assert zeroed in made(declaration).state_dict()
        values_and_gradients_are_finite(declaration, geometry_of(declaration), zeroed)

    def test_it_is_deterministic_and_the_same_in_training_mode(self, declaration: Declaration) -> None:
        module, x_BNC = made(declaration), tokens()
        assert torch.equal(module.train()(x_BNC), module.eval()(x_BNC))

    def test_it_stands_in_a_block(self, declaration: Declaration) -> None:
        module = made(declaration)
        block = PlainBlock(PlainResidual(), parts_of(Block(dim=6, num_heads=2).double(), Stateless(module)))
        x_BNC = tokens()
        mixed_BNC = x_BNC + module(block.norm1(x_BNC))
        assert torch.equal(block(x_BNC, x_BNC, ForwardState()), mixed_BNC + block.mlp(block.norm2(mixed_BNC)))


class TestSoftmax:
    def test_it_agrees_with_timms_unfused_attention_bit_by_bit(self) -> None:
        timms = Attention(dim=6, num_heads=2, qkv_bias=True).double()
        timms.fused_attn = False  # type: ignore[misc]  # final for TorchScript alone
        ours = made(Softmax())
        timms.load_state_dict(ours.state_dict())
        assert torch.equal(ours(tokens()), timms(tokens()))


class TestSymmetric:
    def test_it_is_softmax_attention_whose_queries_are_the_keys(self) -> None:
        symmetric, softmax = made(Symmetric()), made(Softmax())
        with torch.no_grad():
            softmax.get_submodule("proj").load_state_dict(symmetric.get_submodule("proj").state_dict())
            for name in ("qkv.weight", "qkv.bias"):
                theirs = symmetric.get_parameter(name)
                softmax.get_parameter(name).copy_(torch.cat([theirs[:6], theirs]))
        assert torch.allclose(symmetric(tokens()), softmax(tokens()), rtol=0, atol=1e-12)


def rpc(declaration: Rpc, symmetric_state: dict[str, Tensor]) -> nn.Module:
    module = StandaloneLayer(declaration, GEOMETRY).double()
    module.load_state_dict(symmetric_state)
    return module


class TestRpc:
    @pytest.mark.parametrize("formula", ["paper", "released"])
    def test_the_thresholds_of_these_tests_bite(self, formula: str) -> None:
        declarations = [each for each in RPC_DECLARATIONS if each.formula == formula]
        settings = product(declarations, SPREADS)
        bites([step for each, spread in settings for step in self.steps(made(each, spread=spread), each, tokens()[0])])

    def test_gradients_are_checked_away_from_kinks(self) -> None:
        geometry = Geometry(dim=4, num_heads=2, num_tokens=3, depth=1, layer=0)
        x_NC = tokens(batch=1, num_tokens=3, dim=4, seed=3)[0]
        for declaration, head in product(RPC_DECLARATIONS, range(2)):
            module = made(declaration, spread=0.7, geometry=geometry)
            assert min(kink_distance(step) for step in self.steps(module, declaration, x_NC, head)) > 1e-4

    def steps(self, module: nn.Module, declaration: Rpc, x_NC: Tensor, head: int = 0) -> list[Pursuit]:
        weight, bias = (module.get_parameter(f"qkv.{name}").tolist() for name in ("weight", "bias"))
        projections = head_projections(REFERENCES["rpc"], x_NC.tolist(), weight, bias, 2, head)
        return pursuits(declaration, projections, full_width=x_NC.shape[-1])

    @pytest.mark.parametrize("declaration", [*RPC_DECLARATIONS, *WITHOUT_COST], ids=title)
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_keys_that_are_all_zero_give_the_mean_value_and_finite_gradients(
        self, declaration: Rpc, dtype: torch.dtype
    ) -> None:
        module = made(declaration).to(dtype)
        with torch.no_grad():
            module.get_parameter("qkv.weight")[:6] = 0
            module.get_parameter("qkv.bias")[:6] = 0
        x_BNC = tokens().to(dtype).requires_grad_()
        output_BNC = module(x_BNC)
        output_BNC.square().sum().backward()
        mean_BNC = module.get_submodule("qkv")(x_BNC)[..., 6:].mean(dim=1, keepdim=True).expand(-1, 5, -1)
        assert torch.allclose(
            output_BNC, module.get_submodule("proj")(mean_BNC), rtol=0, atol=100 * torch.finfo(dtype).eps
        )
        assert present(x_BNC.grad).isfinite().all()
        assert gradients_are_finite(module)


class TestBuildAttention:
    def test_layers_that_are_not_listed_get_the_mechanism_for_elsewhere(self) -> None:
        for elsewhere, wanted in [("symmetric", Symmetric), ("softmax", Softmax)]:
            declaration = Rpc(layers=(0, 2), elsewhere=elsewhere)  # type: ignore[arg-type]  # both are literals
            kinds = [type(declaration_at(declaration, place)) for place in range(4)]
            assert kinds == [Rpc, wanted, Rpc, wanted]

    def test_the_layer_of_the_geometry_decides(self) -> None:
        declaration = Rpc(layers=(1,), elsewhere="softmax")
        rows = []
        for place in range(3):
            module = build_attention(declaration, Geometry(dim=4, num_heads=1, num_tokens=2, depth=3, layer=place))
            rows.append(len(module.get_parameter("qkv.weight")))
        assert rows == [12, 8, 12]

    def test_initial_weights_come_from_torchs_global_generator(self) -> None:
        with torch.random.fork_rng():
            torch.manual_seed(7)
            first, second = (build_attention(Symmetric(), GEOMETRY).get_parameter("qkv.weight") for _ in range(2))
            torch.manual_seed(7)
            again = build_attention(Symmetric(), GEOMETRY).get_parameter("qkv.weight")
        assert torch.equal(first, again)
        assert not torch.equal(first, second)
