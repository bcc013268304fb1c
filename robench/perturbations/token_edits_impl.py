"""Random edits of sequences of tokens: each sequence has draws of its own, and padding stays at its end.

The same places and tokens are drawn for every model. The two sides of a pair have draws of their own.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import torch
from numpy.typing import NDArray

from robench.core.protocols import Batch, Draws, Model, Perturbed
from robench.core.seeds import Stream
from robench.domains.tokens_impl import PADDING
from robench.perturbations.token_edits import TokenDeletion, TokenSwap
from robench.perturbations.word_swap_impl import chosen_words, uniform

# Tokens of one sequence without padding, its positions and a seed; returns its tokens, at most as many as positions.
Edit = Callable[[NDArray[np.int64], int, int], NDArray[np.int64]]


def swapped(declaration: TokenSwap, batch: Batch, model: Model, draws: Draws) -> Perturbed:
    """Return the sequences with some tokens replaced; the model plays no part."""
    del model

    def edit(tokens: NDArray[np.int64], num_positions: int, seed: int) -> NDArray[np.int64]:
        del num_positions
        return replaced(
            tokens, chosen(len(tokens), declaration.rate, seed), declaration.lowest, declaration.highest, seed
        )

    return edited(batch, draws, "token swap", edit)


def deleted(declaration: TokenDeletion, batch: Batch, model: Model, draws: Draws) -> Perturbed:
    """Return the sequences without some tokens; the model plays no part."""
    del model

    def edit(tokens: NDArray[np.int64], num_positions: int, seed: int) -> NDArray[np.int64]:
        del num_positions
        return np.delete(tokens, chosen(len(tokens), declaration.rate, seed, most=len(tokens) - 1))

    return edited(batch, draws, "token deletion", edit)


def edited(batch: Batch, draws: Draws, purpose: str, edit: Edit, num_positions: int | None = None) -> Perturbed:
    """Return the sequences of a batch, each edited with a seed of its own, padded to the same length.

    ``num_positions`` is that length, None for that of the clean ones.
    """
    inputs = batch.inputs.cpu().numpy()
    sides = inputs.reshape(len(inputs), -1, inputs.shape[-1])
    length = num_positions or inputs.shape[-1]
    result = np.full((*sides.shape[:2], length), PADDING)
    for side in range(sides.shape[1]):
        for row, seed in enumerate(draws.seeds(Stream(purpose=purpose, draw=side))):
            tokens = sides[row, side]
            found = edit(tokens[tokens != PADDING], length, seed)
            result[row, side, : len(found)] = found
    return Perturbed(inputs=torch.from_numpy(result.reshape(*inputs.shape[:-1], length)).to(batch.inputs.device))


def chosen(num_places: int, rate: Fraction, seed: int, most: int | None = None) -> NDArray[np.int64]:
    """Return ``rate`` times ``num_places`` random places, ascending, at most ``most``.

    A fraction is rounded at random, so that its mean is exact.
    """
    wanted = rate * num_places
    return np.array(chosen_words(num_places, wanted if most is None else min(wanted, Fraction(most)), seed), np.int64)


def replaced(
    tokens: NDArray[np.int64], places: NDArray[np.int64], lowest: int, highest: int, seed: int
) -> NDArray[np.int64]:
    """Return tokens with others from ``lowest`` to ``highest`` at some places, none of them as it was."""
    result, old = tokens.copy(), tokens[places]
    # A token within the range leaves one choice fewer; choices from it on are the next ones.
    is_inside = (old >= lowest) & (old <= highest)
    # After the values that have chosen the places.
    values = uniform(seed, 2 * len(tokens) + 1)[len(tokens) + 1 :][places]
    new = lowest + (values * (highest - lowest + 1 - is_inside)).astype(np.int64)
    result[places] = new + (is_inside & (new >= old))
    return result
