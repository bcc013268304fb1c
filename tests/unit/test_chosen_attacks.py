"""Attacks that an audit adds where other checks are raised, on digits behind planted obfuscations."""

from fractions import Fraction

import pytest
import torch
from obfuscations import OfPixels, planted, probe_of
from torch import Tensor, nn
from torch.nn.functional import one_hot

import robench
from robench.core.flags import COUPLED_ROWS, Flag
from robench.core.protocols import Batch, Dataset
from robench.evaluation import chosen_attacks
from robench.evaluation.probe import Probe
from robench.metrics.audits import flag_of

EPSILON, NUM_IMAGES = Fraction(16, 255), 10


def raised(name: str) -> Flag:
    return Flag(name=name, source="", value=1.0, limit=0.0, is_raised=True, finding="", advice="")


def chosen(probe: Probe, flags: list[Flag]) -> list[Flag]:
    return [flag_of(each) for each in chosen_attacks.chosen_attacks(probe, flags)]


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return robench.load_dataset("digits")


@pytest.fixture(scope="module")
def batch(digits: Dataset) -> Batch:
    return digits.batch(0, NUM_IMAGES)


@pytest.fixture(autouse=True)
def few_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen_attacks, "WITH_SCORES", 500)
    monkeypatch.setattr(chosen_attacks, "BY_LABELS", 60)
    monkeypatch.setattr(chosen_attacks, "NUM_STEPS", 20)


def test_nothing_is_added_where_nothing_is_raised(batch: Batch, digits: Dataset) -> None:
    probe = probe_of(OfPixels(), batch, digits, EPSILON)
    assert chosen(probe, []) == []
    assert chosen(probe, [raised(COUPLED_ROWS)]) == []


def test_rounded_inputs_stand_under_gradients_and_fall_without_them(batch: Batch, digits: Dataset) -> None:
    probe = probe_of(planted(OfPixels(), batch.inputs)["rounding of inputs"], batch, digits, EPSILON)
    (flag,) = chosen(probe, [raised("zero gradients")])
    assert flag.is_raised
    assert flag.limit == 1
    assert flag.value is not None
    assert flag.value <= 0.5
    assert "FMN of 20 steps fools 0 of 10" in flag.finding
    assert "draws" not in flag.finding


def test_gradients_without_a_mask_leave_nothing_to_choose_for(batch: Batch, digits: Dataset) -> None:
    (flag,) = chosen(probe_of(OfPixels(), batch, digits, EPSILON), [raised("zero gradients")])
    assert (flag.is_raised, flag.finding) == (False, "no example survives APGD")


def test_points_beyond_the_budget_do_not_count(batch: Batch, digits: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen_attacks, "EXPECTED_STEPS", 2)
    monkeypatch.setattr(chosen_attacks, "WITH_SCORES", 20)
    (flag,) = chosen(probe_of(OfPixels(), batch, digits, EPSILON / 1000), [raised("random victim")])
    assert flag.value == flag.limit == 1
    assert "the audit could not break them" in flag.finding
    assert "PGD of 2 steps and 20 draws fools 0 of 10" in flag.finding
    assert "RayS of 60 queries fools 0 of 10" in flag.finding


class Nearest(nn.Module):
    """Class of the nearest clean image, which small changes leave, without a gradient."""

    def __init__(self, batch: Batch) -> None:
        super().__init__()
        self.batch = batch

    def forward(self, images: Tensor) -> Tensor:
        distances = torch.cdist(images.flatten(1), self.batch.inputs.flatten(1))
        return 10.0 * one_hot(self.batch.targets[distances.argmin(1)], 10)


def test_what_is_robust_without_gradients_is_said_to_be_unbroken(batch: Batch, digits: Dataset) -> None:
    (flag,) = chosen(probe_of(Nearest(batch), batch, digits, EPSILON), [raised("unavailable gradients")])
    assert flag.is_raised
    assert flag.value == flag.limit == 1
    assert flag.finding.startswith("100% of the examples survive without gradients, and the audit could not break them")
    assert "FMN" not in flag.finding
