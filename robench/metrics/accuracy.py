"""Top-1 and top-5 accuracy: the share of examples whose true class came first, or among the first five.

Over all examples of a condition, those that the victim gets wrong without any perturbation included, so that the number
of an attack is what the field calls robust accuracy under that attack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.core.errors import ContractError, IncompleteError
from robench.core.outcomes import ClassificationOutcome
from robench.core.report import Estimate
from robench.metrics.intervals import wilson_interval
from robench.metrics.metric import Metric

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robench.core.outcomes import Outcome


def top1_accuracy(conditions: Sequence[Sequence[Outcome]]) -> Estimate:
    """Return the share of one condition's examples whose true class came first, with its Wilson interval.

    Raises:
        IncompleteError: there are no outcomes.
        ContractError: there is not exactly one condition, or its outcomes are not a classifier's.
    """
    return share_of([outcome.correct_top1 for outcome in only_condition(conditions)])


def top5_accuracy(conditions: Sequence[Sequence[Outcome]]) -> Estimate:
    """Return the share of one condition's examples whose true class was among the first five; else as top-1.

    Raises:
        IncompleteError: there are no outcomes.
        ContractError: there is not exactly one condition, or its outcomes are not a classifier's, or do not say it.
    """
    correct = [outcome.correct_top5 for outcome in only_condition(conditions)]
    if None in correct:
        raise ContractError("top-5 accuracy met outcomes of an attack that stops at success, which do not say it")
    return share_of([bool(each) for each in correct])


def share_of(correct: Sequence[bool]) -> Estimate:
    """Return the share of true values, in [0, 1], with its Wilson 95 % interval.

    Raises:
        IncompleteError: there are none; a share of nothing is undefined.
    """
    if not correct:
        raise IncompleteError("there are no outcomes, and a share of nothing is undefined; measure an example first")
    low, high = wilson_interval(sum(correct), len(correct))
    return Estimate(value=sum(correct) / len(correct), low=low, high=high, num_examples=len(correct))


def classified(outcomes: Sequence[Outcome]) -> list[ClassificationOutcome]:
    """Return the same outcomes, known to be a classifier's.

    Raises:
        ContractError: one is not.
    """
    known = [outcome for outcome in outcomes if isinstance(outcome, ClassificationOutcome)]
    if len(known) < len(outcomes):
        stranger = next(outcome for outcome in outcomes if not isinstance(outcome, ClassificationOutcome))
        raise ContractError(
            f"accuracy met a {type(stranger).__name__} (example {stranger.example_id!r}) and wants a "
            "ClassificationOutcome; choose a metric of the suite's own task"
        )
    return known


def only_condition(conditions: Sequence[Sequence[Outcome]]) -> list[ClassificationOutcome]:
    """Return the outcomes of the one condition that a column reads.

    Raises:
        ContractError: there is not exactly one, or its outcomes are not a classifier's.
    """
    if len(conditions) != 1:
        raise ContractError(f"accuracy reads one condition a column, got {len(conditions)}; give each its own column")
    return classified(conditions[0])


TOP1_ACCURACY = Metric(
    name="top1_accuracy",
    title="top-1 accuracy",
    unit="share",
    task="classification",
    scope="condition",
    compute=top1_accuracy,
)
TOP5_ACCURACY = Metric(
    name="top5_accuracy",
    title="top-5 accuracy",
    unit="share",
    task="classification",
    scope="condition",
    compute=top5_accuracy,
    reads_scores=True,
)
