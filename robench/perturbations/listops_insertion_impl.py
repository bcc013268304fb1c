"""Insertions into expressions of ListOps that leave the value of every operation unchanged."""

import numpy as np
from numpy.typing import NDArray

from robench.core.protocols import Batch, Draws, Model, Perturbed
from robench.domains.listops import MAXIMUM, MEDIAN, MINIMUM, NUM_DIGITS, parsed
from robench.perturbations.listops_insertion import ListOpsExtension, ListOpsInsertion
from robench.perturbations.token_edits_impl import chosen, edited
from robench.perturbations.word_swap_impl import uniform


def inserted(declaration: ListOpsInsertion, batch: Batch, model: Model, draws: Draws) -> Perturbed:
    """Return the expressions with further arguments; the model plays no part."""
    del model

    def edit(tokens: NDArray[np.int64], num_positions: int, seed: int) -> NDArray[np.int64]:
        # A place in the gap after each token but the last.
        num_gaps = len(tokens) - 1
        gaps = chosen(num_gaps, declaration.rate, seed, most=num_positions - len(tokens))
        if not len(gaps):
            return tokens
        # After the values that have chosen the gaps.
        return _with_arguments(tokens, gaps, uniform(seed, 2 * num_gaps + 1)[num_gaps + 1 :][gaps])

    return edited(batch, draws, "listops insertion", edit)


def extended(declaration: ListOpsExtension, batch: Batch, model: Model, draws: Draws) -> Perturbed:
    """Return the expressions with further arguments up to the declared length; the model plays no part."""
    del model

    def edit(tokens: NDArray[np.int64], num_positions: int, seed: int) -> NDArray[np.int64]:
        num_gaps = len(tokens) - 1
        if not num_gaps:
            return tokens
        # Of each argument its gap and what decides its digit, so that fewer arguments are the first ones of more.
        drawn = uniform(seed, 2 * (num_positions - len(tokens))).reshape(-1, 2)
        return _with_arguments(tokens, (drawn[:, 0] * num_gaps).astype(np.int64), drawn[:, 1])

    return edited(batch, draws, "listops extension", edit, *declaration.shape_of(tuple(batch.inputs.shape[-1:])))


def _with_arguments(
    tokens: NDArray[np.int64], gaps: NDArray[np.int64], drawn: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return an expression with an argument in each gap after a token; those in one gap follow in their order."""
    expression = parsed(tokens.tolist())
    digits = []
    for gap, value in zip(gaps.tolist(), drawn.tolist(), strict=True):
        operator, of_operation = expression.operations[expression.around[gap]]
        digits.append(neutral(operator, of_operation, value))
    return np.insert(tokens, gaps + 1, np.array(digits, np.int64) + 1)


def neutral(operator: int, value: int, drawn: float) -> int:
    """Return a digit that leaves the value of an operation unchanged as a further argument; ``drawn`` is in [0, 1).

    >>> [neutral(operator, 7, 0.5) for operator in (MINIMUM, MAXIMUM, MEDIAN)]
    [8, 4, 7]
    """
    if operator == MINIMUM:
        return value + int(drawn * (NUM_DIGITS - value))
    if operator == MAXIMUM:
        return int(drawn * (value + 1))
    return value if operator == MEDIAN else 0
