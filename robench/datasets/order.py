"""Orders and splits of examples that depend on their ids alone.

The order is that of the ids' SHA-256: the same on every machine, in every release of every library, and mixed, so that
the first N examples are a fair sample of all of them.
"""

import hashlib
import operator
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence


def hash_order(ids: Iterable[str]) -> list[str]:
    """Return the ids ordered by their SHA-256.

    >>> hash_order(["digits/0000", "digits/0001", "digits/0002"])
    ['digits/0002', 'digits/0000', 'digits/0001']
    """
    return sorted(ids, key=lambda example_id: hashlib.sha256(example_id.encode()).digest())


def hash_positions(ids: Sequence[str]) -> list[int]:
    """Return the positions of the ids in the order of ``hash_order``; 10^6 take a few seconds.

    >>> hash_positions(["digits/0000", "digits/0001", "digits/0002"])
    [2, 0, 1]
    """
    digests = [hashlib.sha256(example_id.encode()).digest() for example_id in ids]
    return sorted(range(len(ids)), key=digests.__getitem__)


def largest_remainder(sizes: Mapping[int, int], total: int) -> dict[int, int]:
    """Distribute ``total`` over classes in proportion to their sizes; no part is off by 1 or more.

    Each class gets its quota rounded down; the classes with the largest remainders (of equal ones the lowest) get the
    rest. Computed in integers.

    >>> largest_remainder({0: 5, 1: 3, 2: 2}, 5)
    {0: 3, 1: 1, 2: 1}
    """
    whole = sum(sizes.values())
    sizes_by_label = {label: size * total // whole for label, size in sizes.items()}
    by_remainder = sorted(sizes, key=lambda label: (-(sizes[label] * total % whole), label))
    for label in by_remainder[: total - sum(sizes_by_label.values())]:
        sizes_by_label[label] += 1
    return sizes_by_label


def stratified_split(labels: Mapping[str, int], num_test: int) -> tuple[list[str], list[str]]:
    """Split ids into train and test with equal class proportions, each in hash order.

    The first examples of every class in hash order are test examples.
    """
    of_class: defaultdict[int, list[str]] = defaultdict(list)
    for example_id in hash_order(labels):
        of_class[labels[example_id]].append(example_id)
    sizes_by_label = largest_remainder({label: len(ids) for label, ids in of_class.items()}, num_test)
    test = {example_id for label, ids in of_class.items() for example_id in ids[: sizes_by_label[label]]}
    return hash_order(labels.keys() - test), hash_order(test)


def checked_index(index: int, name: str, length: int) -> int:
    """Return a non-negative index; negative ones count from the end, as in a list."""
    position = operator.index(index)
    if not -length <= position < length:
        raise IndexError(f"{name} has examples 0 to {length - 1}, asked for {position}")
    return position % length


def check_range(start: int, stop: int, name: str, length: int) -> None:
    """Refuse a batch that is not completely within the dataset, since a short one would go unnoticed."""
    if not 0 <= start < stop <= length:
        raise IndexError(f"{name} has examples [0, {length}), asked for [{start}, {stop})")
