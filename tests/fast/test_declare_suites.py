"""Suites: what they are read as, and every way in which they contradict themselves."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

import pytest

from robench.attacks.fgsm import Fgsm
from robench.attacks.pgd import Pgd
from robench.core.errors import DeclarationError, UsageError, did_you_mean
from robench.core.outcomes import Outcome
from robench.core.suite import Column, Condition, Suite
from robench.datasets import DATASETS
from robench.datasets.digits import DIGITS
from robench.declare import parse_suite, read_suite
from robench.declare import suites as suites_module
from robench.declare.document import document_from_python
from robench.declare.suites import suite_of
from robench.metrics import METRICS
from robench.perturbations.clean import Clean
from robench.tasks import TASKS, Task

TEXT = """\
name: digits-adv
version: 1
seed: 0
dataset: digits
batch_size: 100
conditions:
  - {name: clean}
  - {name: pgd, perturbation: {kind: pgd, epsilon: 8/255, step_size: 2/255, num_steps: 20, random_start: true}}
metrics: [top1_accuracy, top5_accuracy]
"""
FGSM = {"name": "fgsm", "perturbation": {"kind": "fgsm", "epsilon": "8/255"}}
CLEAN = {"name": "clean"}
MINIMAL = {
    "name": "small", "version": 1, "seed": 0, "dataset": "digits", "batch_size": 100, "conditions": [CLEAN],
    "metrics": ["top1_accuracy"],
}  # fmt: skip


def suite(**changes: object) -> Suite:
    return parse_suite({**MINIMAL, **changes})


def problems_of(**changes: object) -> list[str]:
    """Problems of the minimal suite with some fields changed; a change to ``...`` leaves the field out."""
    value = {name: item for name, item in {**MINIMAL, **changes}.items() if item is not ...}
    with pytest.raises(DeclarationError) as caught:
        parse_suite(value)
    header, *problems = str(caught.value).splitlines()
    assert header == f"suite: {len(problems)} problem{'s' * (len(problems) > 1)}"
    return [problem.strip() for problem in problems]


def test_the_suite_of_the_documentation(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(TEXT)
    pgd = Pgd(epsilon=Fraction(8, 255), step_size=Fraction(2, 255), num_steps=20, random_start=True)
    assert read_suite(path) == Suite(
        name="digits-adv",
        version=1,
        seed=0,
        task="classification",
        batch_size=100,
        conditions=(
            Condition(name="clean", dataset=DIGITS, perturbation=Clean()),
            Condition(name="pgd", dataset=DIGITS, perturbation=pgd),
        ),
        metrics=("top1_accuracy", "top5_accuracy"),
        columns=(
            *(
                Column(
                    key=f"{condition}/{metric}_accuracy",
                    label=f"{condition} {title} accuracy",
                    metric=f"{metric}_accuracy",
                    conditions=(condition,),
                    group=condition,
                    setting=setting,
                )
                for condition, setting in (("clean", ""), ("pgd", "8/255"))
                for metric, title in (("top1", "top-1"), ("top5", "top-5"))
            ),
        ),
        batches_per_shard=1,
        description="",
    )


def test_a_mapping_is_read_as_its_yaml() -> None:
    conditions = [CLEAN, {**FGSM, "dataset": "digits", "num_examples": 50}]
    read = suite(conditions=conditions, batches_per_shard=4, description="Two conditions", seed=2**63 - 1)
    assert read.conditions[1] == Condition(
        name="fgsm", dataset=DIGITS, perturbation=Fgsm(epsilon=Fraction(8, 255)), num_examples=50
    )
    assert (read.batches_per_shard, read.description, read.seed) == (4, "Two conditions", 2**63 - 1)


def test_any_kind_of_mapping_and_list_will_do() -> None:
    frozen = MappingProxyType({**MINIMAL, "conditions": (MappingProxyType(CLEAN),), "metrics": ("top1_accuracy",)})
    assert parse_suite(frozen) == parse_suite(MINIMAL)


@pytest.mark.parametrize(
    ("written", "epsilon"),
    [
        ("0.03", Fraction(3, 100)),
        ("1e-3", Fraction(1, 1000)),
        ("8/255", Fraction(8, 255)),
        ("16/510", Fraction(8, 255)),
    ],
)
def test_budgets_are_exact(tmp_path: Path, written: str, epsilon: Fraction) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(TEXT.replace("8/255", written).replace("2/255", "1/1000"))
    (_, pgd) = read_suite(path).conditions
    assert isinstance(pgd.perturbation, Pgd)
    assert pgd.perturbation.epsilon == epsilon


def test_a_float_in_python_is_the_number_that_it_prints() -> None:
    read = suite(conditions=[{"name": "fgsm", "perturbation": {"kind": "fgsm", "epsilon": 0.03}}])
    assert read.conditions[0].perturbation == Fgsm(epsilon=Fraction(3, 100))


def test_a_budget_written_in_two_ways_is_one_condition() -> None:
    halves = {"name": "again", "perturbation": {"kind": "fgsm", "epsilon": Fraction(16, 510)}}
    assert problems_of(conditions=[FGSM, halves]) == [
        "conditions[1]: again measures exactly what fgsm measures; keep one"
    ]


def test_the_dataset_of_the_suite_is_that_of_conditions_that_name_none() -> None:
    other = {"name": "photos", "dataset": "imagenet-1k"}
    names = [condition.dataset.name for condition in suite(conditions=[CLEAN, other]).conditions]
    assert names == ["digits", "imagenet-1k"]


def test_a_suite_needs_no_dataset_where_every_condition_has_one() -> None:
    value = {name: item for name, item in MINIMAL.items() if name != "dataset"}
    assert parse_suite({**value, "conditions": [{**CLEAN, "dataset": "digits"}]}) == suite()


def test_all_mistakes_are_listed_at_once_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "six.yaml"
    path.write_text(
        "name: six\nversion: 1\nseed: 0\ndataset: digits\nbatch_size: 0\n"
        "conditions:\n"
        "  - {name: clean}\n"
        "  - name: pgd\n"
        "    perturbation:\n"
        "      kind: pgd\n"
        "      epsilon: 8/0\n"
        "      stepsize: 2/255\n"
        "      num_steps: -3\n"
        "  - {name: clean, dataset: digit}\n"
        "metrics: [top1_accuracy]\n"
    )
    with pytest.raises(DeclarationError) as caught:
        read_suite(path)
    assert str(caught.value) == (
        f"{path}: 6 problems\n"
        "  line 5: batch_size: must be at least 1, got 0\n"
        "  line 11: conditions[1].perturbation.epsilon: must be a finite number, got 8/0, a division by zero\n"
        "  line 12: conditions[1].perturbation.stepsize: unknown field 'stepsize'. Did you mean 'step_size'?\n"
        "  line 13: conditions[1].perturbation.num_steps: must be at least 1, got -3\n"
        f"  line 14: conditions[2].dataset: unknown dataset 'digit'.{did_you_mean('digit', DATASETS)}\n"
        "  line 14: conditions[2].name: 'clean' is given twice, first as conditions[0]; give them different names"
    )


@pytest.mark.parametrize(
    ("field", "wanted"),
    [
        ("name", "1 to 64 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit"),
        *((field, "a whole number") for field in ("version", "seed", "batch_size")),
        *((field, "a list") for field in ("conditions", "metrics")),
    ],
)
def test_a_required_field_that_is_missing_is_one_problem(field: str, wanted: str) -> None:
    assert problems_of(**{field: ...}) == [f"{field}: missing: it must be {wanted}"]


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("name", "D", "must be 1 to 64 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit, got 'D'"),
        ("name", 3, "must be text, got 3; put it in quotes"),
        ("version", 0, "must be at least 1, got 0"),
        ("version", "1", "must be a whole number, got '1'"),
        ("seed", -1, "must be at least 0, got -1"),
        ("seed", 2**63, "must be below 9223372036854775808, got 9223372036854775808"),
        ("seed", True, "must be a whole number, got true"),
        ("dataset", "digit", f"unknown dataset 'digit'.{did_you_mean('digit', DATASETS)}"),
        ("dataset", 3, "must be text, got 3; put it in quotes"),
        ("batch_size", 0, "must be at least 1, got 0"),
        ("batch_size", 1.5, "must be a whole number, got 1.5"),
        ("batches_per_shard", 0, "must be at least 1, got 0"),
        ("description", None, "must be text, got null"),
        ("conditions", [], "must have at least 1 entry, got 0"),
        ("conditions", None, "must be a list, got null"),
        ("conditions", {"clean": {}}, "must be a list, got a mapping"),
        ("metrics", [], "must have at least 1 entry, got 0"),
        ("metrics", "top1_accuracy", "must be a list, got 'top1_accuracy'"),
    ],
)
def test_a_wrong_field_is_one_problem(field: str, value: object, problem: str) -> None:
    assert problems_of(**{field: value}) == [f"{field}: {problem}"]


@pytest.mark.parametrize(
    "name", ["", "-a", ".a", "a b", "a/b", "..", "A", "é", "a\n", "x" * 65, "~root", "nul\0", "a:b", "$(echo)"]
)
def test_names_that_are_no_file_names_are_refused(name: str) -> None:
    (problem,) = problems_of(conditions=[{"name": name}])
    assert problem.startswith("conditions[0].name: must be 1 to 64 of a-z")


@pytest.mark.parametrize("name", ["a", "0", "x" * 64, "pgd-8_255.v2"])
def test_names_that_are_file_names_are_taken(name: str) -> None:
    assert suite(name=name, conditions=[{"name": name}]).conditions[0].name == name


@pytest.mark.parametrize("value", [None, "suite", 3, [], [MINIMAL]])
def test_a_suite_is_a_mapping(value: object) -> None:
    with pytest.raises(DeclarationError, match=r"suite: 1 problem\n  must be a mapping, got "):
        parse_suite(value)


def test_messages_name_their_source() -> None:
    with pytest.raises(DeclarationError, match=r"^notebook: "):
        parse_suite({}, "notebook")


def test_a_name_given_three_times_is_two_problems() -> None:
    conditions = [CLEAN, FGSM, {**CLEAN, "num_examples": 5}, {**CLEAN, "num_examples": 6}]
    assert problems_of(conditions=conditions) == [
        "conditions[2].name: 'clean' is given twice, first as conditions[0]; give them different names",
        "conditions[3].name: 'clean' is given twice, first as conditions[0]; give them different names",
    ]


def test_names_are_compared_even_where_conditions_are_wrong_otherwise() -> None:
    broken = {"name": "clean", "perturbation": {"kind": "fgsm", "epsilon": -3}}
    problems = problems_of(conditions=[CLEAN, broken])
    assert [problem.split(":")[0] for problem in problems] == [
        "conditions[1].perturbation.epsilon",
        "conditions[1].name",
    ]


def test_the_same_metric_twice_is_one_problem() -> None:
    assert problems_of(metrics=["robust_accuracy", "robust_accuracy"], conditions=[CLEAN, FGSM]) == [
        "metrics[1]: 'robust_accuracy' is given twice, first as metrics[0]; give them different names"
    ]


def test_what_a_repeated_metric_needs_is_said_once() -> None:
    problems = problems_of(metrics=["robust_accuracy", "robust_accuracy"])
    assert [problem.split(": ")[0] for problem in problems] == ["metrics[1]", "metrics[0]"]


def test_an_unknown_metric_is_one_problem() -> None:
    assert problems_of(metrics=["sharpness", "top1_acuracy"]) == [
        f"metrics[0]: unknown metric 'sharpness'. Known: {', '.join(sorted(METRICS))}.",
        "metrics[1]: unknown metric 'top1_acuracy'. Did you mean 'top1_accuracy'?",
    ]


def test_no_dataset_anywhere_is_one_problem() -> None:
    assert problems_of(dataset=..., conditions=[CLEAN, FGSM]) == [
        "dataset: missing; name one for the whole suite, or one in each condition; or state task, for any dataset of it"
    ]


def test_no_dataset_in_one_of_several_conditions_is_a_problem_of_that_one() -> None:
    assert problems_of(dataset=..., conditions=[{**CLEAN, "dataset": "digits"}, FGSM]) == [
        "conditions[1].dataset: missing; name one here, or one for the whole suite"
    ]


def test_a_misspelt_dataset_field_is_one_problem() -> None:
    (problem,) = problems_of(dataset=..., datset="digits")
    assert problem.startswith("datset: unknown field 'datset'. Did you mean 'dataset'?")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {}),
        ({}, {"dataset": "digits"}),
        ({"num_examples": 600}, {}),
        ({"num_examples": 601}, {"num_examples": 10_000}),
        ({}, {"perturbation": {"kind": "clean"}}),
    ],
)
def test_what_measures_the_same_under_two_names_is_refused(first: dict[str, object], second: dict[str, object]) -> None:
    conditions = [{"name": "a", **first}, {"name": "b", **second}]
    assert problems_of(conditions=conditions) == ["conditions[1]: b measures exactly what a measures; keep one"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"num_examples": 599}),
        ({}, {"dataset": "imagenet-1k"}),
        ({"perturbation": {"kind": "fgsm", "epsilon": 0.5}}, {"perturbation": {"kind": "fgsm", "epsilon": 0.6}}),
        ({"perturbation": {"kind": "fgsm", "epsilon": 0}}, {"perturbation": {"kind": "uniform-noise", "epsilon": 0}}),
    ],
)
def test_what_measures_something_else_is_taken(first: dict[str, object], second: dict[str, object]) -> None:
    assert len(suite(conditions=[{"name": "a", **first}, {"name": "b", **second}]).conditions) == 2


@pytest.fixture
def text_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dataset and a metric of another task, for as long as a test runs."""
    sentences = replace(DIGITS, name="sentences", task="language-modelling")
    perplexity = replace(METRICS["top1_accuracy"], name="perplexity", task="language-modelling")
    monkeypatch.setitem(DATASETS.builtin, "sentences", sentences)
    monkeypatch.setitem(METRICS.builtin, "perplexity", perplexity)
    modelling = Task(name="language-modelling", title="", outcome=Outcome, implementation="nowhere:RULES")
    monkeypatch.setitem(TASKS.builtin, modelling.name, modelling)


@pytest.mark.usefixtures("text_task")
def test_the_task_of_a_suite_is_that_of_its_datasets_and_others_are_refused() -> None:
    assert suite(dataset="sentences", metrics=["perplexity"]).task == "language-modelling"
    assert problems_of(conditions=[CLEAN, {"name": "words", "dataset": "sentences"}]) == [
        "conditions[1].dataset: must be a dataset of the task classification as in the conditions before, "
        "got one of language-modelling"
    ]
    assert problems_of(metrics=["top1_accuracy", "perplexity"]) == [
        "metrics[1]: must be a metric of the task classification, got perplexity, one of language-modelling"
    ]


def test_a_metric_over_threat_models_needs_an_attack_with_a_budget() -> None:
    assert problems_of(metrics=["robust_accuracy"]) == [
        "metrics[0]: robust_accuracy needs at least one attack with a budget; add a condition such as "
        "{name: fgsm, perturbation: {kind: fgsm, epsilon: 8/255}}"
    ]


def test_a_metric_over_threat_models_needs_the_clean_condition_of_every_dataset() -> None:
    photos = {**FGSM, "name": "fgsm-photos", "dataset": "imagenet-1k"}
    stronger = {"name": "more", "dataset": "imagenet-1k", "perturbation": {"kind": "fgsm", "epsilon": "16/255"}}
    assert problems_of(conditions=[CLEAN, FGSM, photos, stronger], metrics=["top1_accuracy", "robust_accuracy"]) == [
        "metrics[1]: robust_accuracy needs a clean condition on imagenet-1k; add {name: clean}"
    ]


def test_a_metric_over_threat_models_needs_the_same_examples_everywhere() -> None:
    assert problems_of(conditions=[CLEAN, {**FGSM, "num_examples": 100}], metrics=["robust_accuracy"]) == [
        "metrics[0]: robust_accuracy under linf-8/255 needs the same num_examples in all of its conditions, "
        "but clean has 600, fgsm has 100"
    ]


def test_what_a_broken_condition_would_have_been_is_not_guessed() -> None:
    broken = {"name": "fgsm", "perturbation": {"kind": "fgsm"}}
    assert problems_of(conditions=[CLEAN, broken], metrics=["robust_accuracy"]) == [
        "conditions[1].perturbation.epsilon: missing: it must be a fraction of whole numbers such as 8/255, or a number"
        " such as 0.03"
    ]


def test_the_entries_of_files_have_no_field_beyond_those_of_core() -> None:
    entry = set(suites_module.SuiteEntry.__slots__)
    made = {"lacks_dataset", "given_dataset", "all_examples"}
    assert entry - {"dataset", "domain"} == set(Suite.__slots__) - made
    assert set(suites_module.ConditionEntry.__slots__) == set(Condition.__slots__) - {"action"}


NOISY = {"name": "noise", "perturbation": {"kind": "series-corruption", "type": "noise", "severity": 1}}
OF_SERIES = {"dataset": ..., "task": "classification", "domain": "series", "conditions": [CLEAN, NOISY]}


def test_a_suite_of_a_domain_takes_datasets_of_it_alone() -> None:
    fields = {name: item for name, item in {**MINIMAL, **OF_SERIES}.items() if item is not ...}
    document = document_from_python(fields, "suite")
    assert suite_of(document).conditions[1].dataset.domain == "series"
    assert suite_of(document, dataset="japanese-vowels").given_dataset == "japanese-vowels"
    with pytest.raises(UsageError, match="suite is for series, but dataset 'digits' is of images"):
        suite_of(document, dataset="digits")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"domain": ...}, "must be no corruption of series on any, whose inputs are of the domain images"),
        ({"domain": "sounds"}, "domain: unknown domain 'sounds'"),
        ({"dataset": "japanese-vowels", "task": ...}, "domain: must be left out with a dataset, which has its own"),
    ],
)
def test_a_domain_that_is_missing_unknown_or_idle_is_refused(changes: dict[str, object], problem: str) -> None:
    assert any(problem in each for each in problems_of(**{**OF_SERIES, **changes}))
