"""The audit of segmentation models, and comparisons of attacks on them: planted faults are flagged, honest ones not."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, cast

import numpy as np
import pytest
import torch
from test_segmentation_attacks import SCENES, Tiny, scenes
from torch import Tensor

from robench.attacks.base import Attack
from robench.attacks.fgsm import Fgsm
from robench.attacks.pgd import Pgd
from robench.attacks.pgd_impl import pgd
from robench.attacks.problem import Problem, Reached
from robench.attacks.sea import Sea
from robench.core.columns import Outcomes, Values, lists_of
from robench.core.flags import Flag
from robench.core.protocols import Batch
from robench.core.shard import DatasetIdentity
from robench.evaluation import probe
from robench.evaluation.actions import audits_of
from robench.evaluation.audit import audit
from robench.evaluation.model_checks import clean_accuracy, model_checks
from robench.evaluation.probe import clean_correct
from robench.metrics.audits import judged
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws
from robench.reports.flags import Tried, flags_of
from robench.runs.single_model import _first
from robench.tasks.segmentation import IGNORED, SEGMENTATION, SegmentationOutcome, proportion_right
from robench.tasks.segmentation_impl import RULES

EPSILON = Fraction(4, 255)
IDENTITY = DatasetIdentity(name="scenes", fingerprint="scenes", num_examples=10)
BATCH = scenes(10)


class Quantised(Tiny):
    """Pixels are rounded to eight levels, through which no gradient comes."""

    def outputs(self, inputs: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        return super().outputs((inputs * 7).round() / 7)


class Centred(Tiny):
    """The mean image of the batch takes part in each."""

    def outputs(self, inputs: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        return super().outputs(inputs - 0.3 * inputs.mean(0, keepdim=True))


class Noisy(Tiny):
    """Noise at test time, another for each pass."""

    def outputs(self, inputs: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        assert seeds is not None
        noise = [torch.randn(3, 6, 8, generator=torch.Generator().manual_seed(seed % 2**63)) for seed in seeds]
        return super().outputs(inputs + 0.3 * torch.stack(noise))


class Probable(Tiny):
    """Probabilities in place of logits."""

    def outputs(self, inputs: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        return super().outputs(inputs).softmax(1)


def raised(victim: Any) -> set[str]:
    """Return the raised checks of the model itself."""
    found = clean_correct(victim, BATCH, ExampleDraws(range(10)), EPSILON, 10)
    return {flag.name for flag in judged(model_checks(found)) if flag.is_raised}


def test_an_honest_model_is_not_flagged_and_every_check_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "NUM_QUERIES", 100)
    monkeypatch.setattr(probe, "NUM_STEPS", 40)
    flags = audit(Tiny(), BATCH, IDENTITY, EPSILON)
    assert {flag.name for flag in flags if flag.is_raised} == set()
    assert {flag.name for flag in flags} >= {
        "random victim", "probabilities for logits", "zero gradients", "coupled rows", "silent success",
        "unconstrained attack failure", "single step beats iterations", "random search beats gradients",
        "smaller budget beats larger", "twice the steps change the result",
    }  # fmt: skip
    (found,) = [flag.finding for flag in flags if flag.name == "single step beats iterations"]
    assert "points more answers stay right" in found
    (unconstrained,) = [flag for flag in flags if flag.name == "unconstrained attack failure"]
    # Another image in the place of each, whose masks are other ones.
    outputs = Tiny().outputs(BATCH.inputs)
    counts = [[int(RULES.num_right(other[None], mask[None])) for other in outputs] for mask in BATCH.targets]
    fewest = [min(count for j, count in enumerate(row) if j != i) for i, row in enumerate(counts)]
    numbers = RULES.num_answers(BATCH.targets).tolist()
    wanted = sum(few / number for few, number in zip(fewest, numbers, strict=True)) / 10
    assert unconstrained.limit == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize(
    ("victim", "names"),
    [
        (Quantised(), {"zero gradients"}),
        (Centred(), {"coupled rows"}),
        (Noisy(), {"random victim"}),
        (Probable(), {"probabilities for logits"}),
    ],
)
def test_planted_maskings_are_flagged(victim: Any, names: set[str]) -> None:
    assert names <= raised(victim)


def test_a_model_that_is_right_about_no_pixel_is_asked_why() -> None:
    class Wrong(Tiny):
        def outputs(self, inputs: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
            right = torch.nn.functional.one_hot(torch.zeros(len(inputs), 6, 8).long(), 3).movedim(-1, 1)
            return right + 0 * super().outputs(inputs)

    ones = replace(BATCH, targets=torch.ones_like(BATCH.targets))
    assert [flag.name for flag in audit(Wrong(), ones, IDENTITY, EPSILON)] == ["nothing to attack"]
    flag = clean_accuracy(Tiny(), BATCH, Tiny().outputs(BATCH.inputs), expected=0.5)
    total = int((BATCH.targets != IGNORED).sum())
    right = int(RULES.num_right(Tiny().outputs(BATCH.inputs), BATCH.targets).sum())
    assert (flag.value, flag.is_raised) == (right / total, False)
    assert f"{right} of {total} answers of clean examples; chance is 33.3%" in flag.finding


def test_chance_is_computed_for_as_many_pixels_as_images_have() -> None:
    targets = torch.zeros(2, 600, 800, dtype=torch.int64)
    batch = replace(BATCH, ids=("a", "b"), inputs=torch.zeros(2, 3, 6, 8), targets=targets)
    right = torch.zeros(2, 3, 600, 800)
    right[:, 0] = 1
    assert not clean_accuracy(Tiny(), batch, right, None).is_raised
    assert clean_accuracy(Tiny(), batch, -right, None).is_raised


@dataclass(frozen=True, slots=True, kw_only=True)
class Half(Pgd):
    """PGD that attacks the left half of each mask alone."""

    kind: ClassVar[str] = "half"
    implementation: ClassVar[str] = f"{__name__}:half"


def half(declaration: Half, problem: Problem) -> Reached:
    labels = problem.labels.clone()
    labels[..., labels.shape[-1] // 2 :] = IGNORED
    return pgd(declaration, replace(problem, labels=labels))


def tried(declaration: Attack) -> Tried:
    reached = perturb(declaration, BATCH, Tiny(), ExampleDraws(range(10))).inputs
    proportions = RULES.num_right(Tiny().outputs(reached), BATCH.targets) / RULES.num_answers(BATCH.targets)
    assert declaration.threat_model is not None
    return Tried(
        name=declaration.kind, dataset=SCENES, attack=declaration, threat_model=declaration.threat_model,
        survives=proportions.double().numpy(),
    )  # fmt: skip


def compared(*attacks: Attack) -> list[Flag]:
    flags = flags_of((), [tried(each) for each in attacks])
    return [flag for flag in flags or () if flag.is_raised]


def test_an_attack_that_ignores_half_of_the_pixels_is_caught_by_plain_pgd_and_honest_ones_are_not() -> None:
    epsilon = 4 * EPSILON
    fields: dict[str, Any] = {"epsilon": epsilon, "relative_step": Fraction(1, 4), "num_steps": 20}
    losses: tuple[Any, ...] = ("ce", "segpgd", "cospgd")
    honest = (*(Pgd(**fields, loss=loss) for loss in losses), Sea(epsilon=epsilon, num_steps=9))
    assert compared(*honest, Fgsm(epsilon=epsilon)) == []
    (flag,) = compared(Half(**fields), honest[0])
    assert flag.name == "plain loss beats another"
    assert flag.finding.startswith("pgd against half: ")
    assert "points fewer answers stay right (p = " in flag.finding
    # One of more passes need not be reached.
    assert compared(Half(**fields), Pgd(**{**fields, "num_steps": 21})) == []
    # A single step that reaches all pixels is stronger, too.
    assert [each.name for each in compared(Half(**fields), Fgsm(epsilon=epsilon))] == ["single step beats iterations"]


def test_proportions_are_of_the_pixels_that_count() -> None:
    columns = {
        "example_id": Values(np.array(["a", "b"], np.dtypes.StringDType())),
        "classes": Values(lists_of([[0, 2], []])),
        "num_true": Values(lists_of([[3, 5], []])),
        "num_predicted": Values(lists_of([[4, 4], []])),
        "num_both": Values(lists_of([[2, 4], []])),
    }
    assert proportion_right(Outcomes(SegmentationOutcome, columns, 2)).tolist() == [0.75, 0.0]


def test_the_audit_of_one_model_takes_the_centres_of_images_of_several_sizes() -> None:
    class Sizes:
        """Images of 6 x 10 and 8 x 7 pixels that hold their place, the second with a mask of twice the size."""

        def batch(self, start: int, stop: int) -> Batch:
            height, width = ((6, 10), (8, 7))[start]
            places = 10 * torch.arange(height)[:, None] + torch.arange(width)
            masks = places.repeat_interleave(1 + start, 0).repeat_interleave(1 + start, 1)
            images = places.float().expand(1, 3, -1, -1) / 100
            return Batch(ids=(str(start),), inputs=images, targets=masks[None], task="segmentation")

    several: Any = type("Several", (), {"has_one_size": False})()
    batch = _first(cast("Any", Sizes()), 2, several, SEGMENTATION)
    assert batch.ids == ("0", "1")
    assert batch.inputs.shape == (2, 3, 6, 7)
    assert torch.equal((batch.inputs[:, 0] * 100).round().long(), batch.targets)
    assert batch.targets[:, 0, 0].tolist() == [1, 10]
    assert (batch.task, batch.targets[0, 5, 6].item()) == ("segmentation", 57)


def test_images_of_several_sizes_are_not_audited_in_runs() -> None:
    suite: Any = type("Suite", (), {"audit": True, "task": "segmentation", "conditions": ()})()
    condition = type("Condition", (), {"dataset": SCENES, "perturbation": Fgsm(epsilon=EPSILON)})
    suite.conditions = (condition,)
    assert [each.name for each in audits_of(suite)] == ["audit-scenes"]
    sizes = type("Sizes", (), {"has_one_size": False, "domain": "images", "name": "sizes"})()
    suite.conditions = (type("Condition", (), {"dataset": sizes, "perturbation": Fgsm(epsilon=EPSILON)}),)
    assert audits_of(suite) == ()
