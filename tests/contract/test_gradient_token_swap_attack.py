"""Gradient-guided token swap: a linear model whose best swaps are known, values of ListOps, budgets and refusals."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import pytest
import torch
from listops_reference import value_of
from presence import present
from torch import nn

from robench.attention.linformer import Linformer
from robench.attention.softmax import Softmax
from robench.core.errors import ContractError
from robench.core.protocols import Batch, Perturbed
from robench.datasets import DATASETS, open_dataset
from robench.declarations.preprocessing import NoPreprocessing
from robench.domains import DOMAINS
from robench.domains.listops import text_of
from robench.models.build import build
from robench.models.loaded import LoadedModel
from robench.models.tokens import Tokens
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws
from robench.perturbations.gradient_token_swap import GradientTokenSwap
from robench.testing.expectations import DECLARATION_CHECKS, watched_generators

PLACES, VOCABULARY = 6, 9
SWAP = GradientTokenSwap(rate=Fraction(1), lowest=2, highest=8, num_queries=1000, num_proposed=1)
# Lengths 6, 3 and 4; the first and last tokens of the vocabulary are there too.
INPUTS = torch.tensor([[1, 2, 3, 4, 5, 8], [7, 7, 2, 0, 0, 0], [3, 5, 6, 1, 0, 0]])
LABELS = [0, 1, 0]


class Planted(nn.Module):
    """Logits of two classes: a sum over tokens of weights of their place times their vectors; class 0 has ``lead``.

    So the gain of a swap is the change of the margin itself, and the gains of swaps at different places add up.
    """

    def __init__(self, lead: float = 0.0, shape: Sequence[int] = (PLACES,), num_classes: int = 2) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(3)
        self.vectors = nn.Parameter(torch.randn(VOCABULARY, 4, generator=draw))
        self.weights = nn.Parameter(torch.randn(num_classes, *shape, 4, generator=draw))
        self.positions = nn.Parameter(torch.randn(*shape, 4, generator=draw))
        self.lead = lead

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        vectors: torch.Tensor = self.vectors[tokens] + self.positions
        return vectors

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        vectors = self.embed(tokens) * (tokens > 0)[..., None]
        logits = (vectors[:, None] * self.weights).flatten(2).sum(2)
        return logits + self.lead * nn.functional.one_hot(torch.tensor(0), logits.shape[1])


def model_of(module: nn.Module) -> LoadedModel:
    return LoadedModel(module, NoPreprocessing(inputs="tokens"))


def run(
    declaration: GradientTokenSwap, inputs: torch.Tensor, labels: Sequence[int], model: Any, seeds: Sequence[int] = ()
) -> Perturbed:
    """Return what the attack reached after the checks of the domain; example i has the seed i."""
    seeds = seeds or range(len(inputs))
    batch = Batch(
        ids=tuple(map(str, seeds)), inputs=inputs, targets=torch.tensor(labels), task="classification", domain="tokens"
    )
    found = perturb(declaration, batch, model, ExampleDraws(seeds))
    DOMAINS["tokens"].rules.check_perturbed(found.inputs, inputs, declaration, model)
    return found


def margins(module: nn.Module, rows: Sequence[Sequence[int]], label: int) -> torch.Tensor:
    """Return by how much the other of two classes leads, in float64."""
    with torch.no_grad():
        logits = module(torch.tensor(rows)).double()
    return logits[:, 1 - label] - logits[:, label]


def swaps_of(row: Sequence[int], num_swaps: int, tokens: Sequence[int]) -> list[list[int]]:
    """Return a sequence with each choice of other tokens at ``num_swaps`` places."""
    places = [place for place, token in enumerate(row) if token]
    found = []
    for chosen in combinations(places, num_swaps):
        for new in product(tokens, repeat=num_swaps):
            swapped = list(row)
            for place, token in zip(chosen, new, strict=True):
                swapped[place] = token
            if all(row[place] != token for place, token in zip(chosen, new, strict=True)):
                found.append(swapped)
    return found


@pytest.mark.parametrize("shape", [(PLACES,), (2, 3)], ids=["sequences", "pairs"])
def test_gains_are_the_changes_of_the_margin_of_every_swap(shape: tuple[int, ...]) -> None:
    module = Planted(shape=shape)
    for row, label in zip(INPUTS[[0, 0]].reshape(2, *shape), (0, 1), strict=True):
        gains = model_of(module).swap_gains(row[None], (0,), lambda z, y=label: z[0, 1 - y] - z[0, y], range(1, 9))
        assert gains.shape == (8, *shape)
        clean = margins(module, [row.tolist()], label)
        for at in product(*map(range, gains.shape)):
            swapped = row.clone()
            swapped[at[1:]] = at[0] + 1
            change = margins(module, [swapped.tolist()], label) - clean
            assert float(gains[at]) == pytest.approx(float(change), abs=1e-4)


@pytest.mark.parametrize("num_swaps", [1, 2])
def test_the_best_swaps_of_all_are_reached(num_swaps: int) -> None:
    # No swap changes a class, so that the whole budget is used.
    module = Planted(lead=100.0)
    declaration = replace(SWAP, most_swaps=num_swaps)
    result = run(declaration, INPUTS, [0, 0, 0], model_of(module))
    for found, row in zip(result.inputs.tolist(), INPUTS.tolist(), strict=True):
        wanted = swaps_of(row, num_swaps, range(2, 9))
        assert found == wanted[int(margins(module, wanted, 0).argmax())]
    # The clean sequence, and for each swap a gradient and the best proposal.
    assert present(result.num_queries).tolist() == [1 + 2 * num_swaps] * 3
    assert present(result.num_gradients).tolist() == [num_swaps] * 3


def test_the_search_ends_at_another_class_and_at_the_last_query() -> None:
    module = Planted()
    result = run(SWAP, INPUTS, [0, 0, 0], model_of(module))
    for found, row in zip(result.inputs.tolist(), INPUTS.tolist(), strict=True):
        num_changed = sum(one != other for one, other in zip(found, row, strict=True))
        lead = float(margins(module, [found], 0))
        assert lead > 0
        # With one swap fewer, the best ones do not suffice.
        if num_changed:
            assert float(margins(module, swaps_of(row, num_changed - 1, range(2, 9)), 0).max()) <= 0
    few = run(replace(SWAP, num_queries=4), INPUTS, [0, 0, 0], model_of(Planted(lead=100.0)))
    assert present(few.num_queries).tolist() == [3, 3, 3]
    assert (few.inputs != INPUTS).sum(1).tolist() == [1, 1, 1]


def test_budgets_padding_and_the_range_of_tokens_hold() -> None:
    for rate, most, wanted in (
        (Fraction(1, 2), None, [3, 1, 2]),
        (Fraction(1), 2, [2, 2, 2]),
        (Fraction(0), None, [0] * 3),
    ):
        declaration = replace(SWAP, rate=rate, most_swaps=most, lowest=3, highest=5)
        result = run(declaration, INPUTS, [0, 0, 0], model_of(Planted(lead=100.0))).inputs
        moved = result != INPUTS
        assert moved.sum(1).tolist() == wanted
        assert not (moved & (INPUTS == 0)).any()
        assert set(result[moved].tolist()) <= {3, 4, 5}


@pytest.fixture(scope="module")
def classifier() -> LoadedModel:
    """A classifier with large weights, which adds padding up to 12 places, over sequences of up to 8 tokens."""
    return model_of(classifier_of())


def classifier_of(**fields: Any) -> Any:
    torch.manual_seed(1)
    sizes = {
        "vocabulary_size": VOCABULARY, "num_steps": 12, "num_classes": 3, "dim": 8, "num_heads": 2, "feedforward": 8,
    }  # fmt: skip
    module: Any = build(Tokens(**sizes, **{"attention": Softmax(), **fields})).eval()
    for each in module.parameters():
        each.data = each.data * 2 + 0.3 * torch.randn_like(each)
    return module


@pytest.mark.parametrize(
    "fields",
    [{}, {"attention": Linformer(projection_length=3)}, {"is_pair": True}, {"padding": "branch"}],
    ids=["softmax", "by length", "pairs", "branch"],
)
def test_gains_of_a_classifier_are_its_directional_derivatives(fields: dict[str, Any]) -> None:
    module = classifier_of(**fields)
    shape = (2, 4) if module.architecture.is_pair else (8,)
    inputs = torch.tensor([3, 8, 1, 5, 2, 2, 0, 0]).reshape(1, *shape)
    gains = model_of(module).swap_gains(inputs, (0,), lambda z: z[0, 2] - z[0, 1], (1, 8))
    exact = module.double()
    padded = nn.functional.pad(inputs, (0, 12 - shape[-1]))

    def score(vectors: torch.Tensor) -> float:
        with torch.no_grad():
            logits = exact.logits_of(vectors, (0,), None, padded != 0)
        return float(logits[0, 2] - logits[0, 1])

    clean = exact.embedding.weight[padded].detach()
    for number, token in enumerate((1, 8)):
        for at in product(*map(range, shape)):
            step = torch.zeros_like(clean)
            step[(0, *at)] = exact.embedding.weight[token].detach() - clean[(0, *at)]
            slope = (score(clean + 1e-5 * step) - score(clean - 1e-5 * step)) / 2e-5
            assert float(gains[(number, *at)]) == pytest.approx(slope, rel=1e-3, abs=1e-4)
    assert gains.abs().max() > 0.05


def test_an_example_depends_on_no_other_and_the_model_stays(classifier: LoadedModel) -> None:
    draw = torch.Generator().manual_seed(5)
    inputs, lengths = torch.randint(1, 9, (20, 8), generator=draw), torch.randint(2, 9, (20, 1), generator=draw)
    inputs = inputs * (torch.arange(8) < lengths)
    labels = classifier.outputs(inputs, range(20)).argmax(1).tolist()
    before = {name: value.clone() for name, value in classifier.module.state_dict().items()}
    with watched_generators():
        together = run(replace(SWAP, num_proposed=4), inputs, labels, classifier)
    assert int((together.inputs != inputs).any(1).sum()) > 5
    order = [7, 0, 19, 7]
    few = run(replace(SWAP, num_proposed=4), inputs[order], [labels[at] for at in order], classifier, order)
    for name in ("inputs", "num_queries", "num_gradients"):
        assert torch.equal(getattr(few, name), getattr(together, name)[order])
    scores = [classifier.outputs(each, range(20)).softmax(1)[range(20), labels] for each in (inputs, together.inputs)]
    assert (scores[1] <= scores[0]).all()
    assert all(torch.equal(value, before[name]) for name, value in classifier.module.state_dict().items())
    assert "embed" not in vars(classifier.module)
    assert all(each.grad is None for each in classifier.module.parameters())


class OfListOps(Planted):
    """The planted model over ListOps: 64 places and 16 tokens."""

    def __init__(self) -> None:
        super().__init__(lead=100.0, shape=(64,))
        self.vectors = nn.Parameter(torch.randn(16, 4, generator=torch.Generator().manual_seed(4)))


def is_value(tokens: Sequence[int], value: int) -> bool:
    try:
        return value_of(text_of([token for token in tokens if token])) == value
    except (AssertionError, StopIteration, ValueError, IndexError):
        return False


def test_values_of_listops_stay_and_the_best_swap_that_keeps_them_is_reached() -> None:
    clean = open_dataset("listops-short", data_root=None, preprocessing=None).batch(0, 15)
    values, module = clean.targets.tolist(), OfListOps()
    swap = GradientTokenSwap(rate=Fraction(1), highest=15, num_queries=1000, num_proposed=1, keeps_value=True)
    found = run(replace(swap, most_swaps=1), clean.inputs, [0] * 15, model_of(module)).inputs
    for row, value, reached in zip(clean.inputs.tolist(), values, found.tolist(), strict=True):
        allowed = [each for each in swaps_of(row, 1, range(1, 16)) if is_value(each, value)]
        # Some expressions have no such swap.
        assert reached == (allowed[int(margins(module, allowed, 0).argmax())] if allowed else row)
    many = run(swap, clean.inputs, [0] * 15, model_of(module)).inputs
    assert all(is_value(row, value) for row, value in zip(many.tolist(), values, strict=True))
    assert (many != clean.inputs).sum() > 90
    # Without the rule, swaps do change values.
    free = run(replace(swap, keeps_value=False), clean.inputs, [0] * 15, model_of(module)).inputs
    assert sum(is_value(row, value) for row, value in zip(free.tolist(), values, strict=True)) < 5


@pytest.mark.parametrize("check", DECLARATION_CHECKS, ids=lambda check: check.__name__)
def test_it_keeps_what_every_declaration_promises(check: Any) -> None:
    check(SWAP)


@pytest.mark.parametrize(
    ("fields", "dataset", "message"),
    [
        ({}, "digits-pixels", ""),
        ({"keeps_value": True}, "listops", ""),
        ({}, "listops-short", "must be true, since a swap can change the value of an expression of listops-short"),
        ({"keeps_value": True}, "sotu-bytes", "must be left out, since inputs of sotu-bytes have no values"),
        ({"highest": 18}, "digits-pixels", "must be at most 17, the last token of dataset digits-pixels, got 18"),
        ({}, "sotu-eras", "must be no gradient-token-swap on sotu-eras"),
    ],
)
def test_datasets_are_served_or_refused_with_the_field(fields: dict[str, Any], dataset: str, message: str) -> None:
    problems = replace(SWAP, **fields).problems_on(DATASETS[dataset])
    assert len(problems) == bool(message)
    assert not message or problems[0][1].startswith(message)


class WithoutEmbed(Planted):
    embed = None  # type: ignore[assignment]  # as of a module that has none


class NotCalled(Planted):
    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.vectors[tokens].sum((1, 2))[:, None].repeat(1, 2)


class WithClassToken(Planted):
    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        return nn.functional.pad(super().embed(tokens), (0, 0, 1, 0))


class Unused(Planted):
    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        self.embed(tokens)
        return torch.zeros(len(tokens), 2)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (WithoutEmbed, r"no embed, and gradients by tokens need a method or submodule"),
        (NotCalled, r"forward calls embed 0 times, wanted one call"),
        (WithClassToken, r"returned \(1, 7, 4\) for tokens \(1, 6\), wanted a vector for each token, \(1, 6, D\)"),
        (Unused, r"forward calls embed 1 times, wanted one call whose vectors decide the outputs"),
    ],
)
def test_modules_without_a_useful_embed_are_refused(kind: type[Planted], message: str) -> None:
    with pytest.raises(ContractError, match=message):
        SWAP.check_model(model_of(kind()), INPUTS)


def test_a_submodule_that_embeds_serves_too() -> None:
    class Net(nn.Module):
        def __init__(self, planted: Planted) -> None:
            super().__init__()
            self.embed = nn.Embedding.from_pretrained(planted.vectors.detach())
            self.weights = planted.weights

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            vectors = self.embed(tokens) * (tokens > 0)[..., None]
            return (vectors[:, None] * self.weights).flatten(2).sum(2)

    planted = Planted()
    planted.positions.data.zero_()
    results = [run(SWAP, INPUTS, LABELS, model_of(each)) for each in (Net(planted), planted)]
    assert torch.equal(results[0].inputs, results[1].inputs)
