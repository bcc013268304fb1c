"""The median subset of each query: the choice of masked log-sum-exps, most of it without them."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from robench.attention import subsets as module
from robench.attention.subsets import chosen_by_sums, log_density, median_subsets, prefix_subsets, random_subsets

SIZES = [(5, 1), (9, 15), (17, 5), (197, 5)]
# Of logarithms: from equal kernels to some that vanish beside others.
SPREADS = (0.0, 1e-4, 0.1, 1.0, 10.0, 100.0)


def log_kernels(num_tokens: int, spread: float, *, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (spread * torch.randn(2, 3, num_tokens, num_tokens, generator=generator)).to(dtype)


def of_all(num_tokens: int, num_subsets: int) -> Tensor:
    """Masks (2, L, 1, N) for all queries of a row together."""
    lengths = (num_tokens, num_tokens)
    drawn = random_subsets(
        (1, 2), lengths=lengths, layer=0, num_subsets=num_subsets, num_tokens=num_tokens, fraction=0.8
    )
    return drawn.unsqueeze(-2)


def of_each(num_tokens: int, num_subsets: int) -> Tensor:
    """Masks (2, L, N, N) of the past of each query."""
    return prefix_subsets((1, 2), batch_size=2, layer=0, num_subsets=num_subsets, num_tokens=num_tokens, fraction=0.8)


def expected(log_kernel_BHNM: Tensor, members_BLNM: Tensor) -> Tensor:
    """The place of the median of all log-sum-exps."""
    masked_BHLNM = log_kernel_BHNM.unsqueeze(2).masked_fill(~members_BLNM.unsqueeze(1), -torch.inf)
    densities_BHLN = masked_BHLNM.logsumexp(dim=-1)
    return densities_BHLN.argsort(dim=2, stable=True)[:, :, members_BLNM.shape[1] // 2]


@pytest.mark.parametrize("masks", [of_all, of_each])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_each_query_has_the_choice_of_its_log_sum_exps(
    masks: Callable[[int, int], Tensor], size: tuple[int, int], dtype: torch.dtype
) -> None:
    members_BLNM = masks(*size)
    for spread in SPREADS:
        log_kernel_BHNM = log_kernels(size[0], spread, dtype=dtype)
        # Rounded ones tie often.
        for each in (log_kernel_BHNM, (10 * log_kernel_BHNM).round() / 10):
            assert torch.equal(median_subsets(each, members_BLNM), expected(each, members_BLNM)), spread


def test_few_queries_are_left_where_kernels_differ_and_all_where_they_are_equal() -> None:
    members_BLNM = of_all(197, 5)
    left = [float(chosen_by_sums(log_kernels(197, spread), members_BLNM)[1].float().mean()) for spread in (0.0, 1.0)]
    assert left[0] == 1
    assert left[1] < 0.02


def test_of_many_queries_few_need_log_sum_exps(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = []

    def counted(log_kernel: Tensor, members: Tensor) -> Tensor:
        rows.append(log_kernel.flatten(0, -2).shape[0])
        return log_density(log_kernel, members)

    monkeypatch.setattr(module, "log_density", counted)
    log_kernel_BHNM = log_kernels(197, 1.0)
    log_kernel_BHNM[1, 2, 3:6] = 0.5
    median_subsets(log_kernel_BHNM, of_all(197, 5))
    assert len(rows) == 5
    assert 3 <= rows[0] < 0.02 * 2 * 3 * 197


def test_a_subset_without_the_nearest_key_is_weighed_by_its_own_keys() -> None:
    """Beside one key at 0 the kernels of all others vanish; of three subsets without it the middle one is chosen."""
    log_kernel = torch.full((1, 1, 1, 8), -500.0)
    log_kernel[..., 0] = 0
    log_kernel[..., 1:4] = torch.tensor([-200.0, -300.0, -100.0])
    members = torch.zeros(1, 3, 1, 8, dtype=torch.bool)
    members[0, [0, 1, 2], 0, [1, 2, 3]] = True
    assert median_subsets(log_kernel, members).item() == 0


def test_no_numbers_are_chosen_as_log_sum_exps_choose_them() -> None:
    log_kernel_BHNM, members_BLNM = log_kernels(17, 1.0), of_all(17, 5)
    log_kernel_BHNM[0, 0, 3, 4] = torch.nan
    log_kernel_BHNM[1, 2, 5] = -torch.inf
    assert torch.equal(median_subsets(log_kernel_BHNM, members_BLNM), expected(log_kernel_BHNM, members_BLNM))
