"""How far logits are from recorded decisions, by which rescoring tells a numerical tie from another outcome."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from examples import outcome_of
from robench.core.columns import Outcomes
from robench.datasets.digits import DIGITS
from robench.tasks.base import Scoring
from robench.tasks.classification import ClassificationOutcome
from robench.tasks.classification_impl import RULES, gap

SCORING = Scoring(dataset=DIGITS)
# Class 2 leads class 0 by 0.25; the fifth is class 5 with 0.5, the sixth class 6 with 0.125.
LOGITS = [3.0, 2.0, 3.25, 1.0, 0.0, 0.5, 0.125, -1.0]


def gap_of(logits: Sequence[float], target: int = 0, scoring: Scoring = SCORING, **recorded: Any) -> float:
    """Gap of one example, recorded as predicted unless changed."""
    decisions = {"target": target, "prediction": 2, "correct_top1": False, "correct_top5": None}
    outcome = outcome_of("a", **{**decisions, **recorded})
    outputs, targets = torch.tensor([logits]), torch.tensor([target])
    return float(gap(outputs, targets, Outcomes.of([outcome], ClassificationOutcome), scoring)[0])


@pytest.mark.parametrize(
    ("recorded", "wanted"),
    [
        ({}, 0),
        ({"prediction": 0, "correct_top1": True}, 0.25),
        ({"prediction": 1}, 1.25),
        ({"correct_top5": True}, 0),
        ({"correct_top5": False}, 3.0 - 0.125),
        ({"prediction": 0, "correct_top1": True, "correct_top5": True}, 0.25),
        ({"prediction": 1, "correct_top5": False}, 3.0 - 0.125),
        # What no logits give.
        ({"prediction": 0, "correct_top1": False}, inf),
        ({"prediction": 2, "correct_top1": True}, inf),
        ({"prediction": 8}, inf),
        ({"prediction": -1}, inf),
        ({"num_predictions": 10}, inf),
        ({"num_correct": 1}, inf),
    ],
)
def test_it_is_the_change_that_gives_the_recorded_decisions(recorded: dict[str, Any], wanted: float) -> None:
    assert gap_of(LOGITS, **recorded) == wanted


def test_a_true_class_outside_the_first_five_must_pass_the_fifth() -> None:
    assert gap_of(LOGITS, target=4, correct_top5=True) == 0.5
    assert gap_of(LOGITS, target=4, correct_top5=False) == 0


def test_another_target_is_no_tie() -> None:
    outputs, targets = torch.tensor([LOGITS]), torch.tensor([1])
    recorded = Outcomes.of([outcome_of("a", target=0, prediction=2, correct_top1=False)], ClassificationOutcome)
    assert gap(outputs, targets, recorded, SCORING).tolist() == [inf]


@pytest.mark.parametrize(("num_classes", "claim"), list(product((3, 5), (True, False))))
def test_among_five_classes_all_are_among_the_first_five(num_classes: int, claim: bool) -> None:
    assert gap_of(LOGITS[:num_classes], correct_top5=claim) == (0 if claim else inf)


def test_scores_that_are_not_recorded_cannot_have_been_measured() -> None:
    assert gap_of(LOGITS, scoring=replace(SCORING, keeps_scores=False), correct_top5=True) == inf
    assert gap_of(LOGITS, scoring=replace(SCORING, keeps_scores=False)) == 0


def scoring_of(classes: tuple[int, ...] | None, *, is_out_of_distribution: bool) -> Any:
    dataset: Any = SimpleNamespace(classes=classes, is_out_of_distribution=is_out_of_distribution)
    return replace(SCORING, dataset=dataset)


def test_out_of_distribution_nothing_is_right() -> None:
    scoring = scoring_of(None, is_out_of_distribution=True)
    assert gap_of(LOGITS, target=2, scoring=scoring, correct_top5=False) == 0
    assert gap_of(LOGITS, target=2, scoring=scoring, correct_top1=True) == inf
    assert gap_of(LOGITS, target=2, scoring=scoring, correct_top5=True) == inf


def test_classes_that_may_not_be_predicted_are_out_of_reach() -> None:
    scoring = scoring_of((0, 1), is_out_of_distribution=False)
    assert gap_of(LOGITS, scoring=scoring, prediction=0, correct_top1=True) == 0
    assert gap_of(LOGITS, scoring=scoring) == inf


@pytest.mark.parametrize("seed", range(20))
def test_the_task_s_own_decisions_have_no_gap(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    # Whole numbers, so that there are ties.
    outputs = torch.randint(0, 4, (50, 8), generator=generator).float()
    targets = torch.randint(0, 8, (50,), generator=generator)
    columns = dict(RULES.columns([outputs], targets, SCORING))
    ids = Outcomes.of([outcome_of(str(index)) for index in range(50)], ClassificationOutcome).values("example_id")
    assert ids is not None
    recorded = Outcomes(ClassificationOutcome, columns | {"example_id": ids}, 50)
    assert gap(outputs, targets, recorded, SCORING).tolist() == [0.0] * 50
