"""Columns that a suite names: these alone, in their usual order, and advice on other names."""

from typing import Any

import pytest

from robench.core.errors import DeclarationError
from robench.declare import parse_suite

SUITE: dict[str, Any] = {
    "name": "small",
    "version": 1,
    "seed": 0,
    "batch_size": 4,
    "dataset": "digits",
    "conditions": [
        {"name": "clean"},
        {"name": "few", "num_examples": 8},
        {"name": "fgsm", "num_examples": 8, "perturbation": {"kind": "fgsm", "epsilon": "8/255"}},
    ],
    "metrics": ["top1_accuracy", "robust_accuracy"],
}


def test_a_suite_has_the_columns_that_it_names() -> None:
    everything = parse_suite(SUITE)
    keys = [column.key for column in everything.columns]
    assert keys == ["clean/top1_accuracy", "few/top1_accuracy", "fgsm/top1_accuracy", "linf-8/255/robust_accuracy"]
    some = parse_suite(SUITE | {"columns": [keys[3], keys[0]]})
    assert some.columns == (everything.columns[0], everything.columns[3])
    assert some.columns[1].conditions == ("few", "fgsm")
    assert some.conditions == everything.conditions


def test_a_column_that_does_not_follow_is_unknown() -> None:
    with pytest.raises(
        DeclarationError, match=r"unknown column 'fgsm/top5_accuracy'\. Did you mean 'fgsm/top1_accuracy'"
    ):
        parse_suite(SUITE | {"columns": ["clean/top1_accuracy", "fgsm/top5_accuracy"]})
