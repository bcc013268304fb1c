"""The example plug-ins keep the promises that robench's own keep."""

from __future__ import annotations

import tomllib
from fractions import Fraction
from importlib import import_module
from pathlib import Path

import pytest
import torch
from robench.attention.geometry import Geometry
from robench.datasets import open_dataset
from robench.testing import check_attack, check_attention, check_corruption, check_dataset, check_metric
from robench.testing.corruption import at_severities, corrupted
from robench.testing.metric import classified, columns_of

from robench_example_plugin.balanced_accuracy import BALANCED_ACCURACY
from robench_example_plugin.cosine import Cosine
from robench_example_plugin.mirrored_digits import MIRRORED_DIGITS
from robench_example_plugin.mirrored_digits_impl import mirrored_digits
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


def test_entry_points_name_what_is_there() -> None:
    entries = tomllib.loads(PROJECT.read_text())["project"]["entry-points"]["robench.plugins"]
    assert len(entries) == 5
    for entry, value in entries.items():
        module, _, name = value.partition(":")
        declared = getattr(import_module(module), name)
        kind = declared.kind if isinstance(declared, type) else declared.name
        assert entry.partition(":")[2] == kind
