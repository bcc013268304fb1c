"""Results of single epochs of a training, joined to numbers along the epochs."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from robench.analyses.results import Analysed, Numbers, axes_of
from robench.core.checkpoint import entry_name
from robench.core.errors import UsageError

# Label of the axis.
EPOCH = "epoch"
# Facts that differ from epoch to epoch.
_OF_ONE = (EPOCH, "weights", "at")


def along_epochs(results: Sequence[Analysed]) -> list[Analysed]:
    """Return results on the same examples, those of a model and condition over epochs joined to one.

    Joined results have the fact ``epochs`` in place of ``epoch``. Their numbers are means over layers and heads, along
    the axis ``x``, the epochs; statistics with an axis ``x`` or ``y`` of their own are left out. Results without epochs
    are returned as they are.

    Raises:
        UsageError: some results have epochs and others not, an epoch has two results, or seeds of an entry have
            different epochs.
    """
    with_epoch = [each for each in results if EPOCH in each.facts]
    if not with_epoch:
        return list(results)
    if len(with_epoch) < len(results):
        raise UsageError("results of epochs of a training and others are not drawn together: name files of one kind")
    groups: dict[tuple[str, str], list[Analysed]] = {}
    for each in sorted(results, key=lambda result: result.facts[EPOCH]):
        groups.setdefault((each.facts["model"], each.facts["condition"]), []).append(each)
    joined = [_joined(group) for group in groups.values()]
    by_entry: dict[str, list[int]] = {}
    for each in joined:
        epochs = by_entry.setdefault(entry_name(each.facts["model"]), each.facts["epochs"])
        if epochs != each.facts["epochs"]:
            raise UsageError(f"results of {each.facts['model']} are of other epochs than those of its other seeds")
    return joined


def _joined(results: Sequence[Analysed]) -> Analysed:
    """Return results of one model and condition, in order of epochs, as one."""
    epochs = [each.facts[EPOCH] for each in results]
    for epoch, following in pairwise(epochs):
        if epoch == following:
            raise UsageError(f"two results are {results[0].title} after epoch {epoch}: name those of one training")
    facts: dict[str, Any] = {name: value for name, value in results[0].facts.items() if name not in _OF_ONE}
    numbers = [
        _along([each.numbers[place] for each in results], epochs)
        for place, first in enumerate(results[0].numbers)
        if not {"x", "y"} & set(first.axes)
    ]
    return Analysed(facts=facts | {"epochs": epochs}, examples=results[0].examples, numbers=tuple(numbers))


def _along(of_epochs: Sequence[Numbers], epochs: Sequence[int]) -> Numbers:
    """Return means of a statistic over layers and heads, along epochs."""
    first = of_epochs[0]
    places = tuple(place for place, axis in enumerate(first.axes) if axis != "example")
    statistic = replace(first.statistic, axes=("x",), x=EPOCH)
    return replace(
        first,
        statistic=statistic,
        axes=axes_of(statistic),
        values=np.stack([each.values.mean(axis=places) for each in of_epochs], axis=-1),
        x=np.array(epochs, dtype=np.float64),
    )
