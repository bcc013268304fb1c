"""Attacks on attention: Patch-Fool by loops over examples, layers, heads and queries; losses by finite differences."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from planted_attention_model import DEPTH, GRID, NUM_HEADS, NUM_TOKENS, PATCH, PlantedTransformer, images
from torch import Tensor

from robench.attacks.attack import problem_of
from robench.attacks.attention_losses import patch_tokens
from robench.attacks.local import AttentionTerm
from robench.attacks.patch_fool import PatchFool
from robench.attacks.patch_fool_impl import PatchFoolSearch
from robench.attacks.pgd import Pgd
from robench.attacks.pgd_impl import PgdSearch
from robench.attacks.places import placed
from robench.attacks.problem import Problem
from robench.core.errors import ContractError
from robench.core.seeds import Stream
from robench.declarations.supports import L0, Patches
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws
from robench.testing.models import batch_of, perturbed

Array = np.ndarray[Any, Any]
COUNT = 4
DRAWS = ExampleDraws(range(COUNT))
PATCH_FOOL = PatchFool(
    patches=Patches(size=PATCH), num_steps=12, step_size=Fraction(1, 10), decay_every=5, attention_weight=0.3
)
MODEL = PlantedTransformer()


def problem_for(declaration: Any) -> Problem:
    batch = images(COUNT)
    problem = placed(declaration, problem_of(declaration, batch, MODEL, DRAWS, COUNT))
    return replace(problem, shows_layers=True)


def attention_of(layer: Any, row: int, tokens: list[int], formula: str) -> Tensor:
    """Return the attention that tokens receive in one example, by loops over heads and queries."""
    weights, total = layer.weights_BHNM[row], torch.zeros((), dtype=torch.float64)
    for query in range(NUM_TOKENS):
        for token in tokens:
            by_head = [weights[head, query, token] for head in range(NUM_HEADS)]
            if formula == "paper":
                total = total + sum(by_head)
            else:
                total = total + (sum(by_head) / NUM_HEADS).log() / NUM_TOKENS / len(tokens)
    return total


def gradients(image: Array, label: int, tokens: list[int], formula: str) -> tuple[float, list[Array]]:
    """Return the cross-entropy of an image, and its gradient before those of the attention of each layer."""
    point = torch.from_numpy(image)[None].requires_grad_(True)
    logits, layers = MODEL.outputs_and_layers(point)
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor([label]))
    used = layers if formula == "paper" else layers[1 : DEPTH // 2]
    values = [loss, *(attention_of(layer, 0, tokens, formula) for layer in used)]
    found = [torch.autograd.grad(each, point, retain_graph=True)[0][0].numpy() for each in values]
    return float(loss.detach()), found


def token_of(image: Tensor) -> int:
    """Return the token that receives most attention in layer 2 of 6, a third of the depth, as 4 of 12."""
    _, layers = MODEL.outputs_and_layers(image[None])
    received = [float(layers[2].weights_BHNM[0, :, :, token].sum()) for token in range(NUM_TOKENS)]
    return int(np.argmax(received))


@pytest.mark.parametrize("formula", ["paper", "released"])
def test_patch_fool_takes_the_steps_of_its_definition(formula: Any) -> None:
    declaration = replace(PATCH_FOOL, formula=formula)
    problem, batch = problem_for(declaration), images(COUNT)
    search = PatchFoolSearch(declaration, problem)
    state = search.begin(problem, 0)
    start, conflicts = DRAWS.uniform(Stream(purpose="start"), batch.inputs.shape[1:]).double(), 0
    expected, tokens, moments = [], [], []
    for row in range(COUNT):
        token = token_of(batch.inputs[row])
        top, left = token // GRID * PATCH, token % GRID * PATCH
        mask = np.zeros(batch.inputs.shape[1:])
        mask[:, top : top + PATCH, left : left + PATCH] = 1
        point = np.where(mask == 1, start[row].numpy(), batch.inputs[row].numpy())
        expected.append(point)
        tokens.append((token, mask))
        moments.append((np.zeros_like(point), np.zeros_like(point)))
    np.testing.assert_allclose(state.points.numpy(), np.stack(expected), atol=1e-8)
    for step in range(declaration.num_steps):
        state = search.step(problem.at(search=0, step=step), state, step)
        for row in range(COUNT):
            token, mask = tokens[row]
            loss, (main, *others) = gradients(expected[row], int(batch.targets[row]), [token], formula)
            assert state.seen is not None
            assert float(state.seen.values[row]) == pytest.approx(loss, abs=1e-8)
            main, total = main * mask, main * mask
            for other in others:
                other = other * mask
                inner = float((other * main).sum())
                if inner < 0:
                    other, conflicts = other - inner / float((main**2).sum()) * main, conflicts + 1
                total = total + declaration.attention_weight * other
            first, second = (0.9 * moments[row][0] + 0.1 * total, 0.999 * moments[row][1] + 0.001 * total**2)
            moments[row] = first, second
            size = np.sqrt(second / (1 - 0.999 ** (step + 1))) + 1e-8
            rate = 0.1 * 0.95 ** (step // 5)
            moved = expected[row] + rate * first / (1 - 0.9 ** (step + 1)) / size
            expected[row] = np.clip(moved, 0, 1)
        np.testing.assert_allclose(state.points.numpy(), np.stack(expected), atol=1e-8)
    assert conflicts


def test_a_sparse_patch_changes_the_pixels_that_its_mask_learns_to_choose() -> None:
    declaration = replace(PATCH_FOOL, patches=Patches(size=4), l0=L0(count=3), num_steps=30)
    problem = problem_for(declaration)
    search = PatchFoolSearch(declaration, problem)
    state, chosen = search.begin(problem, 0), set()
    free = problem.region.free
    for step in range(declaration.num_steps):
        state = search.step(problem.at(search=0, step=step), state, step)
        is_moved = (state.points != problem.inputs).any(1)
        assert is_moved.flatten(1).sum(1).tolist() == [3] * COUNT
        assert free is not None
        assert not bool((is_moved & ~free[:, 0]).any())
        chosen.add(tuple(is_moved.flatten().nonzero()[:, 0].tolist()))
    assert len(chosen) > 1


def test_the_place_by_attention_of_an_image_does_not_depend_on_the_others() -> None:
    """Weights may be of any size, so that rounding beside another image's would change the order of places."""
    batch = images(COUNT)

    class Large(PlantedTransformer):
        def outputs_and_layers(self, inputs: Tensor, seeds: Any = None) -> Any:
            outputs, layers = super().outputs_and_layers(inputs)
            is_second = (inputs[:, 0, 0, 0] == batch.inputs[1, 0, 0, 0])[:, None, None, None]
            for layer in layers:
                layer.weights_BHNM = torch.where(is_second, -1e20, layer.weights_BHNM)
            return outputs, layers

    declaration = replace(PATCH_FOOL, attention_weight=0.0)
    alone, beside = (
        placed(declaration, problem_of(declaration, batch, model, DRAWS, COUNT)).region.free
        for model in (MODEL, Large())
    )
    assert alone is not None
    assert beside is not None
    assert torch.equal(beside[[0, 2, 3]], alone[[0, 2, 3]])


def test_a_patch_in_l2_starts_in_the_ball_without_limits_of_pixels() -> None:
    declaration = replace(PATCH_FOOL, norm="l2", clip="none", place="gradient", attention_weight=0.0, num_steps=3)
    batch = batch_of(6)
    change = (perturbed(declaration, batch).inputs - batch.inputs).flatten(1).norm(dim=1)
    assert bool(((change > 0.1) & (change <= 1 + 1e-6)).all())


class Negative(PlantedTransformer):
    """Model with weights below zero."""

    def outputs_and_layers(self, inputs: Tensor, seeds: Any = None) -> Any:
        outputs, layers = super().outputs_and_layers(inputs)
        layers[2].weights_BHNM = layers[2].weights_BHNM - 0.5
        return outputs, layers


def test_the_released_loss_refuses_weights_without_a_logarithm() -> None:
    with pytest.raises(ContractError, match="attention layer 2 shows weights that are not positive"):
        perturb(replace(PATCH_FOOL, formula="released"), images(COUNT), Negative(), DRAWS)


TERMS = [AttentionTerm(loss="products"), AttentionTerm(loss="received", weight=0.5), AttentionTerm(loss="distance")]


def by_loops(term: AttentionTerm, point: Tensor, row: int, tokens: list[int], clean: list[Any]) -> float:
    """Return the loss on attention of one image, term by term."""
    _, layers = MODEL.outputs_and_layers(point[None])
    if term.loss == "received":
        return sum(float(attention_of(layer, 0, tokens, "paper")) for layer in layers)
    if term.loss == "distance":
        return sum(
            float((layer.weights_BHNM[0] - before.weights_BHNM[row]).square().sum())
            for layer, before in zip(layers, clean, strict=True)
        )
    total = 0.0
    for layer in layers:
        for head in range(NUM_HEADS):
            queries, keys = layer.queries_BHND[0, head], layer.keys_BHMD[0, head]
            of_queries = sum(float(each.norm()) for each in queries) / NUM_TOKENS
            of_keys = sum(float(each.norm()) for each in keys) / NUM_TOKENS
            for token in tokens:
                inner = sum(float(query @ keys[token]) for query in queries) / NUM_TOKENS
                total += math.exp(inner / of_queries / of_keys / queries.shape[-1] ** 0.5)
    return math.log(total)


@pytest.mark.parametrize("term", TERMS, ids=[each.loss for each in TERMS])
def test_losses_on_attention_and_their_gradients_are_those_of_the_formula(term: AttentionTerm) -> None:
    """Values by loops, and gradients by central differences in float64."""
    patches = Patches(size=3) if term.of_patch else None
    declaration = Pgd(epsilon=1, patches=patches, relative_step=Fraction(1, 4), num_steps=1, attention=term)
    problem, batch = problem_for(declaration), images(COUNT)
    search = PgdSearch(declaration, problem)
    points = (0.8 * batch.inputs + 0.1).clone()
    state = replace(search.begin(problem, 0), points=points)
    seen = search._differentiated(problem.at(search=0, step=0), state, 0)
    _, clean = MODEL.outputs_and_layers(batch.inputs)
    is_patch = patch_tokens(problem) if term.of_patch else torch.zeros(COUNT, NUM_TOKENS, dtype=torch.bool)
    for row in range(COUNT):
        tokens = is_patch[row].nonzero()[:, 0].tolist()

        def total(point: Tensor, row: int = row, tokens: list[int] = tokens) -> float:
            loss = torch.nn.functional.cross_entropy(MODEL.outputs(point[None]), batch.targets[row : row + 1])
            return float(loss) + term.weight * by_loops(term, point, row, tokens, clean)

        # A patch of 3 x 3 pixels touches two or four tokens of 2 x 2.
        assert not term.of_patch or len(tokens) in (2, 4)
        for place in [(0, 0, 0), (1, 2, 3), (2, 5, 4)]:
            shift = torch.zeros_like(points[row])
            shift[place] = 1e-5
            slope = (total(points[row] + shift) - total(points[row] - shift)) / 2e-5
            assert float(seen.gradient()[row][place]) == pytest.approx(slope, abs=1e-6)
        assert float(seen.values[row]) == pytest.approx(
            float(torch.nn.functional.cross_entropy(seen.outputs[row : row + 1], batch.targets[row : row + 1]))
        )


def test_the_patch_receives_more_attention_than_one_that_only_fools() -> None:
    batch = images(COUNT)
    plain = Pgd(epsilon=1, patches=Patches(size=PATCH), place="attention", relative_step=Fraction(1, 16), num_steps=30)
    seeking = replace(plain, attention=AttentionTerm(loss="received", weight=10.0), returns="last")
    received = []
    for declaration in (replace(plain, returns="last"), seeking):
        made = perturb(declaration, batch, MODEL, DRAWS).inputs
        _, layers = MODEL.outputs_and_layers(made)
        tokens = [token_of(image) for image in batch.inputs]
        of_rows = [[attention_of(each, row, [tokens[row]], "paper") for each in layers] for row in range(COUNT)]
        received.append([float(sum(of_row)) for of_row in of_rows])
    assert all(seeks > fools for fools, seeks in zip(*received, strict=True))


class Silent(PlantedTransformer):
    outputs_and_layers = None  # type: ignore[assignment]

    def outputs(self, inputs: Tensor, seeds: Any = None) -> Tensor:
        return inputs.flatten(1)[:, :4]


class Undefined(PlantedTransformer):
    """Model with weights that are NaN in layer 3."""

    def outputs_and_layers(self, inputs: Tensor, seeds: Any = None) -> Any:
        outputs, layers = super().outputs_and_layers(inputs)

        class Broken:
            tokens_BNC = layers[3].tokens_BNC

            @property
            def weights_BHNM(self) -> Tensor:
                raise ContractError("attention layer 3 shows weights that are NaN or infinite, wanted finite ones")

        return outputs, [*layers[:3], Broken(), *layers[4:]]


@pytest.mark.parametrize(
    ("model", "fields", "message"),
    [
        (Silent(), {}, "the model shows none; take patches with place gradient or random, and no loss on attention"),
        (Undefined(), {}, "attention layer 3 shows weights that are NaN"),
        (MODEL, {"place_layer": 6}, "place_layer must be below the 6 attention layers, got 6"),
    ],
)
def test_models_that_do_not_show_what_is_read_are_refused_before_a_run(model: Any, fields: Any, message: str) -> None:
    with pytest.raises(ContractError, match=message):
        replace(PATCH_FOOL, **fields).check_model(model, images(COUNT).inputs)
    replace(PATCH_FOOL, place="random", attention_weight=0.0).check_model(model, images(COUNT).inputs)
