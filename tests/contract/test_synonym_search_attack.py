"""Search for synonyms against a slow search over plain strings, with gradients by finite differences."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from presence import present
from word_search_models import (
    STOP,
    TABLE,
    WEIGHTS,
    BagOfWords,
    SlowSearch,
    class_score,
    classified,
    give_wordnet,
    labels_of,
    sentences,
    tokens_in,
)

from robench.domains.code_points import decoded
from robench.perturbations.gradient_word_swap import GradientWordSwap
from robench.perturbations.greedy_word_swap import GreedyWordSwap

NONE = (0.0, 0.0, 0.0)
BY_DELETION: Any = GreedyWordSwap(
    ranking="delete", num_queries=10_000, substitutions="wordnet-3.0", most_substitutions=50
)
BY_GRADIENT: Any = GradientWordSwap(
    num_queries=10_000, substitutions="wordnet-3.0", most_substitutions=50, proposed="words"
)
# Of each search: without limits, at most a quarter of the words, and budgets that end in each part of it.
LIMITS: list[dict[str, Any]] = [
    {}, {"most_changed": Fraction(1, 4)}, {"num_queries": 1}, {"num_queries": 2}, {"num_queries": 7},
    {"num_queries": 12, "keeps_stop_words": False},
]  # fmt: skip


@pytest.fixture(autouse=True)
def synonyms(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    give_wordnet(monkeypatch, tmp_path, TABLE)


class Curved(BagOfWords):
    """Classifier by the sum of tanh of its words' weights: its gradient differs from word to word."""

    def row(self, text: str, seed: int) -> list[float]:
        return curved(embedded(text.split()))

    def token_gradients(
        self, inputs: torch.Tensor, seeds: Sequence[int], score: Callable[[torch.Tensor], torch.Tensor]
    ) -> Any:
        (text,) = decoded(inputs)
        self.shown.append((text, seeds[0]))
        tokens = torch.tensor(embedded(tokens_in(text)), dtype=torch.float64, requires_grad=True)
        (gradient,) = torch.autograd.grad(score(tokens.tanh().sum(0, keepdim=True)), tokens)
        # It reads ten tokens.
        return gradient[:10], None


def embedded(words: Sequence[str]) -> list[list[float]]:
    return [list(WEIGHTS.get(word, NONE)) for word in words]


def curved(vectors: Sequence[Sequence[float]]) -> list[float]:
    return [sum(math.tanh(vector[k]) for vector in vectors) for k in range(3)]


def cross_entropy(vectors: Sequence[Sequence[float]], label: int) -> float:
    logits = curved(vectors)
    return math.log(sum(math.exp(each - logits[label]) for each in logits))


def norm_at(words: Sequence[str], at: int, label: int) -> float:
    """The norm of the gradient of the loss by one embedded word, in central differences; rounded for ties."""
    total = 0.0
    for k in range(3):
        found = []
        for step in (1e-5, -1e-5):
            vectors = embedded(words)
            vectors[at][k] += step
            found.append(cross_entropy(vectors, label))
        total += ((found[0] - found[1]) / 2e-5) ** 2
    return round(math.sqrt(total), 8)


class SlowByGradient(SlowSearch):
    label = 0

    def order(self) -> list[int]:
        if not self.options or self.declared.num_queries - self.used < 2:
            return []
        self.used += 1
        return sorted([at for at in self.options if at < 10], key=lambda at: -norm_at(self.words, at, self.label))


def curved_score(words: Sequence[str], label: int) -> tuple[float, bool]:
    logits = curved(embedded(words))
    weights = [math.exp(each - max(logits)) for each in logits]
    return 1 - weights[label] / sum(weights), logits.index(max(logits)) != label


@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("way", ["deletion", "gradient"])
def test_texts_and_queries_are_those_of_a_slow_search(way: str, limits: dict[str, Any]) -> None:
    is_gradient = way == "gradient"
    declared = replace(BY_GRADIENT if is_gradient else BY_DELETION, **limits)
    # Stop words have no synonyms, whatever is kept.
    reference: Any = replace(declared, keeps_stop_words=True)
    texts = sentences(80, seed=4)
    score = curved_score if is_gradient else class_score
    model = Curved() if is_gradient else BagOfWords()
    labels = labels_of(texts)
    result = classified(declared, texts, labels, model)
    wanted = []
    for text, label in zip(texts, labels, strict=True):

        def scored(words: list[str], missing: int | None, label: int = label) -> tuple[float, bool]:
            return score(words, label)

        slow: Any = (SlowByGradient if is_gradient else SlowSearch)(text.split(), scored, reference, ())
        slow.label = label
        wanted.append(slow.run())
    found, queries = decoded(result.inputs), present(result.num_queries).tolist()
    assert found == [" ".join(words) for words, _ in wanted]
    assert queries == [used for _, used in wanted]
    assert len(model.shown) == sum(queries)
    assert max(queries) <= declared.num_queries
    assert sum(a != b for a, b in zip(found, texts, strict=True)) >= (10 if declared.num_queries > 2 else 0)
    gradients = present(result.num_gradients)
    assert int(gradients.max()) == (is_gradient and declared.num_queries > 2)
    changed = [
        [(a, b) for a, b in zip(before.split(), after.split(), strict=True) if a != b]
        for before, after in zip(texts, found, strict=True)
    ]
    assert all(b in TABLE[a] and a not in STOP for pairs in changed for a, b in pairs)
    assert all(
        len(pairs) <= declared.most_changed * len(text.split()) for pairs, text in zip(changed, texts, strict=True)
    )
