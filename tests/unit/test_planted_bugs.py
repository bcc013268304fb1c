"""The bugs that are planted to test the tests of attacks still fit the code."""

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BUGS: tuple[Any, ...] = runpy.run_path(str(ROOT / "tests" / "mutation" / "planted_bugs.py"))["BUGS"]


def test_there_are_at_least_twenty_of_different_kinds() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 20
    assert len({bug.file for bug in BUGS}) >= 12


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_it_is_one_place_of_the_code_and_changes_it(bug: Any) -> None:
    text = (ROOT / "robench" / bug.file).read_text()
    assert text.count(bug.right) == 1
    assert bug.wrong != bug.right
    compile(text.replace(bug.right, bug.wrong), bug.file, "exec")
