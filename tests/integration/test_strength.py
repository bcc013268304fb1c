"""robench's attacks are as strong as the libraries' at the same settings: a few images of ``make strength``."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from click.testing import CliRunner
from conftest import ROOT

from robench.declarations.backends import SERVED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCRIPTS = str(ROOT / "scripts")
NUM_EXAMPLES = 20


@pytest.fixture(scope="module")
def strength() -> Iterator[Any]:
    """The script, which imports its neighbours by their bare names."""
    sys.path.insert(0, SCRIPTS)
    import strength

    yield strength
    sys.path.remove(SCRIPTS)


@pytest.fixture(scope="module")
def rows(strength: Any) -> list[Any]:
    comparisons = [strength.shortened(each) for each in strength.COMPARISONS if each.declared.kind != "autoattack"]
    return list(strength.compare(["digits-vit"], comparisons, NUM_EXAMPLES))


def test_no_attack_is_weaker_or_judges_otherwise(rows: list[Any]) -> None:
    assert [row for row in rows if row.problem] == []


def test_accuracies_are_within_one_image_of_the_best_library(strength: Any, rows: list[Any]) -> None:
    """The same rule again, without the script's own."""
    for own in [row for row in rows if row.library == "robench"]:
        others = [
            row for row in rows if row.attack == own.attack and (row.attack, row.library) not in strength.EXCEPTIONS
        ]
        assert own.accuracy <= min(row.accuracy for row in others) + 1 / NUM_EXAMPLES + 1e-9, own.attack


def test_verdicts_without_random_numbers_are_the_same(strength: Any, rows: list[Any]) -> None:
    deterministic = {each.name for each in strength.COMPARISONS if each.is_deterministic}
    compared = [row for row in rows if row.attack in deterministic and row.library != "robench"]
    same = [row for row in compared if (row.attack, row.library) not in strength.EXCEPTIONS]
    assert len(same) > 20
    assert min(row.agreement for row in same) >= 1 - 1 / NUM_EXAMPLES - 1e-9


def test_every_library_and_kind_is_compared(strength: Any) -> None:
    compared = {(library, each.declared.kind) for each in strength.COMPARISONS for library in each.libraries}
    assert {(backend, kind) for backend, kinds in SERVED.items() for kind in kinds} <= compared


def test_exceptions_are_of_comparisons_that_there_are(strength: Any) -> None:
    pairs = {(each.name, library) for each in strength.COMPARISONS for library in each.libraries}
    assert strength.EXCEPTIONS.keys() <= pairs


def stands(num_standing: int) -> torch.Tensor:
    return torch.arange(600) < num_standing


@pytest.mark.parametrize(
    ("own", "theirs", "problem"),
    [
        (stands(300), stands(300), ""),
        (stands(303), stands(300), ""),
        (stands(304), stands(300), "4 more images stand against robench's"),
        (stands(288), stands(300), ""),
        (stands(287), stands(300), "13 verdicts differ"),
        (stands(300), stands(300).roll(7), "14 verdicts differ"),
    ],
)
def test_the_rule_is_half_a_point_and_two_per_cent(
    strength: Any, own: torch.Tensor, theirs: torch.Tensor, problem: str
) -> None:
    deterministic = next(each for each in strength.COMPARISONS if each.is_deterministic)
    assert strength.problem_with(deterministic, "foolbox", own, theirs) == problem


def test_random_numbers_may_favour_either_side_as_far_as_chance_goes(strength: Any) -> None:
    drawn = next(each for each in strength.COMPARISONS if not each.is_deterministic)
    assert strength.problem_with(drawn, "foolbox", stands(300), stands(300).roll(20)) == ""
    assert strength.problem_with(drawn, "foolbox", stands(304), stands(300)) == ""
    assert strength.problem_with(drawn, "foolbox", stands(310), stands(300)) == "10 more images stand against robench's"


def test_an_attack_that_is_made_weaker_is_found(strength: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the budget for robench alone."""
    own = strength._perturbed

    def perturbed(comparison: Any, library: str, *others: Any) -> Any:
        declared = comparison.declared
        if library == "robench":
            comparison = replace(comparison, declared=replace(declared, epsilon=declared.epsilon / 4))
        return own(comparison, library, *others)

    monkeypatch.setattr(strength, "_perturbed", perturbed)
    comparison = next(each for each in strength.COMPARISONS if each.name == "fgsm linf")
    problems = [row.problem for row in strength.compare(["digits-vit"], [comparison], NUM_EXAMPLES)]
    assert problems[0] == ""
    assert all("more images stand against robench's" in problem for problem in problems[1:])


def test_the_script_writes_its_table_and_what_it_rests_on(strength: Any, tmp_path: Path) -> None:
    arguments = ["--attack", "fgsm l2", "--model", "digits-vit", "--num-examples", "10", "--output", str(tmp_path)]
    ended = CliRunner().invoke(strength.main, arguments)
    assert ended.exit_code == 0, ended.output
    document = json.loads((tmp_path / "strength.json").read_text())
    assert {row["library"] for row in document["rows"]} == {"robench", "foolbox", "cleverhans", "art"}
    assert {"torch", "foolbox", "cleverhans", "pyautoattack", "torchattacks"} <= document["manifest"]["versions"].keys()
    assert document["manifest"]["settings"]["fgsm l2"]["epsilon"] == "7/8"
    assert (document["manifest"]["seed"], document["manifest"]["num_examples"]) == (0, 10)
    page = (tmp_path / "strength.md").read_text()
    assert page == strength.as_markdown(document)
    assert "| fgsm l2 | robench | 10 |" in page
