"""Results that another command moves away during a command are measured again by it, and named if they go again."""

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Robench

from robench.runs.prepare import PreparedRun
from robench.store import FolderStore
from robench.store.upkeep import move_aside

SMALLER = {"num_examples: 150": "num_examples: 50", "num_steps: 4": "num_steps: 1"}


def options_of(command: str, suite: Path, baseline: Path) -> list[object]:
    if command == "check":
        return ["check", "--run", "--baseline", baseline, "--suite", suite]
    further = ["--condition", "fgsm", "--model", "digits-symvit"] if command == "transfer" else []
    return [command, "--suite", suite, "--model", "digits-vit", *further, "--executor", "serial"]


@pytest.mark.parametrize(
    ("command", "moves", "code"), [("run", 1, 0), ("run", 9, 1), ("transfer", 1, 0), ("check", 1, 0)]
)
def test_a_command_looks_again_for_results_that_were_moved_away(
    robench: Robench,
    small_suite: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    moves: int,
    code: int,
) -> None:
    suite, baseline, results = small_suite(**SMALLER), tmp_path / "baseline.json", tmp_path / "results"
    if command == "check":
        whole = ["--results", tmp_path / "whole"]
        assert robench(*options_of("run", suite, baseline), *whole).code == 0
        assert robench("baseline", "write", baseline, "--suite", suite, "--model", "digits-vit", *whole).code == 0
    fill, left = PreparedRun.fill, [moves]

    def filled_and_moved(*arguments: object) -> object:
        progress = fill(*arguments)  # type: ignore[arg-type]  # as it was called
        if left[0]:
            left[0] -= 1
            move_aside(FolderStore(results), [min(path.name for path in (results / "records").iterdir())])
        return progress

    monkeypatch.setattr(PreparedRun, "fill", filled_and_moved)
    ended = robench(*options_of(command, suite, baseline), "--results", results)
    assert ended.code == code, ended.stderr
    assert ("no longer in the results folder. 'robench store gc --apply'" in ended.stderr) is bool(code)
