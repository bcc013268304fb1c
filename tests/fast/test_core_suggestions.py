"""Suggestions for unknown names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robench.core.errors import DeclarationError, did_you_mean
from robench.core.suggestions import closest
from robench.declare import parse_suite

PGD = ["kind", "epsilon", "step_size", "num_steps", "num_restarts", "random_start", "relative_step", "loss", "returns"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("steps", "num_steps"),
        ("step", "num_steps"),
        ("stepsize", "step_size"),
        ("num_step", "num_steps"),
        ("restarts", "num_restarts"),
        ("eps", "epsilon"),
        ("Epsilon", "epsilon"),
        ("ss", "step_size"),
        ("rand_start", "random_start"),
        ("lose", "loss"),
        ("budget", None),
        ("x", None),
        ("", None),
        ("--", None),
        ("e" * 100_000, None),
    ],
)
def test_words_abbreviations_initials_and_letters_are_weighed(name: str, meant: str | None) -> None:
    assert closest(name, PGD, ["num_steps"]) == meant


def test_what_is_missing_is_rather_meant() -> None:
    assert closest("num_size", ["num_sites", "num_sides"]) == "num_sites"
    assert closest("num_size", ["num_sites", "num_sides"], ["num_sides"]) == "num_sides"
    # But never if it is like it in nothing.
    assert closest("budget", ["num_sites", "epsilon"], ["epsilon"]) is None


def test_a_word_of_many_names_suggests_none() -> None:
    names = [f"{each}-vit" for each in ("digits", "rpc-image", "symmetric", "twicing")]
    assert closest("vit", names) is None
    assert closest("vit", names[:1]) == "digits-vit"
    assert did_you_mean("vit", names) == f" Known: {', '.join(sorted(names))}."


@given(st.text(max_size=30), st.lists(st.text(max_size=12), max_size=8))
def test_a_suggestion_is_known_and_a_known_name_suggests_itself(name: str, known: list[str]) -> None:
    assert closest(name, known) in {None, *known}
    if name and name.isascii() and name.islower():
        assert (closest(name, [*known, name]) or "").lower() == name


def test_a_required_field_that_is_misspelt_is_one_problem() -> None:
    pgd = {"kind": "pgd", "epsilon": "8/255", "step_size": "2/255", "steps": 3}
    conditions = [{"name": "clean"}, {"name": "pgd", "perturbation": pgd}]
    suite = {"name": "s", "version": 1, "seed": 0, "dataset": "digits", "batch_size": 8, "conditions": conditions}
    with pytest.raises(DeclarationError) as caught:
        parse_suite({**suite, "metrics": ["top1_accuracy"]})
    (problem,) = caught.value.lines[1:]
    assert problem == "  conditions[1].perturbation.steps: unknown field 'steps'. Did you mean 'num_steps'?"
