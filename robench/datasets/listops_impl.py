"""Generator of ListOps: random expressions as Long-Range Arena draws them, in a fixed order on every machine.

A node above the deepest level is an operation with the probability 1/4, otherwise a digit. An operation has one of
the four operators and 2 to ``max_args`` arguments; all of these are equally likely, and so are digits. An expression
is kept if its length, round parentheses left out, is within the bounds and if it has not occurred before. Source of
grammar and probabilities: Tay et al. 2020, arXiv:2011.04006, and the generator published with it, whose random numbers
are others.

Expressions are drawn level by level, many at once, from raw words of PCG64, which no release of numpy changes.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from robench.core.errors import MissingDataError
from robench.datasets.lra import ListOps
from robench.datasets.prepared import check_present, folder_of, load_array, write_arrays
from robench.datasets.tokens_impl import TokenRows, fingerprint_of
from robench.domains.listops import END, MAXIMUM, MEDIAN, MINIMUM, NUM_DIGITS, OPERATORS

# Trees drawn at once; another number would give other expressions.
TREES: Final = 1 << 14
# An operation has a probability of 1 / 4: the first two bits of its word are zero.
_OPERATION_BITS: Final = 2
_WORD_BITS: Final = 64
_HALF: Final = np.uint64(32)
_LOW_HALF: Final = np.uint64(0xFFFFFFFF)
_FILES: Final = ("tokens", "ends", "labels")


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    """Nodes of one depth, tree by tree; the children of an operation follow each other in the next level.

    Attributes:
        tree: (N,) index of each node's tree; ``choice``: (N,) its operator (0 to 3), or its digit.
        is_operation: (N,) booleans; ``num_args``: number of arguments of each operation.
    """

    tree: NDArray[np.int64]
    choice: NDArray[np.int64]
    is_operation: NDArray[np.bool_]
    num_args: NDArray[np.int64]

    @property
    def starts(self) -> NDArray[np.int64]:
        """Return the place of each operation's first argument in the next level."""
        return np.cumsum(self.num_args) - self.num_args

    def of_trees(self, is_kept: NDArray[np.bool_]) -> "_Level":
        """Return the nodes of some trees."""
        mask = is_kept[self.tree]
        return _Level(
            self.tree[mask], self.choice[mask], self.is_operation[mask], self.num_args[mask[self.is_operation]]
        )


def read_prepared(declared: ListOps, data_root: Path | None, split: str) -> TokenRows:
    """Return a split that ``write_prepared`` has written."""
    prepare = f"robench data prepare {declared.name}"
    folder = folder_of(declared, data_root, f", and fill it with '{prepare}'")
    advice = f"Run '{prepare} --data-root {data_root}'"
    paths = [folder / name for name in prepared_files(split)]
    check_present(declared, paths, f"{advice}, which generates it")
    size, again = declared.num_examples_of(split), f"{advice} again"
    flat, ends, labels = (
        load_array(path, dtype, shape, declared.name, again)
        for path, dtype, shape in zip(paths, (np.uint8, np.int64, np.int64), ((None,), (size,), (size,)), strict=True)
    )
    return TokenRows(
        ids=ids_of(declared, split), targets=labels, flat=flat, ends=ends, where=str(paths[0]), advice=again
    )


def made(declared: ListOps, data_root: Path | None, split: str) -> TokenRows:
    """Return a split, generated in memory."""
    del data_root
    return generated(declared)[split]


@cache
def generated(declared: ListOps) -> dict[str, TokenRows]:
    """Return all splits: expressions in the order in which they were drawn, cut by ``sizes``."""
    flat, lengths, values = _expressions(declared)
    ends, cuts = np.cumsum(lengths), [0, *np.cumsum(declared.sizes).tolist()]
    splits = {}
    for split, (start, stop) in zip(declared.splits, pairwise(cuts), strict=True):
        first = int(ends[start - 1]) if start else 0
        splits[split] = TokenRows(
            ids=ids_of(declared, split),
            targets=values[start:stop],
            flat=flat[first : int(ends[stop - 1])],
            ends=ends[start:stop] - first,
            where=f"generated split {split!r}",
            advice="Install another release of numpy, and report this to robench",
        )
    return splits


def ids_of(declared: ListOps, split: str) -> list[str]:
    """Return the ids of a split's expressions in the order in which they were drawn."""
    return [f"{declared.name}/{split}/{number:05d}" for number in range(declared.num_examples_of(split))]


def prepared_files(split: str) -> tuple[str, ...]:
    """Return the names of a split's prepared files: tokens less 1 of all expressions, their ends, and their values."""
    return tuple(f"{split}-{name}.npy" for name in _FILES)


def write_prepared(declared: ListOps, folder: Path) -> int:
    """Generate all splits, write each file whole, and return the number of files."""
    splits = generated(declared)
    for split, rows in splits.items():
        if (found := fingerprint_of(declared, rows)) != (wanted := declared.sha256_of(split) or found):
            raise MissingDataError(f"{rows.where} has the SHA-256 {found}, wanted {wanted}. {rows.advice}")
    return sum(
        write_arrays(folder, dict(zip(prepared_files(split), (rows.flat, rows.ends, rows.targets), strict=True)))
        for split, rows in splits.items()
    )


def _expressions(declared: ListOps) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Return tokens less 1 of all different expressions, their lengths and their values, in the order drawn."""
    wanted, seen = sum(declared.sizes), set[bytes]()
    flats, lengths, values = [], [], []
    for flat, ends, value in _rounds(declared):
        is_new = np.zeros(len(ends), dtype=np.bool_)
        for row, (start, stop) in enumerate(pairwise([0, *ends.tolist()])):
            digest = hashlib.sha256(flat[start:stop].data).digest()
            is_new[row] = digest not in seen and len(seen) < wanted
            if is_new[row]:
                seen.add(digest)
        found = np.diff(ends, prepend=0)
        flats.append(flat[np.repeat(is_new, found)])
        lengths.append(found[is_new])
        values.append(value[is_new])
        if len(seen) == wanted:
            break
    return np.concatenate(flats), np.concatenate(lengths), np.concatenate(values)


def _rounds(declared: ListOps) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]]:
    """Yield tokens less 1, ends and values of expressions of the wanted lengths, without end."""
    words = np.random.PCG64(declared.seed)
    while True:
        levels = _drawn(declared, words)
        sizes = _sizes(levels)[0]
        is_kept = (sizes >= declared.min_length) & (sizes <= declared.max_length)
        kept = [level.of_trees(is_kept) for level in levels]
        yield _written(kept), np.cumsum(sizes[is_kept]), _values(kept)


def _drawn(declared: ListOps, words: np.random.PCG64) -> list[_Level]:
    """Draw trees of at most ``max_depth`` levels."""
    tree, levels = np.arange(TREES), []
    for depth in range(1, declared.max_depth + 1):
        drawn = words.random_raw(len(tree))
        is_operation = (drawn >> np.uint64(_WORD_BITS - _OPERATION_BITS) == 0) & (depth < declared.max_depth)
        low = drawn & _LOW_HALF
        operator = (drawn >> _HALF) & np.uint64(len(OPERATORS) - 1)
        choice = np.where(is_operation, operator, low * np.uint64(NUM_DIGITS) >> _HALF).astype(np.int64)
        numbers = low[is_operation] * np.uint64(declared.max_args - 1) >> _HALF
        num_args = numbers.astype(np.int64) + 2
        levels.append(_Level(tree, choice, is_operation, num_args))
        tree = np.repeat(tree[is_operation], num_args)
    return levels


def _sizes(levels: list[_Level]) -> list[NDArray[np.int64]]:
    """Return the number of tokens of the expression at each node: 1 for a digit, 2 and the arguments' for others."""
    sizes: list[NDArray[np.int64]] = []
    below = np.zeros(0, dtype=np.int64)
    for level in reversed(levels):
        size = np.ones(len(level.tree), dtype=np.int64)
        if len(level.num_args):
            size[level.is_operation] = 2 + np.add.reduceat(below, level.starts)
        sizes.append(size)
        below = size
    return sizes[::-1]


def _values(levels: list[_Level]) -> NDArray[np.int64]:
    """Return the value of each tree."""
    below = np.zeros(0, dtype=np.int64)
    for level in reversed(levels):
        value = level.choice.copy()
        if len(level.num_args):
            starts, num_args = level.starts, level.num_args
            # Sorted within each operation: the operation's number is the higher digit.
            ordered = np.sort(np.repeat(np.arange(len(num_args)), num_args) * NUM_DIGITS + below) % NUM_DIGITS
            operator = value[level.is_operation] + OPERATORS[0]
            value[level.is_operation] = np.select(
                [operator == MINIMUM, operator == MAXIMUM, operator == MEDIAN],
                [
                    ordered[starts],
                    ordered[starts + num_args - 1],
                    (ordered[starts + (num_args - 1) // 2] + ordered[starts + num_args // 2]) // 2,
                ],
                np.add.reduceat(below, starts) % NUM_DIGITS,
            )
        below = value
    return below


def _written(levels: list[_Level]) -> NDArray[np.uint8]:
    """Return the tokens less 1 of all trees, one after another."""
    sizes = _sizes(levels)
    flat = np.full(int(sizes[0].sum()), END - 1, dtype=np.uint8)
    places = np.cumsum(sizes[0]) - sizes[0]
    for depth, level in enumerate(levels):
        first_token = np.where(level.is_operation, OPERATORS[0] - 1, 0) + level.choice
        flat[places] = first_token.astype(np.uint8)
        if not len(level.num_args):
            break
        # An argument begins after its operator and the arguments before it.
        below = sizes[depth + 1]
        before = np.cumsum(below) - below
        places = np.repeat(places[level.is_operation] + 1 - before[level.starts], level.num_args) + before
    return flat
