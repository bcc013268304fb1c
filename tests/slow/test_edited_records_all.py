"""All 200 random edits of sealed records, read by commands: none ends in an internal error."""

import shutil
from pathlib import Path

import pytest
from conftest import Robench
from edited_records import (
    FOUND,
    ONLY_THE_MODEL,
    OTHER,
    SUITES,
    base_folder,
    edit,
    is_explained,
    numbers,
    outcome_of_edit,
)

NUM_EDITS = 200


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with records of three tasks."""
    return base_folder(tmp_path_factory.mktemp("base"))


def test_every_edit_is_found_or_harmless_or_needs_the_model(base: Path, tmp_path: Path) -> None:
    before = numbers(base)
    outcomes: dict[str, set[str]] = {}
    for number in range(NUM_EDITS):
        folder = shutil.copytree(base, tmp_path / "edited")
        made, outcome = edit(folder, number), outcome_of_edit(folder, before)
        assert is_explained(made, outcome), (number, made, outcome)
        outcomes.setdefault(outcome, set()).add(made.kind)
        shutil.rmtree(folder)
    assert len(outcomes[FOUND]) > 20
    # Without the model some cannot be found at all.
    assert {"prediction and all that follows from it", "losses of all words and of kept ones"} <= outcomes[OTHER]
    assert outcomes[OTHER] <= ONLY_THE_MODEL


@pytest.mark.parametrize("first", range(0, NUM_EDITS, 25))
def test_no_command_ends_in_an_internal_error(base: Path, tmp_path: Path, robench: Robench, first: int) -> None:
    suites = [option for name in SUITES for option in ("--suite", name)]
    for number in range(first, first + 25, 5):
        commands = (
            ("status",),
            ("report", *suites),
            ("store", "verify"),
            ("report", *suites, "--json"),
            ("store", "compact"),
        )
        for command in commands:
            folder = shutil.copytree(base, tmp_path / "edited")
            made = edit(folder, number)
            ended = robench(*command, "--results", folder)
            assert ended.code in (0, 1), (number, made, command, ended)
            assert "Traceback" not in ended.stderr
            shutil.rmtree(folder)
