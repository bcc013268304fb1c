"""Gradients other than a mechanism's own: the same outputs, and the gradients that the documentation says."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, get_args

import pytest
import torch
from attention_references import REFERENCES
from attention_settings import one_per_kind, title
from reference_rpc import pursuits
from torch import Tensor

from robench.attacks.gradients import OF_ANY_MODEL, Gradients
from robench.attacks.pgd import Pgd
from robench.attention.bilateral import Bilateral
from robench.attention.elliptical import Elliptical
from robench.attention.geometry import Geometry
from robench.attention.heads import merge_heads
from robench.attention.linformer import Linformer
from robench.attention.mgk import Mgk
from robench.attention.primal import Primal
from robench.attention.rkde import Rkde
from robench.attention.rkde_impl import implicit_log_weights, reweighted, robust_log_weights
from robench.attention.rpc import Rpc
from robench.attention.rpc_impl import shrink, smooth_shrink
from robench.core.errors import ContractError
from robench.declarations.base import FieldsError
from robench.declarations.preprocessing import ImagePreprocessing
from robench.models.build import build
from robench.models.loaded import LoadedModel
from robench.models.transformer import Boost, PlainResidual
from robench.models.vit import Vit
from robench.testing.attack import check_attack
from robench.testing.attention import layer_of, tokens

DECLARATIONS = [
    *one_per_kind([each for reference in REFERENCES.values() for each in reference.declarations]),
    Primal(num_directions=2, rank_multiplier=2),
]
OFFERED = {
    "rpc": {"sparse_part", "smooth"},
    "rpc-asymmetric": {"sparse_part", "smooth"},
    "rkde": {"implicit"},
    "linformer": {"within_kernel", "outside_kernel"},
    "primal": {"within_kernel", "outside_kernel"},
    "elliptical": {"through_constants"},
}
PREPROCESSING = ImagePreprocessing(mean=(0.5,) * 3, std=(0.25,) * 3)
SMALL: dict[str, Any] = {"image_size": 6, "patch_size": 2, "num_classes": 5, "depth": 3, "dim": 6, "num_heads": 2}
GEOMETRY = Geometry(dim=6, num_heads=2, num_tokens=5, depth=3, layer=0)
STEPS: dict[str, Any] = {"epsilon": Fraction(8, 255), "relative_step": Fraction(1, 4), "num_steps": 3}


def scattered(module: torch.nn.Module, spread: float = 0.5) -> torch.nn.Module:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(spread * torch.randn(parameter.shape, generator=generator))
    return module


def images(batch: int = 2) -> Tensor:
    return torch.rand(batch, 3, 6, 6, generator=torch.Generator().manual_seed(3))


def scores_and_slope(model: LoadedModel) -> tuple[Tensor, Tensor]:
    inputs = images().requires_grad_()
    outputs = model.outputs(inputs, (4, 5))
    return outputs.detach(), torch.autograd.grad(outputs.square().sum(), inputs)[0]


def by_heads(function: Any, heads: Sequence[Tensor], wanted: Tensor) -> tuple[Tensor, ...]:
    """The gradients by each of a layer's inputs of a weighted sum of its outputs."""
    leaves = tuple(each.detach().clone().requires_grad_() for each in heads)
    return torch.autograd.grad((function(leaves, None) * wanted).sum(), leaves)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("declaration", DECLARATIONS, ids=title)
def test_outputs_are_the_same_to_the_bit_and_gradients_where_a_mode_is_not_offered(declaration: Any) -> None:
    layers = {"layers": "all"} if hasattr(type(declaration), "layers") and declaration.layers != "all" else {}
    module = scattered(build(Vit(**SMALL, attention=replace(declaration, **layers))))
    model = LoadedModel(module, PREPROCESSING)
    has_none = not getattr(declaration, "data_dependent", True)
    assert set(model.gradient_modes) == (set() if has_none else OFFERED.get(declaration.kind, set()))
    outputs, own = scores_and_slope(model)
    for mode in get_args(Gradients)[1:]:
        found, slope = scores_and_slope(model.with_gradients(mode))
        assert torch.equal(found, outputs), mode
        stopped = any(getattr(part, "stops_gradients", False) for part in module.modules())
        offered = mode in model.gradient_modes or (mode in ("through_solvers", "mechanism") and stopped)
        first = bool(model.gradient_modes) and mode == "mechanism"
        assert torch.equal(slope, own) != (offered or first), mode
        if first and not stopped:
            assert torch.equal(slope, scores_and_slope(model.with_gradients(model.gradient_modes[0]))[1])
        assert torch.equal(scores_and_slope(model)[1], own)


class TestImplicit:
    def gram(self) -> Tensor:
        points = drawn(1, 1, 6, 2)
        return (-torch.cdist(points, points).square()).exp()

    @pytest.mark.parametrize("settings", [("huber", "paper"), ("welsch", "paper"), ("huber", "released")])
    def test_of_converged_weights_they_are_the_true_and_the_unrolled_ones(self, settings: tuple[Any, Any]) -> None:
        declaration = Rkde(loss=settings[0], formula=settings[1], threshold=0.6, num_iterations=400)
        gram, wanted = self.gram(), drawn(1, 1, 6, seed=1)

        def slope(of: Any) -> Tensor:
            leaf = gram.clone().requires_grad_()
            return torch.autograd.grad((of(leaf, declaration) * wanted).sum(), leaf)[0]

        implicit = slope(implicit_log_weights)
        torch.testing.assert_close(implicit, slope(robust_log_weights), rtol=1e-8, atol=1e-10)
        for i, j in ((0, 1), (2, 2), (5, 3)):
            ahead, behind = gram.clone(), gram.clone()
            ahead[..., i, j] += 1e-5
            behind[..., i, j] -= 1e-5
            difference = robust_log_weights(ahead, declaration) - robust_log_weights(behind, declaration)
            assert float(implicit[0, 0, i, j]) == pytest.approx(float((difference * wanted).sum()) / 2e-5, rel=1e-5)

    @pytest.mark.parametrize("num_iterations", [1, 2])
    def test_after_few_iterations_they_solve_with_the_jacobian_there(self, num_iterations: int) -> None:
        declaration = Rkde(threshold=0.6, num_iterations=num_iterations)
        gram, wanted = self.gram(), drawn(1, 1, 6, seed=1)
        last = robust_log_weights(gram, declaration)
        jacobian = torch.zeros(6, 6, dtype=torch.float64)
        for m in range(6):
            moved = [last.clone(), last.clone()]
            moved[0][..., m] += 1e-6
            moved[1][..., m] -= 1e-6
            ahead, behind = (reweighted(gram, each, declaration, None)[0, 0] for each in moved)
            jacobian[:, m] = (ahead - behind) / 2e-6
        solved = torch.linalg.solve(torch.eye(6, dtype=torch.float64) - jacobian.T, wanted[0, 0])
        leaf = gram.clone().requires_grad_()
        following = reweighted(leaf, last, declaration, None)
        (slope,) = torch.autograd.grad((following * solved).sum(), leaf)
        again = gram.clone().requires_grad_()
        (found,) = torch.autograd.grad((implicit_log_weights(again, declaration) * wanted).sum(), again)
        torch.testing.assert_close(found, slope, rtol=1e-7, atol=1e-9)
        (unrolled,) = torch.autograd.grad((robust_log_weights(again, declaration) * wanted).sum(), again)
        # Far from convergence the two are other gradients.
        assert (found - unrolled).norm() > 0.05 * unrolled.norm()

    def test_padding_and_weights_that_vanish_leave_them_finite(self) -> None:
        mask = torch.tensor([[True] * 4 + [False] * 2])
        for declaration in (Rkde(loss="tukey", threshold=0.5), Rkde(loss="tukey", threshold=1e-3), Rkde()):
            leaf = self.gram().requires_grad_()
            of_keys = implicit_log_weights(leaf, declaration, mask).exp()
            (slope,) = torch.autograd.grad(of_keys.square().sum(), leaf)
            assert slope.isfinite().all()
            assert not slope[..., 4:].any()


def test_gradients_of_queries_keys_and_values_are_cut_to_the_kernel_of_linformers_map_and_outside() -> None:
    layer: Any = layer_of(Linformer(projection_length=3), GEOMETRY).layer
    heads, wanted = tuple(drawn(2, 2, 5, 3, seed=seed) for seed in range(3)), drawn(2, 2, 5, 3, seed=9)
    found = {}
    for mode in ("own", "within_kernel", "outside_kernel"):
        layer.gradient_mode = mode
        found[mode] = by_heads(layer.mix, heads, wanted)
    E = layer.E.detach()
    for place, own in enumerate(found["own"]):
        within, outside = found["within_kernel"][place], found["outside_kernel"][place]
        assert (E @ within).abs().max() <= 1e-10
        assert (outside - E.mT @ torch.linalg.inv(E @ E.mT) @ E @ own).abs().max() <= 1e-10
        assert (within + outside - own).abs().max() <= 1e-10
    assert found["within_kernel"][0].abs().max() > 1e-3
    assert max(float(each.abs().max()) for each in found["within_kernel"][1:]) <= 1e-10


def test_the_kernel_of_primal_attention_is_that_of_its_projection_weights() -> None:
    geometry = replace(GEOMETRY, num_tokens=7)
    layer: Any = layer_of(Primal(num_directions=1, rank_multiplier=4), geometry).layer
    x_BNC, wanted = drawn(2, 7, 6), drawn(2, 2, 7, 2, seed=9)
    inputs = (x_BNC, drawn(2, 2, 7, 3, seed=1), drawn(2, 2, 7, 3, seed=2))
    found = {}
    for mode in ("own", "within_kernel", "outside_kernel"):
        layer.gradient_mode = mode
        found[mode] = by_heads(layer.scores, inputs, wanted)
    for place, own in enumerate(found["own"]):
        within, outside = found["within_kernel"][place], found["outside_kernel"][place]
        tokens_BNC = within if within.ndim == 3 else merge_heads(within)
        for weight in (layer.we, layer.wr):
            assert layer.projection(weight, tokens_BNC).abs().max() <= 1e-10
        assert (within + outside - own).abs().max() <= 1e-10
        assert (within * outside).sum().abs() <= 1e-10
    assert found["within_kernel"][0].abs().max() <= 1e-10
    assert found["within_kernel"][1].abs().max() > 1e-3


def test_only_keys_with_a_sparse_part_move() -> None:
    declaration = Rpc(num_iterations=3, sparsity=0.5, layers="all")
    layer: Any = layer_of(declaration, GEOMETRY).layer
    k_BHND, v_BHND = drawn(1, 2, 5, 3), drawn(1, 2, 5, 3, seed=1)
    wanted = drawn(1, 2, 5, 3, seed=2)
    own = by_heads(layer.mix, (k_BHND, v_BHND), wanted)
    layer.gradient_mode = "sparse_part"
    found = by_heads(layer.mix, (k_BHND, v_BHND), wanted)
    sparse = [pursuits(declaration, (k_BHND[0, h].tolist(), v_BHND[0, h].tolist()), 6)[-1].sparse for h in range(2)]
    is_sparse = torch.tensor(sparse)[None] != 0
    assert 0 < int(is_sparse.sum()) < is_sparse.numel()
    torch.testing.assert_close(found[0], own[0] * is_sparse, rtol=0, atol=1e-12)
    assert torch.equal(found[1], own[1])


def test_a_smooth_shrink_has_the_slopes_of_the_softened_threshold() -> None:
    x, threshold = torch.linspace(-3, 3, 13, dtype=torch.float64), torch.tensor(0.8, dtype=torch.float64)
    leaves = x.clone().requires_grad_(), threshold.clone().requires_grad_()
    values = smooth_shrink(*leaves)
    assert torch.equal(values, shrink(x, threshold))
    weights, width, step = drawn(13), 0.2, 1e-6
    by_x, by_threshold = torch.autograd.grad((values * weights).sum(), leaves)

    def soft(x: Tensor, threshold: Tensor) -> Tensor:
        return width * (((x - threshold) / width).exp().log1p() - ((-x - threshold) / width).exp().log1p())

    slope = (soft(x + step, threshold) - soft(x - step, threshold)) / (2 * step)
    torch.testing.assert_close(by_x, slope * weights, rtol=1e-6, atol=1e-8)
    slope = (soft(x, threshold + step) - soft(x, threshold - step)) / (2 * step)
    assert float(by_threshold) == pytest.approx(float((slope * weights).sum()), rel=1e-6)


@pytest.mark.parametrize("estimator", ["over_layers", "finite_differences"])
def test_gradients_through_elliptical_attentions_metric_are_the_true_ones(estimator: Any) -> None:
    geometry = Geometry(dim=4, num_heads=2, num_tokens=3, depth=2, layer=1)
    module = layer_of(Elliptical(estimator=estimator), geometry, spread=0.7)
    x_BNC = tokens(batch=1, num_tokens=3, dim=4, seed=3).requires_grad_()
    assert not torch.autograd.gradcheck(module, (x_BNC,), atol=1e-6, raise_exception=False)
    module.layer.gradient_mode = "through_constants"  # type: ignore[assignment]  # of the layer
    assert torch.autograd.gradcheck(module, (x_BNC,), atol=1e-6)


@pytest.mark.parametrize("attention", [Bilateral(), Mgk()], ids=title)
@pytest.mark.parametrize("residual", [PlainResidual(), Boost()], ids=title)
def test_of_bilateral_boosted_and_mixed_keys_the_own_gradients_by_pixels_are_the_true_ones(
    attention: Any, residual: Any
) -> None:
    model = scattered(build(Vit(**SMALL, attention=attention, residual=residual)).double().eval(), 0.7)
    model.requires_grad_(False)
    pixels, weights, step = images(1).double().requires_grad_(), drawn(1, 5), 1e-5
    (slope,) = torch.autograd.grad((model(pixels) * weights).sum(), pixels)
    for place in range(0, pixels.numel(), 7):
        change = torch.zeros(pixels.numel(), dtype=torch.float64)
        change[place] = step
        ahead, behind = (model(pixels.detach() + sign * change.view_as(pixels)) for sign in (1, -1))
        wanted = float(((ahead - behind) * weights).sum()) / (2 * step)
        assert float(slope.flatten()[place]) == pytest.approx(wanted, rel=1e-6, abs=1e-8)


def test_an_attack_refuses_a_model_without_its_gradients() -> None:
    plain = LoadedModel(build(Vit(**SMALL)), PREPROCESSING)
    pursuing = LoadedModel(build(Vit(**SMALL, attention=Rpc())), PREPROCESSING)
    for mode in OF_ANY_MODEL:
        Pgd(**STEPS, gradients=mode).check_model(plain, images())
    Pgd(**STEPS, gradients="smooth").check_model(pursuing, images())
    with pytest.raises(
        ContractError, match=r"no layer of it has gradients smooth, and all .* take own or through_solve"
    ):
        Pgd(**STEPS, gradients="smooth").check_model(plain, images())
    with pytest.raises(ContractError, match=r"has gradients implicit.*mechanism or smooth or sparse_part"):
        Pgd(**STEPS, gradients="implicit").check_model(pursuing, images())


@pytest.mark.parametrize("more", [{"gradients": "implicit"}, {"num_draws": 2, "over_draws": "worst"}])
def test_attacks_with_them_keep_what_every_attack_promises(more: dict[str, Any]) -> None:
    check_attack(Pgd(**STEPS, **more))


@pytest.mark.parametrize("more", [{"num_draws": 1}, {"num_draws": 2, "backend": "torchattacks"}])
def test_the_worst_draw_needs_several_and_robenchs_own_code(more: dict[str, Any]) -> None:
    with pytest.raises(FieldsError, match="over_draws"):
        Pgd(**STEPS, over_draws="worst", **more)
