"""Gradient-guided word swap: gains by finite differences, a slow search over plain strings, and its laws."""

import copy
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from presence import present
from word_search_models import STOP, TABLE, VOCABULARY, BagOfWords, Counted, classified, labels_of, sentences

from robench.core.errors import ContractError
from robench.datasets import DATASETS
from robench.declarations.preprocessing import NoPreprocessing
from robench.domains.code_points import decoded, encoded_batch
from robench.models.build import build
from robench.models.loaded import LoadedModel
from robench.models.word_transformer import TextClassifier
from robench.models.word_transformer_impl import TextClassifierModel
from robench.perturbations.gradient_word_swap import GradientWordSwap
from robench.perturbations.gradient_word_swap_impl import _proposals, _tokens
from robench.perturbations.greedy_search import Reader, wording_of
from robench.tasks import TASKS
from robench.tasks.language_modeling_impl import tokens_of

SWAP = GradientWordSwap(num_queries=10_000, substitutions="table", table=TABLE, num_proposed=2)
RULES = TASKS["classification"].rules


class Shown(LoadedModel):
    """Model that counts the texts of its passes."""

    num_shown = 0

    def outputs(self, inputs: torch.Tensor, seeds: Any = None) -> torch.Tensor:
        self.num_shown += len(inputs)
        return super().outputs(inputs, seeds)


def module_of(context: int = 48, seed: int = 0) -> TextClassifierModel:
    torch.manual_seed(seed)
    architecture = TextClassifier(
        vocabulary_size=len(VOCABULARY) + 2, num_classes=3, depth=1, dim=16, num_heads=2, feedforward=16,
        context=context,
    )  # fmt: skip
    module: Any = build(architecture)
    module.set_vocabulary(["\n", "<unk>", *VOCABULARY])
    # Large weights, so that words matter.
    for each in module.parameters():
        each.data = each.data * 4
    module.eval()
    return module  # type: ignore[no-any-return]


def model_of(**fields: Any) -> Shown:
    return Shown(module_of(**fields), NoPreprocessing(inputs="texts"))


def predicted(model: LoadedModel, texts: list[str]) -> list[int]:
    classes: list[int] = model.outputs(encoded_batch(texts), range(len(texts))).argmax(1).tolist()
    return classes


def score(model: LoadedModel, text: str, label: int) -> tuple[float, bool]:
    logits = model.outputs(encoded_batch([text]), (0,))[0].double()
    return 1 - float(logits.softmax(0)[label]), int(logits.argmax()) != label


def exact_of(model: LoadedModel) -> TextClassifierModel:
    module: Any = copy.deepcopy(model._module)
    return module.double()  # type: ignore[no-any-return]


def slow_gain(module: TextClassifierModel, text: str, changed: str, label: int) -> float:
    """The change of the margin along the change of the embedded words, by finite differences of a float64 module."""

    def margin(share: float) -> float:
        def moved(embedding: Any, given: Any, output: torch.Tensor) -> torch.Tensor:
            other = embedding.weight[module.tokens([changed])]
            return output + share * (other - output)

        handle = module.embedding.register_forward_hook(moved)
        with torch.no_grad():
            logits = module.logits_of(module.tokens([text]))[0]
        handle.remove()
        others = [k for k in range(3) if k != label]
        return float(logits[others].logsumexp(0) - logits[label])

    return (margin(1e-5) - margin(-1e-5)) / 2e-5


def candidates(words: list[str], chosen: dict[int, str]) -> list[tuple[int, str]]:
    """Places and substitutes of the words that are as they were, in order."""
    return [
        (place, each)
        for place, word in enumerate(words)
        if place not in chosen and word in TABLE and word not in STOP
        for each in TABLE[word]
    ]


def slow_search(model: LoadedModel, text: str, label: int, declared: GradientWordSwap) -> tuple[str, int, int]:
    """The search over lists of words, with gains by finite differences; text, queries and gradients."""
    words, chosen, exact = text.split(), {}, exact_of(model)

    def with_words(more: dict[int, str]) -> str:
        return " ".join({**chosen, **more}.get(place, word) for place, word in enumerate(words))

    current, done = score(model, text, label)
    queries, gradients, budget = 1, 0, declared.num_queries
    most = int(declared.most_changed * sum(any(map(str.isalnum, word)) for word in words))
    while not done and len(chosen) < most and budget - queries > 1:
        offers = candidates(words, chosen)
        gains = {offer: slow_gain(exact, with_words({}), with_words({offer[0]: offer[1]}), label) for offer in offers}
        queries, gradients, raised = queries + 1, gradients + 1, False
        offers.sort(key=lambda offer: -gains[offer])
        while offers and not raised and queries < budget:
            shown = offers[: declared.num_proposed][: budget - queries]
            offers = offers[declared.num_proposed :]
            found = [score(model, with_words({place: each}), label) for place, each in shown]
            queries += len(shown)
            best = max(range(len(found)), key=lambda at: found[at][0])
            if found[best][0] > current:
                chosen[shown[best][0]] = shown[best][1]
                (current, done), raised = found[best], True
        if not raised:
            break
    return with_words({}), queries, gradients


@pytest.mark.parametrize("label", [0, 1, 2])
def test_gains_are_first_order_changes_of_the_margin(label: int) -> None:
    model = model_of(seed=label)
    exact = exact_of(model)
    for row, text in enumerate(sentences(3)):
        reader = Reader(model, row, torch.device("cpu"), RULES, encoded_batch)
        found = _proposals(wording_of(text, SWAP), {}, reader, torch.tensor(label))
        words = text.split()
        assert len(found) == len(candidates(words, {}))
        assert [each.gain for each in found] == sorted((each.gain for each in found), reverse=True)
        places = [place for place, word in enumerate(words) if word in TABLE and word not in STOP]
        for each in found:
            at = places[each.place]
            changed = " ".join([*words[:at], each.substitute, *words[at + 1 :]])
            assert each.gain == pytest.approx(slow_gain(exact, text, changed, label), rel=2e-4, abs=2e-5)


@pytest.mark.parametrize(
    "declared",
    [
        SWAP,
        pytest.param(replace(SWAP, num_proposed=1), marks=pytest.mark.slow),
        replace(SWAP, num_queries=6),
        pytest.param(replace(SWAP, most_changed=Fraction(1, 4)), marks=pytest.mark.slow),
    ],
    ids=["all", "one", "budget", "quarter"],
)
def test_texts_queries_and_gradients_are_those_of_a_slow_search(declared: GradientWordSwap) -> None:
    model, texts = model_of(), sentences(12)
    labels = predicted(model, texts)
    model.num_shown = 0
    result = classified(declared, texts, labels, model)
    num_shown = model.num_shown
    wanted = [slow_search(model, text, label, declared) for text, label in zip(texts, labels, strict=True)]
    assert decoded(result.inputs) == [text for text, _, _ in wanted]
    queries = present(result.num_queries)
    assert queries.tolist() == [number for _, number, _ in wanted]
    assert present(result.num_gradients).tolist() == [gradients for _, _, gradients in wanted]
    assert num_shown == int(queries.sum())
    assert int(queries.max()) <= declared.num_queries
    assert sum(found != text for (found, _, _), text in zip(wanted, texts, strict=True)) > 3


def test_a_text_that_is_wrong_costs_one_query() -> None:
    model, texts = model_of(), sentences(6)
    wrong = [(label + 1) % 3 for label in predicted(model, texts)]
    result = classified(SWAP, texts, wrong, model)
    assert decoded(result.inputs) == texts
    assert (present(result.num_queries).tolist(), present(result.num_gradients).tolist()) == ([1] * 6, [0] * 6)


def test_words_beyond_the_context_stay() -> None:
    model, texts = model_of(context=4), sentences(30)
    result = classified(SWAP, texts, predicted(model, texts), model)
    pairs = [(found.split(), text.split()) for found, text in zip(decoded(result.inputs), texts, strict=True)]
    assert all(found[4:] == text[4:] for found, text in pairs)
    assert any(found != text for found, text in pairs)


class Foreign(Counted):
    """Model of somebody else: outputs alone."""

    def row(self, text: str, seed: int) -> list[float]:
        return BagOfWords().row(text, seed)


@pytest.mark.parametrize("model", [Foreign(), None], ids=["foreign", "no words"])
def test_models_without_embedded_words_are_refused(model: Counted | None) -> None:
    class Plain(torch.nn.Module):
        def forward(self, points: torch.Tensor) -> torch.Tensor:
            return torch.stack([points.float().mean(1), points.float().amax(1), points.float().amin(1)], 1)

    plain = LoadedModel(Plain(), NoPreprocessing(inputs="texts"))
    texts = sentences(4)
    labels = labels_of(texts) if model else predicted(plain, texts)
    with pytest.raises(ContractError, match=r"no embedded words of robench's.*greedy-word-swap"):
        classified(SWAP, texts, labels, model or plain)


@pytest.mark.parametrize("text", ["", "one", "one two\n\nthree  four\n", " a\tb \n c", "\n\n", "U.S. <unk> end\n"])
def test_tokens_stand_where_the_model_reads_them(text: str) -> None:
    found = _tokens(text)
    words = tokens_of(text)
    assert [words[each.place] for each in found] == [text[each.start : each.stop] for each in found]
    assert len(found) == sum(word != "\n" for word in words)


def test_classification_of_texts_alone_is_served() -> None:
    assert SWAP.problems_on(DATASETS["sotu-eras"]) == []
    ((_, of_lines),), ((_, of_images),) = (SWAP.problems_on(DATASETS[name]) for name in ("sotu", "digits"))
    assert "must serve classification, got dataset sotu of language-modeling" in of_lines
    assert "must serve texts" in of_images
    assert not SWAP.is_gradient_free
    assert SWAP.is_attack
