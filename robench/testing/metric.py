"""Contract of metrics: ``check_metric(MY_METRIC)``."""

import dataclasses
import math
import pickle
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import get_args

import numpy as np

from robench.core.columns import Outcomes
from robench.core.errors import ContractError, IncompleteError
from robench.core.outcomes import Outcome
from robench.core.report import Estimate
from robench.corruptions import COMMON_CORRUPTIONS
from robench.declarations.base import imported
from robench.metrics import Metric, Readings, Scope
from robench.metrics.contributions import Contributions
from robench.tasks import TASKS
from robench.tasks.classification import CLASSIFICATION, ClassificationOutcome
from robench.tasks.control import CONTROL, EpisodeOutcome
from robench.tasks.language_modeling import LANGUAGE_MODELING, LanguageOutcome
from robench.tasks.segmentation import SEGMENTATION, SegmentationOutcome
from robench.testing.expectations import (
    refusal,
    require,
    require_import_without_torch,
    run_checks,
    subject_of,
    watched_generators,
)

# A seed to the outcomes of the examples of one condition.
MakeOutcomes = Callable[[int], Sequence[Outcome]]


__all__ = ["METRIC_CHECKS", "check_metric", "classified"]

NUM_EXAMPLES = 100
# The clean condition followed by five severities of one type, or of the fifteen.
NUM_CONDITIONS = {
    "condition": 1,
    "threat-model": 3,
    "search": 1,
    "distance": 1,
    "radius": 1,
    "class": 1,
    "detection": 2,
    "type": 1 + 5,
    "family": 1 + 15 * 5,
}


def check_metric(metric: Metric, outcomes: MakeOutcomes | None = None) -> None:
    """Check that a metric fulfils all contracts of robench's own metrics.

    Args:
        metric: the descriptor; outcomes are made for its scope, those of 100 examples for each condition.
        outcomes: function from a seed to the outcomes of examples with ids of their own, equal for all seeds; None
            for classified examples or language models' texts, which metrics of other tasks cannot read.
    """
    subject = subject_of("metric", metric, Metric, "name")
    if outcomes is None and metric.task not in (CLASSIFICATION.name, LANGUAGE_MODELING.name):
        raise AssertionError(
            f"{subject} is of task {metric.task!r}; expected outcomes of that task: give check_metric a "
            f"function from a seed to outcomes of {NUM_EXAMPLES} examples (outcomes=...)"
        )
    run_checks(subject, METRIC_CHECKS, metric, outcomes)


def is_described(metric: Metric, outcomes: MakeOutcomes | None = None) -> None:
    """Check name, title, task and scope, and that the descriptor reaches a worker process."""
    for name in ("name", "title", "unit"):
        value = getattr(metric, name)
        require(isinstance(value, str) and bool(value.strip()), f"has {name} {value!r}", "some text")
    require(metric.task in TASKS, f"is of task {metric.task!r}", f"one of {', '.join(TASKS)}")
    require(metric.scope in NUM_CONDITIONS, f"has scope {metric.scope!r}", f"one of {get_args(Scope)}")
    require(pickle.loads(pickle.dumps(metric)) == metric, "differs after pickling", "the same descriptor")


def is_computed_without_torch(metric: Metric, outcomes: MakeOutcomes | None = None) -> None:
    """Check that reports, which compute metrics, need no torch."""
    require_import_without_torch(metric.implementation.partition(":")[0])


def gives_an_estimate_in_its_unit_over_all_examples(metric: Metric, outcomes: MakeOutcomes | None = None) -> None:
    """Check type, unit and number of examples of the estimate."""
    estimate = computed(metric, outcomes)
    found = type(estimate).__name__
    require(isinstance(estimate, Estimate), f"computes {found}", "an Estimate (`robench.core.report`)")
    require(estimate.unit == metric.unit, f"gives unit {estimate.unit!r}", f"its own unit {metric.unit!r}")
    wanted = (2 if metric.scope == "detection" else 1) * len(conditions_for(metric, outcomes)[0])
    count = estimate.num_examples
    require(count == wanted, f"counts {count} examples", f"{wanted}, all that it read")


def its_interval_holds_its_value(metric: Metric, outcomes: MakeOutcomes | None = None) -> None:
    """Check that value and bounds are finite and in order; both bounds may be None where they are undefined."""
    estimate = computed(metric, outcomes)
    require(math.isfinite(estimate.value), f"computes {estimate.value}", "a finite number")
    bounds = (estimate.low, estimate.high)
    if bounds == (None, None):
        return
    low, high = (math.nan if bound is None else bound for bound in bounds)
    found = f"gives {estimate.value} with the interval {bounds}"
    require(low <= estimate.value <= high, found, "an interval that holds the value")
    if estimate.unit == "share":
        require(0 <= low <= high <= 1, found, "a proportion and its interval within [0, 1]")


def no_outcomes_are_no_number(metric: Metric, outcomes: MakeOutcomes | None = None) -> None:
    """Check that a metric of no outcomes is refused."""
    found = refusal(lambda: compute(metric, [[] for _ in conditions_for(metric, outcomes)]), IncompleteError)
    require(found is None, f"{found} without outcomes", "an IncompleteError, since it is undefined")


def the_order_of_the_examples_does_not_matter(metric: Metric, outcomes: MakeOutcomes | None = None) -> None:
    """Check that shuffled outcomes give the same number to the bit."""
    conditions = conditions_for(metric, outcomes)
    shuffled = [random.Random(7).sample(rows, len(rows)) for rows in conditions]
    one, other = compute(metric, conditions), compute(metric, shuffled)
    require(one == other, f"gives {one}, and {other} for shuffled examples", "the same to the bit")


def is_pure(metric: Metric, outcomes: MakeOutcomes | None = None) -> None:
    """Check that outcomes are unchanged, two calls agree, and no global generator is drawn from."""
    conditions = conditions_for(metric, outcomes)
    readings = readings_for(metric, [columns_of(rows) for rows in conditions])
    with watched_generators():
        first, second = _implementation(metric)(readings), _implementation(metric)(readings)
    require(first == second, f"gives {first}, and then {second}", "the same for the same outcomes")
    untouched = readings_for(metric, [columns_of(rows) for rows in conditions])
    require(readings == untouched, "changes the outcomes that it reads", "outcomes left alone")


def outcomes_of_another_task_are_refused(metric: Metric, outcomes: MakeOutcomes | None = None) -> None:
    """Check that outcomes without the task's fields are a ContractError."""
    strangers = [[Outcome(example_id="a")] for _ in conditions_for(metric, outcomes)]
    found = refusal(lambda: compute(metric, strangers), ContractError)
    require(found is None, f"{found} for outcomes of another task", "a ContractError")


def its_contributions_make_its_number(metric: Metric, outcomes: MakeOutcomes | None = None) -> None:
    """Check that what single examples contribute, where a metric says it, makes its number."""
    if metric.contributions is None:
        return
    readings = readings_for(metric, [columns_of(rows) for rows in conditions_for(metric, outcomes)])
    found: Contributions = imported(metric.contributions)(readings)
    value = computed(metric, outcomes).value
    same = math.isclose(found.number, value, rel_tol=1e-9, abs_tol=1e-9)
    require(same, f"has contributions that make {found.number}", f"those of its number, {value}")


METRIC_CHECKS = (
    is_described,
    is_computed_without_torch,
    gives_an_estimate_in_its_unit_over_all_examples,
    its_interval_holds_its_value,
    no_outcomes_are_no_number,
    the_order_of_the_examples_does_not_matter,
    is_pure,
    outcomes_of_another_task_are_refused,
    its_contributions_make_its_number,
)


def classified(seed: int) -> list[ClassificationOutcome]:
    """Return outcomes of examples of 10 classes, about a tenth of them right."""
    draw = random.Random(seed)
    found = []
    for index in range(NUM_EXAMPLES):
        prediction = draw.randint(0, 9)
        found.append(
            ClassificationOutcome(
                example_id=f"example/{index}",
                target=index % 10,
                prediction=prediction,
                correct_top1=prediction == index % 10,
                correct_top5=prediction == index % 10 or draw.random() < 0.4,
                confidence=draw.random(),
                loss_nats=draw.expovariate(1),
                brier=(7 * index + seed) % 9 / 4,
            )
        )
    return found


def searched(seed: int) -> list[ClassificationOutcome]:
    """Return outcomes of a minimum-norm attack, of a model that is right about all clean examples."""
    draw = random.Random(seed)
    return [
        dataclasses.replace(outcome, found=not outcome.correct_top1, l2=0.0 if outcome.correct_top1 else draw.random())
        for outcome in classified(seed)
    ]


def certified(seed: int) -> list[ClassificationOutcome]:
    """Return outcomes of a smoothed model, which has no answer to a tenth of the examples."""
    draw = random.Random(seed)
    found = []
    for each in classified(seed):
        abstained = draw.random() < 0.1
        right = each.correct_top1 and not abstained
        radius = None if abstained else draw.uniform(0.2, 3.0)
        voted = dataclasses.replace(each, votes=draw.randint(500, 1000), abstained=abstained, certified_radius=radius)
        found.append(dataclasses.replace(voted, correct_top1=right, correct_top5=None, confidence=None, loss_nats=None))
    return found


def read_texts(seed: int, *, in_pieces: bool = False) -> list[LanguageOutcome]:
    """Return outcomes of a language model, of words or pieces, on texts with a tenth of the words replaced."""
    draw = random.Random(seed)
    found = []
    for index in range(NUM_EXAMPLES):
        num_tokens = draw.randint(200, 5000)
        losses = [draw.uniform(3, 5) * num_tokens * 0.9, draw.uniform(7, 9) * num_tokens * 0.1]
        found.append(
            LanguageOutcome(
                example_id=f"example/{index}",
                loss_nats=sum(losses),
                num_tokens=num_tokens,
                kept_loss_nats=losses[0],
                num_kept=int(num_tokens * 0.9),
                clean_kept_loss_nats=losses[0] * draw.uniform(0.9, 1.0),
                num_words=num_tokens - 20 if in_pieces else None,
                num_bytes=5 * num_tokens if in_pieces else None,
            )
        )
    return found


def segmented(seed: int) -> list[SegmentationOutcome]:
    """Return outcomes of images of 200 pixels and some of 5 classes, about half of the pixels right."""
    draw, truth = np.random.default_rng(seed), np.random.default_rng(0)
    targets = truth.integers(0, 1 + truth.integers(0, 5, (NUM_EXAMPLES, 200)))
    guesses = np.where(draw.random(targets.shape) < 0.4, targets, draw.integers(0, 5, targets.shape))
    right = np.where(targets == guesses, targets, -1)
    counts = [(each[:, :, None] == np.arange(5)).sum(1) for each in (targets, guesses, right)]
    present = (counts[0] + counts[1]) > 0
    losses = draw.exponential(size=NUM_EXAMPLES).tolist()
    found = []
    for row in range(NUM_EXAMPLES):
        true, predicted, both = (tuple(each[row, present[row]].tolist()) for each in counts)
        found.append(
            SegmentationOutcome(
                example_id=f"example/{row}",
                classes=tuple(np.flatnonzero(present[row]).tolist()),
                num_true=true,
                num_predicted=predicted,
                num_both=both,
                loss_nats=losses[row],
            )
        )
    return found


def played(seed: int) -> list[EpisodeOutcome]:
    """Return outcomes of episodes; about a third of them end early."""
    draw = random.Random(seed)
    return [
        EpisodeOutcome(
            example_id=f"example/{index}",
            total_return=draw.gauss(-100, 40),
            num_steps=draw.randint(1, 200),
            ended_early=draw.random() < 0.3,
            score=draw.uniform(-20, 110),
        )
        for index in range(NUM_EXAMPLES)
    ]


def conditions_for(metric: Metric, outcomes: MakeOutcomes | None = None) -> list[Sequence[Outcome]]:
    """Return outcomes for the conditions of a column of the metric."""
    make = outcomes or outcomes_for(metric)
    return [make(seed) for seed in range(NUM_CONDITIONS[metric.scope])]


def outcomes_for(metric: Metric) -> MakeOutcomes:
    """Return a function from a seed to outcomes that the metric reads."""
    if metric.task == LANGUAGE_MODELING.name:
        # Numbers of texts need their bytes, which models of a closed vocabulary do not score.
        return partial(read_texts, in_pieces="num_bytes" in (metric.reads or ()))
    if metric.task == SEGMENTATION.name:
        return segmented
    if metric.task == CONTROL.name:
        return played
    if metric.scope == "radius":
        return certified
    return searched if metric.scope in ("search", "distance") else classified


def columns_of(rows: Sequence[Outcome], empty: type[Outcome] = ClassificationOutcome) -> Outcomes:
    """Return rows as columns, of type ``empty`` if there are none."""
    return Outcomes.of(rows, type(rows[0]) if rows else empty)


def readings_for(metric: Metric, conditions: Sequence[Outcomes]) -> Readings:
    """Return conditions in the roles required by the metric's scope."""
    first, *others = conditions
    match metric.scope:
        case "condition" | "search" | "distance" | "radius" | "class":
            return Readings(measured=(first,), norm="l2", within=0.5, of_class=1)
        case "threat-model":
            return Readings(clean=first, measured=tuple(others))
        case "detection":
            return Readings(measured=(first,), negatives=others[0])
    types = {
        corruption: dict(enumerate(others[5 * i : 5 * i + 5], 1)) for i, corruption in enumerate(COMMON_CORRUPTIONS)
    }
    measured = {corruption: severities for corruption, severities in types.items() if severities}
    return Readings(family="imagenet-c", clean=first, corrupted=measured)


def compute(metric: Metric, conditions: Sequence[Sequence[Outcome]]) -> Estimate:
    """Return the metric of rows."""
    outcome_type = TASKS[metric.task].outcome
    return _implementation(metric)(readings_for(metric, [columns_of(rows, outcome_type) for rows in conditions]))


def computed(metric: Metric, outcomes: MakeOutcomes | None = None) -> Estimate:
    """Return the metric of the outcomes of these tests."""
    return compute(metric, conditions_for(metric, outcomes))


def _implementation(metric: Metric) -> Callable[[Readings], Estimate]:
    """Return the function itself: the harness would undo its effects on the process."""
    function: Callable[[Readings], Estimate] = imported(metric.implementation)
    return function
