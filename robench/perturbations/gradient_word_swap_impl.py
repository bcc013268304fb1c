"""Gradient-guided word swap: first-order gains propose substitutes, and queries decide.

Each step takes one pass forward and backward, on the text as it is, and a query for each proposed substitute. A word is
replaced once. The gain of a substitute w' at a token is g . (e(w') - e(w)), with the token's embedding e and the
gradient g of the margin, log sum_{k != y} exp z_k - z_y of logits z with label y; a text beyond the model's context has
none. Of equal gains the first word and substitute come first.

Proposed words are in descending order of |g|_2 at their token on the clean text, which takes one such pass, and then
searched as by a greedy word swap (``greedy_search.searched``). The gradient of the cross-entropy, -log p_y, is
(1 - p_y) g, and so gives the same order. TextAttack 0.3.11 takes the l1 norm.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, cast

import torch
from torch import Tensor

from robench.core.errors import ContractError
from robench.core.protocols import Batch, Draws, Model, Perturbed
from robench.perturbations.gradient_word_swap import GradientWordSwap
from robench.perturbations.greedy_search import (
    Budget,
    OfClass,
    Proposal,
    Reached,
    Reader,
    Wording,
    each_text,
    guided,
    searched,
    wording_of,
)
from robench.perturbations.word_swap_impl import LINE_END

_TOKEN = re.compile(r"\S+")


class _WordModel(Protocol):
    """Model whose embedded words can be seen; ``models.loaded.LoadedModel`` of a transformer over words."""

    def token_gradients(
        self, inputs: Tensor, seeds: Sequence[int], score: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, Callable[[Sequence[str]], Tensor]] | None:
        """Return the gradient (L, C) of a score by the embedded tokens, and embeddings (n, C) of words."""


def attacked(declaration: GradientWordSwap, batch: Batch, model: Model, draws: Draws) -> Perturbed:
    """Return the texts that the searches reach, with their numbers of queries and gradients.

    Raises:
        ContractError: the model is not one over words that robench builds, or its outputs are not finite.
    """

    def attack(text: str, label: Tensor, reader: Reader[str], draws: Draws) -> Reached[str]:
        del draws  # Nothing is drawn.
        wording = wording_of(text, declaration)
        ask = Budget(OfClass(reader, label), declaration.num_queries)
        if declaration.proposed == "words":
            return _by_words(wording, ask, reader, label)

        def propose(chosen: Mapping[int, str]) -> list[Proposal[str]]:
            return _proposals(wording, chosen, reader, label)

        return guided(wording.text, wording.most_changed, ask, declaration.num_proposed, propose)

    return each_text(attack, batch, model, draws)


def _by_words(wording: Wording, ask: Budget[str], reader: Reader[str], label: Tensor) -> Reached[str]:
    num_gradients = 0

    def order(clean: float) -> list[int]:
        """Return the places of words by the norm of their gradient; none if no query is left to replace one."""
        nonlocal num_gradients
        del clean  # The gradient decides.
        if not wording.words or ask.num_left < 2:
            return []
        num_gradients += 1
        ask.num_used += 1
        text = wording.text({})
        gradients_LC, _ = _seen(text, reader, label)
        norms_L = gradients_LC.double().norm(dim=1).tolist()
        tokens = _tokens(text)
        places = [_token_at(start, tokens).place for start, _ in wording.spans({})]
        return sorted(
            (word for word, place in enumerate(places) if place < len(norms_L)),
            key=lambda word: -norms_L[places[word]],
        )

    return Reached(searched(wording, ask, order), ask.num_used, num_gradients)


def _proposals(wording: Wording, chosen: Mapping[int, str], reader: Reader[str], label: Tensor) -> list[Proposal[str]]:
    text = wording.text(chosen)
    gradients_LC, embedded = _seen(text, reader, label)
    tokens = _tokens(text)
    offers: list[tuple[Proposal[str], _Token, str]] = []
    for place, (start, stop) in enumerate(wording.spans(chosen)):
        token = _token_at(start, tokens)
        if place in chosen or token.place >= len(gradients_LC):
            continue
        before, after = text[token.start : start], text[stop : token.stop]
        offers += [(Proposal(0.0, place, each), token, f"{before}{each}{after}") for each in wording.substitutes[place]]
    if not offers:
        return []
    changes_NC = embedded([new for _, _, new in offers]) - embedded(
        [text[old.start : old.stop] for _, old, _ in offers]
    )
    gains = (changes_NC * gradients_LC[[old.place for _, old, _ in offers]]).sum(1).double().tolist()
    made = [proposal._replace(gain=gain) for gain, (proposal, _, _) in zip(gains, offers, strict=True)]
    return sorted(made, key=lambda each: -each.gain)


def _seen(text: str, reader: Reader[str], label: Tensor) -> tuple[Tensor, Callable[[Sequence[str]], Tensor]]:
    """Return the gradient (L, C) of the margin by the embedded tokens of a text, and the embeddings of words."""
    found = None
    # Models that robench does not build may lack it.
    if hasattr(reader.model, "token_gradients"):
        model = cast("_WordModel", reader.model)
        found = model.token_gradients(reader.inputs([text]), (reader.seed,), lambda logits: margin(logits, label))
    if found is None:
        raise ContractError(
            "the model has no embedded words of robench's, whose gradient a gradient-guided word swap needs: take a "
            "model of backbone text-classifier, or greedy-word-swap"
        )
    return found


class _Token(NamedTuple):
    """Token of a text: its place among the model's, ends of lines included, and its position."""

    place: int
    start: int
    stop: int


def _tokens(text: str) -> list[_Token]:
    found, place, begin = [], 0, 0
    for line in LINE_END.split(text):
        for match in _TOKEN.finditer(line):
            found.append(_Token(place, begin + match.start(), begin + match.end()))
            place += 1
        # The end of the line.
        place += 1
        begin += len(line)
    return found


def _token_at(start: int, tokens: Sequence[_Token]) -> _Token:
    return next(each for each in tokens if each.start <= start < each.stop)


def margin(logits_1K: Tensor, label: Tensor) -> Tensor:
    """Return log sum_{k != y} exp z_k - z_y of logits z (1, K) with label y."""
    others_K = torch.ones_like(logits_1K[0], dtype=torch.bool)
    others_K[int(label)] = False
    value: Tensor = logits_1K[0][others_K].logsumexp(0) - logits_1K[0][int(label)]
    return value
