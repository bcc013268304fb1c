"""Language of ListOps: its tokens, and the values of expressions such as ``[MAX 2 9 [MIN 4 7 ] 0 ]``.

Source: Nangia & Bowman 2018, arXiv:1804.06028; Tay et al. 2020, arXiv:2011.04006. An expression is a digit, or an
operator, two or more expressions and a closing bracket: minimum, maximum, median (of an even number of values the mean
of both in the middle, rounded down) and the sum modulo 10. Round parentheses of the published binary trees are left
out, as by Long-Range Arena's preprocessing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from robench.core.errors import ContractError

# The token of each text is its place, counted from 1.
VOCABULARY: Final = (*"0123456789", "[MIN", "[MAX", "[MED", "[SM", "]")
NUM_DIGITS: Final = 10
MINIMUM, MAXIMUM, MEDIAN, SUM, END = range(NUM_DIGITS + 1, len(VOCABULARY) + 1)
OPERATORS: Final = (MINIMUM, MAXIMUM, MEDIAN, SUM)


@dataclass(frozen=True, slots=True)
class Expression:
    """Value of an expression, and its operations.

    Attributes:
        value: 0 to 9.
        operations: operator (a token) and value of each operation, by their first tokens.
        around: for the gap after each token but the last, the place in ``operations`` of the innermost one around it.
    """

    value: int
    operations: tuple[tuple[int, int], ...]
    around: tuple[int, ...]


def text_of(tokens: Sequence[int]) -> str:
    """Return the text of tokens, with a blank between two.

    >>> text_of([11, 3, 10, 15])
    '[MIN 2 9 ]'
    """
    return " ".join(VOCABULARY[token - 1] for token in tokens)


def tokens_of(text: str) -> list[int]:
    """Return the tokens of a text.

    >>> tokens_of("[MIN 2 9 ]")
    [11, 3, 10, 15]
    """
    return [VOCABULARY.index(word) + 1 for word in text.split()]


def parsed(tokens: Sequence[int]) -> Expression:
    """Return the value and the operations of an expression.

    >>> parsed(tokens_of("[SM 5 [MED 1 4 8 2 ] 6 ]"))
    Expression(value=4, operations=((14, 4), (13, 3)), around=(0, 0, 1, 1, 1, 1, 1, 0, 0))
    """
    operations: list[tuple[int, int]] = []
    around: list[int] = []
    # Operations that are not closed yet: their places, and their arguments so far.
    unclosed: list[tuple[int, list[int]]] = []
    value = -1
    for place, token in enumerate(tokens):
        if (place and not unclosed) or not 1 <= token <= END:
            raise ContractError(f"token {token} at place {place} is not part of an expression of ListOps")
        if token in OPERATORS:
            unclosed.append((len(operations), []))
            operations.append((token, -1))
        else:
            if token == END:
                if not unclosed or not unclosed[-1][1]:
                    raise ContractError(f"the bracket at place {place} closes no operation of ListOps with arguments")
                number, arguments = unclosed.pop()
                value = applied(operations[number][0], arguments)
                operations[number] = (operations[number][0], value)
            else:
                value = token - 1
            if unclosed:
                unclosed[-1][1].append(value)
        around.append(unclosed[-1][0] if unclosed else -1)
    if unclosed or not around:
        raise ContractError(f"{len(tokens)} tokens end within an expression of ListOps")
    return Expression(value, tuple(operations), tuple(around[:-1]))


def applied(operator: int, values: Sequence[int]) -> int:
    """Return the value of an operator on values.

    >>> applied(MEDIAN, [7, 1, 4, 2])
    3
    """
    if operator == MINIMUM:
        return min(values)
    if operator == MAXIMUM:
        return max(values)
    if operator == SUM:
        return sum(values) % NUM_DIGITS
    ordered, middle = sorted(values), len(values) // 2
    return ordered[middle] if len(values) % 2 else (ordered[middle - 1] + ordered[middle]) // 2
