"""Greedy searches for substitutes: objectives, the search for words by importance, and the search by proposals.

Definition: Jin et al. 2020, arXiv:1907.11932, algorithm 1, in the form of TextAttack 0.3.11 (Morris et al. 2020,
arXiv:2005.05909, ``GreedyWordSwapWIR``). Beginning with the most important word, of each word the substitute with the
highest score is kept if it raises the score; the search ends at success, at the largest number of changed words, or
when the queries are used up. Of equal scores the first word or substitute counts.

Differences from TextAttack: words without a substitute are not ranked, which saves their queries; weighted saliency is
that of Ren et al. 2019 (PWWS, ACL, P19-1103), with the gain of the best substitute, where the library has
its score; the proportion of changed words is rounded down, and not up.

Objectives are the score of a text for a classifier and of a line for a language model. All candidates of an example are
shown under its own seed, in passes without other examples, so that no other example of a batch affects its result.
Candidates are texts or other hashable forms of inputs.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise
from math import exp, fsum
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from robench.core.errors import ContractError
from robench.core.protocols import Batch, Draws, Model, Perturbed
from robench.domains.code_points import CONTEXT_END, decoded, encoded_batch
from robench.perturbations.character_edits_impl import typos
from robench.perturbations.greedy_word_swap import GreedyWordSwap
from robench.perturbations.text_perturbation import WordSearch
from robench.perturbations.word_swap_impl import STOP_WORDS, uniform, words_of
from robench.perturbations.wordnet import synonyms_of
from robench.tasks import task_of
from robench.tasks.base import TaskRules
from robench.tasks.language_modeling_impl import NO_TOKEN, scored_tokens

# Form of inputs in a search, such as texts, and of their parts, such as words.
Candidate = TypeVar("Candidate", bound=Hashable)
Part = TypeVar("Part")
# Candidate, target, reader and draws of one example.
Attack = Callable[[Candidate, Tensor, "Reader[Candidate]", Draws], "Reached[Candidate]"]


class Scored(NamedTuple):
    """Score of a candidate, which a search raises, and whether it is a success."""

    score: float
    is_success: bool


# Shows candidates to a model, a query each, and scores them.
Objective = Callable[[Sequence[Candidate]], list[Scored]]


@dataclass(slots=True)
class Budget(Generic[Candidate]):
    """Objective with a limited number of queries.

    Attributes:
        num_queries: largest number of queries; ``num_used``: number of queries so far.
    """

    objective: Objective[Candidate]
    num_queries: int
    num_used: int = 0

    @property
    def num_left(self) -> int:
        """Return the number of queries that are left."""
        return self.num_queries - self.num_used

    def __call__(self, candidates: Sequence[Candidate]) -> list[Scored]:
        """Return the scores of the first candidates, as many as queries are left."""
        shown = candidates[: self.num_left]
        self.num_used += len(shown)
        return self.objective(shown) if shown else []


@dataclass(frozen=True, slots=True)
class Wording:
    """Text or line, as the words that may be replaced and what lies between them.

    Attributes:
        words: the N words; ``between``: N + 1 strings around them, which stay.
        substitutes: substitutes of each word, at least one.
        most_changed: largest number of words that may be replaced.
    """

    words: tuple[str, ...]
    between: tuple[str, ...]
    substitutes: tuple[tuple[str, ...], ...]
    most_changed: int

    def text(self, chosen: Mapping[int, str]) -> str:
        """Return the text with other words at some places."""
        parts = [self.between[0]]
        for place, (word, after) in enumerate(zip(self.words, self.between[1:], strict=True)):
            parts += [chosen.get(place, word), after]
        return "".join(parts)

    def spans(self, chosen: Mapping[int, str]) -> list[tuple[int, int]]:
        """Return start and stop of each word in the text with other words at some places."""
        found, end = [], 0
        for place, (word, before) in enumerate(zip(self.words, self.between, strict=False)):
            start = end + len(before)
            end = start + len(chosen.get(place, word))
            found.append((start, end))
        return found

    def without(self, place: int) -> str:
        """Return the text without a word, and without the blank after it if there is white space before it."""
        text, (start, stop) = self.text({}), self.spans({})[place]
        before, after = text[:start], text[stop:]
        has_two = not before or before[-1].isspace()
        return before + (after.removeprefix(" ") if has_two else after)


def wording_of(text: str, declaration: WordSearch) -> Wording:
    """Return the words of a text that have substitutes; stop words have none, if they stay."""
    words, between, substitutes, end = [], [], [], 0
    for start, stop in words_of(text, without_stop_words=declaration.keeps_stop_words):
        if found := _substitutes(text[start:stop], declaration):
            words.append(text[start:stop])
            between.append(text[end:start])
            substitutes.append(found)
            end = stop
    num_all = len(words_of(text, without_stop_words=False))
    return Wording(
        words=tuple(words),
        between=(*between, text[end:]),
        substitutes=tuple(substitutes),
        most_changed=int(declaration.most_changed * num_all),
    )


def substitutes_of(text: str, declaration: WordSearch) -> dict[str, tuple[str, ...]]:
    """Return the substitutes of a text's words that have some, stop words included."""
    words = {text[start:stop] for start, stop in words_of(text, without_stop_words=False)}
    found = {word: _substitutes(word, declaration) for word in sorted(words)}
    return {word: some for word, some in found.items() if some}


def searched(wording: Wording, ask: Budget[str], order: Callable[[float], Sequence[int]]) -> str:
    """Return the text that the search reaches; its score is never below that of the text itself.

    ``order`` is a function of the score of the clean text to the places of words, the most important first.
    """
    (current,) = ask([wording.text({})])
    chosen: dict[int, str] = {}
    if current.is_success or not wording.most_changed:
        return wording.text(chosen)
    for place in order(current.score):
        candidates = wording.substitutes[place]
        found = ask([wording.text({**chosen, place: each}) for each in candidates])
        best = max(range(len(found)), key=lambda at: found[at].score, default=None)
        if best is not None and found[best].score > current.score:
            chosen[place], current = candidates[best], found[best]
        if current.is_success or not ask.num_left or len(chosen) == wording.most_changed:
            break
    return wording.text(chosen)


def ranked(wording: Wording, ask: Budget[str], declaration: GreedyWordSwap, seed: int, clean: float) -> Sequence[int]:
    """Return the places of words, the most important first; none if the queries do not suffice to rank them.

    ``seed`` is that of a random order, and ``clean`` the score of the clean text.
    """
    num_words = len(wording.words)
    if declaration.ranking == "random":
        order: list[int] = np.argsort(uniform(seed, num_words), kind="stable").tolist()
        return order
    if declaration.ranking == "delete":
        texts = [wording.without(place) for place in range(num_words)]
    else:
        texts = [wording.text({place: declaration.unknown}) for place in range(num_words)]
    importance = [each.score for each in ask(texts)]
    if declaration.ranking == "weighted-saliency" and ask.num_left:
        gains = _gains(wording, ask, clean)
        # Relative to the largest: softmax without overflow, and its denominator changes no order.
        weights = [exp(score - max(importance, default=0.0)) for score in importance]
        importance = [weight * gain for weight, gain in zip(weights, gains, strict=False)]
    if len(importance) < num_words or not ask.num_left:
        return []
    return sorted(range(num_words), key=lambda place: -importance[place])


def _gains(wording: Wording, ask: Budget[str], clean: float) -> list[float]:
    """Return by how much the best substitute of each word raises the score; of fewer words if queries run out."""
    texts = [wording.text({place: each}) for place, some in enumerate(wording.substitutes) for each in some]
    found = [each.score for each in ask(texts)]
    ends = [0, *accumulate(map(len, wording.substitutes))]
    if len(found) < len(texts):
        return []
    return [max(found[start:stop]) - clean for start, stop in pairwise(ends)]


def _substitutes(word: str, declaration: WordSearch) -> tuple[str, ...]:
    if declaration.substitutions.startswith("typos"):
        found = typos(word, any_letter=declaration.substitutions == "typos-any-letter")
    elif declaration.substitutions == "table":
        found = declaration.table.get(word, ())
    else:
        # In WordNet "as" and "it" are the nouns arsenic and information technology.
        found = () if word.lower() in STOP_WORDS else synonyms_of(word, declaration.substitutions)
    return tuple(found[: declaration.most_substitutions])


class Proposal(NamedTuple, Generic[Part]):
    """Substitute at a place, with its estimated gain."""

    gain: float
    place: int
    substitute: Part


def guided(
    changed: Callable[[Mapping[int, Part]], Candidate],
    most_changed: int,
    ask: Budget[Candidate],
    num_proposed: int,
    propose: Callable[[Mapping[int, Part]], Iterable[Proposal[Part]]],
) -> "Reached[Candidate]":
    """Return the candidate of a search by proposals; its score is never below that of the clean candidate.

    A step takes a gradient, which counts as a query, and shows the model ``num_proposed`` proposals, further ones while
    none raises the score. The best of them is kept. ``changed`` returns the candidate with substitutes at some places,
    at most ``most_changed``, and ``propose`` the proposals at further places, the best first.
    """
    (current,) = ask([changed({})])
    chosen: dict[int, Part] = {}
    num_gradients = 0
    is_raised = True
    # A step takes a pass for the gradient and at least one query.
    while is_raised and not current.is_success and len(chosen) < most_changed and ask.num_left > 1:
        offers = iter(propose(chosen))
        num_gradients += 1
        ask.num_used += 1
        is_raised = False
        while not is_raised and ask.num_left and (shown := list(islice(offers, num_proposed))):
            found = ask([changed({**chosen, each.place: each.substitute}) for each in shown])
            best = max(range(len(found)), key=lambda at: found[at].score)
            if found[best].score > current.score:
                chosen[shown[best].place], current, is_raised = shown[best].substitute, found[best], True
    return Reached(changed(chosen), ask.num_used, num_gradients)


CANDIDATES_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Reader(Generic[Candidate]):
    """Model that candidates of one example are shown to.

    Attributes:
        seed: the example's seed for predictions; ``device``: where its inputs are.
        rules: rules of the task.
        encode: function of candidates to inputs (B, ...).
    """

    model: Model
    seed: int
    device: torch.device
    rules: TaskRules
    encode: Callable[[Sequence[Candidate]], Tensor]

    def rows(self, candidates: Sequence[Candidate]) -> Iterator[Tensor]:
        """Yield the outputs (1, ...) of each candidate.

        Raises:
            ContractError: outputs are not finite, or not one for each candidate.
        """
        for at in range(0, len(candidates), CANDIDATES_AT_ONCE):
            shown = candidates[at : at + CANDIDATES_AT_ONCE]
            with torch.no_grad():
                outputs = self.model.outputs(self.inputs(shown), (self.seed,) * len(shown))
            if len(outputs) != len(shown) or not bool(torch.isfinite(outputs).all()):
                raise ContractError(
                    f"the model returned shape {tuple(outputs.shape)}, or values that are not finite, for {len(shown)} "
                    "candidates of a search, wanted finite outputs for each"
                )
            yield from outputs.split(1)

    def inputs(self, candidates: Sequence[Candidate]) -> Tensor:
        """Return candidates as inputs (B, ...) on the model's device."""
        return self.encode(candidates).to(self.device)


class Reached(NamedTuple, Generic[Candidate]):
    """Candidate that an attack reached, and how many candidates and gradients it took from the model."""

    candidate: Candidate
    num_queries: int
    num_gradients: int = 0


def each_text(attack: Attack[str], batch: Batch, model: Model, draws: Draws) -> Perturbed:
    """Return the texts that an attack reaches one by one, and the number of texts that each showed to the model."""
    return each_candidate(attack, decoded(batch.inputs), encoded_batch, batch, model, draws)


def each_candidate(
    attack: Attack[Candidate],
    clean: Sequence[Candidate],
    encode: Callable[[Sequence[Candidate]], Tensor],
    batch: Batch,
    model: Model,
    draws: Draws,
) -> Perturbed:
    """Return the inputs that an attack reaches from each example, in the form ``clean``, and its numbers of passes."""
    seeds = draws.prediction_seeds
    reached: dict[tuple[str, Candidate, int], Reached[Candidate]] = {}
    found = []
    for row, (example_id, candidate) in enumerate(zip(batch.ids, clean, strict=True)):
        # The last batch repeats its last example.
        key = example_id, candidate, seeds[row]
        if key not in reached:
            reader = Reader(model, seeds[row], batch.inputs.device, task_of(batch).rules, encode)
            reached[key] = attack(candidate, batch.targets[row], reader, draws.take([row]))
        found.append(reached[key])
    return Perturbed(
        inputs=encode([each.candidate for each in found]).to(batch.inputs.device),
        num_queries=torch.tensor([each.num_queries for each in found]),
        num_gradients=torch.tensor([each.num_gradients for each in found]),
    )


@dataclass(frozen=True, slots=True)
class OfClass(Generic[Candidate]):
    """Objective against a classifier: one minus the probability of the label; success is another class."""

    reader: Reader[Candidate]
    label: Tensor

    def __call__(self, candidates: Sequence[Candidate]) -> list[Scored]:
        """Return the score of each candidate."""
        found = []
        for row in self.reader.rows(candidates):
            score = _other_probability(row[0].double().tolist(), int(self.label))
            found.append(Scored(score, bool(self.reader.rules.is_fooled(row, self.label))))
        return found


@dataclass(frozen=True, slots=True)
class OfLine:
    """Objective against a language model: the mean loss of the words of a line that are as in the clean one.

    The end of the line counts as a kept word.

    Attributes:
        before: text before the line, the context of its words; ``line``: the clean line.
    """

    reader: Reader[str]
    before: str
    line: str

    def __call__(self, texts: Sequence[str]) -> list[Scored]:
        """Return the score of each line in place of the clean one.

        Raises:
            ContractError: the model returned other numbers of losses than a line has words.
        """
        clean = scored_tokens(_ended(self.line))
        found = []
        whole = [f"{self.before}{CONTEXT_END}{_ended(text)}" for text in texts]
        for text, row in zip(texts, self.reader.rows(whole), strict=True):
            tokens = scored_tokens(_ended(text))
            losses = row[row != NO_TOKEN].double().tolist()
            if len(losses) != len(tokens):
                raise ContractError(
                    f"the model returned {len(losses)} losses for a line of {len(tokens)} words and ends"
                )
            # Where a whole word was left out to rank it, the others are the clean line's.
            pairs = zip(tokens, clean if len(clean) == len(tokens) else tokens, strict=True)
            kept = [loss for loss, (token, wanted) in zip(losses, pairs, strict=True) if token == wanted]
            found.append(Scored(fsum(kept) / len(kept), is_success=False))
        return found


def _other_probability(logits: Sequence[float], label: int) -> float:
    """Return the softmax's sum over all classes but one, exact for the most confident models too."""
    largest = max(logits)
    weights = [exp(logit - largest) for logit in logits]
    return fsum(weights[:label] + weights[label + 1 :]) / fsum(weights)


def _ended(line: str) -> str:
    return line if line.endswith("\n") else line + "\n"
