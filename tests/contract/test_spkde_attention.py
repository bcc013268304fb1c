"""Laws of quadratic programs on the simplex, and of SPKDE attention, whose weights they give."""

from itertools import pairwise

import pytest
import torch
from presence import present
from reference_base import head_projections
from reference_spkde import REFERENCES, SPKDE_DECLARATIONS, densities, objective, simplex_minimum
from scipy.optimize import minimize  # type: ignore[import-untyped]  # its stubs are no dependency
from test_attention_contract import GEOMETRY, SPREADS, gradients_are_finite, made, tokens
from torch import Tensor

from robench.attention import simplex_qp
from robench.attention.build import build_attention
from robench.attention.kde import Kde
from robench.attention.kernels import gaussian_gram
from robench.attention.simplex_qp import minimise_on_simplex
from robench.attention.spkde import Spkde
from robench.attention.spkde_impl import SpkdeAttention


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def programs(batch: int, num_points: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Programs of any kind: well-conditioned G of no special form, b of any sign."""
    factors = normal(batch, num_points, 2 * num_points, seed=seed)
    return factors @ factors.mT / num_points, normal(batch, num_points, seed=seed + 1)


def scaled_densities(
    num_points: int, spread: float, beta: float, *, width: int = 5, batch: int = 4
) -> tuple[Tensor, Tensor]:
    """The programs of SPKDE for normal points; a small spread makes all points nearly equal, and G nearly singular."""
    gram = gaussian_gram(spread * normal(batch, num_points, width, seed=num_points), 0.3)
    return gram, beta * gram.mean(dim=-1)


def objectives(gram: Tensor, linear: Tensor, weights: Tensor) -> Tensor:
    return (weights * ((gram @ weights.unsqueeze(-1)).squeeze(-1) / 2 - linear)).sum(dim=-1)


def gaps(gram: Tensor, linear: Tensor, weights: Tensor) -> Tensor:
    """How far each objective can at most lie above the minimum, as the objective is convex: g . w - min g."""
    gradient = (gram @ weights.unsqueeze(-1)).squeeze(-1) - linear
    return (gradient * weights).sum(dim=-1) - gradient.amin(dim=-1)


def is_feasible(weights: Tensor) -> bool:
    return bool((weights >= 0).all()) and bool(((weights.sum(dim=-1) - 1).abs() <= 1e-12).all())


ILL_CONDITIONED = [
    (size, spread, beta) for size in (6, 60) for spread in (0.3, 1e-2, 1e-4) for beta in (1.05, 1.4, 3.0)
]


class TestMinimiseOnSimplex:
    @pytest.mark.parametrize("num_points", [1, 2, 3, 6])
    def test_it_equals_the_best_of_all_supports(self, num_points: int) -> None:
        gram, linear = programs(16, num_points)
        weights = minimise_on_simplex(gram, linear)
        exact = [simplex_minimum(g, b) for g, b in zip(gram.tolist(), linear.tolist(), strict=True)]
        assert (weights - torch.tensor(exact, dtype=torch.float64)).abs().max() <= 1e-12

    @pytest.mark.parametrize("num_points", [5, 12, 25])
    def test_scipys_minimum_is_not_lower_and_not_elsewhere(self, num_points: int) -> None:
        gram, linear = programs(3, num_points)
        weights = minimise_on_simplex(gram, linear)
        for g, b, w in zip(gram, linear, weights, strict=True):
            found = minimize(
                lambda x, g=g, b=b: objective(g.tolist(), b.tolist(), x),
                [1 / num_points] * num_points,
                jac=lambda x, g=g, b=b: (g @ torch.tensor(x) - b).numpy(),
                bounds=[(0, 1)] * num_points,
                constraints={"type": "eq", "fun": lambda x: x.sum() - 1, "jac": lambda x: 0 * x + 1},
                options={"ftol": 1e-15, "maxiter": 500},
                method="SLSQP",
            )
            assert objectives(g, b, w) <= found.fun + 1e-12
            assert (w - torch.tensor(found.x)).abs().max() <= 1e-6

    @pytest.mark.parametrize(("num_points", "spread", "beta"), ILL_CONDITIONED)
    def test_the_objective_is_the_minimum_to_1e_8_however_singular_g_is(
        self, num_points: int, spread: float, beta: float
    ) -> None:
        gram, linear = scaled_densities(num_points, spread, beta)
        weights = minimise_on_simplex(gram, linear)
        assert is_feasible(weights)
        assert gaps(gram, linear, weights).max() <= 1e-9
        of_float32 = minimise_on_simplex(gram, linear, ridge=torch.finfo(torch.float32).eps)
        assert is_feasible(of_float32)
        assert (objectives(gram, linear, of_float32) - objectives(gram, linear, weights)).max() <= 1e-8

    @pytest.mark.parametrize("num_points", [4, 30, 197])
    def test_weights_satisfy_the_optimality_conditions_to_1e_12(self, num_points: int) -> None:
        gram, linear = programs(3, num_points)
        weights = minimise_on_simplex(gram, linear)
        gradient = (gram @ weights.unsqueeze(-1)).squeeze(-1) - linear
        multipliers = gradient - (gradient * weights).sum(dim=-1, keepdim=True)
        assert is_feasible(weights)
        assert multipliers.min() >= -1e-12
        assert (multipliers * weights).abs().max() <= 1e-12
        assert 0 < (weights > 0).sum() < weights.numel()

    def test_descent_alone_leads_to_the_same_weights_as_exchanges(self, monkeypatch: pytest.MonkeyPatch) -> None:
        all_programs = [programs(8, 12), scaled_densities(20, 1.0, 3.0)]
        expected = [minimise_on_simplex(*each) for each in all_programs]
        monkeypatch.setattr(simplex_qp, "MAX_EXCHANGES", 0)
        for each, weights in zip(all_programs, expected, strict=True):
            assert torch.equal(minimise_on_simplex(*each), weights)

    @pytest.mark.parametrize("max_exchanges", [0, 20])
    def test_a_mask_of_points_gives_the_program_of_these_points_alone(
        self, monkeypatch: pytest.MonkeyPatch, max_exchanges: int
    ) -> None:
        monkeypatch.setattr(simplex_qp, "MAX_EXCHANGES", max_exchanges)
        gram, linear = scaled_densities(20, 1.0, 3.0)
        points = torch.ones_like(linear, dtype=torch.bool)
        points[0, ::2], points[1, 5:] = False, False
        # These points would get all the weight.
        linear = linear.where(points, 10.0)
        weights = minimise_on_simplex(gram, linear, points=points)
        assert (weights[~points] == 0).all()
        for g, b, w, each in zip(gram, linear, weights, points, strict=True):
            alone = minimise_on_simplex(g[each][:, each][None], b[each][None])[0]
            assert (w[each] - alone).abs().max() <= 1e-9

    def test_some_of_these_programs_need_descent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(simplex_qp, "STEPS_PER_POINT", 0)
        shortfalls = []
        for setting in ILL_CONDITIONED:
            gram, linear = scaled_densities(*setting)
            weights = minimise_on_simplex(gram, linear)
            assert is_feasible(weights)
            shortfalls.append(float(gaps(gram, linear, weights).max()))
        assert max(shortfalls) > 1e-9

    def test_equal_points_share_alike(self) -> None:
        points = normal(2, 4, 3)[:, [0, 0, 0, 1, 2, 3, 3]]
        gram = gaussian_gram(points, 0.3)
        weights = minimise_on_simplex(gram, 1.4 * gram.mean(dim=-1))
        assert gaps(gram, 1.4 * gram.mean(dim=-1), weights).max() <= 1e-9
        assert (weights[:, 0] - weights[:, 2]).abs().max() <= 1e-4
        ones = torch.ones(1, 9, 9, dtype=torch.float64)
        assert (minimise_on_simplex(ones, ones[..., 0]) - 1 / 9).abs().max() <= 1e-4

    def test_a_program_does_not_depend_on_its_neighbours_bit_for_bit(self) -> None:
        gram, linear = scaled_densities(40, 0.5, 1.4)
        other_gram, other_linear = scaled_densities(40, 1e-3, 3.0)
        mixed_gram, mixed_linear = gram.clone(), linear.clone()
        mixed_gram[[0, 2]], mixed_linear[[0, 2]] = other_gram[[0, 2]], other_linear[[0, 2]]
        expected, found = minimise_on_simplex(gram, linear), minimise_on_simplex(mixed_gram, mixed_linear)
        assert torch.equal(found[[1, 3]], expected[[1, 3]])
        assert (minimise_on_simplex(gram[1:2], linear[1:2])[0] - expected[1]).abs().max() <= 1e-9

    @pytest.mark.parametrize("seed", range(4))
    def test_gradients_equal_finite_differences_on_any_support(self, seed: int) -> None:
        points = normal(2, 6, 3, seed=seed).requires_grad_()
        linear = (0.2 * normal(2, 6, seed=seed + 9)).requires_grad_()

        def weights(points: Tensor, linear: Tensor) -> Tensor:
            return minimise_on_simplex(gaussian_gram(points, 0.5), linear)

        assert 0 < (weights(points, linear) == 0).sum() < 10
        assert torch.autograd.gradcheck(weights, (points, linear), eps=1e-6, atol=1e-7)

    def test_gradients_of_equal_points_are_equal_in_spite_of_rounding_where_the_ridge_is_of_its_size(self) -> None:
        gram = gaussian_gram(normal(1, 5, 3)[:, [0, 0, 1, 2, 3, 4]], 0.3)
        rounded = torch.tensor([[1.0, 1.0 + 1e-7, 0.3, -0.2, 0.1, 0.5]], dtype=torch.float64)
        differences = []
        for ridge in (1e-11, 1e-7):
            linear = (1.1 * gram.mean(dim=-1)).requires_grad_()
            minimise_on_simplex(gram, linear, ridge=ridge).mul(rounded).sum().backward()
            differences.append(float((present(linear.grad)[0, 0] - present(linear.grad)[0, 1]).abs()))
        assert differences[0] > 1e3
        assert differences[1] < 1


def layer_of(declaration: Spkde, *, spread: float = 0.5) -> SpkdeAttention:
    module = build_attention(declaration, GEOMETRY).double()
    module.load_state_dict(made(declaration, spread=spread).state_dict())
    assert isinstance(module, SpkdeAttention)
    return module


def cluster_and_outlier(num_points: int = 8) -> Tensor:
    """Points around the origin, about one bandwidth from one another, and as the last one another far away."""
    points = normal(1, 1, num_points, 3)
    points[..., -1, :] = 8.0
    return points


class TestSpkde:
    @pytest.mark.parametrize("formula", ["paper", "released"])
    def test_with_beta_1_it_is_kde_attention(self, formula: str) -> None:
        spkde, kde = made(Spkde(beta=1.0, formula=formula)), made(Kde(formula=formula))  # type: ignore[arg-type]  # parametrised
        kde.load_state_dict(spkde.state_dict())
        assert torch.allclose(spkde(tokens()), kde(tokens()), rtol=0, atol=1e-12)

    def test_an_outlying_key_loses_weight_the_more_the_larger_beta_is(self) -> None:
        points = cluster_and_outlier()
        weights = [layer_of(Spkde(beta=beta)).log_weights(points).exp()[0, 0] for beta in (1.0, 1.1, 1.2, 1.3)]
        assert all(int(each.argmin()) == 7 for each in weights[1:])
        assert all(before[-1] > after[-1] for before, after in pairwise(weights))
        assert layer_of(Spkde(beta=3.0)).log_weights(points).exp()[0, 0, -1] <= 1e-14

    def test_for_large_beta_all_weight_goes_to_the_densest_point(self) -> None:
        layer, points = layer_of(Spkde(beta=1e4)), cluster_and_outlier()
        weights = layer.log_weights(points).exp()[0, 0]
        assert int(weights.argmax()) == int(gaussian_gram(points, layer.precision).sum(dim=-1).argmax())
        assert weights.max() == pytest.approx(1)

    def test_equal_tokens_give_their_value(self) -> None:
        module = made(Spkde())
        x_BNC = tokens()[:, :1].expand(-1, 5, -1).clone().requires_grad_()
        output_BNC = module(x_BNC)
        expected_BNC = module.get_submodule("proj")(module.get_submodule("qkv")(x_BNC)[..., 12:])
        assert torch.allclose(output_BNC, expected_BNC, rtol=0, atol=1e-12)
        output_BNC.square().sum().backward()
        assert gradients_are_finite(module)

    @pytest.mark.parametrize("size", [1.0, 1e4])
    def test_tokens_that_occur_twice_give_finite_outputs_and_the_same_gradients_in_float32(self, size: float) -> None:
        module = made(Spkde()).float()
        x_BNC = (size * tokens(num_tokens=6).float())[:, [0, 0, 1, 2, 3, 4, 4, 5]].requires_grad_()
        output_BNC = module(x_BNC)
        output_BNC.square().sum().backward()
        assert output_BNC.isfinite().all()
        assert gradients_are_finite(module)
        assert x_BNC.grad is not None
        assert torch.allclose(output_BNC[:, 0], output_BNC[:, 1], rtol=1e-3)
        difference = (x_BNC.grad[:, 0] - x_BNC.grad[:, 1]).abs().max()
        assert difference <= 1e-2 * x_BNC.grad.abs().max()

    @pytest.mark.parametrize("size", [1e2, 1e4])
    def test_groups_of_equal_far_points_share_alike_in_spite_of_the_rounding_of_distances(self, size: float) -> None:
        points = size * normal(2, 2, 7, 37).repeat(1, 1, 9, 1)
        shares = layer_of(Spkde()).log_weights(points).exp().reshape(2, 2, 9, 7).sum(dim=-2)
        assert (shares - 1 / 7).abs().max() <= 1e-6

    def test_released_weights_have_no_gradient_and_the_papers_do(self) -> None:
        points = cluster_and_outlier().requires_grad_()
        assert layer_of(Spkde()).log_weights(points).requires_grad
        assert not layer_of(Spkde(formula="released")).log_weights(points).requires_grad

    def test_the_settings_of_the_contract_give_supports_of_all_sizes(self) -> None:
        sizes: set[int] = set()
        for declaration in SPKDE_DECLARATIONS:
            for spread in SPREADS:
                state = made(declaration, spread=spread).state_dict()
                weight, bias = state["qkv.weight"].tolist(), state["qkv.bias"].tolist()
                of_head = head_projections(REFERENCES["spkde"], tokens()[0].tolist(), weight, bias, 2, 0)
                sizes |= {sum(w > 0 for w in density) for density in densities(declaration, *of_head[1:])}
        assert sizes == {1, 2, 3, 4, 5}
