"""Robust accuracy: the share of examples that no attack of one threat model turns wrong.

Source: Carlini et al. 2019, "On evaluating adversarial robustness", arXiv:1902.06705: attacks are compared per example,
mean_x min_a f(a(x)) and not min_a mean_x f(a(x)). The clean input is one of the attacker's choices, so an
example that is wrong when clean counts as wrong whatever the attacks found. The denominator is all examples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.metrics.accuracy import classified, share_of
from robench.metrics.joining import check_same_examples, ids_of
from robench.metrics.metric import Metric

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robench.core.outcomes import Outcome
    from robench.core.report import Estimate


def robust_accuracy(conditions: Sequence[Sequence[Outcome]]) -> Estimate:
    """Return the share of all examples that are right (top-1) in every condition, joined by example id.

    The first condition is the clean one, the others are attacks of one threat model; without attacks it is clean
    accuracy.

    Raises:
        IncompleteError: there are no outcomes, an example is there twice, or two conditions hold different examples.
        ContractError: the outcomes are not a classifier's.
    """
    ids: list[str] = []
    is_right: dict[str, bool] = {}
    for number, outcomes in enumerate(conditions):
        where = "the clean condition" if number == 0 else f"attack {number} of {len(conditions) - 1}"
        ids = ids or ids_of(outcomes, where)
        check_same_examples(ids, ids_of(outcomes, where), where)
        for outcome in classified(outcomes):
            is_right[outcome.example_id] = is_right.get(outcome.example_id, True) and outcome.correct_top1
    return share_of(list(is_right.values()))


ROBUST_ACCURACY = Metric(
    name="robust_accuracy",
    title="robust accuracy",
    unit="share",
    task="classification",
    scope="threat-model",
    compute=robust_accuracy,
)
