"""The rules of ``make strength`` and a quick attack beside other libraries'; tests/slow has every comparison."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from strength_examples import NUM_EXAMPLES, strength

from robench.attacks.backends.served import SERVED

__all__ = ["strength"]


def test_every_library_and_kind_is_compared(strength: Any) -> None:
    compared = {(library, each.declared.kind) for each in strength.COMPARISONS for library in each.libraries}
    compared |= {("autoattack", each.declared.kind) for each in strength.SUBJECTS}
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


def test_one_comparison_anew_keeps_the_others_but_for_those_that_are_gone(strength: Any) -> None:
    def row(model: str, attack: str, accuracy: float) -> dict[str, Any]:
        return {"model": model, "attack": attack, "library": "robench", "accuracy": accuracy}

    settings = {"fgsm linf": {"kind": "fgsm"}, "cw": {"kind": "cw"}, "gone": {"kind": "gone"}}
    rows = [row("digits-vit", "cw", 0.1), row("digits-vit", "gone", 0.2), row("digits-symvit", "fgsm linf", 0.3)]
    document = {"manifest": {"date": "old", "settings": settings}, "rows": [*rows, row("digits-symvit", "cw", 0.4)]}
    found = {
        "manifest": {"date": "new", "settings": {"cw": {"kind": "cw", "num_steps": 1}}},
        "rows": [row("digits-symvit", "cw", 0.5)],
    }
    merged = strength.beside_others(document, found)
    assert [(each["model"], each["attack"], each["accuracy"]) for each in merged["rows"]] == [
        ("digits-vit", "cw", 0.1),
        ("digits-symvit", "fgsm linf", 0.3),
        ("digits-symvit", "cw", 0.5),
    ]
    assert merged["manifest"]["settings"] == {"fgsm linf": {"kind": "fgsm"}, "cw": {"kind": "cw", "num_steps": 1}}
    assert (merged["manifest"]["date"], merged["manifest"]["measured_later"]) == ("old", {"cw": "new"})


class TestAgreement:
    """The part on AutoAttack: verdicts beside pyautoattack's, and pyautoattack's beside its own at another seed."""

    @pytest.mark.parametrize(
        ("own", "problem"),
        [
            # The two seeds agree on 580 of 600; six fewer are one point.
            (stands(300), ""),
            (stands(310), ""),
            (stands(336), ""),
            (stands(337), "agrees on 95.5%, pyautoattack with itself on 96.7%"),
            (stands(0), "agrees on 48.3%, pyautoattack with itself on 96.7%"),
        ],
    )
    def test_it_may_be_a_point_below_that_of_two_seeds(self, strength: Any, own: torch.Tensor, problem: str) -> None:
        row = strength.agreement_of("m", own, stands(300), stands(320), (1.0, 2.0, 3.0))
        assert row.agreement_of_theirs == pytest.approx(580 / 600)
        assert row.problem == problem

    def test_on_quantised_inputs_there_is_no_gradient_and_square_decides(self, strength: Any) -> None:
        (subject,) = (each for each in strength.SUBJECTS if each.is_quantised)
        victim = subject.victim(strength.load_checkpoint(subject.checkpoint))
        batch = strength.load_dataset("digits").batch(0, 16)
        inputs = batch.inputs.clone().requires_grad_(True)
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(victim.outputs(inputs).sum(), inputs)
        assert not gradient.any()
        *before, square = subject.declared.attacks(10)
        assert (square.kind, square.schedule, square.num_queries) == ("square", "fixed", 5000)
        fell = []
        few = {"epsilon": Fraction(16, 255)}
        for attack in (
            replace(before[0], num_steps=5, **few),
            replace(square, num_queries=200, schedule="rescaled", **few),
        ):
            comparison = strength.Comparison(name="", declared=attack, libraries=(), num_examples=16)
            outcome = strength.attacked(comparison, "robench", victim, strength.load_dataset("digits"))
            fell.append(16 - int(outcome.survives.sum()))
        assert fell[0] <= 1
        assert fell[1] >= 3

    def test_it_runs_alone_and_keeps_what_the_files_have(
        self, strength: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seeds = []

        def attacked(comparison: Any, library: str, victim: Any, dataset: Any, seed: int = 0) -> Any:
            seeds.append((library, seed, comparison.num_examples))
            return strength.Outcome(stands(300)[: comparison.num_examples], 1.0)

        command = ["--attack", "fgsm l2", "--model", "digits-vit", "--num-examples", "10", "--output", str(tmp_path)]
        assert CliRunner().invoke(strength.main, [*command, "--part", "libraries"]).exit_code == 0
        before = json.loads((tmp_path / "strength.json").read_text())
        monkeypatch.setattr(strength, "attacked", attacked)
        ended = CliRunner().invoke(strength.main, ["--part", "agreement", "--output", str(tmp_path)])
        assert ended.exit_code == 0, ended.output
        assert seeds == [("robench", 0, 200), ("autoattack", 0, 200), ("autoattack", 1, 200)] * 3
        document = json.loads((tmp_path / "strength.json").read_text())
        assert {name: document[name] for name in before} == before
        assert document["agreement"]["manifest"]["settings"]["digits-vit"]["variant"] == "standard"
        page = (tmp_path / "strength.md").read_text()
        assert page == strength.as_markdown(document)
        assert "| digits-vit, inputs quantised | 200 | 100.0 | 100.0 | 100.0 | 100.0 and 100.0 | 100.0 |" in page
        assert "| fgsm l2 | robench | 10 |" in page
        assert "| digits-vit, inputs quantised | 200 |" in ended.output


def test_an_attack_is_as_strong_as_the_libraries_and_the_script_writes_its_table(strength: Any, tmp_path: Path) -> None:
    arguments = ["--attack", "fgsm l2", "--model", "digits-vit", "--num-examples", "10", "--output", str(tmp_path)]
    ended = CliRunner().invoke(strength.main, arguments)
    assert ended.exit_code == 0, ended.output
    document = json.loads((tmp_path / "strength.json").read_text())
    assert {row["library"] for row in document["rows"]} == {"robench", "foolbox", "cleverhans", "art"}
    assert [row["problem"] for row in document["rows"] if row["problem"]] == []
    assert {"torch", "foolbox", "cleverhans", "pyautoattack", "torchattacks"} <= document["manifest"]["versions"].keys()
    assert document["manifest"]["settings"]["fgsm l2"]["epsilon"] == "7/8"
    assert (document["manifest"]["seed"], document["manifest"]["num_examples"]) == (0, 10)
    page = (tmp_path / "strength.md").read_text()
    assert page == strength.as_markdown(document)
    assert "| fgsm l2 | robench | 10 |" in page
