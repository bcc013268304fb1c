"""PGD for transfer: what passes see and how gradients are averaged and smoothed, against loops in float64."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor

from robench.attacks.attack import problem_of
from robench.attacks.pgd import Pgd
from robench.attacks.pgd_impl import PgdState
from robench.attacks.problem import Problem
from robench.attacks.transfer_pgd import TransferPgd
from robench.attacks.transfer_pgd_impl import TransferSearch, resized_and_padded, smoothed
from robench.declarations.base import FieldsError
from robench.perturbations.draws import ExampleDraws
from robench.testing.models import LinearModel, batch_of, perturbed

MODEL = LinearModel()
FIELDS: dict[str, Any] = {"epsilon": Fraction(8, 255), "relative_step": Fraction(1, 4), "num_steps": 4}


class Patched(LinearModel):
    """Linear model that reads images of 4 x 4 pixels as 2 x 2 patches."""

    patch_grid = (2, 2)


def problem_for(declaration: TransferPgd, step: int = 0) -> Problem:
    batch = batch_of(6)
    return problem_of(declaration, batch, Patched(), ExampleDraws(range(6)), 6).at(search=0, step=step)


def gradient_of(declaration: TransferPgd, problem: Problem, points: Tensor) -> Tensor:
    return TransferSearch(declaration, problem)._differentiated(problem, PgdState(points), 0).gradient()


def slope(images: Tensor, labels: Tensor) -> Tensor:
    """Return the gradient of the cross-entropy of the linear model, image by image in float64."""
    weight, rows = MODEL.weight.double(), []
    for image, label in zip(images.double(), labels.tolist(), strict=True):
        logits = [float(sum(weight[k] * (image.flatten() - 0.5))) for k in range(len(weight))]
        total = sum(math.exp(each - max(logits)) for each in logits)
        shares = [math.exp(each - max(logits)) / total - (k == label) for k, each in enumerate(logits)]
        rows.append(sum(share * weight[k] for k, share in enumerate(shares)).view(image.shape))
    return torch.stack(rows)


def shrunk(image: Tensor, height: int, width: int, above: int, before: int) -> Tensor:
    """Bilinear resizing, pixel by pixel between the centres of pixels, amid zeros."""
    C, H, W = image.shape
    canvas = torch.zeros(C, H, W, dtype=torch.float64)
    for i in range(height):
        for j in range(width):
            y, x = ((at + 0.5) * side / size - 0.5 for at, side, size in ((i, H, height), (j, W, width)))
            y, x = max(y, 0.0), max(x, 0.0)
            for row, down in ((int(y), 1 - y % 1), (min(int(y) + 1, H - 1), y % 1)):
                for column, right in ((int(x), 1 - x % 1), (min(int(x) + 1, W - 1), x % 1)):
                    canvas[:, above + i, before + j] += down * right * image[:, row, column]
    return canvas


class TestInputDiversity:
    @pytest.mark.parametrize(("draws", "place"), [((0.0, 0.0, 0.99), (6, 6, 0, 2)), ((0.5, 0.99, 0.4), (7, 7, 1, 0))])
    def test_an_image_shrinks_to_a_random_size_at_a_random_place(
        self, draws: tuple[float, float, float], place: tuple[int, int, int, int]
    ) -> None:
        image = torch.rand(3, 8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        found = resized_and_padded(image, 0.7, *draws)
        assert torch.allclose(found, shrunk(image, *place), rtol=0, atol=1e-12)

    def test_the_largest_size_and_no_chance_are_the_image_itself(self) -> None:
        image = torch.rand(3, 8, 8)
        assert resized_and_padded(image, 0.7, 0.99, 0.5, 0.5) is image
        plain = perturbed(TransferPgd(**FIELDS), batch_of(6), MODEL).inputs
        whole = perturbed(TransferPgd(**FIELDS, input_diversity=1.0, smallest_size=1.0), batch_of(6), MODEL).inputs
        assert torch.equal(plain, whole)
        smaller = perturbed(TransferPgd(**FIELDS, input_diversity=1.0, smallest_size=0.5), batch_of(6), MODEL).inputs
        assert not torch.equal(plain, smaller)

    def test_the_gradient_goes_back_through_the_picture(self) -> None:
        declared = TransferPgd(**FIELDS, input_diversity=1.0, smallest_size=0.5)
        problem = problem_for(declared)
        shown = TransferSearch(declared, problem)._shown(problem, problem.inputs, 0)
        # Every image has its own size and place.
        assert len({tuple(each[0].ne(0).any(1).tolist()) for each in shown}) > 1
        found = gradient_of(declared, problem, problem.inputs)
        at_shown = slope(shown, problem.labels)
        for place in ((0, 0, 0), (1, 2, 3), (2, 3, 1)):
            unit = torch.zeros_like(problem.inputs)
            unit[:, *place] = 1.0
            pictures = TransferSearch(declared, problem)._shown(problem, unit, 0).double()
            wanted = (pictures * at_shown).flatten(1).sum(1)
            assert torch.allclose(found[:, *place].double(), wanted, rtol=1e-4, atol=1e-6)


def test_a_gradient_is_convolved_with_a_gaussian_of_three_deviations() -> None:
    gradient = torch.randn(2, 3, 6, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    side, wanted = 5, torch.zeros_like(gradient)
    at = [-3 + 6 * place / (side - 1) for place in range(side)]
    kernel = [[math.exp(-(y**2 + x**2) / 2) for x in at] for y in at]
    total = sum(map(sum, kernel))
    for i in range(6):
        for j in range(5):
            for down in range(side):
                for right in range(side):
                    row, column = i + down - 2, j + right - 2
                    if 0 <= row < 6 and 0 <= column < 5:
                        wanted[:, :, i, j] += kernel[down][right] / total * gradient[:, :, row, column]
    assert torch.allclose(smoothed(gradient, side), wanted, rtol=0, atol=1e-12)
    assert smoothed(gradient, 1) is gradient


def test_the_gradients_of_scaled_copies_are_averaged() -> None:
    declared = TransferPgd(**FIELDS, scale_copies=3)
    problem = problem_for(declared)
    wanted = sum(slope(problem.inputs / 2**i, problem.labels) / 2**i for i in range(3)) / 3
    assert torch.allclose(gradient_of(declared, problem, problem.inputs).double(), wanted, rtol=1e-4, atol=1e-6)


def test_a_step_shows_the_perturbation_of_some_patches_alone() -> None:
    declared = TransferPgd(**FIELDS, patch_out=3)
    problem = problem_for(declared)
    points = problem.inputs + 0.02
    found = gradient_of(declared, problem, points)
    kept = found.ne(0).any(1)
    corners = kept[:, ::2, ::2]
    assert torch.equal(kept, corners.repeat_interleave(2, 1).repeat_interleave(2, 2))
    assert corners.flatten(1).sum(1).tolist() == [3] * 6
    assert len({tuple(each.flatten().tolist()) for each in corners}) > 1
    shown = torch.where(kept[:, None], points, problem.inputs)
    assert torch.allclose(found.double(), slope(shown, problem.labels) * kept[:, None], rtol=1e-4, atol=1e-6)
    later = gradient_of(declared, problem_for(declared, step=1), points)
    assert not torch.equal(later.ne(0), found.ne(0))


def test_without_further_fields_it_is_pgd_with_momentum_from_the_clean_image() -> None:
    fields = FIELDS | {"random_start": False, "returns": "last"}
    found = perturbed(TransferPgd(**FIELDS, momentum=0.9), batch_of(6), MODEL).inputs
    assert torch.equal(found, perturbed(Pgd(**fields, momentum=0.9), batch_of(6), MODEL).inputs)


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("translation", {"translation": 4}),
        ("returns", {"scale_copies": 2, "returns": "best"}),
        ("returns", {"patch_out": 2, "returns": "best"}),
        ("space", {"input_diversity": 0.5, "space": "normalised"}),
    ],
)
def test_fields_that_contradict_each_other_are_refused(field: str, given: dict[str, Any]) -> None:
    with pytest.raises(FieldsError) as refused:
        replace(TransferPgd(**FIELDS), **given)
    assert [each for each, _ in refused.value.problems] == [field]
