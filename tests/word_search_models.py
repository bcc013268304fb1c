"""Models of texts whose scores are a dictionary, and slow searches for words over plain strings, for tests."""

import math
import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from robench.core.protocols import Batch, Perturbed
from robench.domains.code_points import decoded, encoded_batch
from robench.perturbations import wordnet
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws
from robench.perturbations.greedy_word_swap import GreedyWordSwap

STOP = {"the", "of", "and", "to"}
TABLE: dict[str, tuple[str, ...]] = {
    "good": ("fine", "nice", "okay"),
    "bad": ("poor", "awful"),
    "film": ("movie", "picture", "flick", "show"),
    "story": ("tale",),
    "actors": ("cast", "players"),
    "dull": ("slow", "flat", "grey"),
    "bright": ("clear", "loud"),
    "the": ("a",),
}
WORDS = [*TABLE, "of", "and", "to", "rain", "window", "seven", "."]
VOCABULARY = [*WORDS, *(each for some in TABLE.values() for each in some), "[UNK]"]


def hashed(*parts: str) -> int:
    return zlib.crc32("|".join(parts).encode())


# Logits of three classes, multiples of 1/8, so that sums are exact; other words have none.
WEIGHTS = {word: [(hashed(word, str(k)) % 17 - 8) / 8 for k in range(3)] for word in VOCABULARY}


@dataclass
class Counted:
    """Model that keeps the texts it was shown, with their seeds."""

    shown: list[tuple[str, int]] = field(default_factory=list)

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def with_gradients(self, mode: str) -> Any:
        return self

    @property
    def normalisation(self) -> tuple[torch.Tensor, torch.Tensor]:
        raise AssertionError("texts are not normalised")

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        texts = decoded(inputs)
        assert seeds is not None
        assert len(seeds) == len(texts)
        self.shown += zip(texts, seeds, strict=True)
        rows = [self.row(text, seed) for text, seed in zip(texts, seeds, strict=True)]
        longest = max(inputs.shape[1] + 1 if self.is_padded else 0, *map(len, rows))
        return torch.tensor([row + [-1.0] * (longest - len(row)) for row in rows])

    is_padded = False

    def row(self, text: str, seed: int) -> list[float]:
        raise NotImplementedError


class BagOfWords(Counted):
    """Classifier by the sum of its words' weights."""

    def row(self, text: str, seed: int) -> list[float]:
        return [sum(WEIGHTS.get(word, (0, 0, 0))[k] for word in text.split()) for k in range(3)]

    def token_gradients(
        self, inputs: torch.Tensor, seeds: Sequence[int], score: Callable[[torch.Tensor], torch.Tensor]
    ) -> tuple[torch.Tensor, Callable[[Sequence[str]], torch.Tensor]]:
        """The weights of a word are its embedding, and the logits their sum."""
        (text,) = decoded(inputs)
        self.shown.append((text, seeds[0]))
        tokens = self.embedded(tokens_in(text)).requires_grad_(True)
        (gradient,) = torch.autograd.grad(score(tokens.sum(0, keepdim=True)), tokens)
        return gradient, self.embedded

    def embedded(self, words: Sequence[str]) -> torch.Tensor:
        return torch.tensor([WEIGHTS.get(word, (0.0, 0.0, 0.0)) for word in words]).reshape(-1, 3)


class Seeded(BagOfWords):
    """Classifier whose first logit depends on the seed, too."""

    def row(self, text: str, seed: int) -> list[float]:
        first, *others = super().row(text, seed)
        return [first + seed % 5 / 8, *others]


class Bigrams(Counted):
    """Language model whose losses are multiples of 1/8 that a word and the one before it decide."""

    is_padded = True

    def row(self, text: str, seed: int) -> list[float]:
        before, _, scored = text.rpartition("\x1e")
        tokens, known = tokens_in(scored), tokens_in(before)
        return [pair_loss(*pair) for pair in zip([*(known or ["\n"])[-1:], *tokens], tokens, strict=False)]


def tokens_in(text: str) -> list[str]:
    return [token for line in text.splitlines() for token in (*line.split(), "\n")]


def pair_loss(before: str, word: str) -> float:
    return (1 + hashed(before, word) % 40) / 8


def line_score(words: Sequence[str], clean: Sequence[str], missing: int | None) -> float:
    """Return the mean loss of the words that are as in the clean line, and of its end; one may be missing."""
    wanted = [each for at, each in enumerate(clean) if at != missing]
    losses, before = [], "\n"
    for word, kept in zip([*words, "\n"], [*wanted, "\n"], strict=True):
        if word == kept:
            losses.append(pair_loss(before, word))
        before = word
    return math.fsum(losses) / len(losses)


def class_score(words: Sequence[str], label: int) -> tuple[float, bool]:
    """Return one minus the probability of the label, and whether another class is first."""
    logits = [sum(WEIGHTS.get(word, (0, 0, 0))[k] for word in words) for k in range(3)]
    weights = [math.exp(each - max(logits)) for each in logits]
    return 1 - weights[label] / sum(weights), logits.index(max(logits)) != label


def sentences(count: int, seed: int = 0, longest: int = 14) -> list[str]:
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=generator.randint(1, longest))) for _ in range(count)]


def labels_of(texts: list[str]) -> list[int]:
    """Predicted classes, and another one for each seventh text."""
    return [(class_of(text) + (row % 7 == 6)) % 3 for row, text in enumerate(texts)]


def class_of(text: str) -> int:
    return next(k for k in range(3) if not class_score(text.split(), k)[1])


def num_right_of(texts: list[str], labels: list[int]) -> int:
    return sum(not class_score(text.split(), label)[1] for text, label in zip(texts, labels, strict=True))


def classified(
    declaration: Any, texts: list[str], labels: list[int], model: Any, seeds: Sequence[int] | None = None
) -> Perturbed:
    """Return what an attack makes of texts; example i has the seed i by default."""
    seeds = seeds or range(len(texts))
    batch = Batch(
        ids=tuple(map(str, seeds)), inputs=encoded_batch(texts), targets=torch.tensor(labels), task="classification",
        domain="texts",
    )  # fmt: skip
    return perturb(declaration, batch, model, ExampleDraws(seeds))


def write_wordnet(folder: Path, table: Mapping[str, Sequence[str]]) -> None:
    """Write WordNet's eight files: each word is a noun of one synset with its synonyms."""
    for part in ("noun", "verb", "adj", "adv"):
        (folder / f"index.{part}").write_text("  1 A licence.\n")
        (folder / f"data.{part}").write_text("  1 A licence.\n")
    with (folder / "index.noun").open("a") as index, (folder / "data.noun").open("a") as data:
        for number, (word, some) in enumerate(table.items()):
            words = " ".join(f"{each} 0" for each in (word, *some))
            data.write(f"{number:08} 03 n {1 + len(some):02x} {words} 000 | a gloss  \n")
            index.write(f"{word} n 1 0 1 0 {number:08}  \n")


def give_wordnet(monkeypatch: Any, folder: Path, table: Mapping[str, Sequence[str]]) -> None:
    """Put a list of synonyms in the place of WordNet 3.0."""
    write_wordnet(folder, table)
    monkeypatch.setenv(wordnet.FOLDER_VARIABLE, str(folder))
    monkeypatch.setitem(wordnet.RELEASES, "wordnet-3.0", wordnet.digest_of(wordnet.read(folder)))


class SpentError(Exception):
    """The budget is used up."""


class SlowSearch:
    """Search over plain strings, one candidate after another.

    ``score`` is given words and the place of one that is missing; ``keys`` are the draws of a random order.
    """

    def __init__(
        self,
        words: list[str],
        score: Callable[[list[str], int | None], tuple[float, bool]],
        declared: GreedyWordSwap,
        keys: Sequence[float],
    ) -> None:
        self.words, self.score, self.declared, self.keys = words, score, declared, keys
        self.used = self.num_changed = 0
        self.reached = words
        self.most = math.floor(declared.most_changed * sum(each != "." for each in words))
        self.options = {
            at: TABLE[word][: declared.most_substitutions]
            for at, word in enumerate(words)
            if word in TABLE and not (declared.keeps_stop_words and word in STOP)
        }

    def run(self) -> tuple[list[str], int]:
        """Return the words that are reached and the number of queries."""
        self.best = self.ask(self.words)
        try:
            if not self.best[1] and self.most:
                self.swap_each(self.order())
        except SpentError:
            pass
        return self.reached, self.used

    def ask(self, candidate: list[str], missing: int | None = None) -> tuple[float, bool]:
        if self.used == self.declared.num_queries:
            raise SpentError
        self.used += 1
        return self.score(candidate, missing)

    def order(self) -> list[int]:
        if self.declared.ranking == "random":
            return [at for _, at in sorted(zip(self.keys, self.options, strict=False))]
        scores = {at: self.importance(at) for at in self.options}
        if self.declared.ranking == "weighted-saliency":
            total = sum(map(math.exp, scores.values()))
            for at, some in self.options.items():
                gain = max([self.ask(swapped(self.words, at, each))[0] for each in some]) - self.best[0]
                scores[at] = math.exp(scores[at]) / total * gain
        return sorted(self.options, key=lambda at: (-scores[at], at))

    def importance(self, at: int) -> float:
        if self.declared.ranking == "delete":
            return self.ask([*self.words[:at], *self.words[at + 1 :]], at)[0]
        return self.ask(swapped(self.words, at, "[UNK]"))[0]

    def swap_each(self, order: Sequence[int]) -> None:
        for at in order:
            found: list[tuple[tuple[float, bool], str]] = []
            try:
                for each in self.options[at]:
                    found.append((self.ask(swapped(self.reached, at, each)), each))
            finally:
                self.keep_best(at, found)
            if self.best[1] or self.num_changed == self.most:
                return

    def keep_best(self, at: int, found: list[tuple[tuple[float, bool], str]]) -> None:
        # Of equal scores the first.
        for scored, word in sorted(found, key=lambda pair: -pair[0][0])[:1]:
            if scored[0] > self.best[0]:
                self.best, self.reached = scored, swapped(self.reached, at, word)
                self.num_changed += 1


def swapped(words: list[str], at: int, word: str) -> list[str]:
    return [*words[:at], word, *words[at + 1 :]]
