"""What the rules of every task promise, on outputs that the test makes for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from robench.core.columns import fields_of
from robench.core.errors import ContractError
from robench.core.outcomes import Outcome
from robench.datasets.digits import DIGITS
from robench.datasets.sotu import SOTU
from robench.domains.code_points import encoded_batch
from robench.metrics import METRICS
from robench.tasks import DEFAULT_TASK, TASKS
from robench.tasks.base import Scoring
from robench.tasks.language_modeling_impl import NO_TOKEN, scored_tokens

if TYPE_CHECKING:
    from torch import Tensor

    from robench.core.columns import Values
    from robench.core.declared import DatasetDeclaration

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
        "we the people\n",
        "of\n",
        "the\nunited states\n",
        "\n",
        "in order to form\n",
        "a\n",
        "more perfect union\n",
    ]
    targets = encoded_batch(texts)
    is_token = torch.arange(8) < torch.tensor([len(scored_tokens(text)) for text in texts])[:, None]
    first, second = torch.rand(2, NUM_ROWS, 8, generator=torch.Generator().manual_seed(0)).where(is_token, NO_TOKEN)
    return Sample((first, second), targets, SOTU)


# A further task needs a sample here.
SAMPLES = {"classification": classified, "language-modeling": read}
COMMON = {*fields_of(Outcome)}


@pytest.fixture(params=sorted(TASKS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def sample(name: str) -> Sample:
    return SAMPLES[name]()


def columns(name: str, sample: Sample, rows: slice = slice(None), num_predictions: int = 2) -> dict[str, Values]:
    outputs = [each[rows] for each in sample.outputs[:num_predictions]]
    return dict(TASKS[name].rules.columns(outputs, sample.targets[rows], Scoring(dataset=sample.dataset)))


def test_columns_are_fields_of_the_outcome_and_none_that_all_tasks_have(name: str, sample: Sample) -> None:
    fields = fields_of(TASKS[name].outcome)
    made = columns(name, sample)
    assert made.keys() <= fields.keys() - COMMON
    assert {each for each, field in fields.items() if not field.optional} - COMMON <= made.keys()
    assert all(len(values.array) == NUM_ROWS for values in made.values())


def test_a_row_does_not_depend_on_the_others(name: str, sample: Sample) -> None:
    """Columns of a pass are those of its rows, exactly, so that shards and batches may be cut anywhere."""
    whole = columns(name, sample)
    for row in range(NUM_ROWS):
        for each, values in columns(name, sample, slice(row, row + 1)).items():
            np.testing.assert_array_equal(values.array[0], whole[each].array[row])


def test_the_verdict_is_what_attacks_try_to_change(name: str, sample: Sample) -> None:
    task = TASKS[name]
    if task.verdict is None:
        pytest.skip(f"answers of {name} are not right or wrong")
    is_fooled = task.rules.is_fooled(sample.outputs[0], sample.targets).numpy()
    assert 0 < is_fooled.sum() < NUM_ROWS
    np.testing.assert_array_equal(columns(name, sample)[task.verdict].array, ~is_fooled)


def test_a_models_own_labels_fool_nobody(name: str, sample: Sample) -> None:
    rules = TASKS[name].rules
    if TASKS[name].verdict is None:
        pytest.skip(f"answers of {name} are not right or wrong")
    assert not bool(rules.is_fooled(sample.outputs[0], rules.labels_of(sample.outputs[0])).any())


def test_losses_are_those_declared_one_value_an_example_and_differentiable(name: str, sample: Sample) -> None:
    task = TASKS[name]
    assert tuple(task.rules.losses) == task.losses
    assert "objective" not in task.losses
    for loss in (task.rules.objective, *task.rules.losses.values()):
        outputs = sample.outputs[0].clone().requires_grad_(True)
        values = loss(outputs, sample.targets)
        assert values.shape == (NUM_ROWS,)
        (gradient,) = torch.autograd.grad(values[2], outputs)
        assert bool(gradient[2].any())
        assert not bool(torch.cat([gradient[:2], gradient[3:]]).any())


def test_outputs_of_another_length_or_not_finite_are_refused(name: str, sample: Sample) -> None:
    rules = TASKS[name].rules
    rules.check_outputs(sample.outputs[0], NUM_ROWS, "m")
    broken = sample.outputs[0].clone()
    broken[3] = torch.nan
    for outputs in (sample.outputs[0][1:], broken):
        with pytest.raises(ContractError, match="model 'm'"):
            rules.check_outputs(outputs, NUM_ROWS, "m")
    for output in (None, [1.0] * NUM_ROWS, sample.outputs[0][1:]):
        with pytest.raises(ContractError, match="returned"):
            rules.outputs_of(output, NUM_ROWS)


def test_the_metric_by_which_models_are_checked_is_of_the_task(name: str) -> None:
    metric = TASKS[name].metric
    assert metric is None or METRICS[metric].task == name


def test_classification_is_the_default() -> None:
    assert DEFAULT_TASK == "classification"


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
