"""Gradient-guided token swap: first-order gains propose swaps of tokens, and queries decide.

The search is that of the gradient-guided word swap (``greedy_search.guided``). Of equal gains the first place comes
first, then the lowest token. An input is a flat tuple of its tokens, those of both sides of a pair included.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, cast

import torch
from torch import Tensor

from robench.core.errors import ContractError
from robench.core.protocols import Batch, Draws, Model, Perturbed
from robench.domains.listops import parsed
from robench.domains.tokens_impl import PADDING
from robench.perturbations.gradient_token_swap import GradientTokenSwap
from robench.perturbations.gradient_word_swap_impl import margin
from robench.perturbations.greedy_search import Budget, OfClass, Proposal, Reached, Reader, each_candidate, guided

Tokens = tuple[int, ...]


class _TokenModel(Protocol):
    """Model whose embedded tokens can be seen; ``models.loaded.LoadedModel`` of a module with ``embed``."""

    def swap_gains(
        self, inputs: Tensor, seeds: Sequence[int], score: Callable[[Tensor], Tensor], tokens: Sequence[int]
    ) -> Tensor:
        """Return by how much each swap of a token changes a score to first order, (V, ...)."""


def attacked(declaration: GradientTokenSwap, batch: Batch, model: Model, draws: Draws) -> Perturbed:
    """Return the sequences that the searches reach, with their numbers of queries and gradients.

    Raises:
        ContractError: the model gives no ``embed``, or its outputs are not finite.
    """
    shape = batch.inputs.shape[1:]

    def encode(candidates: Sequence[Tokens]) -> Tensor:
        return torch.tensor(candidates).reshape(len(candidates), *shape)

    def attack(clean: Tokens, label: Tensor, reader: Reader[Tokens], draws: Draws) -> Reached[Tokens]:
        del draws  # Nothing is drawn.
        most_swapped = declaration.most_replaced(sum(token != PADDING for token in clean))

        def propose(chosen: Mapping[int, int]) -> Iterator[Proposal[int]]:
            return _proposals(declaration, clean, chosen, reader, label)

        ask = Budget(OfClass(reader, label), declaration.num_queries)
        return guided(lambda chosen: _swapped(clean, chosen), most_swapped, ask, declaration.num_proposed, propose)

    clean = [tuple(row) for row in batch.inputs.flatten(1).tolist()]
    return each_candidate(attack, clean, encode, batch, model, draws)


def _swapped(clean: Tokens, chosen: Mapping[int, int]) -> Tokens:
    return tuple(chosen.get(place, token) for place, token in enumerate(clean))


def _proposals(
    declaration: GradientTokenSwap, clean: Tokens, chosen: Mapping[int, int], reader: Reader[Tokens], label: Tensor
) -> Iterator[Proposal[int]]:
    """Yield the swaps of tokens that are as they were, those of highest gain first."""
    tokens = range(declaration.lowest, declaration.highest + 1)
    current = _swapped(clean, chosen)
    model = cast("_TokenModel", reader.model)
    by_token = model.swap_gains(reader.inputs([current]), (reader.seed,), lambda z: margin(z, label), tokens)
    gains, order = by_token.flatten(1).double().cpu().T.flatten().sort(descending=True, stable=True)
    for gain, number in zip(gains.tolist(), order.tolist(), strict=True):
        place, token = number // len(tokens), tokens[number % len(tokens)]
        if clean[place] in (PADDING, token) or place in chosen:
            continue
        if not declaration.keeps_value or _value(_swapped(current, {place: token})) == _value(clean):
            yield Proposal(gain, place, token)


def _value(tokens: Tokens) -> int | None:
    try:
        return parsed([token for token in tokens if token != PADDING]).value
    except ContractError:
        return None
