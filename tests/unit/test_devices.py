"""Copies to devices, row operations that do not wait, and the device that counts waits in tests."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from counting_device import DEVICE, waits_counted

from robench.attacks.rows import chosen, put
from robench.devices import indices_on_cpu, is_asynchronous, to_device

VALUES = torch.tensor([[1.0, -2.0], [3.0, 4.0], [-0.0, 5.0]])
MASK = torch.tensor([True, False, True])


@pytest.mark.parametrize(
    ("waiting", "name"),
    [
        (lambda values, mask: bool(mask.any()), "_local_scalar_dense"),
        (lambda values, mask: values[0, 0].item(), "_local_scalar_dense"),
        (lambda values, mask: float(values.max()), "_local_scalar_dense"),
        (lambda values, mask: mask.nonzero(), "nonzero"),
        (lambda values, mask: values[mask], "index"),
        (lambda values, mask: values.index_put_((mask,), values[1].clone()), "index_put_"),
        (lambda values, mask: values.masked_select(values > 0), "masked_select"),
        (lambda values, mask: values.cpu(), "_to_copy"),
        (lambda values, mask: VALUES.to(DEVICE), "_to_copy"),
        (lambda values, mask: torch.tensor([1.0], device=DEVICE), "_to_copy"),
        (lambda values, mask: torch.equal(values, values), "equal"),
    ],
)
def test_the_counting_device_counts_what_waits(waiting: Callable[..., Any], name: str) -> None:
    with waits_counted() as counted:
        values, mask = VALUES.to(DEVICE, non_blocking=True), MASK.to(DEVICE, non_blocking=True)
        assert counted.total == 0
        waiting(values, mask)
        assert counted.counts == {name: 1}


def test_the_counting_device_counts_nothing_else_and_computes() -> None:
    with waits_counted() as counted:
        values = to_device(VALUES, DEVICE).requires_grad_(True)
        there = torch.tanh(values @ torch.ones(2, 2, device=DEVICE)).sum(1)
        (gradient,) = torch.autograd.grad(there.sum(), values)
        rows = values.detach()[to_device(torch.tensor([2, 0]), DEVICE)]
        assert values.device == gradient.device == rows.device == DEVICE
        assert counted.total == 0
        assert torch.equal(rows.cpu(), VALUES[[2, 0]])
        here = VALUES.clone().requires_grad_(True)
        (expected,) = torch.autograd.grad(torch.tanh(here @ torch.ones(2, 2)).sum(), here)
        assert torch.equal(gradient.cpu(), expected)
    # What lies on the CPU is counted nowhere.
    with waits_counted() as counted:
        assert bool(VALUES[MASK].any())
        assert counted.total == 0


def test_operations_of_the_device_outside_are_refused() -> None:
    with waits_counted():
        values = to_device(VALUES, DEVICE)
    with pytest.raises(AssertionError, match="outside waits_counted"):
        values + 1


class TestSent:
    def test_on_its_own_device_a_tensor_is_itself(self) -> None:
        assert to_device(VALUES, "cpu") is VALUES
        assert to_device(VALUES, torch.device("cpu")) is VALUES
        assert not is_asynchronous(VALUES)

    @pytest.mark.parametrize("device", ["cuda", "cuda:1", torch.device("cuda", 0)])
    def test_cuda_gets_it_from_pinned_memory_at_once(self, monkeypatch: pytest.MonkeyPatch, device: Any) -> None:
        calls: list[Any] = []
        pinned = VALUES.clone()

        def to(values: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            calls.append((values is pinned, args, kwargs))
            return values

        monkeypatch.setattr(torch.Tensor, "pin_memory", lambda values: pinned)
        monkeypatch.setattr(torch.Tensor, "to", to)
        to_device(VALUES, device)
        assert calls == [(True, (device,), {"non_blocking": True})]

    def test_from_a_device_it_waits(self) -> None:
        with waits_counted() as counted:
            values = to_device(VALUES, DEVICE)
            assert is_asynchronous(values)
            # Numbers that are read before the copy has ended would be anything.
            assert torch.equal(to_device(values, "cpu"), VALUES)
            assert counted.counts == {"_to_copy": 1}


@pytest.mark.parametrize("rows", [MASK, torch.tensor([0, 2])])
def test_places_are_on_the_cpu_after_one_wait(rows: torch.Tensor) -> None:
    assert indices_on_cpu(rows).tolist() == [0, 2]
    with waits_counted() as counted:
        there = to_device(rows, DEVICE)
        assert indices_on_cpu(there).tolist() == [0, 2]
        assert counted.total == 1


@pytest.mark.parametrize("mask", [MASK, ~MASK, MASK | True, MASK & False])
def test_rows_are_chosen_and_put_on_a_device_as_on_a_cpu_without_waiting(mask: torch.Tensor) -> None:
    other, places = 10 * VALUES, torch.tensor([4, 0, 2])
    flags = torch.tensor([False, True, True])
    wanted_kept, wanted_flags = torch.zeros(5, 2), torch.zeros(5, dtype=torch.bool)
    put(places, mask, (wanted_kept, VALUES), (wanted_flags, flags))
    assert [bool(row.any()) for row in wanted_kept] == [bool(mask[1]), False, bool(mask[2]), False, bool(mask[0])]
    with waits_counted() as counted:
        here, *there = (to_device(each.clone(), DEVICE) for each in (mask, VALUES, other, places, flags))
        kept, kept_flags = torch.zeros(5, 2, device=DEVICE), torch.zeros(5, dtype=torch.bool, device=DEVICE)
        made = chosen(here, there[0], there[1])
        put(there[2], here, (kept, there[0]), (kept_flags, there[3]))
        assert counted.total == 0
        assert torch.equal(made.cpu(), chosen(mask, VALUES, other))
        assert torch.equal(kept.cpu(), wanted_kept)
        assert torch.equal(kept_flags.cpu(), wanted_flags)
