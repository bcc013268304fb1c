"""Patches and few pixels: what the harness refuses, and projections and places against brute force."""

import itertools
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from robench.attacks import places
from robench.attacks.pgd import Pgd
from robench.attacks.places import grid_of, squares
from robench.attacks.regions import region_of
from robench.core.errors import BudgetExceededError, ContractError
from robench.datasets import open_dataset
from robench.declarations.supports import L0, Patches, box_of, is_covered
from robench.declare import find_checkpoints
from robench.domains.images import IMAGES
from robench.models.loading import load_model
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws
from robench.testing.models import LinearModel

RULES, VICTIM = IMAGES.rules, LinearModel()
ONE_PATCH = Pgd(epsilon=1, patches=Patches(size=2), relative_step=Fraction(1, 8), num_steps=2)
COUNT = 24
CLEAN = torch.full((1, 3, 6, 6), 0.5)


def changed_at(*pixels: tuple[int, int]) -> Tensor:
    """Return the clean image with one channel of these pixels changed."""
    image = CLEAN.clone()
    for row, column in pixels:
        image[0, 1, row, column] = 0.9
    return image


class TestHarness:
    def test_it_counts_and_places_what_a_patch_changes(self) -> None:
        found = RULES.check_perturbed(changed_at((2, 3), (3, 4)), CLEAN, ONE_PATCH, VICTIM)
        assert found["num_changed"].tolist() == [2]
        assert found["changed_box"].tolist() == [[2, 3, 2, 2]]
        nothing = RULES.check_perturbed(CLEAN, CLEAN, ONE_PATCH, VICTIM)
        assert (nothing["num_changed"].tolist(), nothing["changed_box"].tolist()) == ([0], [[0, 0, 0, 0]])

    @pytest.mark.parametrize(
        ("change", "limits", "message"),
        [
            # A pixel outside the patch, one patch too many, one pixel too many, one value too many.
            ([(0, 0), (1, 1), (2, 2)], {}, "changed 3 pixels in a box of 3 x 3 at row 0 and column 0"),
            ([(0, 0), (3, 3), (5, 0)], {"patches": Patches(size=2, count=2)}, "more than 2 patches of 2 x 2 cover"),
            ([(0, 0), (3, 3), (5, 0)], {"patches": None, "l0": L0(count=2)}, "changed 3 pixels, more than 2"),
            ([(0, 0), (3, 3)], {"patches": None, "l0": L0(count=1, unit="values")}, "changed 2 values, more than 1"),
            # Within the patch one pixel too many, and few pixels that one patch does not cover.
            ([(0, 0), (0, 1), (1, 1)], {"l0": L0(count=2)}, "changed 3 pixels, more than 2"),
            ([(0, 0), (3, 3)], {"l0": L0(count=2)}, "more than 1 patch of 2 x 2 cover"),
        ],
    )  # fmt: skip
    def test_planted_violations_are_refused(self, change: Any, limits: Any, message: str) -> None:
        declaration = replace(ONE_PATCH, **limits)
        with pytest.raises(BudgetExceededError, match=message):
            RULES.check_perturbed(changed_at(*change), CLEAN, declaration, VICTIM)
        # One change less is allowed.
        RULES.check_perturbed(changed_at(*change[:-1]), CLEAN, declaration, VICTIM)

    def test_a_change_within_the_patch_beyond_epsilon_is_refused(self) -> None:
        with pytest.raises(BudgetExceededError, match="in linf"):
            RULES.check_perturbed(changed_at((0, 0)), CLEAN, replace(ONE_PATCH, epsilon=Fraction(1, 8)), VICTIM)


def test_few_pixels_of_a_patch_are_another_threat_model_than_the_whole_patch() -> None:
    """A worst case must not take attacks on more pixels together with those on fewer."""
    whole, sparse = ONE_PATCH, replace(ONE_PATCH, l0=L0(count=2))
    assert whole.threat_model != sparse.threat_model != replace(ONE_PATCH, patches=None, l0=L0(count=2)).threat_model
    assert str(sparse.threat_model) == "linf-1-2-pixels-in-1-patch-2x2"
    found = RULES.check_perturbed(changed_at((0, 0), (1, 1)), CLEAN, sparse, VICTIM)
    assert (found["num_changed"].tolist(), found["changed_box"].tolist()) == ([2], [[0, 0, 2, 2]])


def test_squares_cover_pixels_exactly_where_brute_force_finds_places() -> None:
    generator, answers = np.random.default_rng(0), []
    for _ in range(300):
        pixels = generator.random((5, 5)) < generator.choice([0.1, 0.2, 0.3])
        count, size = int(generator.integers(1, 4)), int(generator.integers(1, 4))
        corners = list(itertools.product(range(6 - size), repeat=2))
        wanted = False
        for chosen in itertools.combinations(corners, count):
            left = pixels.copy()
            for row, column in chosen:
                left[row : row + size, column : column + size] = False
            wanted = wanted or not left.any()
        assert is_covered(*pixels.nonzero(), count, size) == wanted
        answers.append(wanted)
    assert 60 < sum(answers) < 240
    assert box_of(np.zeros((3, 3), np.bool_)) == (0, 0, 0, 0)


@pytest.mark.parametrize("of_pixels", [True, False])
def test_the_projection_onto_few_changes_is_the_nearest_of_all_choices(of_pixels: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    clean = torch.rand(4, 2, 2, 3, generator=generator)
    region = replace(region_of("linf", clean, 0.3, torch.zeros(()), torch.ones(())), most=2, of_pixels=of_pixels)
    points = clean + torch.randn(clean.shape, generator=generator)
    projected = region.project(points)
    inside = points.clamp(region.lower, region.upper)
    num_units = 6 if of_pixels else 12
    for row in range(4):
        best = np.inf
        for kept in itertools.combinations(range(num_units), 2):
            mask = torch.zeros(num_units, dtype=torch.bool)
            mask[list(kept)] = True
            where = mask.view(1, 2, 3) if of_pixels else mask.view(2, 2, 3)
            best = min(best, float((torch.where(where, inside[row], clean[row]) - inside[row]).norm()))
        assert float((projected[row] - inside[row]).norm()) == pytest.approx(best, abs=1e-6)


def test_patches_take_the_best_places_without_overlap_while_there_is_room() -> None:
    scores = torch.tensor([[[3.0, 2.9, 0.0], [2.8, 0.0, 0.0], [0.0, 0.0, 1.0]]])
    mask = squares(scores, 2, 2, torch.Size((4, 4)))[0]
    assert mask.nonzero().tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [2, 2], [2, 3], [3, 2], [3, 3]]
    # The third overlaps, because no place is left beside the first one.
    assert int(squares(scores[:, :2, :2], 2, 2, torch.Size((3, 3)))[0].sum()) == 6


@pytest.mark.parametrize(
    ("support", "fits", "message"),
    [
        (L0(count=37), L0(count=36), "at most the 36 pixels of an input, got 37"),
        (L0(count=109, unit="values"), L0(count=108, unit="values"), "at most the 108 values of an input, got 109"),
        (Patches(size=7), Patches(size=6), "at most the smaller side of images of 6 x 6, got 7"),
        (Patches(size=4, count=3), Patches(size=4, count=2), "fit into images of 6 x 6, got 3 patches of 4 x 4"),
    ],
)
def test_supports_that_do_not_fit_are_refused(support: Any, fits: Any, message: str) -> None:
    assert message in support.problem_with_shape((3, 6, 6))
    assert fits.problem_with_shape((3, 6, 6)) == ""


def test_tokens_form_the_grid_with_the_proportions_of_the_image() -> None:
    assert [grid_of(*each) for each in ((64, 32, 32), (6, 20, 30), (1, 8, 8))] == [(8, 8), (2, 3), (1, 1)]
    with pytest.raises(ContractError, match="65 tokens do not form a grid with the proportions of 32 x 32 pixels"):
        grid_of(65, 32, 32)


@pytest.mark.slow
def test_the_place_by_gradient_finds_most_of_what_brute_force_over_places_finds(monkeypatch: Any) -> None:
    """On digits, it fools 80 % of the images that the best of 81 places fools, and more than a random place."""
    model = digits_model()
    batch = open_dataset("digits", data_root=None, preprocessing=None).batch(0, COUNT)
    side = batch.inputs.shape[-1]
    size = side // 5
    declared = replace(ONE_PATCH, patches=Patches(size=size), num_steps=10)

    def fooled(declaration: Pgd) -> Tensor:
        made = perturb(declaration, batch, model, ExampleDraws(range(COUNT)))
        return model.outputs(made.inputs).argmax(1) != batch.targets

    by_gradient, by_chance = fooled(declared), fooled(replace(declared, place="random"))
    anywhere = torch.zeros(COUNT, dtype=torch.bool)
    for row, column in itertools.product(range(0, side - size + 1, size // 2), repeat=2):
        scores = torch.zeros(COUNT, side - size + 1, side - size + 1)
        scores[:, row, column] = 1.0
        monkeypatch.setitem(places.PLACES, "gradient", lambda declaration, problem, scores=scores: scores)
        anywhere |= fooled(declared)
    assert int(anywhere.sum()) >= 10
    assert int(by_gradient.sum()) >= 0.8 * int(anywhere.sum())
    assert int(by_gradient.sum()) > int(by_chance.sum())


def digits_model() -> Any:
    (checkpoint,) = find_checkpoints(["digits-vit"])
    return load_model(checkpoint)
