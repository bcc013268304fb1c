"""Robust accuracy: the share of examples that no attack of one threat model turns wrong.

Source: Carlini et al. 2019, "On evaluating adversarial robustness", arXiv:1902.06705: attacks are compared per example,
mean_x min_a f(a(x)) and not min_a mean_x f(a(x)). The clean input is one of the attacker's choices, so an
example that is wrong when clean counts as wrong whatever the attacks found. The denominator is all examples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.core.errors import IncompleteError
from robench.metrics.accuracy import classified, share_of
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
    by_condition = [_correct_by_id(outcomes) for outcomes in conditions]
    clean = by_condition[0] if by_condition else {}
    for attacked in by_condition[1:]:
        _check_same_examples(clean, attacked)
    return share_of([all(correct[example] for correct in by_condition) for example in clean])


def _correct_by_id(outcomes: Sequence[Outcome]) -> dict[str, bool]:
    correct = {outcome.example_id: outcome.correct_top1 for outcome in classified(outcomes)}
    if len(correct) < len(outcomes):
        raise IncompleteError(
            f"{len(outcomes)} outcomes belong to {len(correct)} examples; "
            "an example may be there once, check the ids of the dataset"
        )
    return correct


def _check_same_examples(clean: dict[str, bool], attacked: dict[str, bool]) -> None:
    if strangers := sorted(clean.keys() ^ attacked.keys()):
        raise IncompleteError(
            f"{len(strangers)} examples are in one condition and not in the other (first {strangers[0]!r}); "
            "robust accuracy wants the same examples clean and attacked, give their conditions the same num_examples"
        )


ROBUST_ACCURACY = Metric(
    name="robust_accuracy",
    title="robust accuracy",
    unit="share",
    task="classification",
    scope="threat-model",
    compute=robust_accuracy,
)
