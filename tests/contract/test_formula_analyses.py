"""Analyses of formulas: equality with references in loops, and what the formulas promise."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference_formulas
import torch
from presence import present
from torch import Tensor

from robench.analyses import ANALYSES, softmax_bounds_impl
from robench.analyses.base import AnalysisBase, Curve
from robench.analyses.boost_bound import BoostBound
from robench.analyses.density_contours import DensityContours
from robench.analyses.density_contours_impl import drawn
from robench.analyses.results import read_analysis
from robench.analyses.smoothing_powers import SmoothingPowers
from robench.analyses.softmax_bounds import SoftmaxLipschitz, SoftmaxNoise
from robench.analyses.softmax_bounds_impl import root_fit, spectral_norms
from robench.core.errors import DeclarationError
from robench.declarations.base import FieldsError
from robench.runs.analyses import AnalysisRequest, analyse

FEW: Mapping[str, Any] = {"min_tokens": 3, "max_tokens": 12, "num_sizes": 4, "num_samples": 5}
SMALL: list[AnalysisBase] = [
    SoftmaxLipschitz(**FEW),
    SoftmaxLipschitz(**FEW, scale=3.0, logit_range=0.5, seed=1),
    SoftmaxNoise(**FEW),
    SoftmaxNoise(**FEW, scale=0.0, noise=2.0, seed=1),
    BoostBound(),
    BoostBound(t=1.0, lipschitz=(0.01, 1.0, 1000.0), num_layers=100),
    SmoothingPowers(num_points=7, max_power=60, num_powers=9),
    SmoothingPowers(powers=(3,), num_points=2, max_power=2, num_powers=2),
    DensityContours(num_samples=18, num_outliers=4, num_blocks=5, grid_size=6),
    DensityContours(num_samples=9, num_outliers=0, num_blocks=1, grid_size=5, bandwidth=0.7, num_iterations=0),
    DensityContours(
        num_samples=12, num_outliers=6, outlier_shape=2, num_blocks=3, grid_size=5, threshold=0.9, num_iterations=3
    ),
]
small = pytest.mark.parametrize("declaration", SMALL, ids=lambda each: each.kind)


def computed(declaration: AnalysisBase) -> Mapping[str, Curve]:
    curves: Mapping[str, Curve] = declaration.implemented()(declaration)
    return curves


def test_every_formula_is_tested() -> None:
    formulas = {kind for kind, declared in ANALYSES.items() if declared.subject == "formula"}
    assert {each.kind for each in SMALL} == formulas


@small
def test_equals_the_reference(declaration: AnalysisBase) -> None:
    reference: Callable[[AnalysisBase], Mapping[str, object]]
    reference = getattr(reference_formulas, declaration.kind.replace("-", "_"))
    expected, found = reference(declaration), computed(declaration)
    assert expected.keys() == found.keys()
    for name, curve in found.items():
        wanted = torch.tensor(expected[name], dtype=torch.float64)
        torch.testing.assert_close(curve.values, wanted, rtol=1e-10, atol=1e-10)


@small
def test_the_same_numbers_come_again_and_the_global_generator_is_left_alone(declaration: AnalysisBase) -> None:
    before = torch.get_rng_state()
    found, again = computed(declaration), computed(declaration)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(curve.values, again[name].values) for name, curve in found.items())


@small
def test_kept_results_are_read_again(declaration: AnalysisBase, tmp_path: Path) -> None:
    """Random samples are kept as examples."""
    ((made, path),) = analyse(AnalysisRequest(analysis=declaration, results=tmp_path))
    read = read_analysis(present(path))
    has_samples = any(each.is_of_examples for each in declaration.statistics.values())
    assert len(read.examples) == (FEW["num_samples"] if has_samples else 0)
    for one, other in zip(made.numbers, read.numbers, strict=True):
        assert (one.name, one.axes) == (other.name, other.axes)
        np.testing.assert_array_equal(one.values, other.values)


# Fewer tokens than exp(range), and more.
@pytest.mark.parametrize(
    ("num_tokens", "logit_range"), [(2, 1.0), (5, 4.0), (40, 2.0), pytest.param(40, 5.0, marks=pytest.mark.slow)]
)
def test_the_lipschitz_constant_is_the_smallest(num_tokens: int, logit_range: float) -> None:
    """No pair in the set stretches more, nor does any point after gradient ascent; two logits above all others do."""
    sizes = {"min_tokens": num_tokens, "max_tokens": 2 * num_tokens, "num_sizes": 3, "num_samples": 2}
    largest = float(computed(SoftmaxLipschitz(**sizes, logit_range=logit_range))["lipschitz"].values[0])
    generator = torch.Generator().manual_seed(0)
    x_SN = torch.rand(200, num_tokens, generator=generator, dtype=torch.float64)
    x_SN[::2] = (x_SN[::2] > x_SN[::2, :1]).double()  # corners of the set
    x_SN = logit_range * x_SN
    assert float(stretches(x_SN, x_SN.roll(1, dims=0)).max()) <= largest * (1 + 1e-9)
    for _ in range(60):
        x_SN.requires_grad_()
        p_SN = x_SN.softmax(dim=-1)
        norms_S = torch.linalg.eigvalsh(torch.diag_embed(p_SN) - p_SN[:, :, None] * p_SN[:, None, :])[:, -1]
        (gradient_SN,) = torch.autograd.grad(norms_S.sum(), x_SN)
        assert float(norms_S.detach().max()) <= largest * (1 + 1e-9)
        x_SN = (x_SN.detach() + logit_range / 5 * gradient_SN.sign()).clamp(0, logit_range)
    corner_N = torch.zeros(num_tokens, dtype=torch.float64)
    corner_N[:2] = logit_range
    near_N = corner_N.clone()
    near_N[0] -= 1e-4
    mirrored_N = torch.cat([near_N[:2].flip(0), near_N[2:]])
    assert float(stretches(near_N[None], mirrored_N[None])) == pytest.approx(largest, rel=2e-4)


def stretches(x_SN: Tensor, y_SN: Tensor) -> Tensor:
    """|softmax(x) - softmax(y)| / |x - y|, and 0 for equal ones."""
    change_S: Tensor = torch.linalg.vector_norm(x_SN.softmax(dim=-1) - y_SN.softmax(dim=-1), dim=-1)
    distance_S: Tensor = torch.linalg.vector_norm(x_SN - y_SN, dim=-1)
    return change_S / distance_S.clamp(min=1e-12)


def test_spectral_norms_of_extreme_weights() -> None:
    """One weight of all; two equal ones; equal ones; and weights that differ in their last bits."""
    nearly = [0.4, 0.4 - 1e-16, 0.2 + 1e-16]
    weights_SN = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0], [1 / 3] * 3, nearly], dtype=torch.float64)
    torch.testing.assert_close(spectral_norms(weights_SN), torch.tensor([0, 0.5, 1 / 3, 0.4], dtype=torch.float64))


def test_the_fit_recovers_planted_coefficients() -> None:
    sizes_X = torch.tensor([100.0, 215, 464, 1000, 10_000], dtype=torch.float64)
    a, b = root_fit(sizes_X, 2.5 / sizes_X.sqrt() - 0.125)
    assert [float(a), float(b)] == pytest.approx([2.5, -0.125], rel=1e-12)


def test_noise_moves_softmax_as_the_asymptote_says() -> None:
    declaration = SoftmaxNoise(min_tokens=4000, max_tokens=16_000, num_sizes=3, num_samples=30, scale=0.5, noise=0.7)
    found = computed(declaration)
    means_X = found["change"].values.mean(dim=0)
    torch.testing.assert_close(means_X, found["asymptote"].values, rtol=0.02, atol=0)


@pytest.mark.parametrize("declared", [SoftmaxLipschitz, SoftmaxNoise])
def test_draws_depend_on_neither_blocks_nor_other_sizes(
    declared: type[SoftmaxLipschitz] | type[SoftmaxNoise], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "local" if declared is SoftmaxLipschitz else "change"
    found_SX = computed(declared(**FEW))[name].values
    monkeypatch.setattr(softmax_bounds_impl, "_BLOCK", 30)
    fewer_SX = computed(declared(**{**FEW, "num_sizes": 3, "num_samples": 4}))[name].values
    torch.testing.assert_close(fewer_SX[:, [0, -1]], found_SX[:4, [0, -1]], rtol=1e-14, atol=0)


def test_the_theorem_on_boosting_holds_above_t_alone() -> None:
    """The quotient with the printed ratio tends to L / (L - t) above t, and grows without bound up to it."""
    found = computed(BoostBound(t=0.5, lipschitz=(0.3, 0.5, 0.6, 1.0, 3.0), num_layers=100))
    assert found["holds"].values.tolist() == [0, 0, 1, 1, 1]
    excess_YX = found["excess"].values
    limits_Y = torch.tensor([6.0, 2.0, 1.2], dtype=torch.float64)
    torch.testing.assert_close(excess_YX[2:, -1], limits_Y, rtol=1e-3, atol=0)
    assert float(excess_YX[1, -1]) == pytest.approx(1 + 0.5 * 100)
    assert float(excess_YX[0, -1] / excess_YX[0, -2]) == pytest.approx(1 / 0.8, rel=1e-3)
    ratio_YX = found["bound_ratio"].values
    torch.testing.assert_close(ratio_YX[:, 0], torch.ones_like(ratio_YX[:, 0]))
    assert bool((ratio_YX.diff(dim=1) < 0).all())


def test_capacities_approach_their_asymptotes() -> None:
    found = computed(SmoothingPowers(max_power=100_000, num_powers=9))
    n_X = present(found["capacity"].x)
    quotients_X = found["twicing_capacity"].values / found["twicing_capacity_asymptote"].values
    assert bool(((quotients_X - 1 + 3 / (8 * n_X)).abs() < 0.2 / n_X**2).all())
    torch.testing.assert_close(found["capacity"].values / found["capacity_asymptote"].values, n_X / (n_X + 1))


def test_densities_integrate_to_one_and_outliers_weigh_less() -> None:
    few = {"num_samples": 300, "num_outliers": 30, "grid_size": 41}
    found = computed(DensityContours(**few, num_blocks=65))
    grid_G = present(found["kde"].x)
    for name in ("truth", "kde", "rkde", "mom"):
        total = float(found[name].values.sum() * (grid_G[1] - grid_G[0]) ** 2)
        assert total == pytest.approx(1, abs=5e-3), name
    assert float(found["outlier_weight"].values) < 0.75 * 30 / 330
    distances = {name: float(found[f"{name}_distance"].values) for name in ("kde", "rkde", "mom")}
    assert distances["rkde"] < distances["kde"]
    assert distances["mom"] < distances["kde"]
    alone = computed(DensityContours(**few, num_blocks=1, num_iterations=0))
    torch.testing.assert_close(alone["rkde"].values, alone["kde"].values)
    torch.testing.assert_close(alone["mom"].values, alone["kde"].values, rtol=5e-3, atol=0)


def test_outliers_are_of_the_declared_gamma_distribution() -> None:
    """Its mean is shape times scale, its variance shape times scale^2."""
    points_N2, blocks_LS = drawn(DensityContours(num_samples=3000, num_outliers=1000, num_blocks=7))
    samples_N2, outliers_N2 = points_N2.split([3000, 1000])
    moments = [[float(each.mean()), float(each.var())] for each in (samples_N2, outliers_N2)]
    assert moments[0] == pytest.approx([0, 1], abs=0.05)
    assert moments[1] == pytest.approx([4.5, 2.25], rel=0.1)
    assert len(set(blocks_LS.flatten().tolist())) == 7 * (4000 // 7)


def test_a_median_of_nothing_is_refused() -> None:
    declaration = DensityContours(num_samples=21, num_outliers=0, num_blocks=21, bandwidth=0.05, grid_size=2)
    message = r"21 blocks of 1 points each is zero everywhere .* set fewer num_blocks"
    with pytest.raises(DeclarationError, match=message):
        computed(declaration)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SoftmaxLipschitz(max_tokens=150), "max_tokens must be at least 200, twice min_tokens, got 150"),
        (lambda: SoftmaxLipschitz(logit_range=0.0), "logit_range must be above 0, got 0.0"),
        (lambda: SoftmaxNoise(max_tokens=10**6, num_samples=10**5), "at most 535 for 13 numbers of up to 1000000 tok"),
        (lambda: SoftmaxNoise(noise=math.nan), "noise must be above 0"),
        (lambda: BoostBound(t=1.5), "t must be at most 1, got 1.5"),
        (lambda: BoostBound(lipschitz=()), "lipschitz must have 1 to 20 entries, got 0"),
        (lambda: BoostBound(lipschitz=(0.0, 1.0)), "lipschitz must be from 0.01 to 1000.0 each, got 0.0, 1.0"),
        (lambda: BoostBound(lipschitz=(math.nan,)), "lipschitz must be from 0.01 to 1000.0 each, got nan"),
        (lambda: BoostBound(lipschitz=(2.0, 1.0)), "lipschitz must be in ascending order, without repetition"),
        (lambda: SmoothingPowers(powers=(1, 1)), "powers must be in ascending order, without repetition, got 1, 1"),
        (lambda: SmoothingPowers(powers=(0,)), "powers must be from 1 to 100000 each, got 0"),
        (lambda: DensityContours(num_blocks=4), "num_blocks must be odd, got 4"),
        (lambda: DensityContours(num_samples=5, num_outliers=1, num_blocks=7), "at most the 6 samples and outliers"),
    ],
)
def test_values_out_of_bounds_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(FieldsError) as refusal:
        make()
    assert message in str(refusal.value)
