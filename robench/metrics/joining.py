"""Joining of several conditions' outcomes by example id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from robench.core.errors import IncompleteError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from robench.core.columns import Outcomes


def ids_of(outcomes: Outcomes, where: str) -> NDArray[Any]:
    """Return the ids of a condition's examples, in its order; ``where`` names the condition in messages.

    Raises:
        IncompleteError: there are none, or an example is duplicated.
    """
    if not len(outcomes):
        raise IncompleteError(f"{where} has no outcomes; measure an example first")
    ids = outcomes.ids
    if (num_different := len(np.unique(ids))) < len(ids):
        raise IncompleteError(
            f"{where} has {len(ids)} outcomes of {num_different} examples; "
            "an example may occur once, check the ids of the dataset"
        )
    return ids


def aligned(ids: NDArray[Any], outcomes: Outcomes, where: str) -> Outcomes:
    """Return outcomes in the order of ``ids``, the examples of the previous conditions; ``where`` names the condition.

    Raises:
        IncompleteError: there are none, an example is duplicated, or an example is in one but not in the other.
    """
    others = ids_of(outcomes, where)
    if np.array_equal(ids, others):
        return outcomes
    strangers = np.setxor1d(ids, others)
    if len(strangers):
        raise IncompleteError(
            f"{len(strangers)} examples are in {where} or in the conditions before it, and not in both (first "
            f"{strangers.tolist()[0]!r}); the number wants the same images everywhere, give the conditions the same "
            "num_examples"
        )
    places = np.empty(len(ids), np.int64)
    places[np.argsort(ids)] = np.argsort(others)
    return outcomes.take(places)
