"""Tests that the example plug-ins fulfil the contracts of robench's own."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from fractions import Fraction
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from robench.attacks.pgd import Pgd
from robench.attention.geometry import Geometry
from robench.core.columns import Outcomes, Values
from robench.core.errors import ContractError, UsageError
from robench.datasets import open_dataset
from robench.declarations.preprocessing import NoPreprocessing
from robench.models.loaded import LoadedModel
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws
from robench.tasks.base import Scoring
from robench.testing import check_attack, check_attention, check_corruption, check_dataset, check_metric
from robench.testing.corruption import at_severities, corrupted
from robench.testing.metric import classified, columns_of

from robench_example_plugin.absolute_error import MEAN_ABSOLUTE_ERROR
from robench_example_plugin.balanced_accuracy import BALANCED_ACCURACY
from robench_example_plugin.cosine import Cosine
from robench_example_plugin.hill import HILL
from robench_example_plugin.hill_impl import PEAK, Hill, heights
from robench_example_plugin.mirrored_digits import MIRRORED_DIGITS
from robench_example_plugin.mirrored_digits_impl import mirrored_digits
from robench_example_plugin.network_impl import trained
from robench_example_plugin.plane import PLANE
from robench_example_plugin.regression import REGRESSION, RegressionOutcome
from robench_example_plugin.sign_walk import SignWalk
from robench_example_plugin.vignette import Vignette

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


@pytest.mark.parametrize("stop", ["never", "at_success"])
@pytest.mark.parametrize("loss", ["ce", "margin", "dlr"])
def test_sign_walk(stop: str, loss: str) -> None:
    check_attack(SignWalk(epsilon=Fraction(8, 255), num_steps=5, loss=loss, stop=stop))


def test_sign_walk_refuses_restarts() -> None:
    with pytest.raises(ValueError, match="num_restarts must be 1, since the walk draws nothing, got 2"):
        SignWalk(epsilon=Fraction(8, 255), num_steps=5, num_restarts=2)


@pytest.mark.parametrize("scale", [0.5, 10.0])
def test_cosine(scale: float) -> None:
    check_attention(Cosine(scale=scale))


def test_cosine_does_not_see_the_length_of_queries() -> None:
    module = Cosine().implemented()(Cosine(), Geometry(dim=8, num_heads=2, num_tokens=5, depth=1, layer=0))
    q, k, v = torch.randn(3, 2, 2, 5, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(module.mix((7 * q, k / 3, v), None), module.mix((q, k, v), None))


def test_vignette() -> None:
    check_corruption(Vignette(severity=3))


def test_a_vignette_is_darker_at_higher_severities() -> None:
    white = torch.ones(2, 3, 32, 32)
    means = [float(corrupted(each, white).mean()) for each in at_severities(Vignette(severity=1))]
    assert means == sorted(means, reverse=True)


def test_mirrored_digits() -> None:
    check_dataset(MIRRORED_DIGITS)


def test_mirrored_digits_are_the_digits_from_behind() -> None:
    digits, mirrored = open_dataset("digits", data_root=None, preprocessing=None), mirrored_digits()
    straight = {name: image for name, (image, _) in zip(digits.ids, map(digits.__getitem__, range(600)), strict=True)}  # type: ignore[attr-defined]
    for index in range(20):
        image = straight[mirrored.ids[index].removeprefix("mirrored/")]
        assert torch.equal(mirrored[index][0], image.flip(-1))


def test_balanced_accuracy() -> None:
    check_metric(BALANCED_ACCURACY)


def test_balanced_accuracy_is_the_mean_recall() -> None:
    from robench.metrics import Readings
    from sklearn.metrics import balanced_accuracy_score

    rows = classified(seed=3)[:37]  # of unequal classes
    wanted = balanced_accuracy_score([row.target for row in rows], [row.prediction for row in rows])
    assert BALANCED_ACCURACY.compute(Readings(measured=(columns_of(rows),))).value == pytest.approx(wanted)


def test_hill() -> None:
    check_dataset(HILL)


def test_the_hill_is_highest_at_its_peak() -> None:
    assert float(heights(torch.tensor([PEAK]))[0]) == 1.0
    hill = Hill()
    points = torch.stack([hill[index][0] for index in range(len(hill))])
    nearest = int((points - torch.tensor(PEAK)).norm(dim=1).argmin())
    assert hill[nearest][1] == max(hill[index][1] for index in range(len(hill)))


def regressed(outputs: torch.Tensor, targets: torch.Tensor) -> Outcomes:
    columns = REGRESSION.rules.columns([outputs], targets, Scoring(dataset=HILL))
    ids = Values(np.array([f"{row:03d}" for row in range(len(targets))], np.dtypes.StringDType()))
    return Outcomes(RegressionOutcome, {"example_id": ids, **columns}, len(targets))


def test_regression_keeps_target_prediction_and_error() -> None:
    (first, second) = regressed(torch.tensor([0.5, -1.0]), torch.tensor([0.25, 1.0]))
    assert (first.target, first.prediction, first.absolute_error) == (0.25, 0.5, 0.25)
    assert (second.target, second.prediction, second.absolute_error) == (1.0, -1.0, 2.0)


def test_an_attack_on_regression_succeeds_beyond_the_tolerance() -> None:
    outputs, labels = torch.tensor([0.0, 0.05, -0.2, 0.2]), torch.zeros(4)
    assert REGRESSION.rules.is_fooled(outputs, labels).tolist() == [False, False, True, True]
    assert torch.equal(REGRESSION.rules.objective(outputs, labels), outputs.abs())


@pytest.mark.parametrize("output", [torch.zeros(3), torch.zeros(2, 2), [0.0, 0.0], torch.zeros(1, 2)])
def test_outputs_other_than_one_number_each_are_refused(output: object) -> None:
    with pytest.raises(ContractError, match="wanted one number each"):
        REGRESSION.rules.outputs_of(output, 2)


def test_predictions_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ContractError, match="model 'm' returned something other than 2 finite numbers"):
        REGRESSION.rules.check_outputs(torch.tensor([0.0, torch.nan]), 2, "m")


def test_a_dataset_of_classes_is_refused() -> None:
    with pytest.raises(UsageError, match="dataset 'digits' has 10 classes, but model 'm' predicts numbers"):
        REGRESSION.rules.check_fit(torch.zeros(2), 10, "m", "digits")


def test_mean_absolute_error_is_that_of_scikit_learn() -> None:
    from robench.metrics import Readings
    from sklearn.metrics import mean_absolute_error

    outputs, targets = torch.rand(2, 40, generator=torch.Generator().manual_seed(0))
    estimate = MEAN_ABSOLUTE_ERROR.compute(Readings(measured=(regressed(outputs, targets),)))
    assert estimate.value == pytest.approx(mean_absolute_error(targets.double(), outputs.double()))
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low < estimate.value < estimate.high


def regressed_rows(seed: int) -> list[RegressionOutcome]:
    targets, predictions = torch.rand(2, 50, generator=torch.Generator().manual_seed(seed)).double().tolist()
    return [
        RegressionOutcome(example_id=f"{row:03d}", target=target, prediction=found, absolute_error=abs(found - target))
        for row, (target, found) in enumerate(zip(targets, predictions, strict=True))
    ]


def test_mean_absolute_error() -> None:
    check_metric(MEAN_ABSOLUTE_ERROR, regressed_rows)


def test_pgd_makes_the_objective_of_regression_larger() -> None:
    hill, network = Hill(), trained(num_steps=100)
    model = LoadedModel(network, NoPreprocessing(inputs="plane"), task=REGRESSION)
    batch = replace(hill.batch(0, 20), task=REGRESSION.name, domain=PLANE.name)
    attack = Pgd(epsilon=Fraction(1, 5), relative_step=Fraction(1, 4), num_steps=5, loss="objective")
    made = perturb(attack, batch, model, ExampleDraws(range(20)))
    errors = [(model.outputs(inputs) - batch.targets).abs() for inputs in (batch.inputs, made.inputs)]
    assert bool((errors[1] >= errors[0]).all())
    assert float(errors[1].mean()) > 1.2 * float(errors[0].mean())
    # Within the plane's limits, which are not those of images.
    assert float(made.inputs.abs().max()) <= 1
    assert float((made.inputs - batch.inputs).abs().max()) <= 0.2
    assert bool((made.inputs < -0.2).any())


def test_entry_points_name_what_is_there() -> None:
    entries = tomllib.loads(PROJECT.read_text())["project"]["entry-points"]["robench.plugins"]
    assert len(entries) == 9
    for entry, value in entries.items():
        module, _, name = value.partition(":")
        declared = getattr(import_module(module), name)
        kind = declared.kind if isinstance(declared, type) else declared.name
        assert entry.partition(":")[2] == kind
