"""Corruptions check what they are asked for, wherever they are asked."""

from typing import Any

import pytest

from robench.core.errors import DeclarationError
from robench.core.suite import Suite
from robench.corruptions import COMMON_CORRUPTIONS, EXTRA_CORRUPTIONS
from robench.corruptions.corruption import Corruption
from robench.corruptions.levels import Strengths, strength
from robench.declare.suites import parse_suite
from robench.perturbations import PERTURBATIONS

STRENGTHS: Strengths[int] = {"imagenet": (1, 2, 3, 4, 5), "cifar": (6, 7, 8, 9, 10)}


def suite_of(**perturbation: Any) -> Suite:
    condition = {"name": "corrupted", "perturbation": {"kind": "corruption"} | perturbation}
    fields = {"name": "s", "version": 1, "seed": 0, "dataset": "digits", "batch_size": 50, "metrics": ["top1_accuracy"]}
    return parse_suite({**fields, "conditions": [condition]})


def test_a_type_that_nobody_defined_is_refused_with_those_that_are() -> None:
    unknown: Any = "smoke"
    with pytest.raises(ValueError, match=r"type must be one of gaussian_noise, .*, saturate.*, got smoke"):
        Corruption(type=unknown, severity=1)


def test_it_is_a_perturbation_without_a_budget_that_nobody_else_shares() -> None:
    corruption = Corruption(type="fog", severity=1)
    assert PERTURBATIONS["corruption"] is Corruption
    assert corruption.threat_model is None
    assert corruption.batch_dependence == ""
    assert not corruption.stops_at_success


@pytest.mark.parametrize("kind", COMMON_CORRUPTIONS + EXTRA_CORRUPTIONS)
def test_a_suite_can_ask_for_every_type(kind: Any) -> None:
    asked = suite_of(type=kind, severity=2, constants="cifar", saved_as="jpeg-85").conditions[0].perturbation
    assert asked == Corruption(type=kind, severity=2, constants="cifar", saved_as="jpeg-85")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"type": "fogg", "severity": 1}, "unknown value 'fogg'. Did you mean 'fog'"),
        ({"type": "fog", "severity": 9}, "must be at most 5, got 9"),
        ({"type": "fog"}, "severity"),
        ({"type": "fog", "severity": True}, "severity"),
        ({"type": "fog", "severity": 1, "constants": "tiny"}, "unknown value 'tiny'"),
        ({"type": "fog", "severity": 1, "saved_as": "png"}, "unknown value 'png'"),
    ],
)
def test_a_suite_that_asks_for_what_there_is_not_is_told_so(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        suite_of(**fields)


@pytest.mark.parametrize("severity", range(1, 6))
def test_strengths_are_read_by_size_and_severity(severity: int) -> None:
    assert strength(STRENGTHS, Corruption(type="fog", severity=severity)) == severity
    assert strength(STRENGTHS, Corruption(type="fog", severity=severity, constants="cifar")) == 5 + severity
