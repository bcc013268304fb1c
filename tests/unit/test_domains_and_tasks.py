"""Suites, models and attacks of different domains and tasks: what goes together, and what is refused before a run."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from examples import CHECKPOINT
from robench.attacks.apgd import Apgd
from robench.attacks.autoattack import AutoAttack
from robench.attacks.cw import Cw
from robench.attacks.fgsm import Fgsm
from robench.attacks.noise import UniformNoise
from robench.attacks.pgd import Pgd
from robench.attacks.square import Square
from robench.core.declared import PerturbationDeclaration
from robench.core.errors import DeclarationError, UnknownNameError, UsageError
from robench.core.outcomes import Outcome
from robench.core.suite import Condition, Suite
from robench.corruptions.corruption import Corruption
from robench.datasets import open_dataset
from robench.datasets.digits import DIGITS
from robench.declarations.preprocessing import NoPreprocessing
from robench.declare.document import document_from_python
from robench.declare.suites import suite_of
from robench.domains import DOMAINS, Domain
from robench.perturbations import Clean
from robench.perturbations.sweep import Sweep
from robench.runs.request import RunRequest
from robench.tasks import TASKS, Task

EPSILON = Fraction(8, 255)
WORDS = Domain(name="words", title="Words", implementation="nowhere:RULES")
POINTS = Domain(name="points", title="Points", implementation="nowhere:RULES", is_real_valued=True)
GUESSING = Task(name="guessing", title="Numbers", outcome=Outcome, implementation="nowhere:RULES")
CW = Cw(num_steps=1, num_search_steps=1, initial_c=1.0, learning_rate=0.01)
PGD = Pgd(epsilon=EPSILON, step_size=EPSILON, num_steps=2)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    # Any: the literal mappings are dicts.
    domains: Any = DOMAINS.builtin
    tasks: Any = TASKS.builtin
    for domain in (WORDS, POINTS, WAVES):
        monkeypatch.setitem(domains, domain.name, domain)
    monkeypatch.setitem(tasks, GUESSING.name, GUESSING)


WAVES = Domain(
    name="waves", title="Waves", implementation="nowhere:RULES", is_real_valued=True, axes=("time", "channels")
)
ON_SERIES = replace(DIGITS, name="waves", domain="waves")
SQUARE = Square(epsilon=EPSILON, num_queries=2, p_init=0.5)
ON_WORDS = replace(DIGITS, name="phrases", domain="words")
ON_POINTS = replace(DIGITS, name="heights", domain="points", task="guessing")
OBJECTIVE = {"loss": "objective"}


@pytest.mark.parametrize(
    ("perturbation", "dataset"),
    [
        (Clean(), ON_WORDS),
        (Clean(), ON_POINTS),
        (PGD, DIGITS),
        (Pgd(epsilon=Fraction(2), step_size=EPSILON, num_steps=1), ON_SERIES),
        (CW, ON_SERIES),
        (AutoAttack(epsilon=Fraction(2), variant="rand"), ON_SERIES),
        (replace(PGD, **OBJECTIVE), DIGITS),
        (replace(PGD, **OBJECTIVE), ON_POINTS),
        (Fgsm(epsilon=EPSILON, loss="objective"), ON_POINTS),
        (UniformNoise(epsilon=EPSILON), ON_POINTS),
        (Apgd(epsilon=EPSILON, num_steps=10, loss="objective"), ON_POINTS),
        (Apgd(epsilon=EPSILON, num_steps=10, loss="dlr-targeted"), DIGITS),
        (Corruption(type="snow", severity=1), DIGITS),
        (Sweep(attacks=(replace(PGD, **OBJECTIVE), replace(PGD, epsilon=2 * EPSILON, **OBJECTIVE))), ON_POINTS),
    ],
)
def test_what_a_dataset_can_be_perturbed_by(perturbation: PerturbationDeclaration, dataset: Any) -> None:
    assert perturbation.problems_on(dataset) == []


@pytest.mark.parametrize(
    ("perturbation", "dataset", "message"),
    [
        (PGD, ON_WORDS, "must be no pgd on phrases, whose inputs (words) have no small changes"),
        (UniformNoise(epsilon=EPSILON), ON_WORDS, "must be no uniform-noise on phrases, whose inputs (words)"),
        (PGD, ON_POINTS, "must have loss objective on heights, whose task is guessing"),
        (Apgd(epsilon=EPSILON, num_steps=10, loss="dlr-targeted"), ON_POINTS, "must have loss objective on heights"),
        (replace(PGD, epsilon=Fraction(2)), DIGITS, "must be at most 1 for images in [0, 1], got 2; such as 8/255"),
        (SQUARE, ON_SERIES, "must be no square on waves, whose inputs (waves) have the axes time, channels; it needs"),
        (AutoAttack(epsilon=EPSILON, variant="standard"), ON_SERIES, "must be no square on waves, whose inputs"),
        (Fgsm(epsilon=EPSILON, backend="torchattacks"), ON_SERIES, "must be robench on waves, whose inputs (waves)"),
        (CW, ON_POINTS, "must be another attack than cw on heights, whose task is"),
        (Corruption(type="snow", severity=1), ON_POINTS, "must be no corruption of images on heights"),
        (Sweep(attacks=(PGD, replace(PGD, epsilon=2 * EPSILON))), ON_POINTS, "must have loss objective on heights"),
    ],
)
def test_what_it_cannot_be_perturbed_by(perturbation: PerturbationDeclaration, dataset: Any, message: str) -> None:
    assert perturbation.problems_on(dataset)[0][1].startswith(message)


def read(name: str, dataset: Any) -> Suite:
    suite: dict[str, Any] = {"name": "s", "version": 1, "seed": 0, "batch_size": 4, "metrics": ["top1_accuracy"]}
    conditions = [{"name": "pgd", "perturbation": {"kind": "fgsm", "epsilon": "8/255"}}]
    suite |= {"dataset": name, "conditions": conditions}
    return suite_of(document_from_python(suite, "suite"), {name: dataset})


def test_a_suite_with_such_a_condition_is_refused_with_its_place() -> None:
    with pytest.raises(DeclarationError) as raised:
        read("heights", ON_POINTS)
    told = str(raised.value)
    assert "  conditions[0].perturbation: must have loss objective on heights, whose task is guessing" in told
    assert "metrics[0]: must be a metric of the task guessing, got top1_accuracy, one of classification" in told


@pytest.mark.parametrize(("field", "value"), [("task", "unheard"), ("domain", "nowhere")])
def test_a_dataset_of_an_unknown_task_or_domain_is_refused_with_its_place(field: str, value: str) -> None:
    strange: Any = replace(DIGITS, name="strange", **{field: value})
    with pytest.raises(DeclarationError, match=f"a dataset of a known {field}, got one of {value}: install"):
        read("strange", strange)


def test_a_suite_of_an_unknown_task_is_refused() -> None:
    strange: Any = replace(DIGITS, task="unheard")
    with pytest.raises(UnknownNameError, match="unknown task 'unheard'"):
        RunRequest(suites=(suite_on(strange),), checkpoints=(replace(CHECKPOINT, task="unheard"),))


def suite_on(dataset: Any, **changes: Any) -> Suite:
    condition = Condition(name="fgsm", dataset=dataset, perturbation=Fgsm(epsilon=EPSILON, loss="objective"))
    fields = {"name": "s", "version": 1, "seed": 0, "task": dataset.task, "batch_size": 4, **changes}
    return Suite(conditions=(condition,), metrics=(), columns=(), **fields)


def test_a_model_of_another_domain_is_refused() -> None:
    taking_points = replace(CHECKPOINT, preprocessing=NoPreprocessing(inputs="points"))
    with pytest.raises(UsageError) as raised:
        RunRequest(suites=(suite_on(DIGITS),), checkpoints=(taking_points,))
    assert str(raised.value) == (
        f"dataset 'digits' of suite 's' is of the domain images, but model {CHECKPOINT.name!r} takes points; choose "
        "another suite"
    )


def test_a_model_of_another_task_is_refused() -> None:
    with pytest.raises(UsageError, match=r"suite 's' is for guessing, but model '.*' is for classification"):
        RunRequest(suites=(suite_on(ON_POINTS),), checkpoints=(CHECKPOINT,))


def test_a_dataset_is_not_opened_with_the_preprocessing_of_another_domain() -> None:
    with pytest.raises(DeclarationError, match="dataset 'digits' is of the domain images: preprocessing must be of it"):
        open_dataset("digits", data_root=None, preprocessing=NoPreprocessing(inputs="points"))
