"""ListOps written a second time: values by recursion over the text, and trees by Python's own random numbers."""

from collections.abc import Iterator
from random import Random
from statistics import median

OPERATORS = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda values: int(median(values)),
    "[SM": lambda values: sum(values) % 10,
}


def value_of(text: str) -> int:
    """Return the value of an expression."""
    words = iter(text.split())
    value = _read(next(words), words)
    assert next(words, None) is None, "words after the end of an expression"
    return value


def _read(word: str, words: Iterator[str]) -> int:
    if word not in OPERATORS:
        return int(word)
    arguments = []
    for following in words:
        if following == "]":
            return int(OPERATORS[word](arguments))  # type: ignore[operator]  # functions of one list
        arguments.append(_read(following, words))
    raise AssertionError("an operation without its end")


def drawn(random: Random, max_depth: int, max_args: int, depth: int = 1) -> list[str]:
    """Return the words of a random tree; a node is an operation with the probability 1/4."""
    if depth == max_depth or random.random() >= 0.25:
        return [str(random.randrange(10))]
    arguments = [drawn(random, max_depth, max_args, depth + 1) for _ in range(random.randint(2, max_args))]
    return [random.choice([*OPERATORS]), *(word for each in arguments for word in each), "]"]


def depth_of(text: str) -> int:
    """Return the number of nested expressions, the innermost digit included."""
    depth = deepest = 1
    for word in text.split():
        depth += (word in OPERATORS) - (word == "]")
        deepest = max(deepest, depth)
    return deepest
