"""Suites and registries that somebody garbled: each is accepted or refused in words, whatever was done to it.

Mutations are seeded and know the structure: a file is read, changed in one to three places, and written again.
"""

from __future__ import annotations

import copy
import json
import random
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from robench.core.errors import RobenchError
from robench.declare import shipped, shipped_registry, shipped_suites, validate_file

if TYPE_CHECKING:
    from conftest import Robench

NUM_MUTANTS = 2000
NUM_THROUGH_THE_COMMAND = 100
NUM_DRY_RUNS = 50
# Errors of a request or a declaration, and of data or weights that are not there.
REFUSED = {2, 4}

VALUES: tuple[Any, ...] = (
    *(None, True, False, "", " ", "~", "no", "8/255", "8/0", "1e999", "\0", "a\nb", "\x1b[2J", "\u202e", "\ud7ff"),
    *("x" * 5000, "../../etc/passwd", "/dev/zero", "hf-hub:a/b/c", "hf-hub:", "pgd", "vit", "digits", "all", "kind"),
    *(0, 1, -1, 2, 3, 10, 255, 999, 1000, 1001, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64, 10**60, -(10**60)),
    *(0.0, 0.5, -0.5, 1e-300, 1e300, float("nan"), float("inf"), float("-inf")),
    *([], {}, [[]], [None], {"kind": "clean"}, {"kind": []}, {"": ""}, {"a": {"b": {"c": {}}}}, [0] * 2000),
)  # fmt: skip
KEYS = ("", "kind", "backbone", "name", "epsilon", "epsilons", "num_steps", "batch_size", "depth", "\0", "x" * 300, "é")
RAW = (b"*alias", b"&anchor 1", b"!!python/object/apply:os.system ['x']", b"<<: *a", b"\xff", b"\0", b"\t", b"- " * 40,
       b"? ", b"---\n", b"%YAML 9.9\n", b"'", b'"\\ud800"', b"{" * 50, b": ", b"#")  # fmt: skip


LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def load(content: bytes) -> Any:
    return yaml.load(content, LOADER)  # one of the safe loaders, the faster where there is one


@cache
def seeds_of_mutants() -> tuple[tuple[str, Any], ...]:
    """The shipped suites, cut to a few conditions, and single entries of the shipped registry."""
    found: list[tuple[str, Any]] = []
    for name, path in shipped_suites().items():
        suite = load(path.read_bytes())
        suite["conditions"] = suite["conditions"][:4]
        found.append((name, suite))
    entries = list(load(shipped_registry().read_bytes())["checkpoints"].items())
    found += [(name, {"checkpoints": {name: entry}}) for name, entry in entries]
    return tuple(found)


def places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All places in a nested value but its top."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [deeper for key, item in items for deeper in ((*place, key), *places(item, (*place, key)))]


def at(value: Any, place: tuple[Any, ...]) -> Any:
    for step in place:
        value = value[step]
    return value


def mutate(document: Any, chance: random.Random) -> None:
    """Change one place of a document."""
    found = places(document)
    if not found:
        return
    *above, last = chance.choice(found)
    holder = at(document, tuple(above))
    match chance.randrange(7):
        case 0:
            del holder[last]
        case 1 | 2:
            holder[last] = copy.deepcopy(chance.choice(VALUES))
        case 3 if isinstance(holder, dict):
            holder[chance.choice(KEYS)] = copy.deepcopy(chance.choice(VALUES))
        case 3:
            holder.insert(chance.randrange(len(holder) + 1), copy.deepcopy(chance.choice([*VALUES, *holder])))
        case 4:
            # Of the same document, or of another.
            other = document if chance.random() < 0.5 else chance.choice(seeds_of_mutants())[1]
            holder[last] = copy.deepcopy(at(other, chance.choice(places(other))))
        case 5 if isinstance(holder[last], (int, float)) and not isinstance(holder[last], bool):
            holder[last] = chance.choice([holder[last] * 2, holder[last] + 1, holder[last] - 1, str(holder[last])])
        case 5:
            holder[last] = [copy.deepcopy(holder[last])] * chance.choice([1, 2, 50])
        case 6 if isinstance(holder, dict):
            holder[chance.choice(KEYS)] = holder.pop(last)
        case _:
            holder[last] = str(holder[last])


def mutant(number: int) -> tuple[str, bytes]:
    """The name of what was mutated, and the text of a mutant."""
    chance = random.Random(number)
    name, document = chance.choice(seeds_of_mutants())
    document = copy.deepcopy(document)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        mutate(document, chance)
    content = yaml.dump(document, Dumper=DUMPER, allow_unicode=True, sort_keys=False, width=10**6).encode(
        "utf-8", "surrogatepass"
    )
    if chance.random() < 0.15:
        where = chance.randrange(len(content) + 1)
        content = content[:where] + chance.choice(RAW) + content[where + chance.randrange(3) :]
    return name, content


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


def check_refusal(path: Path, error: RobenchError) -> None:
    assert error.exit_code in REFUSED, path
    assert len(str(error)) < 40_000
    assert len(str(error).splitlines()) <= 52
    assert all(line.isprintable() for line in str(error).splitlines()), path


def test_mutants_are_accepted_or_refused_in_words_and_some_are_both(valid: list[tuple[str, Path, str]]) -> None:
    assert 50 < len(valid) < NUM_MUTANTS - 1000
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
    monkeypatch.setattr(shipped, "shipped_registry", lambda: registry)
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
