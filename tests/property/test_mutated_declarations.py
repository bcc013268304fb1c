"""Suites and registries that somebody garbled: each is accepted or refused in words; tests/slow has more of them."""

import json
import random
from pathlib import Path

import pytest
import yaml
from conftest import Robench
from mutants import REFUSED, check_refusal, load, mutant

from robench.core.errors import RobenchError
from robench.declare import lookup, shipped_registry, validate_file

NUM_MUTANTS = 500
NUM_THROUGH_THE_COMMAND = 50
NUM_DRY_RUNS = 20


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, Path, str]]:
    """Validate every mutant in this process; return name, file and kind of those that are accepted."""
    folder = tmp_path_factory.mktemp("mutants")
    accepted = []
    for number in range(NUM_MUTANTS):
        name, content = mutant(number)
        path = folder / f"{number}.yaml"
        path.write_bytes(content)
        try:
            accepted.append((name, path, validate_file(path)))
        except RobenchError as error:
            check_refusal(path, error)
    return accepted


def test_mutants_are_accepted_or_refused_in_words_and_some_are_both(valid: list[tuple[str, Path, str]]) -> None:
    assert NUM_MUTANTS / 40 < len(valid) < NUM_MUTANTS / 2
    assert {kind for _, _, kind in valid} == {"suite", "registry"}


def test_the_command_says_the_same_of_mutants(valid: list[tuple[str, Path, str]], robench: Robench) -> None:
    folder, accepted = valid[0][1].parent, {path for _, path, _ in valid}
    for start in range(0, NUM_MUTANTS, NUM_MUTANTS // NUM_THROUGH_THE_COMMAND):
        path = folder / f"{start}.yaml"
        ended = robench("validate", path, "--json")
        assert ended.code in ({0} if path in accepted else REFUSED), path
        (result,) = json.loads(ended.stdout)
        assert result["valid"] == (path in accepted)
        assert result["valid"] or result["num_problems"] >= 1


def test_valid_mutants_go_through_a_dry_run(
    valid: list[tuple[str, Path, str]], robench: Robench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A registry of one entry is read in an instant, and the mutants' weights lie beside them as the shipped ones do.
    folder = valid[0][1].parent
    (folder / "checkpoints").symlink_to(shipped_registry().parent / "checkpoints")
    registry = folder / "one.yaml"
    entry = load(shipped_registry().read_bytes())["checkpoints"]["digits-vit"]
    registry.write_text(yaml.safe_dump({"checkpoints": {"digits-vit": entry}}))
    monkeypatch.setattr(lookup, "shipped_registry", lambda: registry)
    chosen = random.Random(0).sample([each for each in valid if is_small(each[1])], NUM_DRY_RUNS)
    codes = []
    for _, path, kind in chosen:
        if kind == "suite":
            asked: tuple[object, ...] = ("--suite", path, "--model", "digits-vit")
        else:
            (name,) = list(load(path.read_bytes())["checkpoints"])[:1] or ["none"]
            path.write_bytes(path.read_bytes().replace(f"  {name}:".encode(), b"  mutant:", 1))
            asked = ("--suite", "digits-adv", "--model", "mutant", "--registry", path)
        ended = robench("run", *asked, "--dry-run", "--no-audit", "--limit", "1", "--device", "cpu")
        assert ended.code in {0, *REFUSED}, (path, ended.stderr)
        codes.append(ended.code)
    assert 0 in codes


def is_small(path: Path) -> bool:
    """Whether a mutant needs no timm model, which takes seconds to build, and nothing from the network."""
    return not any(needed in path.read_bytes() for needed in (b"backbone: timm", b"hf-hub:"))
