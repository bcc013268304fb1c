"""Outcomes of several conditions put together by the examples that they are of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.core.errors import IncompleteError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robench.core.outcomes import Outcome


def ids_of(outcomes: Sequence[Outcome], where: str) -> list[str]:
    """Return the ids of a condition's examples, in its order; ``where`` names the condition in messages.

    Raises:
        IncompleteError: there are none, or an example is there twice.
    """
    ids = [outcome.example_id for outcome in outcomes]
    if not ids:
        raise IncompleteError(f"{where} has no outcomes; measure an example first")
    if len(set(ids)) < len(ids):
        raise IncompleteError(
            f"{where} has {len(ids)} outcomes of {len(set(ids))} examples; "
            "an example may be there once, check the ids of the dataset"
        )
    return ids


def check_same_examples(ids: Sequence[str], others: Sequence[str], where: str) -> None:
    """Check that ``others``, the examples of the condition ``where``, are those of the conditions before it.

    Raises:
        IncompleteError: an example is in one and not in the other.
    """
    # Mostly they come in the same order, and comparing lists costs a tenth of comparing sets.
    if ids != others and (strangers := sorted({*ids} ^ {*others})):
        raise IncompleteError(
            f"{len(strangers)} examples are in {where} or in the conditions before it, and not in both (first "
            f"{strangers[0]!r}); the number wants the same images everywhere, give the conditions the same num_examples"
        )
