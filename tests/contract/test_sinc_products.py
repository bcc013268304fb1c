"""The products of sincs of Fourier attention: exact in any precision, and the same in blocks of any size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import Tensor

from robench.attention import sinc_products
from robench.attention.sinc_products import GROUP, Blocks, LogSincProducts, applied, log_sinc_derivative, sinc

if TYPE_CHECKING:
    from collections.abc import Callable

    Apply = Callable[..., Tensor]

BUDGETS = (0, 2_000, 20_000, 2**30)


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def derivative(x: Tensor) -> Tensor:
    return log_sinc_derivative(x.clone(), [torch.empty_like(x) for _ in range(3)])


def sinc_of(x: Tensor) -> Tensor:
    return sinc(x.clone(), out=torch.empty_like(x))


def results(width: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Products of (2, 3, 7, width) queries with (2, 3, 5, width) keys, some equal, and their gradients."""
    q_BHND, k_BHMD = normal(2, 3, 7, width, dtype=dtype), normal(2, 3, 5, width, seed=1, dtype=dtype)
    k_BHMD[:, :, 0] = q_BHND[:, :, 0]
    q_BHND.requires_grad_()
    k_BHMD.requires_grad_()
    logs_BHNM: Tensor = LogSincProducts.apply(q_BHND, k_BHMD)
    return [logs_BHNM, *torch.autograd.grad(logs_BHNM, (q_BHND, k_BHMD), normal(2, 3, 7, 5, seed=2, dtype=dtype))]


def equal(left: Tensor, right: Tensor, tolerance: float) -> bool:
    return torch.allclose(left, right, rtol=0, atol=tolerance)


class TestBlocks:
    @pytest.mark.parametrize("width", [1, 3, 4, 9, 16])
    def test_no_bit_depends_on_the_budget(self, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
        found = []
        for budget in BUDGETS:
            monkeypatch.setattr(sinc_products, "BUDGET_ON_CPU", budget)
            found.append(results(width))
        for others in found[1:]:
            assert all(torch.equal(one, other) for one, other in zip(found[0], others, strict=True))

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("group", [1, GROUP])
    def test_buffers_fill_the_budget_and_never_more(
        self, group: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        q_PDN, k_PDM = torch.empty(6, 12, 40, dtype=dtype), torch.empty(6, 12, 50, dtype=dtype)
        matrix = 40 * 50 * dtype.itemsize
        for num_matrices in range(1, 90):
            budget = 3 * matrix * num_matrices + 1
            monkeypatch.setattr(sinc_products, "BUDGET_ON_CPU", budget)
            blocks = Blocks.of(q_PDN, k_PDM, num_buffers=3, group=group)
            num_bytes = sum(each.numel() * each.element_size() for each in blocks.buffers)
            assert num_bytes <= budget
            assert num_bytes == 3 * matrix * blocks.heads_at_once * blocks.num_groups
            assert num_bytes > budget / 2 or num_matrices > 6 * 12 // group
        assert (blocks.heads_at_once, blocks.num_groups) == (6, 12 // group)

    def test_a_larger_budget_needs_fewer_visits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        visits = []
        for budget in (0, 2**30):
            names: list[str] = []
            monkeypatch.setattr(sinc_products, "BUDGET_ON_CPU", budget)
            monkeypatch.setattr(sinc_products, "applied", counting(names))
            results(16)
            visits.append({name: names.count(name) for name in ("sin", "log", "tan")})
        # Six heads of sixteen coordinates in groups of four; then all at once, but for the places in a group.
        assert visits == [{"sin": 96, "log": 24, "tan": 96}, {"sin": 4, "log": 1, "tan": 1}]


def counting(names: list[str]) -> Apply:
    def counted(on_cpu: Any, elsewhere: Any, x: Tensor, *, out: Tensor) -> Tensor:
        names.append(on_cpu.__name__)
        return applied(on_cpu, elsewhere, x, out=out)

    return counted


class TestProducts:
    @pytest.mark.parametrize("width", [1, 4, 9])
    def test_float32_is_near_float64(self, width: int) -> None:
        for single, double in zip(results(width), results(width, torch.float64), strict=True):
            assert torch.allclose(single.double(), double, rtol=1e-4, atol=1e-4)

    def test_heads_do_not_depend_on_each_other_and_layouts_do_not_count(self) -> None:
        q_BHND, k_BHND = normal(3, 4, 9, 8), normal(3, 4, 9, 8, seed=1)
        together = LogSincProducts.apply(q_BHND, k_BHND)
        assert torch.equal(LogSincProducts.apply(q_BHND[1:2, 2:], k_BHND[1:2, 2:]), together[1:2, 2:])
        strided = [each.permute(3, 0, 2, 1).contiguous().permute(1, 3, 2, 0) for each in (q_BHND, k_BHND)]
        assert torch.equal(LogSincProducts.apply(*strided), together)

    def test_functions_of_an_element_do_not_depend_on_its_place(self) -> None:
        x = 30 * normal(1000)
        for on_cpu, elsewhere in ((np.sin, torch.sin), (np.tan, torch.tan), (np.exp, torch.exp)):
            whole = applied(on_cpu, elsewhere, x, out=torch.empty_like(x))
            for first in (1, 3, 17, 990):
                part = x[first:]
                assert torch.equal(applied(on_cpu, elsewhere, part, out=torch.empty_like(part)), whole[first:])

    @pytest.mark.parametrize("functions", [(np.sin, torch.sin), (np.tan, torch.tan), (np.log, torch.log)])
    def test_functions_on_a_processor_are_those_elsewhere(self, functions: tuple[Any, Any]) -> None:
        x = torch.logspace(-30, 2, 5000)
        exact = functions[1](x.double())
        found = applied(*functions, x, out=torch.empty_like(x)).double()
        assert ((found - exact).abs() <= 4 * torch.finfo(torch.float32).eps * exact.abs()).all()
        half = applied(*functions, x.bfloat16(), out=torch.empty_like(x, dtype=torch.bfloat16))
        assert torch.equal(half, functions[1](x.bfloat16()))

    @pytest.mark.parametrize("width", [1, 3, 4, 5, 256])
    def test_products_are_those_of_float64_though_they_are_too_small_for_float32(self, width: int) -> None:
        q_BHND = 50 * torch.randn(1, 1, 4, width, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        logs_BHNM = LogSincProducts.apply(q_BHND, -q_BHND.flip(-2))
        differences_BHNMD = q_BHND[..., :, None, :] + q_BHND.flip(-2)[..., None, :, :]
        assert equal(logs_BHNM, (differences_BHNMD.sin() / differences_BHNMD).abs().log().sum(dim=-1), 1e-9)
        single_BHNM = LogSincProducts.apply(q_BHND.float(), -q_BHND.float().flip(-2))
        assert torch.allclose(single_BHNM.double(), logs_BHNM, rtol=1e-3, atol=1e-3)
        assert width < 256 or logs_BHNM.max() < -500

    def test_gradients_agree_with_finite_differences_where_coordinates_coincide(self) -> None:
        q_BHND = normal(1, 1, 3, 4, dtype=torch.float64).requires_grad_()
        k_BHND = q_BHND.detach().clone()
        k_BHND[..., 0] += 0.0999
        k_BHND.requires_grad_()
        assert torch.autograd.gradcheck(LogSincProducts.apply, (q_BHND, k_BHND), eps=1e-6, atol=1e-7)

    def test_the_slope_is_exact_on_both_sides_of_where_its_series_ends(self) -> None:
        x = torch.tensor([1e-30, 1e-4, 0.01, 0.0999999, 0.1000001, 0.5, 2.0, 4.0], dtype=torch.float64)
        for sign in (1, -1):
            wanted = (sinc_of(sign * x + 1e-5).abs().log() - sinc_of(sign * x - 1e-5).abs().log()) / 2e-5
            assert equal(derivative(sign * x), wanted, 1e-7)
        left, right = derivative(torch.tensor([0.1 - 1e-15, 0.1], dtype=torch.float64)).tolist()
        assert left == pytest.approx(right, abs=1e-13)
        assert derivative(torch.zeros(1)).item() == 0
