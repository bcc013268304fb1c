"""Orders and sets of example ids.

numpy 2.4.6 ends the process (SIGSEGV) when its unstable sort orders variable-width strings whose runs overlap; all
orders of ids are Python's, by code points. See docs/decisions/0012-no-numpy-sort-of-ids.md.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def order_of(ids: "NDArray[Any]") -> "NDArray[np.int64]":
    """Return the places (N,) that sort ids (N,); equal ids keep their order."""
    import numpy as np

    texts = ids.tolist()
    return np.array(sorted(range(len(texts)), key=texts.__getitem__), np.int64)


def distinct(ids: Iterable["NDArray[Any]"]) -> "NDArray[Any]":
    """Return each id of several arrays once, sorted."""
    import numpy as np

    return np.array(sorted(set().union(*(each.tolist() for each in ids))), np.dtypes.StringDType())


def strangers(first: "NDArray[Any]", second: "NDArray[Any]") -> list[str]:
    """Return the ids that are in one of two arrays alone, sorted."""
    return sorted(set(first.tolist()) ^ set(second.tolist()))
