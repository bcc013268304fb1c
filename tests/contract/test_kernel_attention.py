"""The laws of single kernel attentions: what their neutral parameters and known limits give."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, product

import pytest
import torch
from attention_laws import LargestTensor, close
from presence import present
from reference_base import Reference, head_projections, layer
from reference_kernel import REFERENCES, RKDE_DECLARATIONS, Reweighting, densities, mgk_head, psi
from torch import Tensor, nn

from robench.attention import sinc_products
from robench.attention.base import AttentionBase
from robench.attention.build import build_attention
from robench.attention.fourier import Fourier
from robench.attention.fourier_impl import FourierAttention
from robench.attention.geometry import Geometry
from robench.attention.heads import attend, merge_heads, split_heads
from robench.attention.kde import Kde
from robench.attention.kernels import gaussian_gram, gaussian_kernels, weights_above
from robench.attention.mgk import Mgk
from robench.attention.rkde import Rkde
from robench.attention.rkde_impl import LOG_WEIGHTS, quotients, robust_log_weights, squared_distances
from robench.testing.attention import layer_of, tokens

GEOMETRY = Geometry(dim=6, num_heads=2, num_tokens=5, depth=1, layer=0)
SMALLEST = Geometry(dim=4, num_heads=2, num_tokens=3, depth=1, layer=0)
FORMULAS = ("paper", "released")
LOSSES = ("huber", "hampel", "welsch", "tukey")
EVERY = [declaration for reference in REFERENCES.values() for declaration in reference.declarations]


def made(declaration: AttentionBase, *, spread: float = 0.5, geometry: Geometry = GEOMETRY) -> nn.Module:
    return layer_of(declaration, geometry, spread=spread).layer


def rkde(loss: str, threshold: float, formula: str, num_iterations: int = 1) -> Rkde:
    return Rkde(loss=loss, threshold=threshold, formula=formula, num_iterations=num_iterations)  # type: ignore[arg-type]  # literals


def projections(module: nn.Module, x_BNC: Tensor, number: int = 3) -> tuple[Tensor, ...]:
    return split_heads(module.get_submodule("qkv")(x_BNC), 2, number)


def projected(module: nn.Module, mixed_BHND: Tensor) -> Tensor:
    output_BNC: Tensor = module.get_submodule("proj")(merge_heads(mixed_BHND))
    return output_BNC


def has_finite_gradients(module: nn.Module, x: Tensor) -> bool:
    gradients = [x.grad, *(parameter.grad for parameter in module.parameters())]
    return all(gradient is not None and bool(gradient.isfinite().all()) for gradient in gradients)


class TestDeclarations:
    @pytest.mark.parametrize("power", [1, 3, 0, -2])
    def test_powers_that_make_kernels_negative_or_constant_are_refused(self, power: int) -> None:
        with pytest.raises(ValueError, match=rf"power must be (even|at least 2), got {power}"):
            Fourier(power=power)


@pytest.mark.parametrize("declaration", EVERY, ids=str)
class TestEveryKernel:
    def test_tokens_that_are_all_the_same_have_finite_gradients(self, declaration: AttentionBase) -> None:
        module, x_BNC = made(declaration), tokens(num_tokens=1).repeat(1, 5, 1).requires_grad_()
        output_BNC = module(x_BNC)
        output_BNC.square().sum().backward()
        assert close(output_BNC, output_BNC[:, :1].expand(-1, 5, -1))
        assert has_finite_gradients(module, x_BNC)

    def test_nothing_larger_than_tokens_by_tokens_is_made(
        self, declaration: AttentionBase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sinc_products, "BUDGET_ON_CPU", 0)
        geometry = Geometry(dim=16, num_heads=2, num_tokens=128, depth=1, layer=0)
        module = build_attention(declaration, geometry)
        with LargestTensor() as largest:  # type: ignore[no-untyped-call]  # torch's own
            module(torch.randn(1, 128, 16).requires_grad_()).sum().backward()
        # Two heads of tokens by, at most, two keys a token and one for the floor.
        assert 2 * 128 * 128 <= largest.num_elements <= 2 * 128 * (2 * 128 + 1)


class TestKde:
    def test_the_papers_is_softmax_attention_with_keys_of_length_one(self) -> None:
        module = made(Kde())
        q_BHND, k_BHND, v_BHND = projections(module, tokens())
        unit_BHND = k_BHND / k_BHND.square().sum(dim=-1, keepdim=True).sqrt()
        assert close(module(tokens()), projected(module, attend(q_BHND, unit_BHND, v_BHND)))

    def test_the_released_one_has_queries_of_twice_the_length(self) -> None:
        paper, released = made(Kde()), made(Kde(formula="released"))
        assert not close(paper(tokens()), released(tokens()), 1e-3)
        with torch.no_grad():
            paper.get_parameter("qkv.weight")[:6] *= 2
            paper.get_parameter("qkv.bias")[:6] *= 2
        assert close(paper(tokens()), released(tokens()))


class TestRobustLosses:
    @pytest.mark.parametrize(("loss", "formula"), list(product(LOSSES, FORMULAS)))
    def test_they_are_the_logarithms_of_the_reference(self, loss: str, formula: str) -> None:
        tail = 0.01 if formula == "released" and loss == "hampel" else 0.0
        for a, step in product([0.2, 0.7], range(60)):
            h = 0.04 * step + 0.001
            found = LOG_WEIGHTS[loss](torch.tensor(h**2, dtype=torch.float64), a, tail).exp().item()
            assert found == pytest.approx(psi(loss, formula, a, h), abs=1e-12), (a, h)

    @pytest.mark.parametrize("loss", LOSSES)
    def test_they_are_the_slopes_of_the_losses_over_h(self, loss: str) -> None:
        for step in range(1, 50):
            h = 0.0503 * step
            slope = (RHO[loss](h + 1e-6, 0.6) - RHO[loss](h - 1e-6, 0.6)) / 2e-6
            assert psi(loss, "paper", 0.6, h) == pytest.approx(slope / h, abs=1e-6)

    @pytest.mark.parametrize("loss", LOSSES)
    def test_their_gradients_are_finite_where_points_coincide_and_where_they_vanish(self, loss: str) -> None:
        squares = torch.tensor([0.0, 1e-40, 0.2, 0.3, 50.0]).requires_grad_()
        weights = LOG_WEIGHTS[loss](squares, 0.5, 0.0).exp()
        weights.sum().backward()
        assert present(squares.grad).isfinite().all()


def rho_huber(x: float, a: float) -> float:
    return x**2 / 2 if x <= a else a * x - a**2 / 2


def rho_hampel(x: float, a: float) -> float:
    b, c = 2 * a, 3 * a
    if x < b:
        return rho_huber(x, a)
    return rho_huber(b, a) + a * ((c - b) ** 2 - max(c - x, 0) ** 2) / (2 * (c - b))


RHO: dict[str, Callable[[float, float], float]] = {
    "huber": rho_huber,
    "hampel": rho_hampel,
    "welsch": lambda x, a: a**2 / 2 * (1 - math.exp(-((x / a) ** 2))),
    "tukey": lambda x, a: a**2 / 6 * (1 - max(1 - (x / a) ** 2, 0) ** 3),
}


def all_steps(declaration: Rkde, *, spread: float, geometry: Geometry, x_BNC: Tensor) -> list[Reweighting]:
    """Every re-weighting that the reference does for these tokens, joint and marginal, of all examples and heads."""
    state = made(declaration, spread=spread, geometry=geometry).state_dict()
    weight, bias = state["qkv.weight"].tolist(), state["qkv.bias"].tolist()
    steps = []
    for example, head in product(x_BNC.tolist(), range(2)):
        _, keys, values = head_projections(REFERENCES["rkde"], example, weight, bias, 2, head)
        steps += [step for density in densities(declaration, keys, values) for step in density]
    return steps


def pieces(declaration: Rkde, h: float) -> int:
    """Which piece of the loss h falls on."""
    a = declaration.threshold
    bounds = {"huber": [a], "hampel": [a, 2 * a, 3 * a], "welsch": [], "tukey": [a]}[declaration.loss]
    return sum(h >= bound for bound in bounds)


def cluster_and_outlier() -> Tensor:
    """Nine points near each other and one far away, (1, 1, 10, 3)."""
    points_ND = 0.2 * tokens(batch=1, num_tokens=10, dim=3)[0]
    points_ND[-1] = torch.tensor([2.0, -2.0, 1.0])
    return points_ND[None, None]


def huber_objective(gram_BHMM: Tensor, log_weights_BHM: Tensor, threshold: float) -> float:
    h = squared_distances(gram_BHMM, log_weights_BHM, "paper").sqrt().flatten()
    return sum(rho_huber(each, threshold) for each in h.tolist())


class TestRkde:
    @pytest.mark.parametrize(("loss", "formula"), list(product(["huber", "hampel", "tukey"], FORMULAS)))
    def test_the_thresholds_of_the_references_bite(self, loss: str, formula: str) -> None:
        found: Counter[int] = Counter()
        for declaration in RKDE_DECLARATIONS:
            if (declaration.loss, declaration.formula) == (loss, formula):
                for step in all_steps(declaration, spread=0.5, geometry=GEOMETRY, x_BNC=tokens()):
                    found.update(pieces(declaration, h) for h in step.distances)
        assert set(found) == set(range(4 if loss == "hampel" else 2))
        assert min(found.values()) >= 10

    def test_gradients_are_checked_away_from_kinks(self) -> None:
        x_BNC = tokens(batch=1, num_tokens=3, dim=4, seed=3)
        for declaration in RKDE_DECLARATIONS:
            for step in all_steps(declaration, spread=0.7, geometry=SMALLEST, x_BNC=x_BNC):
                kinks = [times * declaration.threshold for times in (1, 2, 3)]
                assert min(abs(h - kink) for h, kink in product(step.distances, kinks)) > 1e-4

    @pytest.mark.parametrize(("loss", "formula"), list(product(LOSSES, FORMULAS)))
    def test_a_threshold_that_no_point_passes_gives_kde(self, loss: str, formula: str) -> None:
        robust = made(rkde(loss, 1e5, formula, num_iterations=3))
        assert close(robust(tokens()), made(Kde(formula=formula))(tokens()), 1e-8)  # type: ignore[arg-type]  # parametrised

    @pytest.mark.parametrize(
        ("loss", "threshold", "formula"),
        [
            ("hampel", 0.05, "paper"),
            ("tukey", 0.1, "paper"),
            ("hampel", 1 / 3, "released"),
            ("hampel", 0.1, "released"),
            ("tukey", 1.0, "released"),
        ],
    )
    @pytest.mark.parametrize("num_iterations", [1, 4])
    def test_weights_that_all_vanish_or_are_all_in_the_tail_give_kde(
        self, loss: str, threshold: float, formula: str, num_iterations: int
    ) -> None:
        robust = made(rkde(loss, threshold, formula, num_iterations))
        assert close(robust(tokens()), made(Kde(formula=formula))(tokens()))  # type: ignore[arg-type]  # parametrised

    @pytest.mark.parametrize("num_iterations", [1, 5])
    @pytest.mark.parametrize("loss", LOSSES)
    def test_the_papers_formula_gives_an_outlier_less_weight(self, loss: str, num_iterations: int) -> None:
        gram_BHMM = gaussian_gram(cluster_and_outlier(), 0.5)
        threshold = {"tukey": 1.2, "welsch": 0.5, "hampel": 0.4, "huber": 0.2}[loss]
        weights_M = robust_log_weights(gram_BHMM, rkde(loss, threshold, "paper", num_iterations)).exp()[0, 0]
        assert weights_M[-1] < 0.6 * weights_M[:-1].min()

    def test_the_released_formula_gives_an_outlier_more_weight(self) -> None:
        gram_BHMM = gaussian_gram(cluster_and_outlier(), 1.0)
        weights_M = robust_log_weights(gram_BHMM, rkde("huber", 0.2, "released")).exp()[0, 0]
        assert weights_M[-1] > weights_M[:-1].max()

    @pytest.mark.parametrize(("loss", "formula"), list(product(LOSSES, FORMULAS)))
    def test_weights_add_up_to_one_and_distances_stay_in_the_formulas_range(self, loss: str, formula: str) -> None:
        gram_BHMM = gaussian_gram(tokens(num_tokens=20).reshape(2, 2, 10, 6), 0.3)
        low, high = (0.0, math.sqrt(2)) if formula == "paper" else (1.0, math.sqrt(3))
        for num_iterations in (1, 2, 6):
            log_weights_BHM = robust_log_weights(gram_BHMM, rkde(loss, 0.9, formula, num_iterations))
            assert close(log_weights_BHM.exp().sum(dim=-1), torch.ones(2, 2, dtype=torch.float64))
            h_BHM = squared_distances(gram_BHMM, log_weights_BHM, formula).sqrt()  # type: ignore[arg-type]  # parametrised
            assert h_BHM.min() >= low
            assert h_BHM.max() <= high

    @pytest.mark.parametrize("threshold", [0.1, 0.3, 0.6])
    def test_no_iteration_raises_the_loss_and_they_come_to_rest(self, threshold: float) -> None:
        gram_BHMM = gaussian_gram(cluster_and_outlier(), 0.5)
        weights = [robust_log_weights(gram_BHMM, rkde("huber", threshold, "paper", n)) for n in (1, 2, 3, 4, 60, 61)]
        objectives = [huber_objective(gram_BHMM, each, threshold) for each in weights]
        assert all(later <= earlier + 1e-12 for earlier, later in pairwise(objectives))
        assert close(weights[-1], weights[-2], 1e-8)
        assert not close(weights[0], weights[1], 1e-4)

    def test_a_quotient_without_bound_is_held(self) -> None:
        scores_BHNM = torch.tensor([[[[4000.0, 0.0]]]]).requires_grad_()
        joint_BHM = torch.tensor([[[0.5, 0.5]]]).log()
        marginal_BHM = torch.tensor([[[0.0, 1.0]]]).log()
        weights_BHNM = quotients(scores_BHNM, joint_BHM.unsqueeze(-2), marginal_BHM.unsqueeze(-2))
        weights_BHNM.sum().backward()
        assert weights_BHNM.flatten().tolist() == pytest.approx([torch.finfo(torch.float32).max ** 0.25, 0.5], rel=1e-4)
        assert present(scores_BHNM.grad).isfinite().all()


class TestKernels:
    def test_a_gram_matrix_has_ones_on_its_diagonal_however_large_its_points(self) -> None:
        points_BHMD = 1e4 * tokens(num_tokens=8).float()[:, None]
        gram_BHMM = gaussian_gram(points_BHMD, 0.5)
        assert (gram_BHMM.diagonal(dim1=-2, dim2=-1) == 1).all()
        assert gram_BHMM.max() == 1

    def test_rounding_makes_no_kernel_larger_than_one(self) -> None:
        # Far from zero and near each other, so that the squares of their distances are all rounding.
        points_BHMD = 1e4 + 1e-2 * tokens(num_tokens=8).float()[:, None]
        for kernels in (gaussian_kernels(points_BHMD, points_BHMD, 0.5), gaussian_gram(points_BHMD, 0.5)):
            assert kernels.max() <= 1

    def test_rounding_makes_no_squared_distance_negative(self) -> None:
        for num_points in range(1, 60):
            log_weights_BHM = torch.full((1, 1, num_points), -math.log(num_points))
            gram_BHMM = torch.ones(1, 1, num_points, num_points)
            assert squared_distances(gram_BHMM, log_weights_BHM, "paper").min() >= 0

    def test_the_floor_takes_what_tiny_kernels_leave(self) -> None:
        kernels_N = torch.tensor([0.5, 1e-6, 1e-9, 0.0], dtype=torch.float64)
        for kernel in kernels_N:
            weight = weights_above(kernel.log().reshape(1, 1, 1, 1), 1e-6).item()
            assert weight == pytest.approx(kernel.item() / (kernel.item() + 1e-6), abs=1e-12)


class TestFourier:
    def test_high_powers_of_small_radii_tend_to_gaussian_kernels(self) -> None:
        differences = []
        for power in (40, 400, 4000):
            module = made(Fourier(power=power), spread=0.2)
            with torch.no_grad():
                module.get_parameter("paramR").fill_(math.sqrt(6 * 0.3 / power))
            q_BHND, k_BHND, v_BHND = projections(module, tokens())
            weights_BHNM = (-0.3 * torch.cdist(q_BHND, k_BHND).square()).softmax(dim=-1)
            differences.append((module(tokens()) - projected(module, weights_BHNM @ v_BHND)).abs().max().item())
        assert differences[0] > 5 * differences[1] > 0
        assert differences[2] < 1e-4

    def test_what_is_kept_for_the_gradient_does_not_grow_by_tokens_squared_times_width(self) -> None:
        kept = []
        for dim in (8, 64):
            module = FourierAttention(Fourier(), replace(GEOMETRY, dim=dim, num_tokens=32))
            kept.append(Kept())
            with torch.autograd.graph.saved_tensors_hooks(kept[-1].pack, kept[-1].unpack):
                module(torch.randn(1, 32, dim))
        assert kept[1].num_elements - kept[0].num_elements < 32 * 32 * 64 / 2
        assert kept[1].num_elements > 32 * 32


class Kept:
    """Counts the elements of tensors of four axes that are kept for the backward pass."""

    num_elements = 0

    def pack(self, tensor: Tensor) -> Tensor:
        self.num_elements += tensor.numel() if tensor.dim() > 3 else 0
        return tensor

    def unpack(self, tensor: Tensor) -> Tensor:
        return tensor


def with_shares(module: nn.Module, *shares: float) -> nn.Module:
    with torch.no_grad():
        for place, share in enumerate(shares):
            module.get_parameter(f"pi{place}").fill_(share)
    return module


class TestMgk:
    @pytest.mark.parametrize("place", [0, 1])
    def test_with_one_share_it_is_attention_to_that_key_by_distance(self, place: int) -> None:
        module = with_shares(made(Mgk()), float(place == 0), float(place == 1))
        q_BHND, *keys, v_BHND = projections(module, tokens(), 4)
        kernels_BHNM = torch.exp(-(0.5 + place) / math.sqrt(3) * torch.cdist(q_BHND, keys[place]).square())
        weights_BHNM = kernels_BHNM / (kernels_BHNM.sum(dim=-1, keepdim=True) + 1e-6)
        assert close(module(tokens()), projected(module, weights_BHNM @ v_BHND))

    def test_shares_count_as_their_nearest_within_zero_and_one(self) -> None:
        output_BNC = with_shares(made(Mgk()), 1.0, 0.25)(tokens())
        assert torch.equal(with_shares(made(Mgk()), 7.0, 0.25)(tokens()), output_BNC)
        assert not close(with_shares(made(Mgk()), 0.8, 0.25)(tokens()), output_BNC, 1e-4)
        without = with_shares(made(Mgk()), 0.3, 0.0)(tokens())
        assert torch.equal(with_shares(made(Mgk()), 0.3, -2.0)(tokens()), without)

    def test_a_head_whose_shares_are_all_zero_gives_nothing_and_learns_on(self) -> None:
        module, x_BNC = with_shares(made(Mgk()), 0.0, -1.0), tokens().requires_grad_()
        output_BNC = module(x_BNC)
        output_BNC.square().sum().backward()
        assert torch.equal(output_BNC, module.get_parameter("proj.bias").expand(2, 5, 6))
        assert has_finite_gradients(module, x_BNC)

    def test_three_keys_equal_the_reference_too(self) -> None:
        declaration = Mgk(num_mixtures=3)
        module = with_shares(made(declaration), 0.5, 0.9, 0.3)
        reference = Reference(head=mgk_head, declarations=(declaration,), projections=("q", "k0", "k1", "k2", "v"))
        parameters = {name: value.tolist() for name, value in module.state_dict().items()}
        assert {name: len(parameters[name]) for name in ("qkv.weight", "pi2")} == {"qkv.weight": 30, "pi2": 2}
        wanted = torch.tensor(layer(reference, declaration, tokens().tolist(), parameters, 2, {}), dtype=torch.float64)
        assert close(module(tokens()), wanted, 1e-10)
