"""Declaration of the greedy word swap: what it serves, what it refuses, and how suites state it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from robench.core.errors import DeclarationError
from robench.datasets import DATASETS
from robench.declare.suites import read_suite
from robench.perturbations.greedy_word_swap import GreedyWordSwap

if TYPE_CHECKING:
    from pathlib import Path

DELETE = GreedyWordSwap(ranking="delete", num_queries=9, substitutions="table", table={"film": ("movie", "picture")})


def test_other_tasks_and_domains_are_refused() -> None:
    assert DELETE.problems_on(DATASETS["sotu"]) == []
    assert DELETE.problems_on(DATASETS["digits"]) == [("", "must serve texts, got dataset digits of images")]
    other: Any = type("Other", (), {"domain": "texts", "task": "regression", "name": "prices"})
    assert DELETE.problems_on(other) == [
        ("", "must serve classification or language-modeling, got dataset prices of regression")
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"substitutions": "table", "table": {}}, "table must list substitutes of words with substitutions table"),
        ({"substitutions": "typos"}, "table must be left out with substitutions typos"),
        ({"unknown": "two words"}, "unknown must be one word without white space, got 'two words'"),
        ({"unknown": ""}, "unknown must be one word"),
        ({"table": {"film": ("movie", "motion picture")}}, "table.film must have other single words"),
        ({"table": {"film": ("film",)}}, "table.film must have other single words.* got 'film'"),
        ({"num_queries": 0}, "num_queries must be at least 1, got 0"),
        ({"most_changed": Fraction(3, 2)}, "most_changed must be at most 1, got 3/2"),
    ],
)
def test_fields_that_cannot_be_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(DELETE, **fields)


def test_a_suite_states_substitutes_by_word(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(
        "name: search\nversion: 1\ndescription: A search.\ntask: language-modeling\ndataset: sotu\nseed: 0\n"
        "batch_size: 1\nbatches_per_shard: 1\nmetrics: [perplexity]\nconditions:\n  - name: greedy\n    perturbation:\n"
        "      {kind: greedy-word-swap, ranking: unk, num_queries: 9, most_changed: 1/4, substitutions: table,\n"
        "       table: {good: [fine, nice]}}\n"
    )
    (condition,) = read_suite(path).conditions
    given: Any = condition.perturbation
    assert given == GreedyWordSwap(
        ranking="unk",
        num_queries=9,
        most_changed=Fraction(1, 4),
        substitutions="table",
        table={"good": ("fine", "nice")},
    )
    path.write_text(path.read_text().replace("nice]", "very nice]"))
    with pytest.raises(DeclarationError, match="single words without white space"):
        read_suite(path)
