"""What the rules of every task promise, on outputs that the test makes for each."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from robench.core.declared import DatasetDeclaration
from robench.datasets.digits import DIGITS
from robench.datasets.sotu import SOTU
from robench.domains.code_points import encoded_batch
from robench.metrics import METRICS
from robench.tasks import TASKS
from robench.tasks.base import Scoring
from robench.tasks.language_modeling_impl import NO_TOKEN, scored_tokens
from robench.tasks.segmentation import IGNORED
from robench.testing.task import TASK_CHECKS

NUM_ROWS = 7


@dataclass(frozen=True)
class Sample:
    """Outputs of two predictions of seven examples, and their targets, some right and some wrong."""

    outputs: tuple[Tensor, Tensor]
    targets: Tensor
    dataset: DatasetDeclaration


def classified() -> Sample:
    generator = torch.Generator().manual_seed(0)
    first, second = torch.randn(2, NUM_ROWS, 10, generator=generator)
    targets = first.argmax(1)
    targets[::2] = (targets[::2] + 1) % 10
    return Sample((first, second), targets, DIGITS)


def read() -> Sample:
    texts = [
        "we the people\n", "of\n", "the\nunited states\n", "\n", "in order to form\n", "a\n", "more perfect union\n",
    ]  # fmt: skip
    targets = encoded_batch(texts)
    is_token = torch.arange(8) < torch.tensor([len(scored_tokens(text)) for text in texts])[:, None]
    first, second = torch.rand(2, NUM_ROWS, 8, generator=torch.Generator().manual_seed(0)).where(is_token, NO_TOKEN)
    return Sample((first, second), targets, SOTU)


def segmented() -> Sample:
    generator = torch.Generator().manual_seed(0)
    first, second = torch.randn(2, NUM_ROWS, 4, 3, 5, generator=generator)
    targets = first.argmax(1)
    targets[:, 0] = (targets[:, 0] + 1) % 4
    targets[:, :, 0] = IGNORED
    return Sample((first, second), targets, replace(DIGITS, name="scenes", task="segmentation"))


SAMPLES = {
    "classification": classified,
    "language-modeling": read,
    "segmentation": segmented,
}


@pytest.mark.parametrize("check", TASK_CHECKS, ids=lambda check: check.__name__)
# Of tasks that are played, tests/unit/test_control.py checks the outcomes.
@pytest.mark.parametrize("name", [name for name in TASKS if not TASKS[name].is_played])
def test_it_keeps_what_every_task_promises(name: str, check: Any) -> None:
    assert name in SAMPLES, f"task {name!r} has no sample: add {name!r}: function, to SAMPLES of this file"
    sample = SAMPLES[name]()
    check(TASKS[name], sample.outputs, sample.targets, Scoring(dataset=sample.dataset))


@pytest.mark.parametrize("name", TASKS)
def test_the_metric_by_which_models_are_checked_is_of_the_task(name: str) -> None:
    metric = TASKS[name].metric
    assert metric is None or METRICS[metric].task == name


@pytest.mark.parametrize("classes", [None, (1, 2, 6)])
def test_columns_of_classification_are_those_of_a_loop(classes: Any) -> None:
    """An independent reference, one example at a time in numpy."""
    sample = classified()
    dataset: Any = type("Declared", (), {"classes": classes, "is_out_of_distribution": False})
    made = TASKS["classification"].rules.columns(sample.outputs, sample.targets, Scoring(dataset=dataset))
    for row in range(NUM_ROWS):
        scores = sample.outputs[0][row].double().numpy().copy()
        allowed = range(10) if classes is None else classes
        scores[[each for each in range(10) if each not in allowed]] = -np.inf
        target = int(sample.targets[row])
        probabilities = np.exp(scores) / np.exp(scores).sum()
        ahead = sum(
            score > scores[target] or (score == scores[target] and each < target) for each, score in enumerate(scores)
        )
        assert made["prediction"].array[row] == int(np.argmax(scores))
        assert bool(made["correct_top1"].array[row]) == (ahead == 0)
        assert bool(made["correct_top5"].array[row]) == (ahead < 5)
        assert made["confidence"].array[row] == pytest.approx(probabilities.max(), abs=1e-12)
        if target in allowed:
            assert made["loss_nats"].array[row] == pytest.approx(-np.log(probabilities[target]), abs=1e-12)
