"""The contract tests find each planted mistake and name it; see ``planted_plugins``."""

import random
import re
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import planted_plugins as planted
import pytest
import torch
from conftest import ROOT

from robench.attacks.fgsm import Fgsm
from robench.attention.nystrom import Nystrom
from robench.attention.rpc import Rpc
from robench.attention.softmax import Softmax
from robench.core.columns import Values
from robench.core.outcomes import Outcome
from robench.core.protocols import Batch
from robench.datasets.in_memory import OrderedExamples
from robench.domains.images import IMAGES
from robench.domains.real_valued import RealValued
from robench.metrics import METRICS
from robench.tasks import TASKS, Task
from robench.tasks.classification import CLASSIFICATION
from robench.tasks.classification_impl import ClassificationRules
from robench.testing import (
    check_attack,
    check_attention,
    check_corruption,
    check_dataset,
    check_domain,
    check_metric,
    check_task,
)

EPSILON = Fraction(8, 255)


def message_of(check: Any, plugin: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        check(plugin)
    message = str(caught.value)
    assert "\n" not in message
    assert "expected" in message
    return message


def named(value: object) -> str:
    return getattr(value, "__name__", "")


def is_found(family: str, check: Any, plugin: Any, found: str) -> None:
    message = message_of(check, plugin)
    assert message.startswith(f"{family} 'planted' ")
    assert found in message


def test_what_is_honest_passes() -> None:
    check_attack(planted.HonestAttack(epsilon=EPSILON))
    check_corruption(planted.HonestCorruption(severity=2))
    check_attention(planted.HonestAttention())
    check_dataset(planted.HONEST_DATASET)
    check_metric(planted.HONEST_METRIC)


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        (planted.ExceedsBudget, "moved an input by 0.0627"),
        (planted.ExceedsBudgetByRounding, "without rounding errors: project by `problem.region.project`"),
        (planted.LeavesTheBox, "values outside [0, 1], which the harness had to clamp"),
        (planted.DrawsFromTorch, "other examples when called again with the same seeds"),
        (planted.DrawsFromNumpy, "moves the global random generator of numpy"),
        (planted.DrawsFromRandom, "moves the global random generator of random"),
        (planted.SeedsTorch, "moves the global random generator of torch"),
        (planted.DependsOnNeighbours, "makes something else of example 0 alone"),
        (planted.DependsOnItsPlace, "makes something else of"),
        (planted.ReturnsFloat64, "returns torch.float64; expected torch.float32"),
        (planted.ReturnsAnotherShape, "attack 'planted'"),
        (planted.WritesIntoTheBatch, "attack 'planted'"),
        (planted.HasMemory, "when called again with the same seeds"),
        (planted.PeeksAtScores, "returns other points for 12 examples of a model with the same classes"),
        (planted.Descends, "makes a linear model right about"),
        (planted.HidesPasses, "took 4 forward passes of the model and 3 are counted"),
        (planted.RepeatsItsAddress, "random draws in more than one pass"),
        (planted.UsesThePrediction, "with 6 draws of the final prediction"),
        (
            planted.LeavesThePatch,
            "changed 16 pixels in a box of 4 x 4 at row 0 and column 0",
        ),
        (planted.MovesAtZero, "at epsilon 0; expected the inputs as they are"),
        (planted.ClimbsLogits, "of the values when 20 is taken from all logits"),
        (planted.Raises, "raised ZeroDivisionError (division by zero) in: keeps shape dtype and device"),
        (planted.NotThere, "has implementation 'planted_plugins_impl:nothing_of_this_name', whose import raised"),
        (planted.AcceptsAnything, "raised nothing for epsilon=-1, which is out of bounds"),
        (planted.NeverEqual, "differs from a copy of itself"),
        (planted.WithoutBounds, "has field strength with float without Ge or Gt and float without Le or Lt"),
    ],
    ids=named,
)
def test_a_mistake_of_an_attack_is_found(declared: Any, found: str) -> None:
    is_found("attack", check_attack, declared(epsilon=EPSILON), found)


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        (planted.MovesPadding, "changed padding, wanted series of the same lengths"),
        (planted.ExceedsBudget, "moved an input by 1 in linf, more than its budget 0.5 (1/2)"),
        (planted.DrawsFromTorch, "other examples when called again with the same seeds"),
        (planted.WritesIntoTheBatch, "attack 'planted'"),
        (planted.Descends, "makes a linear model right about"),
        (planted.HidesPasses, "took 4 forward passes of the model and 3 are counted"),
        (planted.RepeatsItsAddress, "random draws in more than one pass"),
        (planted.ClimbsLogits, "of the values when 20 is taken from all logits"),
    ],
    ids=named,
)
def test_a_mistake_of_an_attack_on_series_is_found(declared: Any, found: str) -> None:
    check_attack(planted.HonestAttack(epsilon=Fraction(1, 2)), "series")
    is_found("attack", lambda plugin: check_attack(plugin, "series"), declared(epsilon=Fraction(1, 2)), found)


def test_an_attack_that_does_not_stop_early_is_found() -> None:
    check_attack(planted.NeverStops(epsilon=EPSILON))
    message = message_of(check_attack, planted.NeverStops(epsilon=EPSILON, stop="at_success"))
    assert "examples that the model gets wrong without it; expected them as they are" in message


def test_a_declaration_whose_module_imports_torch_is_found() -> None:
    # This module does.
    class Local(Fgsm):
        pass

    Local.__qualname__ = "LOCAL"
    globals()["LOCAL"] = Local
    message = message_of(check_attack, Local(epsilon=EPSILON))
    assert "is in module test_contract_checks, which imports torch in a fresh interpreter" in message


def test_a_declaration_that_cannot_be_pickled_is_found() -> None:
    class Local(Fgsm):
        pass

    assert "cannot be pickled" in message_of(check_attack, Local(epsilon=EPSILON))


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        (planted.OutOfRange, "returned inputs from -0.2"),
        (planted.CorruptsInDouble, "returns torch.float64"),
        (planted.DimsByTheBatch, "makes something else of example 0 alone"),
        (planted.CorruptsGlobally, "moves the global random generator of numpy"),
        (planted.CorruptsInPlace, "expected"),
        (planted.CutsACorner, "raised IndexError"),
        (planted.KnowsNoSeverity, "does at severity [1, 2, 3, 4] the same as at the one before"),
        (planted.DoesNothing, "changes no input at its weakest severity"),
        (planted.AsksTheModel, "raised AttributeError"),
        (planted.NamesNoSeverity, "has corruption None; expected (type, 1)"),
    ],
    ids=named,
)
def test_a_mistake_of_a_corruption_is_found(declared: Any, found: str) -> None:
    is_found("corruption", check_corruption, declared(severity=2), found)


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        # It dims all values, those of padding too.
        (planted.HonestCorruption, "changed padding, wanted series of the same lengths"),
        (planted.DoesNothing, "changes no input at its weakest severity"),
    ],
    ids=named,
)
def test_a_mistake_of_a_corruption_of_series_is_found(declared: Any, found: str) -> None:
    assert found in message_of(lambda plugin: check_corruption(plugin, "series"), declared(severity=2))


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        (planted.MixesRows, "declares is_coupled False, but rows of a batch change each other's outputs"),
        (planted.ClaimsToMix, "declares is_coupled True, and yet"),
        (planted.DropsATokens, "returned (1, 16, 16) of torch.float32, wanted (1, 17, 16)"),
        (planted.ReturnsDouble, "returned (1, 17, 16) of torch.float64, wanted (1, 17, 16)"),
        (planted.DividesByZero, "has NaN or infinite outputs at scale 0 in float32"),
        (planted.DrawsNoise, "moves the global random generator of torch"),
        (planted.WritesIntoTokens, "writes into the tokens"),
        (planted.KeepsAHiddenState, "gives other outputs after its state dict was loaded into another layer"),
        (planted.HasADeadParameter, "has parameter unused without a gradient"),
        (planted.ShowsOtherWeights, "shows heads that differ from weights @ values + rest by"),
        (planted.DeclaresNoParameters, "has 8450 parameters beside those of softmax attention"),
    ],
    ids=named,
)
def test_a_mistake_of_an_attention_is_found(declared: Any, found: str) -> None:
    is_found("attention", check_attention, declared(), found)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("twice_the_same_id", "has 12 examples and 11 ids"),
        ("in_its_own_order", "has its examples in an order of its own"),
        ("in_255_levels", "to 254.873; expected values in [0, 1]"),
        ("in_double_precision", "gives inputs of torch.float64"),
        ("with_a_class_too_many", "has targets from 0 to 3; expected classes 0 to 2"),
        ("of_another_name", "opens as 'implanted'"),
        ("one_example_short", "has 11 examples; expected 12"),
        ("drawn_at_random", "opens as"),
        ("batch_of_other_images", "gives example 0 otherwise alone than in a batch"),
        ("that_lends_its_memory", "after a caller wrote into a batch"),
        ("with_short_batches", "raised nothing for the batch [0, 13) of 12 examples"),
        ("without_a_digest", "has fingerprint 'v1'"),
        ("with_whatever_it_read_ahead", "gives another batch [0, 6] after it read ahead"),
        ("that_raises_when_it_reads_ahead", "in: reading ahead changes nothing; expected no exception"),
    ],
)
def test_a_mistake_of_a_dataset_is_found(name: str, found: str) -> None:
    is_found("dataset", check_dataset, planted.DATASETS_WITH_A_BUG[name], found)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("in_per_cent", "expected a proportion and its interval within [0, 1]"),
        ("outside_its_interval", "expected an interval that holds the value"),
        ("of_nothing", "raised nothing without outcomes; expected an IncompleteError"),
        ("by_the_first_example", "for shuffled examples; expected the same to the bit"),
        ("that_sorts_in_place", "changes the outcomes that it reads"),
        ("that_draws", "moves the global random generator of random"),
        ("as_a_float", "computes float; expected an Estimate"),
        ("of_another_unit", "gives unit 'ratio'; expected its own unit 'share'"),
        ("of_half_of_them", "counts 50 examples; expected 100"),
        ("of_any_task", "raised nothing for outcomes of another task; expected a ContractError"),
        ("not_a_number", "computes nan; expected a finite number"),
        ("with_torch", "which imports torch in a fresh interpreter"),
        ("of_other_contributions", "expected those of its number"),
    ],
)
def test_a_mistake_of_a_metric_is_found(name: str, found: str) -> None:
    is_found("metric", check_metric, planted.METRICS_WITH_A_BUG[name], found)


class AcceptsAll(RealValued):
    def check_clean(self, inputs: torch.Tensor, dataset: str) -> None:
        pass


class OfTheBatch(RealValued):
    def check_perturbed(self, perturbed: Any, clean: Any, declaration: Any, model: Any) -> Any:
        distances = super().check_perturbed(perturbed, clean, declaration, model)
        return {name: values.amax().expand(len(values)) for name, values in distances.items()}


class OfItsOwnColumn(RealValued):
    def check_perturbed(self, perturbed: Any, clean: Any, declaration: Any, model: Any) -> Any:
        return {"jump": super().check_perturbed(perturbed, clean, declaration, model)["linf"]}


class OfTheMiddle(RealValued):
    def half_range(self, inputs: torch.Tensor) -> Fraction:
        return super().half_range(inputs) / 4


class OfTheFirst(RealValued):
    def collate(self, inputs: Any) -> torch.Tensor:
        return torch.stack([inputs[0]] * len(inputs))


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("AcceptsAll", "raised nothing for inputs of NaN"),
        ("OfTheBatch", "has linf above 0 at [True, True, True, True]"),
        ("OfItsOwnColumn", "measures ['jump']"),
        ("OfTheFirst", "changes examples in a batch"),
        ("OfTheMiddle", "has half range 0.125 for values of range 0."),
    ],
)
def test_a_mistake_of_a_domain_is_found(name: str, found: str) -> None:
    examples = torch.rand(4, 5, generator=torch.Generator().manual_seed(0))
    domain = replace(IMAGES, name="planted", axes=("numbers",), implementation=f"{__name__}:{name}")
    is_found("domain", lambda plugin: check_domain(plugin, examples), domain, found)


class AddsAColumn(ClassificationRules):
    def columns(self, outputs: Any, targets: Any, scoring: Any) -> Any:
        columns = super().columns(outputs, targets, scoring)
        return {**columns, "strange": columns["target"]}


class ComparesRows(ClassificationRules):
    def columns(self, outputs: Any, targets: Any, scoring: Any) -> Any:
        columns = super().columns(outputs, targets, scoring)
        return {**columns, "confidence": Values(columns["confidence"].array - columns["confidence"].array.mean())}


class LabelsOthers(ClassificationRules):
    def labels_of(self, outputs: Any) -> Any:
        return (outputs.argmax(1) + 1) % outputs.shape[1]


class FoolsNobody(ClassificationRules):
    def is_fooled(self, outputs: Any, labels: Any) -> Any:
        return torch.zeros(len(outputs), dtype=torch.bool)


class SumsLosses(ClassificationRules):
    objective = staticmethod(lambda outputs, labels: outputs.sum().expand(len(outputs)))


class WeighsInFloat32(ClassificationRules):
    objective = staticmethod(lambda outputs, labels: (outputs @ torch.ones(outputs.shape[1]) - labels).square())


class AcceptsOutputs(ClassificationRules):
    def check_outputs(self, outputs: Any, num_rows: int, model: str) -> None:
        pass


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        (AddsAColumn, "returns columns ['strange']"),
        (ComparesRows, "gives example 0 another confidence alone than in a batch"),
        (LabelsOthers, "is fooled on a model's own labels"),
        (FoolsNobody, "calls 0 of 6 outputs wrong"),
        (SumsLosses, "has a gradient of objective at other outputs than the example's"),
        (WeighsInFloat32, "has objective of float64 outputs that raised RuntimeError"),
        (AcceptsOutputs, "raised nothing for outputs that are not 6 finite ones"),
    ],
    ids=named,
)
def test_a_mistake_of_a_task_is_found(broken: Any, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "RULES", broken())
    outputs = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    targets = (outputs.argmax(1) + torch.arange(6) % 2) % 3
    task = replace(CLASSIFICATION, name="planted", implementation=f"{__name__}:RULES")
    is_found("task", lambda plugin: check_task(plugin, (outputs,), targets), task, found)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuessingOutcome(Outcome):
    correct_top1: bool


GUESSING = Task(name="guessing", title="Guesses", outcome=GuessingOutcome, implementation="nowhere:RULES")


def guessed(seed: int) -> list[GuessingOutcome]:
    draw = random.Random(seed)
    return [GuessingOutcome(example_id=f"{row}", correct_top1=draw.random() < 0.5) for row in range(100)]


def test_a_metric_of_another_task_is_checked_with_outcomes_of_that_task(monkeypatch: pytest.MonkeyPatch) -> None:
    builtin: Any = TASKS.builtin  # a dict
    monkeypatch.setitem(builtin, GUESSING.name, GUESSING)
    metric = replace(planted.HONEST_METRIC, task=GUESSING.name)
    check_metric(metric, guessed)
    assert "is of task 'guessing'; expected outcomes of that task" in message_of(check_metric, metric)
    wrong = replace(planted.METRICS_WITH_A_BUG["of_half_of_them"], task=GUESSING.name)
    assert "counts 50 examples; expected 100" in message_of(lambda plugin: check_metric(plugin, guessed), wrong)


class Masks(OrderedExamples):
    """Grey images and the class of each pixel, some of no class; ``num_lost`` labels differ in a batch."""

    def __init__(self, num_lost: int) -> None:
        super().__init__("masks", "0" * 64, [f"masks/{row}" for row in range(12)], np.zeros(12, np.int64))
        self._masks = torch.arange(12 * 16).view(12, 4, 4) % 4 - 1
        self._num_lost = num_lost

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index)[0], self._masks[range(12)[index]].clone()

    def batch(self, start: int, stop: int) -> Batch:
        masks = self._masks[start:stop].clone()
        masks.view(-1)[: self._num_lost] += 1
        return replace(super().batch(start, stop), targets=masks)

    def _inputs(self, start: int, stop: int) -> torch.Tensor:
        return torch.full((stop - start, 3, 4, 4), 0.5)


masks, broken_masks = partial(Masks, num_lost=0), partial(Masks, num_lost=1)


def test_targets_of_another_task_may_have_any_shape_and_values() -> None:
    declared = replace(planted.HONEST_DATASET, name="masks", task=GUESSING.name, maker=f"{__name__}:masks")
    check_dataset(declared)
    message = message_of(check_dataset, replace(declared, maker=f"{__name__}:broken_masks"))
    assert "gives example 0 otherwise alone than in a batch" in message


@pytest.mark.parametrize(
    ("check", "plugin", "found"),
    [
        (check_attack, Softmax(), "is not an attack; expected an instance of robench's Attack"),
        (check_attack, Fgsm, "is not an attack"),
        (lambda plugin: check_attack(plugin, "texts"), Fgsm(epsilon=EPSILON), "expected images or series"),
        (check_corruption, METRICS["auroc"], "is not a corruption"),
        (check_corruption, Fgsm(epsilon=EPSILON), "has no bounded field severity"),
        (check_attention, Fgsm(epsilon=EPSILON), "is not an attention"),
        (check_attention, Rpc(layers=(0,)), "has layers (0,); expected layer 3 of the geometry among them"),
        (check_attention, Nystrom(num_landmarks=64), "num_landmarks must be at most the 17 tokens"),
        (check_dataset, "no-such-dataset", "'no-such-dataset' is not a dataset"),
        (check_metric, "auroc", "is not a metric"),
        (lambda plugin: check_domain(plugin, torch.zeros(3)), "images", "is not a domain"),
        (lambda plugin: check_task(plugin, (), torch.zeros(3)), "classification", "is not a task"),
    ],
)
def test_what_is_of_no_family_is_refused(check: Any, plugin: Any, found: str) -> None:
    assert found in message_of(check, plugin)


def test_the_test_that_contributors_are_shown_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples" / "robench-example-plugin")
    namespace: dict[str, Any] = {}
    for module in ("sign_walk", "cosine", "vignette", "mirrored_digits", "balanced_accuracy"):
        namespace |= vars(import_module(f"robench_example_plugin.{module}"))
    guides = (ROOT / "CONTRIBUTING.md").read_text()
    (source,) = re.findall(r"```python\n(from fractions.*?)```", guides, re.DOTALL)
    exec(source, namespace)
    namespace["test_my_plugins"]()


def test_checks_leave_the_callers_generators_alone() -> None:
    states = torch.get_rng_state(), repr(np.random.get_state()), random.getstate()
    check_attack(planted.HonestAttack(epsilon=EPSILON))
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (repr(np.random.get_state()), random.getstate()) == states[1:]
