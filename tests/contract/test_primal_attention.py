"""Laws of Primal-Attention: its dual form, where its KSVD loss vanishes, and which tokens make its directions."""

from dataclasses import replace

import pytest
import torch
from attention_settings import title
from presence import present
from reference_base import Situation, head_projections
from reference_primal import EVERY_SETTING, PRIMAL_DECLARATIONS, head_scores, printed_loss, released_loss
from test_attention_contract import GEOMETRY, gradients_are_finite, made, tokens
from torch import Tensor, nn
from torch.nn.functional import normalize

from robench.attention.base import Formula
from robench.attention.build import build_attention
from robench.attention.geometry import Geometry
from robench.attention.heads import split_heads
from robench.attention.primal import Primal
from robench.attention.primal_impl import PrimalAttention, evenly_spaced
from robench.attention.state import ForwardState

FORMULAS: tuple[Formula, ...] = ("paper", "released")
CPU = torch.device("cpu")
# Directions made of all five tokens, of four, of one and of none.
SAMPLINGS = [
    Primal(num_directions=2),
    Primal(num_directions=2, rank_multiplier=2),
    Primal(num_directions=1, rank_multiplier=1),
    Primal(num_directions=2, data_dependent=False),
]


def primal(declaration: Primal, *, spread: float = 0.5, geometry: Geometry = GEOMETRY) -> PrimalAttention:
    module = made(declaration, spread=spread, geometry=geometry).get_submodule("")
    assert isinstance(module, PrimalAttention)
    return module


def losses_of(module: nn.Module, x_BNC: Tensor) -> Tensor:
    """What a layer adds to the losses of a state that asks for them, (B,)."""
    state = ForwardState(losses_B=[])
    module(x_BNC, state)
    (loss_B,) = present(state.losses_B)
    return loss_B


def unit_queries_and_keys(module: PrimalAttention, x_BNC: Tensor) -> tuple[Tensor, Tensor]:
    """phi(q) and phi(k) of every head, (B, H, N, D)."""
    q_BHND, k_BHND = split_heads(module.qk(x_BNC), 2, num_projections=2)
    return normalize(q_BHND, dim=-1), normalize(k_BHND, dim=-1)


def features(module: PrimalAttention, x_BNC: Tensor) -> tuple[Tensor, Tensor]:
    """F phi(q) and F phi(k) of every head, (B, H, N, M)."""
    q_BHND, k_BHND = unit_queries_and_keys(module, x_BNC)
    if not module.data_dependent:
        return q_BHND, k_BHND
    chosen_BMC = x_BNC[:, evenly_spaced(module.we.shape[1], x_BNC.shape[1], CPU)]
    (chosen_BHMD,) = split_heads(chosen_BMC, 2, num_projections=1)
    return q_BHND @ chosen_BHMD.mT, k_BHND @ chosen_BHMD.mT


def scores(module: PrimalAttention, x_BNC: Tensor) -> tuple[Tensor, Tensor]:
    """Scores e and r, (B, H, N, S)."""
    q_BHND, k_BHND = unit_queries_and_keys(module, x_BNC)
    return q_BHND @ module.projection(module.we, x_BNC), k_BHND @ module.projection(module.wr, x_BNC)


class TestDuality:
    @pytest.mark.parametrize("declaration", SAMPLINGS, ids=title)
    def test_it_is_kernel_attention_over_the_values_that_its_weights_stand_for(self, declaration: Primal) -> None:
        module, x_BNC = primal(declaration), tokens(batch=1)
        of_queries_BHNM, of_keys_BHNM = features(module, x_BNC)
        kernel_BHNN = of_queries_BHNM @ of_keys_BHNM.mT
        generator = torch.Generator().manual_seed(4)
        shape = (2, 5, declaration.num_directions)
        of_keys_HNS, of_queries_HNS = torch.randn(2, *shape, generator=generator, dtype=torch.float64)
        with torch.no_grad():
            module.we.copy_(of_keys_BHNM[0].mT @ of_keys_HNS)
            module.wr.copy_(of_queries_BHNM[0].mT @ of_queries_HNS)
        e_BHNS, r_BHNS = scores(module, x_BNC)
        assert torch.allclose(e_BHNS, kernel_BHNN @ of_keys_HNS, rtol=0, atol=1e-12)
        assert torch.allclose(r_BHNS, kernel_BHNN.mT @ of_queries_HNS, rtol=0, atol=1e-12)

    @pytest.mark.parametrize("declaration", [SAMPLINGS[0], SAMPLINGS[1], SAMPLINGS[3]], ids=title)
    def test_the_printed_loss_vanishes_at_the_singular_vectors_of_the_kernel_and_the_released_one_does_not(
        self, declaration: Primal
    ) -> None:
        x_BNC = tokens(batch=1)
        modules = {formula: primal(replace(declaration, formula=formula)) for formula in FORMULAS}
        for module in modules.values():
            solve(module, x_BNC)
        assert losses_of(modules["paper"], x_BNC).abs() < 1e-12
        assert losses_of(modules["released"], x_BNC) > 1e-3

    def test_the_printed_loss_is_stationary_at_the_singular_vectors(self) -> None:
        module, x_BNC = primal(SAMPLINGS[0]), tokens(batch=1)
        solve(module, x_BNC)
        losses_of(module, x_BNC).sum().backward()
        for weight in (module.we, module.wr):
            assert present(weight.grad).abs().max() < 1e-12

    def test_the_printed_loss_falls_without_bound_as_the_weights_grow_together(self) -> None:
        module, x_BNC = primal(SAMPLINGS[3]), tokens(batch=1)
        losses = []
        with torch.no_grad():
            module.Lambda.fill_(1e-6)
            for size in (1.0, 10.0, 100.0):
                module.we.fill_(size)
                module.wr.fill_(size)
                losses.append(float(losses_of(module, x_BNC)))
        assert losses == pytest.approx([-6, -600, -60000], rel=1e-3)

    def test_identity_tokens_make_the_weights_independent_of_the_data(self) -> None:
        geometry = Geometry(dim=6, num_heads=2, num_tokens=3, depth=1, layer=0)
        dependent = primal(Primal(num_directions=2), geometry=geometry)
        independent = primal(Primal(num_directions=2, data_dependent=False), geometry=geometry)
        independent.load_state_dict(dependent.state_dict())
        identity_BNC = torch.eye(3, dtype=torch.float64).repeat(1, 2)[None]
        assert torch.allclose(dependent(identity_BNC), independent(identity_BNC), rtol=0, atol=1e-14)
        assert not torch.allclose(dependent(2 * identity_BNC), independent(2 * identity_BNC), rtol=0, atol=1e-3)


def solve(module: PrimalAttention, x_BNC: Tensor) -> None:
    """Set the weights to the solution of the KSVD by the conditions of Karush, Kuhn and Tucker (supplement, 3)."""
    of_queries_BHNM, of_keys_BHNM = features(module, x_BNC)
    left_HNN, singular_HN, right_HNN = torch.linalg.svd((of_queries_BHNM @ of_keys_BHNM.mT)[0])
    num_directions = module.Lambda.shape[1]
    with torch.no_grad():
        module.we.copy_(of_keys_BHNM[0].mT @ right_HNN.mT[..., :num_directions])
        module.wr.copy_(of_queries_BHNM[0].mT @ left_HNN[..., :num_directions])
        module.Lambda.copy_(1 / singular_HN[:, :num_directions])


class TestLoss:
    @pytest.mark.parametrize("formula", FORMULAS)
    @pytest.mark.parametrize("declaration", PRIMAL_DECLARATIONS, ids=title)
    def test_it_equals_the_slow_reference_to_1e_10(self, declaration: Primal, formula: Formula) -> None:
        module, x_BNC = primal(replace(declaration, formula=formula)), tokens()
        parameters = {name: value.tolist() for name, value in module.state_dict().items()}
        slow_loss = {"paper": printed_loss, "released": released_loss}[formula]
        for example, loss in zip(x_BNC.tolist(), losses_of(module, x_BNC).tolist(), strict=True):
            heads = []
            for head in range(2):
                weight, bias = parameters["qk.weight"], parameters["qk.bias"]
                projections = head_projections(EVERY_SETTING, example, weight, bias, 2, head)
                situation = Situation(full_width=6, head=head, num_heads=2, parameters=parameters, tokens=example)
                heads.append(head_scores(declaration, projections, situation))
            assert loss == pytest.approx(slow_loss(heads, parameters), rel=0, abs=1e-10)

    @pytest.mark.parametrize("formula", FORMULAS)
    def test_its_gradients_agree_with_finite_differences(self, formula: Formula) -> None:
        module = primal(Primal(num_directions=2, formula=formula), spread=0.7)
        x_BNC = tokens(batch=1, num_tokens=5).requires_grad_()
        reached = [parameter for name, parameter in module.named_parameters() if reaches_the_loss(name)]
        assert torch.autograd.gradcheck(lambda x, *_: losses_of(module, x), (x_BNC, *reached), eps=1e-6, atol=1e-6)

    @pytest.mark.parametrize("formula", FORMULAS)
    @pytest.mark.parametrize("data_dependent", [True, False])
    def test_it_reaches_lambda_and_all_that_the_scores_are_made_of(
        self, formula: Formula, data_dependent: bool
    ) -> None:
        module = primal(Primal(num_directions=2, formula=formula, data_dependent=data_dependent))
        losses_of(module, tokens()).sum().backward()
        for name, parameter in module.named_parameters():
            assert (parameter.grad is not None and bool((parameter.grad != 0).any())) == reaches_the_loss(name), name

    def test_a_sequence_repeated_has_the_same_released_loss_and_twice_the_printed_energy(self) -> None:
        x_BNC = tokens()
        repeated_BNC = torch.cat([x_BNC, x_BNC], dim=1)
        paper, released = (primal(Primal(num_directions=2, data_dependent=False, formula=name)) for name in FORMULAS)
        once_B, twice_B = losses_of(released, x_BNC), losses_of(released, repeated_BNC)
        assert torch.allclose(once_B, twice_B, rtol=0, atol=1e-12)
        assert (once_B > 0).all()
        energies_B = losses_of(paper, repeated_BNC) - losses_of(paper, x_BNC)
        trace = (paper.we * paper.wr).sum() / 2
        assert torch.allclose(losses_of(paper, x_BNC), energies_B - trace, rtol=0, atol=1e-12)

    @pytest.mark.parametrize("formula", FORMULAS)
    def test_the_sign_of_lambda_counts_in_the_printed_loss_alone(self, formula: Formula) -> None:
        module, x_BNC = primal(Primal(num_directions=2, formula=formula)), tokens()
        before_B = losses_of(module, x_BNC)
        with torch.no_grad():
            module.Lambda.neg_()
        assert torch.equal(before_B, losses_of(module, x_BNC)) == (formula == "released")

    def test_each_pass_has_losses_of_its_own_in_the_order_of_the_layers(self) -> None:
        first, second = (made(Primal(num_directions=2), seed=seed).get_submodule("") for seed in (0, 1))
        state = ForwardState(losses_B=[])
        for layer in (second, first):
            layer(tokens(), state)
        alone = [losses_of(second, tokens()), losses_of(first, tokens())]
        assert all(torch.equal(one, other) for one, other in zip(present(state.losses_B), alone, strict=True))
        assert not torch.equal(*alone)


def reaches_the_loss(name: str) -> bool:
    return name in ("we", "wr", "Lambda", "qk.weight", "qk.bias")


class TestTokens:
    def test_places_are_those_of_the_authors_code_on_197_tokens(self) -> None:
        for num_directions in range(1, 20):
            theirs = torch.linspace(0, 196, 10 * num_directions, dtype=torch.int64)
            assert torch.equal(evenly_spaced(10 * num_directions, 197, CPU), theirs)

    def test_as_many_places_as_tokens_are_all_of_them(self) -> None:
        for num_tokens in (1, 2, 5, 197, 1000):
            assert torch.equal(evenly_spaced(num_tokens, num_tokens, CPU), torch.arange(num_tokens))

    def test_places_rise_from_the_first_to_the_last(self) -> None:
        for num_tokens in range(2, 40):
            for count in range(2, num_tokens + 1):
                places = evenly_spaced(count, num_tokens, CPU)
                assert (places.diff() >= 1).all()
                assert (int(places[0]), int(places[-1])) == (0, num_tokens - 1)

    def test_tokens_that_are_taken_change_every_output(self) -> None:
        module, x_BNC = primal(Primal(num_directions=2, rank_multiplier=1)), tokens()
        changed_BNC = x_BNC.clone()
        changed_BNC[:, 4] += 1
        assert (module(x_BNC) != module(changed_BNC)).any(dim=-1).all()

    def test_a_query_of_length_zero_has_no_scores(self) -> None:
        module = primal(Primal(num_directions=2, data_dependent=False)).float()
        with torch.no_grad():
            module.qk.weight.zero_()
            module.qk.bias.zero_()
        x_BNC = tokens().float().requires_grad_()
        constant_C = module.proj(module.concate_weight.bias.repeat(2))
        output_BNC = module(x_BNC)
        output_BNC.sum().backward()
        assert torch.allclose(output_BNC, constant_C.expand_as(output_BNC), rtol=0, atol=1e-6)
        assert gradients_are_finite(module, without=("Lambda",))


class TestDeclaration:
    def test_a_rank_multiplier_without_tokens_to_multiply_is_refused(self) -> None:
        with pytest.raises(ValueError, match="rank_multiplier has no effect unless data_dependent, got 5"):
            Primal(num_directions=2, rank_multiplier=5, data_dependent=False)
        assert Primal(num_directions=2, rank_multiplier=10, data_dependent=False)


class TestSizes:
    def test_weights_of_the_authors_deit_small_have_their_shapes(self) -> None:
        geometry = Geometry(dim=384, num_heads=6, num_tokens=197, depth=12, layer=11)
        state = build_attention(Primal(num_directions=96, layers=(11,)), geometry).state_dict()
        assert {name: tuple(value.shape) for name, value in state.items()} == {
            "qk.weight": (768, 384), "qk.bias": (768,), "proj.weight": (384, 384), "proj.bias": (384,),
            "we": (6, 197, 96), "wr": (6, 197, 96), "Lambda": (6, 96),
            "concate_weight.weight": (64, 192), "concate_weight.bias": (64,),
        }  # fmt: skip

    def test_initial_directions_of_the_heads_are_orthonormal_and_lambda_lies_in_0_to_1(self) -> None:
        module = build_attention(Primal(num_directions=2), GEOMETRY)
        assert isinstance(module, PrimalAttention)
        for weight_HMS in (module.we, module.wr):
            flat_HP = weight_HMS.detach().flatten(start_dim=1)
            assert torch.allclose(flat_HP @ flat_HP.T, torch.eye(2), rtol=0, atol=1e-5)
        assert not torch.equal(module.we, module.wr)
        assert ((module.Lambda >= 0) & (module.Lambda < 1)).all()
