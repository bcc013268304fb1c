"""Laws of asymmetric RPC, scaled, bilateral, ALiBi, AttnScale and RVT attention, and of what bilateral layers keep."""

import copy
import math
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from attention_laws import close
from presence import present
from reference_base import head_projections
from reference_dot import ASYMMETRIC_DECLARATIONS, REFERENCES, asymmetric_pursuits
from reference_rpc import bites, kink_distance
from torch import Tensor, nn

from robench.attention.alibi import Alibi
from robench.attention.alibi_impl import falling_logits
from robench.attention.attnscale import AttnScale
from robench.attention.base import AttentionBase
from robench.attention.bilateral import Bilateral
from robench.attention.bilateral_impl import Kept, sinusoids
from robench.attention.build import build_attention, declaration_at
from robench.attention.geometry import Geometry
from robench.attention.heads import split_heads
from robench.attention.rpc import Rpc
from robench.attention.rpc_asymmetric import RpcAsymmetric
from robench.attention.rvt import Rvt
from robench.attention.scaled import Scaled
from robench.attention.softmax import Softmax
from robench.attention.state import ForwardState
from robench.attention.symmetric import Symmetric
from robench.core.errors import ContractError
from robench.core.identity import key_of, to_plain
from robench.models.build import build
from robench.models.vit import Vit
from robench.testing.attention import tokens

GEOMETRY = Geometry(dim=6, num_heads=2, num_tokens=5, depth=3, layer=0)
SMALL: dict[str, Any] = {"image_size": 8, "patch_size": 4, "num_classes": 5, "depth": 3, "dim": 12, "num_heads": 3}
DEIT_TINY: dict[str, Any] = {
    "image_size": 224, "patch_size": 16, "num_classes": 1000, "depth": 12, "dim": 192, "num_heads": 3
}  # fmt: skip
KEEPING = [Bilateral(), Bilateral(positions="sinusoid")]


def made(declaration: AttentionBase, *, seed: int = 0, geometry: Geometry = GEOMETRY) -> nn.Module:
    """A layer in float64 whose common parameters are the same for all kinds; its own are scattered too."""
    module = build_attention(declaration, geometry).double()
    generator = torch.Generator().manual_seed(seed)
    named = sorted(module.named_parameters(), key=lambda pair: not pair[0].startswith(("qkv", "proj")))
    with torch.no_grad():
        for _, parameter in named:
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return module


def with_positions(positions_NC: Tensor | None = None) -> ForwardState:
    return ForwardState(positions_NC=tokens(seed=11)[0] if positions_NC is None else positions_NC)


def filled(module: nn.Module, name: str, value: float) -> nn.Module:
    with torch.no_grad():
        module.get_parameter(name).fill_(value)
    return module


def parts(module: nn.Module, x_BNC: Tensor) -> tuple[Tensor, ...]:
    """Queries, keys and values, each (B, N, C)."""
    return tuple(module.get_submodule("qkv")(x_BNC).chunk(3, dim=-1))


def mean_output(module: nn.Module, x_BNC: Tensor) -> Tensor:
    """What comes out where all tokens weigh the same."""
    mean_B1C = parts(module, x_BNC)[2].mean(dim=1, keepdim=True)
    output_BNC: Tensor = module.get_submodule("proj")(mean_B1C.expand_as(x_BNC))
    return output_BNC


def differ(one: Tensor, other: Tensor) -> bool:
    return bool((one - other).abs().max() > 1e-3)


def softmax_output() -> Tensor:
    output_BNC: Tensor = made(Softmax())(tokens())
    return output_BNC


class TestRpcAsymmetric:
    def test_the_queries_are_not_cleaned(self) -> None:
        """Where queries equal keys, cleaning both, as ``rpc`` does, gives something else than cleaning the keys."""
        asymmetric = made(RpcAsymmetric(num_iterations=1, sparsity=0.5))
        symmetric = build_attention(Rpc(num_iterations=1, sparsity=0.5), GEOMETRY).double()
        with torch.no_grad():
            for name in ("qkv.weight", "qkv.bias"):
                parameter = asymmetric.get_parameter(name)
                parameter[:6] = parameter[6:12]
            state = asymmetric.state_dict()
            symmetric.load_state_dict({key: value[6:] if "qkv" in key else value for key, value in state.items()})
        assert differ(asymmetric(tokens()), symmetric(tokens()))

    @pytest.mark.parametrize("formula", ["paper", "released"])
    def test_the_thresholds_of_the_references_bite(self, formula: str) -> None:
        declarations = [each for each in ASYMMETRIC_DECLARATIONS if each.formula == formula]
        bites([step for declaration in declarations for step in self.steps(declaration)])

    def test_gradients_are_checked_away_from_kinks(self) -> None:
        geometry = Geometry(dim=4, num_heads=2, num_tokens=3, depth=1, layer=0)
        for declaration, head in product(ASYMMETRIC_DECLARATIONS, range(2)):
            for step in self.steps(declaration, head=head, geometry=geometry, scale=1.4, seed=3):
                assert kink_distance(step) > 1e-4

    def steps(
        self,
        declaration: RpcAsymmetric,
        head: int = 0,
        geometry: Geometry = GEOMETRY,
        scale: float = 1.0,
        seed: int = 1,
    ) -> list[Any]:
        state = made(declaration, geometry=geometry).state_dict()
        x_NC = tokens(batch=1, num_tokens=geometry.num_tokens, dim=geometry.dim, seed=seed)[0].tolist()
        weight, bias = (scale * state["qkv.weight"]).tolist(), (scale * state["qkv.bias"]).tolist()
        projections = head_projections(REFERENCES["rpc-asymmetric"], x_NC, weight, bias, 2, head)
        return asymmetric_pursuits(declaration, projections, full_width=geometry.dim)

    @pytest.mark.parametrize("declaration", ASYMMETRIC_DECLARATIONS, ids=str)
    def test_keys_that_are_all_zero_give_the_mean_value_and_finite_gradients(self, declaration: RpcAsymmetric) -> None:
        module = made(declaration).float()
        with torch.no_grad():
            for name in ("qkv.weight", "qkv.bias"):
                module.get_parameter(name)[6:12] = 0
        x_BNC = tokens().float().requires_grad_()
        output_BNC = module(x_BNC)
        output_BNC.square().sum().backward()
        assert close(output_BNC, mean_output(module, x_BNC), 1e-5)
        assert present(x_BNC.grad).isfinite().all()

    def test_the_first_layer_alone_cleans_its_keys_unless_told_otherwise(self) -> None:
        kinds = [type(declaration_at(RpcAsymmetric(), layer)) for layer in range(3)]
        assert kinds == [RpcAsymmetric, Softmax, Softmax]
        assert declaration_at(RpcAsymmetric(elsewhere="symmetric"), 1) == Symmetric()


@pytest.mark.parametrize(
    ("declaration", "name"),
    [(Scaled(parameterization="matrix"), "s"), (Scaled(parameterization="scalar"), "s"), (AttnScale(), "lamb")],
    ids=str,
)
def test_scaled_attention_starts_as_softmax_attention(declaration: AttentionBase, name: str) -> None:
    assert not build_attention(declaration, GEOMETRY).get_parameter(name).any()
    assert close(filled(made(declaration), name, 0.0)(tokens()), softmax_output())


class TestBilateral:
    def test_without_positions_it_is_softmax_attention(self) -> None:
        assert close(made(Bilateral(positions="none"))(tokens()), softmax_output())

    def test_with_the_distances_of_alibi_it_is_alibi(self) -> None:
        assert close(made(Bilateral(positions="alibi"))(tokens()), made(Alibi())(tokens()))

    def test_gradients_flow_into_the_learned_positions(self) -> None:
        module, positions_NC = made(Bilateral()).requires_grad_(False), tokens(seed=11)[0].requires_grad_()

        def output(positions_NC: Tensor) -> Tensor:
            output_BNC: Tensor = module(tokens(), with_positions(positions_NC))
            return output_BNC

        for training in (True, False):
            module.train(training)
            assert torch.autograd.gradcheck(output, (positions_NC,))

    @pytest.mark.parametrize("state", [None, ForwardState()], ids=["no state", "no positions"])
    def test_learned_positions_that_nobody_hands_on_are_asked_for(self, state: ForwardState | None) -> None:
        with pytest.raises(ContractError, match=r"learned positions got none: .* choose other positions"):
            made(Bilateral())(tokens(), state)

    @pytest.mark.parametrize("positions", ["alibi", "none"])
    def test_a_bandwidth_that_nothing_is_divided_by_is_refused(self, positions: Any) -> None:
        with pytest.raises(ValueError, match=f"position_bandwidth has no effect with positions {positions}, got 2.0"):
            Bilateral(positions=positions, position_bandwidth=2.0)
        assert to_plain(Bilateral(positions=positions)) == {"kind": "bilateral", "positions": positions}


def calls_of(module: nn.Module, name: str = "qkv") -> list[int]:
    """The number of rows of each later call of a part, in a list that grows."""
    calls: list[int] = []
    module.get_submodule(name).register_forward_hook(lambda part, inputs, output: calls.append(len(inputs[0])))
    return calls


def changes() -> Iterator[tuple[str, Callable[[nn.Module], object]]]:
    """Ways in which weights change between two passes, training mode never entered."""

    def in_place(module: nn.Module) -> None:
        with torch.no_grad():
            module.get_parameter("qkv.weight")[0, 0] += 1.0

    def of_bias(module: nn.Module) -> None:
        with torch.no_grad():
            module.get_parameter("qkv.bias")[:6] += 1.0

    def loaded(module: nn.Module) -> None:
        module.load_state_dict(made(Bilateral(), seed=5).state_dict())

    def assigned(module: nn.Module) -> None:
        module.load_state_dict(made(Bilateral(), seed=5).state_dict(), assign=True)

    def new_data(module: nn.Module) -> None:
        parameter = module.get_parameter("qkv.weight")
        parameter.data = 2 * parameter.data

    def rounded(module: nn.Module) -> None:
        module.bfloat16().double()

    def optimised(module: nn.Module) -> None:
        parameter = module.get_parameter("qkv.weight")
        parameter.grad = torch.ones_like(parameter)
        torch.optim.SGD([parameter], lr=0.1).step()
        parameter.grad = None

    for change in (in_place, of_bias, loaded, assigned, new_data, rounded, optimised):
        yield change.__name__, change


@pytest.mark.parametrize("declaration", KEEPING, ids=str)
class TestWhatBilateralAttentionKeeps:
    """Outside training mode, logits of positions are kept for as long as nothing that they depend on changes."""

    def kept(self, declaration: Bilateral) -> nn.Module:
        module = made(declaration).requires_grad_(False).eval()
        module(tokens(), with_positions())
        return module

    def test_positions_are_projected_once_and_never_again(self, declaration: Bilateral) -> None:
        module, state = made(declaration).requires_grad_(False).eval(), with_positions()
        calls = calls_of(module)
        outputs = [module(tokens(batch=3), state) for _ in range(3)]
        assert calls == [3, 1, 3, 3]
        assert all(torch.equal(outputs[0], other) for other in outputs)

    def test_training_projects_them_in_every_pass_once_for_all_examples(self, declaration: Bilateral) -> None:
        module = made(declaration).requires_grad_(False).train()
        calls = calls_of(module)
        for _ in range(2):
            module(tokens(batch=4), with_positions())
        assert calls == [4, 1, 4, 1]

    @pytest.mark.parametrize(("name", "change"), list(changes()))
    def test_a_change_of_weights_is_seen(
        self, declaration: Bilateral, name: str, change: Callable[[nn.Module], object]
    ) -> None:
        module, fresh, state = self.kept(declaration), made(declaration).requires_grad_(False), with_positions()
        before_BNC = module(tokens(), state)
        change(module)
        fresh.load_state_dict(module.state_dict())
        assert torch.equal(module(tokens(), state), fresh.train()(tokens(), state))
        assert not torch.equal(module(tokens(), state), before_BNC)

    def test_a_write_that_torch_does_not_count_is_seen_after_a_switch_of_modes(self, declaration: Bilateral) -> None:
        module, fresh = self.kept(declaration), made(declaration)
        for one in (module, fresh):
            one.get_parameter("qkv.weight").data[0, 0] += 1.0
        assert close(module.train().eval()(tokens(), with_positions()), fresh(tokens(), with_positions()))

    def test_weights_handed_in_for_one_call_are_used(self, declaration: Bilateral) -> None:
        module, other = self.kept(declaration), made(declaration, seed=5).requires_grad_(False)
        call = (tokens(), with_positions())
        assert torch.equal(torch.func.functional_call(module, dict(other.named_parameters()), call), other(*call))
        assert torch.equal(module(*call), made(declaration)(*call))

    def test_another_number_of_tokens_is_seen(self, declaration: Bilateral) -> None:
        module = self.kept(declaration)
        state = with_positions(tokens(batch=1, num_tokens=7)[0])
        x_BNC = tokens(num_tokens=7)
        assert torch.equal(module(x_BNC, state), made(declaration)(x_BNC, state))

    def test_a_lower_precision_of_one_pass_does_not_stay(self, declaration: Bilateral) -> None:
        module, state = made(declaration).float().requires_grad_(False).eval(), with_positions(tokens()[0].float())
        wanted_BNC = module(tokens().float(), state)
        module.train().eval()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            lower_BNC = module(tokens().float(), state)
        assert lower_BNC.dtype == torch.bfloat16
        assert torch.equal(module(tokens().float(), state), wanted_BNC)

    def test_wanted_gradients_of_weights_are_those_of_training_mode(self, declaration: Bilateral) -> None:
        gradients = []
        for module in (self.kept(declaration).requires_grad_(True), made(declaration).train()):
            for _ in range(2):
                module(tokens(), with_positions()).square().sum().backward()
            gradients.append(present(module.get_parameter("qkv.weight").grad))
        assert torch.equal(*gradients)

    def test_what_was_kept_in_inference_mode_serves_under_gradients_later(self, declaration: Bilateral) -> None:
        module, state = made(declaration).requires_grad_(False).eval(), with_positions()
        calls = calls_of(module)
        with torch.inference_mode():
            module(tokens(), state)
        x_BNC = tokens().requires_grad_()
        module(x_BNC, state).square().sum().backward()
        assert calls == [2, 1, 2]
        assert x_BNC.grad is not None


class TestNewPositions:
    def test_they_are_seen_whether_they_are_written_over_or_others(self) -> None:
        module, state = made(Bilateral()).requires_grad_(False).eval(), with_positions()
        module(tokens(), state)
        other = with_positions(tokens(seed=12)[0])
        assert torch.equal(module(tokens(), other), made(Bilateral())(tokens(), other))
        present(other.positions_NC).add_(1.0)
        assert torch.equal(module(tokens(), other), made(Bilateral())(tokens(), other))


class TestKept:
    def test_memory_is_held_so_that_a_new_tensor_cannot_be_mistaken_for_an_old_one(self) -> None:
        kept, results = Kept(), []
        for value in range(20):
            parameter = torch.full((1000,), float(value))
            results.append(kept.get((parameter,), None, parameter.clone)[0].item())
            del parameter
        assert results == list(range(20))

    def test_what_else_decides_the_result_is_part_of_the_question(self) -> None:
        kept, parameter = Kept(), torch.ones(1)
        answers = [kept.get((parameter,), setting, partial(torch.tensor, setting)) for setting in (1, 1, 2)]
        assert [answer.item() for answer in answers] == [1, 1, 2]
        assert answers[0] is answers[1]

    def test_copies_and_pickles_are_empty(self) -> None:
        kept, parameter = Kept(), torch.ones(3)
        kept.get((parameter,), None, parameter.clone)
        for other in (copy.deepcopy(kept), pickle.loads(pickle.dumps(kept))):
            assert vars(other) == vars(Kept())


def multiply_adds(model: nn.Module) -> float:
    """Giga multiply-adds of linear layers and convolutions in a pass over one image; products of tokens not counted."""
    count = 0

    def add(part: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal count
        count += part.get_parameter("weight")[0].numel() * output.numel()

    hooks = [part.register_forward_hook(add) for part in model.modules() if isinstance(part, nn.Linear | nn.Conv2d)]
    model(torch.zeros(1, 3, 224, 224, device="meta"))
    for hook in hooks:
        hook.remove()
    return count / 1e9


class TestBilateralModel:
    def test_the_backbone_hands_on_its_own_positions_class_token_included(self) -> None:
        model = build(Vit(**SMALL, attention=Bilateral()))
        states: list[ForwardState] = []
        for layer in range(3):
            part = model.get_submodule(f"blocks.{layer}.attn")
            part.register_forward_pre_hook(lambda part, inputs: states.append(inputs[1]))
        model(torch.zeros(2, 3, 8, 8))
        for positions_NC in (present(state.positions_NC) for state in states):
            assert positions_NC.shape == (5, 12)
            assert positions_NC.requires_grad
            assert torch.equal(positions_NC, model.get_parameter("pos_embed")[0])
        assert len(states) == 3

    def test_changed_positions_of_a_whole_model_are_seen_outside_training(self) -> None:
        model = build(Vit(**SMALL, attention=Bilateral())).double().eval().requires_grad_(False)
        images = tokens(batch=6, num_tokens=8, dim=8).reshape(2, 3, 8, 8)
        model(images)
        with torch.no_grad():
            model.get_parameter("pos_embed").add_(1.0)
        assert torch.equal(model(images), copy.deepcopy(model).train()(images))

    def test_its_multiply_adds_are_those_of_table_5_of_the_paper(self) -> None:
        with torch.device("meta"):
            plain, bilateral = (build(Vit(**DEIT_TINY, attention=kind)) for kind in (Softmax(), Bilateral()))
        bilateral.requires_grad_(False)
        assert multiply_adds(plain) == pytest.approx(1.08, abs=0.0075)
        assert multiply_adds(bilateral.train()) == pytest.approx(1.33, abs=0.0075)
        multiply_adds(bilateral.eval())
        assert multiply_adds(bilateral) == multiply_adds(plain)


class TestAlibi:
    def test_eight_heads_have_the_slopes_of_the_paper(self) -> None:
        logits_HNN = falling_logits(8, 3, like=torch.zeros((), dtype=torch.float64))
        assert torch.equal(-logits_HNN[:, 0, 1], torch.tensor([2.0**-power for power in range(1, 9)]).double())
        assert torch.equal(logits_HNN[:, 0, 2], 2 * logits_HNN[:, 0, 1])

    @pytest.mark.parametrize("num_heads", [1, 3, 4, 12])
    def test_slopes_are_a_geometric_sequence_that_ends_at_2_to_the_minus_8(self, num_heads: int) -> None:
        slopes_H = -falling_logits(num_heads, 2, like=torch.zeros((), dtype=torch.float64))[:, 0, 1]
        assert slopes_H[-1] == 2**-8
        assert torch.allclose(slopes_H[1:] / slopes_H[:-1], slopes_H[:1].expand(num_heads - 1))


class TestSinusoids:
    def test_places_on_a_line_turn_each_pair_of_columns_by_one_angle(self) -> None:
        """So that products of two vectors know their distance alone: p_i . p_j = sum_t cos((i - j) / T^(2t/C))."""
        vectors_NC = sinusoids(6, 8, like=torch.zeros((), dtype=torch.float64))
        for i, j in product(range(6), repeat=2):
            wanted = sum(math.cos((i - j) / 10_000 ** (2 * t / 8)) for t in range(4))
            assert (vectors_NC[i] @ vectors_NC[j]).item() == pytest.approx(wanted, abs=1e-12)


class TestAttnScale:
    def test_what_differs_from_the_mean_grows_by_one_plus_lambda(self) -> None:
        module = filled(made(AttnScale()), "lamb", 1.5)
        mean_BNC = mean_output(module, tokens())
        assert close(module(tokens()) - mean_BNC, 2.5 * (softmax_output() - mean_BNC))


class TestRvt:
    def test_it_starts_as_softmax_attention_of_half_the_logits(self) -> None:
        assert not build_attention(Rvt(), GEOMETRY).get_parameter("att_mask").any()
        softmax = made(Softmax())
        with torch.no_grad():
            for name in ("qkv.weight", "qkv.bias"):
                softmax.get_parameter(name)[:6] /= 2
        assert close(filled(made(Rvt()), "att_mask", 0.0)(tokens()), softmax(tokens()))

    def test_the_released_form_has_keys_of_unit_length(self) -> None:
        """As the printed form has where the keys that it projects are of unit length already."""
        released, plain = made(Rvt(formula="released")), made(Rvt())
        q_BHND, k_BHND, v_BHND = split_heads(plain.get_submodule("qkv")(tokens()), num_heads=2, num_projections=3)
        unit_BHND = k_BHND / k_BHND.norm(dim=-1, keepdim=True)
        open_BHNN = (q_BHND @ unit_BHND.transpose(-2, -1)) / 3**0.5 * plain.get_parameter("att_mask").sigmoid()
        mixed_BNC = (open_BHNN.softmax(dim=-1) @ v_BHND).transpose(1, 2).reshape(2, 5, 6)
        assert close(released(tokens()), plain.get_submodule("proj")(mixed_BNC))
        assert differ(released(tokens()), plain(tokens()))

    def test_both_forms_have_one_state_dict_and_the_printed_one_the_key_that_it_had(self) -> None:
        paper, released = made(Rvt()).state_dict(), made(Rvt(formula="released")).state_dict()
        assert list(paper) == list(released)
        assert all(torch.equal(value, released[name]) for name, value in paper.items())
        assert key_of(Rvt()) == "59a36507a43f5a9491e4db94681b7142"
        assert key_of(Rvt(formula="released")) != key_of(Rvt())
